"""Encodes a flat dictionary of observations into one feature vector."""

from __future__ import annotations

import math
from typing import Protocol

import torch
from torch import Tensor, nn

from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ArraySpec
from ver_trainer.errors import ConfigError
from ver_trainer.nets.images import ResNet18, SEResNet9, SmallCNN
from ver_trainer.nets.normalization import RunningNorm
from ver_trainer.plugins import is_foreign, resolve

_ACTIVATIONS = {"tanh": nn.Tanh, "relu": nn.ReLU, "elu": nn.ELU}
_LAST_CHANNELS = (1, 2, 3, 4)


def image_shape(spec: ArraySpec) -> tuple[int, int, int] | None:
    """(channels, height, width) if the array is an image, else None.

    Two axes are a one-channel image if both are at least 8. Three axes are an image; the last one
    holds the channels if it has at most 4 entries, the first one otherwise.
    """
    if len(spec.shape) == 2 and min(spec.shape) >= 8:
        return (1, *spec.shape)
    if len(spec.shape) == 3:
        if spec.shape[-1] in _LAST_CHANNELS:
            return (spec.shape[2], spec.shape[0], spec.shape[1])
        return (spec.shape[0], spec.shape[1], spec.shape[2])
    return None


def mlp(inputs: int, sizes: list[int], activation: str) -> nn.Sequential:
    """Linear layers with orthogonal initialisation."""
    layers: list[nn.Module] = []
    for size in sizes:
        linear = nn.Linear(inputs, size)
        nn.init.orthogonal_(linear.weight, math.sqrt(2))
        nn.init.zeros_(linear.bias)
        layers += [linear, _ACTIVATIONS[activation]()]
        inputs = size
    return nn.Sequential(*layers)


class FeatureEncoder(Protocol):
    """What an encoder of somebody else's must do (``net.encoder=package.module:Class``).

    It is an ``nn.Module`` made by ``Class(specs, config)`` from the observations that it reads and
    the section ``net``. With ``net.normalize_obs`` it may have ``norm``, ``vectors`` and ``vector``
    as :class:`Encoder` has; without them its observations are not normalised.

    Attributes:
        out_features: size of its features.
    """

    out_features: int

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        """Observations (name to ``[n, *shape]``; more may be given) to ``[n, out_features]``."""


def make_encoder(specs: dict[str, ArraySpec], config: NetConfig) -> Encoder:
    """Makes the encoder that ``net.encoder`` names."""
    if not is_foreign(config.encoder):
        return Encoder(specs, config)
    encoder = resolve(config.encoder, "net.encoder", ("forward",))(specs, config)
    if not isinstance(getattr(encoder, "out_features", None), int):
        raise ConfigError(
            f"net.encoder={config.encoder} has no out_features: set it to the size of its features"
        )
    return encoder


class Encoder(nn.Module):
    """Images of one size share an image encoder (channels concatenated); vectors are appended.

    Without images the vectors go through the MLP ``net.mlp``; with images, image features and
    vectors go through the MLP ``net.fusion`` if it has layers. ``uint8`` images are divided by 255,
    floating-point ones are taken as they are.
    """

    def __init__(self, specs: dict[str, ArraySpec], config: NetConfig) -> None:
        super().__init__()
        self.groups: dict[str, list[str]] = {}
        self.channels_last: set[str] = set()
        self.vectors: list[str] = []
        self.shapes: dict[str, tuple[int, ...]] = {}
        for key, spec in specs.items():
            self._sort(key, spec)
        vector_size = sum(math.prod(specs[key].shape) for key in self.vectors)
        self.norm = RunningNorm(vector_size) if config.normalize_obs and vector_size else None
        self.images = nn.ModuleDict()
        for group, keys in self.groups.items():
            height, width = map(int, group.split("x"))
            channels = sum((image_shape(specs[key]) or (0,))[0] for key in keys)
            # Channels last: 10% less CPU time, and what tensor cores want.
            images = _image_encoder(config, channels, height, width)
            self.images[group] = images.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.out_features = vector_size + config.image_features * len(self.groups)
        self.mlp: nn.Sequential | None = None
        self.fusion: nn.Sequential | None = None
        if self.groups and config.fusion:
            self.fusion = mlp(self.out_features, list(config.fusion), config.activation)
            self.out_features = config.fusion[-1]
        if not self.groups:
            self.mlp = mlp(vector_size, list(config.mlp), config.activation)
            self.out_features = config.mlp[-1] if config.mlp else vector_size

    def _sort(self, key: str, spec: ArraySpec) -> None:
        image = image_shape(spec)
        self.shapes[key] = spec.shape
        if image is None:
            self.vectors.append(key)
            return
        self.groups.setdefault(f"{image[1]}x{image[2]}", []).append(key)
        if len(spec.shape) == 3 and spec.shape[-1] in _LAST_CHANNELS:
            self.channels_last.add(key)

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        """Observations (name to ``[n, *shape]``) to features ``[n, out_features]``."""
        parts = [self.images[group](self.image(obs, keys)) for group, keys in self.groups.items()]
        if self.vectors:
            vector = self.vector(obs)
            if self.norm is not None:
                vector = self.norm(vector)
            parts.append(vector if self.mlp is None else self.mlp(vector))
        features = parts[0] if len(parts) == 1 else torch.cat([p.float() for p in parts], dim=-1)
        return features if self.fusion is None else self.fusion(features)

    def vector(self, obs: dict[str, Tensor]) -> Tensor:
        """All vector observations, flattened and concatenated: ``[n, size]``."""
        values = [obs[key] for key in self.vectors]
        parts = [(v.flatten(1) if v.dim() > 1 else v.unsqueeze(1)).float() for v in values]
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)

    def image(self, obs: dict[str, Tensor], keys: list[str]) -> Tensor:
        """The images ``keys`` as ``[n, channels, height, width]`` in floating point."""
        parts = []
        for key in keys:
            x = obs[key]
            if x.dim() == 3:
                x = x.unsqueeze(1)
            elif key in self.channels_last:
                x = x.permute(0, 3, 1, 2)
            parts.append(x.float().div_(255.0) if x.dtype == torch.uint8 else x.float())
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


def _image_encoder(config: NetConfig, channels: int, height: int, width: int) -> nn.Module:
    name = "cnn" if config.encoder == "auto" else config.encoder
    size = config.image_features
    smallest = {"cnn": 36, "resnet18": 32, "se_resnet9": 32}.get(name)
    if smallest is None:
        raise ConfigError(
            f"net.encoder={name} cannot read {height}x{width} images: use cnn, resnet18 or "
            "se_resnet9"
        )
    if min(height, width) < smallest or (name == "se_resnet9" and (height % 4 or width % 4)):
        raise ConfigError(
            f"net.encoder={name} cannot read {height}x{width} images: they need at least "
            f"{smallest} pixels a side (and multiples of 4 for se_resnet9)"
        )
    if name == "cnn":
        return SmallCNN(channels, height, width, size)
    if name == "resnet18":
        return ResNet18(channels, height, width, size, config.width)
    return SEResNet9(channels, height, width, size)

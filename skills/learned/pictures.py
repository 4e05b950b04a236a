"""The picture encoders of ``ver_trainer.nets.images`` in NumPy, one picture at a time."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

_CONVOLUTIONS = ((0, 4), (2, 2), (4, 1))
"""Index of each layer in the small CNN, and its stride."""
_LINEAR = 7
_EPSILON = 1e-5
"""Of ``torch.nn.GroupNorm``."""
_CHANNELS_A_GROUP = 16

ENCODERS = ("auto", "cnn", "mlp", "resnet18")
"""Values of ``net.encoder`` that can be computed; ``auto`` reads a picture by the CNN."""


def encode_picture(weights: Mapping[str, np.ndarray], encoder: str, x: np.ndarray) -> np.ndarray:
    """Return the (features,) float32 of a (channels, height, width) picture.

    Args:
        weights: of the policy.
        encoder: ``net.encoder``, one of :data:`ENCODERS`.
        x: float32.
    """
    prefix = f"encoder.images.{x.shape[1]}x{x.shape[2]}."
    own = {name.removeprefix(prefix): w for name, w in weights.items() if name.startswith(prefix)}
    return _resnet(own, x) if encoder == "resnet18" else _small_cnn(own, x)


def _small_cnn(w: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    for index, stride in _CONVOLUTIONS:
        bias = w[f"{index}.bias"][:, None, None]
        x = _relu(_convolve(x, w[f"{index}.weight"], stride) + bias)
    return _relu(w[f"{_LINEAR}.weight"] @ x.ravel() + w[f"{_LINEAR}.bias"])


def _resnet(w: Mapping[str, np.ndarray], x: np.ndarray) -> np.ndarray:
    """VER's half-width ResNet18: which layer stands where, the shapes of its weights say."""
    groups = max(len(w["body.0.weight"]) // _CHANNELS_A_GROUP, 1)
    layers = 1 + max(int(name.split(".")[1]) for name in w if name.startswith("body."))
    for index in range(layers):
        name = f"body.{index}"
        if f"{name}.scale" in w:
            x = _block(w, name, x, groups)
        elif w[f"{name}.weight"].ndim == 1:
            x = _norm(w, name, x, groups)
        else:  # the stem, or one that halves the picture: as wide as it strides
            x = _convolve(x, w[f"{name}.weight"], w[f"{name}.weight"].shape[-1])
            if f"{name}.bias" in w:
                x = x + w[f"{name}.bias"][:, None, None]
    x = _relu(_norm(w, "compression.1", _convolve(_pad(x, 1), w["compression.0.weight"]), 1))
    return _relu(w["linear.weight"] @ x.ravel() + w["linear.bias"])


def _block(w: Mapping[str, np.ndarray], name: str, x: np.ndarray, groups: int) -> np.ndarray:
    branch = _convolve(_pad(x, 1), w[f"{name}.conv1.weight"])
    branch = _relu(_norm(w, f"{name}.norm1", branch, groups))
    branch = _convolve(_pad(branch, 2), w[f"{name}.conv2.weight"], dilation=2)
    return _relu(x + w[f"{name}.scale"] * _norm(w, f"{name}.norm2", branch, groups))


def _norm(w: Mapping[str, np.ndarray], name: str, x: np.ndarray, groups: int) -> np.ndarray:
    parts = x.reshape(groups, -1)
    mean, var = parts.mean(axis=1, keepdims=True), parts.var(axis=1, keepdims=True)
    flat = ((parts - mean) / np.sqrt(var + _EPSILON)).reshape(x.shape)
    return flat * w[f"{name}.weight"][:, None, None] + w[f"{name}.bias"][:, None, None]


def _pad(x: np.ndarray, by: int) -> np.ndarray:
    return np.pad(x, ((0, 0), (by, by), (by, by)))


def _relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0)


def _convolve(x: np.ndarray, kernel: np.ndarray, stride: int = 1, dilation: int = 1) -> np.ndarray:
    """Return the (out, h, w) valid cross-correlation of (in, H, W) with (out, in, k, l)."""
    out, channels, high, wide = kernel.shape
    spread = ((high - 1) * dilation + 1, (wide - 1) * dilation + 1)
    windows = sliding_window_view(x, spread, axis=(1, 2))
    windows = windows[:, ::stride, ::stride, ::dilation, ::dilation]
    rows, columns = windows.shape[1:3]
    flat = windows.transpose(1, 2, 0, 3, 4).reshape(rows * columns, math.prod(kernel.shape[1:]))
    return (kernel.reshape(out, channels * high * wide) @ flat.T).reshape(out, rows, columns)

"""A trained policy in NumPy: processes that step a simulator must not import torch.

It computes what ``ver_trainer.nets`` computes with the same weights, one observation at a time,
for the networks that a CPU can run: the small CNN, VER's half-width ResNet18 (12 to 20 ms a
step) or the MLP, with or without LSTM.
The products of an observation have one shape and one thread, however many worlds and cores there
are: its action is the same to the last bit in every command.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from skills.learned.pictures import ENCODERS, encode_picture
from tpsrl.errors import UserError
from tpsrl.jobs.threads import one_thread
from ver_trainer.reading import parse_json, read_safetensors

Weights = dict[str, np.ndarray]
_ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
}
_MOST_SIZE = 2**22


def read_weights(path: Path) -> tuple[Weights, dict[str, Any]]:
    """Read a policy file: weights and their description.

    Raises:
        UserError: it is missing, damaged or has no description.
    """
    weights, metadata = read_safetensors(path, "give another file of weights")
    text = metadata.get("ver_trainer", "{}").encode("utf-8", "replace")
    header = parse_json(text, f"{path}: its description", "export the policy again")
    if not isinstance(header.get("spec"), dict) or not isinstance(header.get("net"), dict):
        raise UserError(f"{path}: it does not say which network it is; export the policy again.")
    for name, tensor in weights.items():
        if not np.isfinite(tensor).all():
            raise UserError(f"{path}: '{name}' holds NaN or infinity; train or export it again.")
    return weights, header


class NumpyPolicy:
    """A policy with its recurrent state kept inside: its mean action, or one drawn from it.

    Args:
        weights: of the network.
        header: ``spec`` and ``net`` as ``ver_trainer`` writes them.

    Raises:
        UserError: the network has a part that this class cannot compute.
    """

    def __init__(self, weights: Weights, header: dict[str, Any]) -> None:
        self._weights, self._net = weights, header["net"]
        seen = header["spec"]["observations"]  # a critic may have read more than the actor
        self.observations: dict[str, tuple[int, ...]] = {
            name: tuple(seen[name]["shape"]) for name in header.get("actor_obs", seen)
        }
        action = header["spec"]["action"]
        if action["kind"] != "continuous" or self._net["encoder"] not in ENCODERS:
            raise UserError(
                f"a network with net.encoder={self._net['encoder']} and {action['kind']} actions"
                " cannot run inside a simulator process; use encoder cnn, resnet18 or mlp."
            )
        self.size = int(action["size"])
        self._binary = [int(i) for i in self._net.get("binary_actions", ())]
        self._images = [name for name, shape in self.observations.items() if len(shape) == 3]
        self._vectors = [name for name, shape in self.observations.items() if len(shape) != 3]
        self._layers = self._net["core_layers"] if self._net["core"] == "lstm" else 0
        self.reset()

    @classmethod
    def load(cls, path: str | Path) -> NumpyPolicy:
        """Read a policy from a ``.safetensors`` file, and try it once.

        Raises:
            UserError: the file is damaged, or its weights and its description do not fit.
        """
        weights, header = read_weights(Path(path))
        try:
            _check_sizes(header)
            policy = cls(weights, header)
            policy.step({k: np.zeros(v, np.float32) for k, v in policy.observations.items()})
        except UserError as error:
            raise UserError(f"{path}: {error}") from None
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise UserError(
                f"{path}: its weights do not fit their description ({error!r}); export it again."
            ) from None
        policy.reset()
        return policy

    def reset(self) -> None:
        """Clear the recurrent state, as at the start of an episode."""
        size = self._net["core_size"]
        self._previous = np.zeros(self.size, np.float32)
        self._hidden = np.zeros((self._layers, size), np.float32)
        self._cell = np.zeros((self._layers, size), np.float32)

    def step(
        self,
        observations: dict[str, np.ndarray],
        rng: np.random.Generator | None = None,
        motions: bool = True,
    ) -> np.ndarray:
        """Return the (A,) float32 mean action, clipped to [-1, 1].

        Dimensions that choose between -1 and +1 give the likelier of the two.

        Args:
            observations: name -> array without a batch axis.
            rng: draws the action from the policy's distribution instead.
            motions: with ``rng``: draw all of it, not the choices alone.
        """
        with one_thread():
            features = self._encode(observations)
            if self._net.get("previous_action", False):
                features = np.concatenate([features, self._previous])
            for layer in range(self._layers):
                features = self._lstm(features, layer)
            output = self._affine("actor.linear", features)
        mean, threshold = output[: self.size], np.zeros(len(self._binary))
        if rng is not None:
            threshold = rng.logistic(size=len(self._binary))
        if rng is not None and motions:
            spread = self._weights["actor.log_std"] + sum(
                output[self.size :].reshape(-1, self.size)
            )
            normal = rng.normal(size=self.size) * np.exp(np.clip(spread, -10.0, 1.0))
            normal[self._binary] = 0.0
            mean = (mean + normal).astype(np.float32)
        mean[self._binary] = np.where(mean[self._binary] > threshold, 1.0, -1.0)
        self._previous = mean.copy()
        return np.clip(mean, -1.0, 1.0)

    def did(self, action: np.ndarray) -> None:
        """Tell that another (A,) action than the last :meth:`step` returned was carried out."""
        self._previous = np.asarray(action, np.float32)

    def _affine(self, name: str, x: np.ndarray) -> np.ndarray:
        return self._weights[f"{name}.weight"] @ x + self._weights[f"{name}.bias"]

    def _encode(self, observations: dict[str, np.ndarray]) -> np.ndarray:
        parts = []
        if self._images:
            pictures = [_picture(observations[name]) for name in self._images]
            picture = np.concatenate(pictures)
            parts.append(encode_picture(self._weights, self._net["encoder"], picture))
        if self._vectors:
            parts.append(self._vector(observations))
        features = np.concatenate(parts)
        if self._images:
            features = self._mlp("encoder.fusion", len(self._net.get("fusion", [])), features)
        return features

    def _mlp(self, name: str, layers: int, x: np.ndarray) -> np.ndarray:
        activation = _ACTIVATIONS[self._net["activation"]]
        for index in range(layers):
            x = activation(self._affine(f"{name}.{2 * index}", x))
        return x

    def _vector(self, observations: dict[str, np.ndarray]) -> np.ndarray:
        x = np.concatenate([observations[name].ravel() for name in self._vectors])
        x = x.astype(np.float32, copy=False)
        if "encoder.norm.mean" in self._weights:
            w = self._weights
            x = (x - w["encoder.norm.mean"]) / np.sqrt(w["encoder.norm.var"] + 1e-8)
            x = np.clip(x, -10.0, 10.0)
        if not self._images:
            x = self._mlp("encoder.mlp", len(self._net["mlp"]), x)
        return x

    def _lstm(self, x: np.ndarray, layer: int) -> np.ndarray:
        w, name = self._weights, f"core.lstm.{{}}_l{layer}"
        gates = w[name.format("weight_ih")] @ x + w[name.format("bias_ih")]
        gates += w[name.format("weight_hh")] @ self._hidden[layer] + w[name.format("bias_hh")]
        i, f, g, o = np.split(gates, 4)
        cell = _sigmoid(f) * self._cell[layer] + _sigmoid(i) * np.tanh(g)
        self._cell[layer] = cell
        self._hidden[layer] = _sigmoid(o) * np.tanh(cell)
        return self._hidden[layer].copy()


def _check_sizes(header: dict[str, Any]) -> None:
    """Refuse a description of a network beyond reason, before memory is asked for.

    Raises:
        ValueError, TypeError, KeyError: naming the field.
    """
    net, spec = header["net"], header["spec"]
    shapes = [entry["shape"] for entry in spec["observations"].values()]
    numbers = [n for shape in shapes for n in shape] + [spec["action"]["size"]]
    numbers += [net["core_size"], net["core_layers"], len(shapes)]
    if not all(type(n) is int and 0 < n <= _MOST_SIZE for n in numbers):
        raise ValueError(f"sizes {numbers}")
    if any(len(shape) > 3 or math.prod(shape) > _MOST_SIZE for shape in shapes):
        raise ValueError(f"observations {shapes}")
    chosen = net.get("binary_actions", [])
    if not all(type(k) is int and abs(k + 0.5) < spec["action"]["size"] for k in chosen):
        raise ValueError(f"binary_actions {chosen}")


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * (np.tanh(0.5 * x) + 1.0)


def _picture(image: np.ndarray) -> np.ndarray:
    """Return an (h, w, c) image as (c, h, w) float32; whole numbers become 0 to 1."""
    picture = np.moveaxis(image, -1, 0).astype(np.float32, copy=False)
    return picture / np.float32(255.0) if image.dtype == np.uint8 else picture

"""Policies outside the trainer: safetensors, TorchScript and ONNX."""

from __future__ import annotations

import dataclasses
import io
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ver_trainer.checkpoint import read_weights, save_weights
from ver_trainer.config import NetConfig
from ver_trainer.errors import CheckpointError, ConfigError
from ver_trainer.files import replacing, writing
from ver_trainer.nets.heads import GaussianHead, each_initial
from ver_trainer.nets.policy import Policy, make_policy, spec_from_dict, spec_to_dict
from ver_trainer.plugins import is_foreign

PARTS = ("encoder", "core", "actor", "critic")


def policy_header(policy: Policy, trained_in: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Description from which :func:`load_policy` rebuilds the network."""
    return {
        **({"trained_in": dict(trained_in)} if trained_in else {}),
        "spec": spec_to_dict(policy.spec),
        "net": dataclasses.asdict(policy.config),
        "actor_obs": list(policy.actor_obs),
        "critic_obs": list(policy.critic_obs),
    }


def save_policy(
    policy: Policy, path: str | Path, trained_in: Mapping[str, Any] | None = None
) -> None:
    """Writes a policy's weights and description to one ``.safetensors`` file, atomically.

    Args:
        policy: to write.
        path: of the file.
        trained_in: ``env`` and ``env_args`` of its training, if they are known.
    """
    save_weights(Path(path), policy.state_dict(), policy_header(policy, trained_in))


def load_policy(path: str | Path, device: str = "cpu") -> Policy:
    """Loads a policy from a weights file, a checkpoint or a run folder.

    Raises:
        CheckpointError: if the file cannot be read or has no description.
    """
    weights, header = read_weights(Path(path))
    if "spec" not in header:
        raise CheckpointError(
            f"'{path}' has no description of the network: write it with save_policy"
        )
    _check_known(header.get("net"), path)
    try:
        net = {**header["net"], "compile": False}
        config = NetConfig(**net)
        policy = make_policy(spec_from_dict(header["spec"]), config)
        policy.load_state_dict(weights)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise CheckpointError(
            f"'{path}' does not describe a network of this version ({reason}): write it again "
            "with the version that reads it"
        ) from error
    return policy.to(device).eval()


def _check_known(net: Any, path: str | Path) -> None:
    """Refuses to import what a file of weights names: weights are data, not code."""
    encoder = str(net.get("encoder", "")) if isinstance(net, dict) else ""
    module = encoder.partition(":")[0]
    if is_foreign(encoder) and module not in sys.modules:
        raise CheckpointError(
            f"'{path}' needs the encoder {encoder}, which is code of its own: import {module} "
            "first if you trust it"
        )


def average_policies(paths: Sequence[str | Path]) -> Policy:
    """Returns the policy whose weights are the mean of those of several (Wortsman et al. 2022).

    Of checkpoints of one run, or runs that began with the same weights, the mean takes out part of
    the random walk that noisy gradients are.

    Args:
        paths: two or more, each as in :func:`load_policy`.

    Raises:
        ConfigError: there are fewer than two, or their networks differ.
        CheckpointError: as :func:`load_policy`.
    """
    if len(paths) < 2:
        raise ConfigError("an average needs at least two weights files: give more")
    policies = [load_policy(path) for path in paths]
    states = [policy.state_dict() for policy in policies]
    kinds = [_kind(policy) for policy in policies]
    for path, kind in zip(paths, kinds, strict=True):
        if kind != kinds[0]:
            raise ConfigError(
                f"'{path}' and '{paths[0]}' are different networks, or see or do different "
                "things: average policies that began as one"
            )
    mean = {
        name: torch.stack([state[name].double() for state in states]).mean(0).to(first.dtype)
        for name, first in states[0].items()
    }
    policies[0].load_state_dict(mean)
    return policies[0]


def _kind(policy: Policy) -> tuple[Any, ...]:
    """What has to be the same in policies whose weights may be added up."""
    shapes = {name: value.shape for name, value in policy.state_dict().items()}
    # Of the configuration what changes no shape, and yet what a weight means.
    net = policy.config
    said = (net.encoder, net.activation, net.core, net.previous_action, sorted(net.binary_actions))
    return policy.spec, shapes, policy.actor_obs, policy.critic_obs, *said


def load_pretrained(policy: Policy, path: str | Path, parts: list[str]) -> list[str]:
    """Copies weights of another policy, e.g. one trained by imitation, into ``policy``.

    Args:
        policy: the policy to initialise.
        path: as in :func:`load_policy`.
        parts: names from encoder, core, actor, critic; empty means all that the file has.

    Returns:
        The parts that were copied.

    Raises:
        ConfigError: for an unknown part, or weights whose names or shapes do not fit.
    """
    unknown = sorted(set(parts) - set(PARTS))
    if unknown:
        raise ConfigError(f"pretrained_parts has '{unknown[0]}': use some of {', '.join(PARTS)}")
    weights, header = read_weights(Path(path))
    weights.pop("correlation", None)  # where a training has it, not what it learned
    _adapt(weights, header, policy)
    found = {_part(name) for name in weights}
    chosen = set(parts) or found
    absent = sorted(chosen - found)
    if absent:
        raise ConfigError(f"the pretrained weights '{path}' have no {absent[0]}: leave it out")
    copies = _critic_copies(policy, weights, chosen)
    weights |= copies
    own = {k: v for k, v in policy.state_dict().items() if _part(k) in chosen or k in copies}
    theirs = {k: v for k, v in weights.items() if _part(k) in chosen or k in copies}
    wrong = [k for k in sorted(own.keys() | theirs.keys()) if _differs(own.get(k), theirs.get(k))]
    if wrong:
        name = wrong[0]
        raise ConfigError(
            f"the pretrained weights '{path}' do not fit: '{name}' is {_shape(theirs.get(name))} "
            f"there and {_shape(own.get(name))} here; use the same net.* settings, or choose "
            "pretrained_parts"
        )
    policy.load_state_dict(theirs, strict=False)
    return sorted(chosen)


def _critic_copies(
    policy: Policy, weights: dict[str, Tensor], chosen: set[str]
) -> dict[str, Tensor]:
    """What a separate critic starts from where the file has none: the actor's own weights.

    One of another size (``net.critic_mlp``) shares the observation statistics alone, one that reads
    other observations nothing.
    """
    copies: dict[str, Tensor] = {}
    if policy.critic_obs != policy.actor_obs:
        return copies
    smaller = bool(policy.config.critic_mlp)
    for name in policy.state_dict():
        source = name.removeprefix("critic_")
        if source == name or source not in weights:
            continue
        if "encoder.norm." in name if smaller else name not in weights:
            copies[name] = weights[source].clone()
    return {name: v for name, v in copies.items() if _part(name.removeprefix("critic_")) in chosen}


def _adapt(weights: dict[str, Tensor], header: dict[str, Any], policy: Policy) -> None:
    """Turns means of a normal head into log odds where ``policy`` chooses between -1 and +1.

    A mean of -1 becomes the probability ``net.binary_initial`` of +1; where that is a half or more
    a mean of +1 becomes it, or 0.73 if it is less. Signs stay.
    """
    head = policy.actor
    size = policy.spec.action.size
    if not isinstance(head, GaussianHead) or "actor.linear.bias" not in weights:
        return
    before = torch.zeros(size, dtype=torch.bool)
    before[list(header.get("net", {}).get("binary_actions", []))] = True
    chosen = policy.config.binary_actions
    initial = each_initial(policy.config.binary_initial, len(chosen))
    for name in ("actor.linear.weight", "actor.linear.bias"):
        for row, p in zip(chosen, initial, strict=True):
            if not before[row] and len(weights[name]) >= size:
                odds = math.log((1 - p) / p)
                weights[name][row % size] *= odds if odds > 0 else max(-odds, 1.0)


def _part(name: str) -> str:
    first = name.split(".", 1)[0]
    return "critic" if first.startswith("critic") else first


def _differs(a: Tensor | None, b: Tensor | None) -> bool:
    return a is None or b is None or a.shape != b.shape


def _shape(tensor: Tensor | None) -> str:
    return "missing" if tensor is None else str(tuple(tensor.shape))


class InferencePolicy(nn.Module):
    """The actor as a function of tensors: deterministic actions within the environment's bounds.

    ``forward(obs_1, ..., obs_k, state)`` takes the observations in the order of ``names`` and the
    recurrent state ``[n, policy.actor_state_size]`` (zeros at the start of an episode) and returns
    ``(action, next_state)``.
    """

    low: Tensor
    high: Tensor
    centre: Tensor
    scale: Tensor

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        self.names = list(policy.actor_obs)
        action = policy.spec.action
        self.continuous = action.kind == "continuous"
        self.start = action.start
        if self.continuous:
            low, high = torch.tensor(action.low), torch.tensor(action.high)
            bounded = torch.isfinite(low) & torch.isfinite(high)
            self.register_buffer("low", low)
            self.register_buffer("high", high)
            self.register_buffer("centre", torch.where(bounded, (low + high) / 2, 0.0 * bounded))
            self.register_buffer("scale", torch.where(bounded, (high - low) / 2, 1.0))

    def forward(self, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """One deterministic step."""
        obs = dict(zip(self.names, inputs[:-1], strict=True))
        action, state = self.policy.act_mode(obs, inputs[-1])
        if not self.continuous:
            return action + self.start, state
        action = action * self.scale + self.centre
        return torch.max(torch.min(action, self.high), self.low), state


def example_inputs(policy: Policy, n: int = 2) -> tuple[Tensor, ...]:
    """Zero observations and state for ``n`` environments."""
    types = {"uint8": torch.uint8, "float32": torch.float32}
    specs = policy.acting_spec.observations.values()
    obs = [torch.zeros(n, *spec.shape, dtype=types[spec.dtype]) for spec in specs]
    return (*obs, torch.zeros(n, policy.actor_state_size))


def export_policy(
    source: str | Path | Policy, path: str | Path, notes: Mapping[str, str] | None = None
) -> Path:
    """Writes a policy as TorchScript (``.pt``) or ONNX (``.onnx``), for any batch size.

    Args:
        source: a policy, or what :func:`load_policy` takes.
        path: of the file.
        notes: texts to keep inside: ONNX's metadata, or TorchScript's extra files.

    Raises:
        ConfigError: for another suffix, or if the onnx package is missing.
    """
    policy = source if isinstance(source, Policy) else load_policy(source)
    policy = policy.cpu().eval()
    path = Path(path)
    writers = {".pt": _write_script, ".onnx": _write_onnx}
    if path.suffix not in writers:
        raise ConfigError(f"cannot export to '{path.name}': use a name ending in .pt or .onnx")
    module, inputs = InferencePolicy(policy).eval(), example_inputs(policy)
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), replacing(path) as temporary:
        # Sizes become constants of the traced network, as they should.
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        writers[path.suffix](module, inputs, temporary, notes or {})
    return path


def _write_script(
    module: InferencePolicy, inputs: tuple[Tensor, ...], path: Path, notes: Mapping[str, str]
) -> None:
    buffer = io.BytesIO()  # through memory: torch does not say which file it could not write
    with torch.no_grad():
        traced = torch.jit.trace(module, inputs, check_trace=False)
    torch.jit.save(traced, buffer, _extra_files=dict(notes))
    path.write_bytes(buffer.getbuffer())


def _write_onnx(
    module: InferencePolicy, inputs: tuple[Tensor, ...], path: Path, notes: Mapping[str, str]
) -> None:
    try:
        import onnx
    except ModuleNotFoundError:
        raise ConfigError(
            "export to ONNX needs a package: pip install onnx (or tpsrl[onnx], which has a runtime"
            " too)"
        ) from None
    names = [*module.names, "state"]
    torch.onnx.export(
        module,
        inputs,
        str(path),
        input_names=names,
        output_names=["action", "next_state"],
        dynamic_axes={name: {0: "n"} for name in [*names, "action", "next_state"]},
        dynamo=False,
    )
    model = onnx.load(path)
    onnx.helper.set_model_props(model, dict(notes))
    path.write_bytes(model.SerializeToString())

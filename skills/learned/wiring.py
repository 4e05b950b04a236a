"""What goes into a trained policy and what comes out: names, shapes, scales, for its card."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from skills.tasks.base import Task
from skills.tasks.sensors import DEPTH, SENSORS
from tpsrl.robot import fetch

_ROLE = re.compile(r":\w+:`~?(?:\w+\.)*(\w+)`")
_STOP = "above 0 ends the skill"
_CLIP = 10.0
"""Of the network's own normalisation (``ver_trainer.nets.normalization``)."""


def wiring(
    weights: Mapping[str, np.ndarray],
    header: Mapping[str, Any],
    task: Task[Any] | None = None,
) -> dict[str, Any]:
    """Return what a policy reads and gives, as plain values.

    Args:
        weights: of its file.
        header: of its file.
        task: whose observations and actions they are, ``None`` for another environment's.

    Returns:
        ``observations`` in the order of the inputs, each with name, shape and dtype, the mean and
        deviation that the network subtracts and divides by itself, and where a task is known what
        the values mean; ``action`` with a row for each entry; ``state``, the size of the recurrent
        state that goes in and out, zeros at the start of an episode; with a task ``control_hz``.
    """
    spec, net = header["spec"], header["net"]
    names = header.get("actor_obs", list(spec["observations"]))
    scales = _scales(weights, {name: spec["observations"][name]["shape"] for name in names})
    rows = []
    for name in names:
        seen = spec["observations"][name]
        row = {"name": name, "shape": list(seen["shape"]), "dtype": seen["dtype"]}
        meaning = {"meaning": _meaning(name, seen["dtype"])} if task else {}
        rows.append(row | meaning | scales.get(name, {}))
    size = int(spec["action"]["size"])
    layers = 2 * net["core_layers"] * net["core_size"] if net["core"] == "lstm" else 0
    remembered = size if net.get("previous_action", False) else 0
    found: dict[str, Any] = {"observations": rows, "action": _plain_action(spec["action"])}
    if task is not None:
        found["action"] |= {"entries": _entries(task)}
        found["control_hz"] = fetch.CONTROL_HZ
    return {**found, "state": layers + remembered}


def _plain_action(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("kind", "size", "low", "high", "start")
    bounds = {key: spec[key] for key in kept if key in spec}
    return {
        key: [v if math.isfinite(v) else None for v in value] if key in ("low", "high") else value
        for key, value in bounds.items()
    }


def _scales(
    weights: Mapping[str, np.ndarray], shapes: Mapping[str, list[int]]
) -> dict[str, dict[str, Any]]:
    """Return mean and deviation of each vector, if the network normalises what it reads."""
    mean, var = weights.get("encoder.norm.mean"), weights.get("encoder.norm.var")
    vectors = {k: math.prod(s) for k, s in shapes.items() if len(s) < 2}
    if mean is None or var is None or sum(vectors.values()) != len(mean):
        return {}
    found, first = {}, 0
    for name, size in vectors.items():
        part = slice(first, first + size)
        deviation = np.sqrt(var[part] + 1e-8)
        found[name] = {
            "mean": [round(float(x), 6) for x in mean[part]],
            "deviation": [round(float(x), 6) for x in deviation],
            "clip": _CLIP,
        }
        first += size
    return found


def _meaning(name: str, dtype: str) -> str:
    """Return the words of a sensor's documentation: what it is and its unit."""
    if name == DEPTH:
        view, most = math.degrees(fetch.HEAD_CAMERA_HFOV), 255 if dtype == "uint8" else 1
        return (
            f"Depth picture of the head camera, {view:.0f} degrees wide: {most} is"
            f" {fetch.DEPTH_RANGE[1]:.0f} m or more; rows from the top."
        )
    if name not in SENSORS:
        return ""
    text = " ".join((SENSORS[name].read.__doc__ or "").split())
    return _ROLE.sub(r"\1", text).replace("``", "")


def _entries(task: Task[Any]) -> list[dict[str, Any]]:
    """Return name and meaning of each entry of a flat action; all are in [-1, 1]."""
    layout = task.layout
    arm = f"change of the motor's target: 1 is {fetch.ARM_DELTA} rad a step"
    rows = [{"name": joint, "meaning": arm} for joint in fetch.ARM_JOINTS] if layout.arm else []
    rows += [{"name": "grip", "meaning": task.grip_rule}] if layout.grip else []
    if layout.base:
        ahead, turn = fetch.BASE_DELTA_LINEAR, fetch.BASE_DELTA_ANGULAR
        rows += [{"name": "base_forward", "meaning": f"1 is {ahead:.4f} m ahead a step"}]
        rows += [{"name": "base_turn", "meaning": f"1 is {turn:.4f} rad to the left a step"}]
    return rows + ([{"name": "stop", "meaning": _STOP}] if layout.stop else [])

"""All tasks by name, with the benchmark's numbers and its quirks (``contract="parity"``)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, Literal

from skills.tasks.articulated import ArticulatedTask
from skills.tasks.base import ARM_GRIP_BASE, ARM_GRIP_BASE_STOP, BASE, BASE_STOP, Task
from skills.tasks.navigate import NavigateTask, PointNavTask
from skills.tasks.pick_place import PickTask, PlaceTask
from skills.tasks.rearrange import RearrangeTask
from skills.tasks.roam import ExploreTask, FleeTask
from tpsrl.errors import UserError, nearest

Contract = Literal["fixed", "parity"]
Actions = Literal["full", "restricted"]

_REST = ("joint", "is_holding", "relative_resting_position")
_ARTICULATED = ("head_depth", "joint", "ee_pos", "is_holding", "relative_resting_position")
_RULES: dict[str, Any] = {
    "max_force_sum": 2_000.0,
    "max_force": 500.0,
    "force_end_penalty": 1.0,
}
"""Chosen from the forces of good runs on this engine (docs/simulator.md)."""
_FORCE: dict[str, Any] = {"force_penalty": 5e-4, "max_force_penalty": 0.01, **_RULES}
_NO_RULES: dict[str, Any] = {"max_force_sum": None, "max_force": None, "force_end_penalty": 0.0}
_LIMITS: dict[str, Any] = {
    "max_force_sum": 10_000.0,
    "max_force": 10_000.0,
    "force_end_penalty": 1.0,
}
_FRIDGE: dict[str, Any] = {
    "joint_name": "fridge/top_door",
    "marker_name": "fridge_push_point",
    "spawn_frame": "furniture",
    "spawn_x": (0.833, 1.25),
    "spawn_y": (-0.6, 0.6),
    "scenario": "in_fridge",
}
_DRAWER: dict[str, Any] = {
    "joint_name": "kitchen_counter/drawer3",
    "marker_name": "cab_push_point_5",
    "scenario": "in_drawer",
}
_OPEN: dict[str, Any] = {"absolute": False, "grasp_reward": 5.0, "violation_penalty": 1.0}
_CLOSE: dict[str, Any] = {"suction": False, "violation_penalty": 10.0}


def _articulated(name: str, **parameters: Any) -> ArticulatedTask:
    return ArticulatedTask(
        name=name,
        sensors=(*_ARTICULATED, "marker_rel_pos"),
        layout=ARM_GRIP_BASE_STOP,
        horizon=200,
        **_RULES,
        **parameters,
    )


TASKS: dict[str, Task] = {
    "navigate": NavigateTask(
        name="navigate",
        sensors=("head_depth", "goal_to_agent_gps_compass", "joint"),
        layout=BASE_STOP,
        horizon=400,
        slack_reward=-0.005,
        violation_penalty=1.0,
        **_FORCE,
    ),
    "pick": PickTask(
        name="pick",
        sensors=("head_depth", "obj_start_sensor", *_REST),
        layout=ARM_GRIP_BASE,
        horizon=300,
        slack_reward=-0.005,
        violation_penalty=1.0,
        **_FORCE,
    ),
    "place": PlaceTask(
        name="place",
        sensors=("head_depth", "obj_goal_sensor", *_REST),
        layout=ARM_GRIP_BASE,
        horizon=300,
        slack_reward=-0.005,
        **_FORCE,
    ),
    "open_cab": _articulated("open_cab", goal=0.45, **_DRAWER, **_OPEN),
    "close_cab": _articulated(
        "close_cab", start=(0.4, 0.5), spawn_x=(0.80, 0.85), **_DRAWER, **_CLOSE
    ),
    "open_fridge": _articulated("open_fridge", goal=1.2207963, **_FRIDGE, **_OPEN),
    "close_fridge": _articulated(
        "close_fridge", start=(math.pi / 4, 2 * math.pi / 3), **_FRIDGE, **_CLOSE
    ),
    "rearrange_easy": RearrangeTask(
        name="rearrange_easy",
        sensors=(
            "head_depth",
            "obj_start_sensor",
            "obj_goal_sensor",
            "obj_start_gps_compass",
            "obj_goal_gps_compass",
            "ee_pos",
            *_REST,
        ),
        layout=ARM_GRIP_BASE_STOP,
        horizon=1500,
        slack_reward=-0.01,
        success_reward=100.0,
        violation_penalty=10.0,
    ),
    "pointnav": PointNavTask(
        name="pointnav",
        sensors=("head_depth", "pointgoal_with_gps_compass"),
        layout=BASE_STOP,
        horizon=500,
        slack_reward=-0.01,
        success_reward=0.0,
        needs_geodesic="goal",
    ),
    "flee": FleeTask(
        name="flee",
        sensors=("head_depth", "gps", "compass"),
        layout=BASE,
        horizon=500,
        success_reward=0.0,
        end_on_success=False,
        needs_geodesic="start",
    ),
    "explore": ExploreTask(
        name="explore",
        sensors=("head_depth", "gps", "compass"),
        layout=BASE,
        horizon=1000,
        success_reward=0.0,
        end_on_success=False,
    ),
}
"""Task name -> task with fixed quirks and all actions."""

_PARITY: dict[str, dict[str, Any]] = {
    "navigate": {
        **_LIMITS,
        "force_penalty": 0.0,
        "violation_penalty": 0.0,
        "force_end_penalty": 0.0,
    },
    "pick": {"force_penalty": 1e-4, **_LIMITS},
    "place": {"force_penalty": 1e-4, "max_force_penalty": 0.0, **_LIMITS},
    "open_cab": {
        **_NO_RULES,
        "sensors": _ARTICULATED,
        "rest_reward": 10.0,
        "max_force": 10_000.0,
        "force_end_penalty": 10.0,
    },
    "close_cab": {**_NO_RULES, "sensors": _ARTICULATED},
    "open_fridge": {
        **_NO_RULES,
        "sensors": _ARTICULATED,
        "max_force_sum": 20_000.0,
        "max_force": 10_000.0,
        "force_end_penalty": 10.0,
    },
    "close_fridge": {**_NO_RULES, "sensors": _ARTICULATED},
}


def make_task(
    name: str,
    *,
    contract: Contract = "fixed",
    actions: Actions = "full",
    options: Mapping[str, Any] | None = None,
) -> Task:
    """Return a task.

    Args:
        name: key of :data:`TASKS`.
        contract: ``"parity"`` keeps the quirks of habitat-lab that are fixed otherwise.
        actions: ``"restricted"``: the base stands still in manipulation skills (Habitat 2.0).
        options: fields of the task to override, e.g. ``{"horizon": 500}``.

    Raises:
        UserError: unknown name, contract, action space or option.
    """
    if name not in TASKS:
        raise UserError(f"unknown skill '{name}'{nearest(name, TASKS)}")
    if contract not in ("fixed", "parity"):
        raise UserError(f"contract='{contract}' is unknown; use 'fixed' or 'parity'.")
    if actions not in ("full", "restricted"):
        raise UserError(f"actions='{actions}' is unknown; use 'full' or 'restricted'.")
    task = TASKS[name]
    changes: dict[str, Any] = {}
    if contract == "parity":
        changes |= _PARITY.get(name, {})
    if actions == "restricted" and task.layout.arm:
        changes["layout"] = dataclasses.replace(task.layout, base=False)
    changes |= dict(options or {})
    known = {f.name for f in dataclasses.fields(task)}
    for key in changes:
        if key not in known:
            raise UserError(f"skill '{name}' has no option '{key}'{nearest(key, known)}")
    return dataclasses.replace(task, **changes)

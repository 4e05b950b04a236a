"""The rows of the skills that come with the package, in the order in which they are listed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skills.row import SkillRow, ask_drive, ask_drive_to_handle, ask_handle, ask_target
from skills.tasks.articulated import ArticulatedTask
from skills.tasks.layout import ARM_GRIP_BASE, ARM_GRIP_BASE_STOP, BASE, BASE_STOP
from skills.tasks.navigate import NavigateTask
from skills.tasks.pick import PickTask
from skills.tasks.place import PlaceTask
from skills.tasks.rearrange import RearrangeTask
from skills.tasks.roam import ExploreTask, FleeTask, PointNavTask
from skills.tasks.seen import SEEN
from skills.tasks.tolerances import OPEN_DRAWER, OPEN_FRIDGE

_REST = ("joint", "is_holding", "relative_resting_position")
_BODY = (
    *_REST,
    *("ee_pos", "arm_strain", "contact_force", "base_scan", "base_pace", "base_strain", "elapsed"),
)
_FELT = ("base_pace", "base_strain", "arm_strain")
_AROUND = (
    "obj_now_sensor",
    "target_size",
    "target_box",
    "neighbours",
    "neighbour_gap",
    "relief",
    "container",
)
_POINT = ("sensor", "in_base", "gps_compass", "place", "gap")
_CARE: dict[str, Any] = {"mistake_penalty": 4.0, "haste": 0.1}
_DRIVE: dict[str, Any] = {
    "needs_geodesic": "course",
    "way": 0.5,
    "blocked_penalty": 0.05,
}
_STOPS: dict[str, Any] = {"failed_stop_ends": False, "failed_stop_penalty": 1.0, **_CARE}
_ARTICULATED = ("head_depth", "joint", "ee_pos", "is_holding", "relative_resting_position")
_RULES: dict[str, Any] = {
    "max_force_sum": 2_000.0,
    "max_force": 500.0,
    "force_end_penalty": 1.0,
}
"""Chosen from the forces of good runs on this engine (docs/force.md)."""
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


def _articulated(
    name: str,
    environment: str,
    program: str,
    parity: Mapping[str, Any] | None = None,
    **parameters: Any,
) -> SkillRow:
    task = ArticulatedTask(
        name=name,
        sensors=(*_ARTICULATED, "marker_rel_pos"),
        layout=ARM_GRIP_BASE_STOP,
        horizon=200,
        **_RULES,
        **parameters,
    )
    return SkillRow(
        task,
        environment,
        program,
        state=(
            *_BODY,
            "marker_rel_pos",
            "marker_pose",
            "marker_gap",
            "marker_start_pose",
            "marker_js",
            "marker_js_gap",
        ),
        fine=("marker_fine", "resting_fine"),
        teaching={
            **_STOPS,
            "rest_reward": 10.0,
            "ajar": 0.3,
            # A base that pushes a drawer meets the counter when ten centimetres are left.
            **({} if task.suction else {"handle_reward": 10.0}),
        },
        switches={"grip": 0.5, "stop": 0.02},
        # The programs that close pull and push by the handle.
        needs={} if task.suction else {"suction": True},
        plan={name: ask_handle},
        parity={**_NO_RULES, "sensors": _ARTICULATED, **(parity or {})},
    )


ROWS = (
    SkillRow(
        NavigateTask(
            name="navigate",
            sensors=("head_depth", "goal_to_agent_gps_compass", "joint"),
            layout=BASE_STOP,
            horizon=400,
            slack_reward=-0.005,
            violation_penalty=1.0,
            **_FORCE,
        ),
        "Navigate",
        "skills.programs.basic:Navigate",
        state=(
            "goal_to_agent_gps_compass",
            "goal_gap",
            "base_scan_far",
            "contact_force",
            "is_holding",
            "joint",
            "base_pace",
            "base_strain",
            "elapsed",
        ),
        fine=("goal_gap", "goal_pace"),
        seen=SEEN,
        felt=("base_pace", "base_strain"),
        course=("way",),
        again=0.0,  # worse with 0.35: docs/notes/2026-11-26-behind-the-door.md
        lasting=(0.0,),  # worse with 0.8: docs/notes/2026-11-28-noise-that-lasts.md
        teaching={
            **_STOPS,
            "needs_geodesic": "course",
            "distance_reward": 3.0,
            "left_penalty": 5.0,
            "most_left": 1.0,
            "shut": 2.0,
        },
        switches={"stop": 0.02},
        plan={"nav": ask_drive, "nav_to_receptacle": ask_drive_to_handle},
        parity={
            **_LIMITS,
            "force_penalty": 0.0,
            "violation_penalty": 0.0,
            "force_end_penalty": 0.0,
        },
        teachers=2,
    ),
    SkillRow(
        PickTask(
            name="pick",
            sensors=("head_depth", "obj_start_sensor", *_REST),
            layout=ARM_GRIP_BASE,
            horizon=200,
            slack_reward=-0.005,
            violation_penalty=1.0,
            **_FORCE,
        ),
        "Pick",
        "skills.programs.pick:Pick",
        state=(
            *_BODY,
            *_AROUND,
            "obj_start_sensor",
            "obj_start_in_base",
            "obj_start_gps_compass",
            "obj_start_place",
            "obj_start_gap",
        ),
        fine=("obj_start_fine", "resting_fine"),
        seen=SEEN,
        felt=_FELT,
        course=("way", "way_gap"),
        teaching={
            **_CARE,
            "distance_reward": 3.0,
            "detour": 1.0,
            "shut": 2.0,
            "fallen": 0.3,
            "suction_penalty": 0.02,
        },
        driving=_DRIVE,
        switches={"grip": 0.5},
        plan={"pick": ask_target},
        parity={"horizon": 300, "force_penalty": 1e-4, "frozen_start": True, **_LIMITS},
        teachers=4,
        placed=True,
    ),
    SkillRow(
        PlaceTask(
            name="place",
            sensors=("head_depth", "obj_goal_sensor", *_REST),
            layout=ARM_GRIP_BASE,
            horizon=200,
            slack_reward=-0.005,
            **_FORCE,
        ),
        "Place",
        "skills.programs.place:Place",
        state=(
            *_BODY,
            *_AROUND,
            "obj_goal_sensor",
            "obj_goal_in_base",
            "obj_goal_gps_compass",
            "obj_goal_place",
            "obj_goal_gap",
            "rim",
        ),
        fine=("obj_goal_fine", "resting_fine"),
        seen=SEEN,
        felt=_FELT,
        course=("way", "way_gap"),
        teaching={
            **_CARE,
            "haste": 0.03,  # what hangs low takes time to be lifted
            "distance_reward": 3.0,
            "detour": 1.0,
            "shut": 2.0,
            "pressing": 1e-3,
            "min_distance": 0.05,
            "off_penalty": 30.0,
            "strays_end": True,
        },
        driving=_DRIVE,
        switches={"grip": 0.998},
        plan={"place": ask_target},
        parity={
            "horizon": 300,
            "force_penalty": 1e-4,
            "max_force_penalty": 0.0,
            **_LIMITS,
        },
        lasting=(0.8, 0.8, 0.0, 0.0, 0.0, 0.0, 0.0),  # as long as there are labels
        teachers=2,
        placed=True,
    ),
    _articulated(
        "open_cab",
        "OpenCabinet",
        "skills.programs.articulated:OpenCab",
        {"rest_reward": 10.0, "max_force": 10_000.0, "force_end_penalty": 10.0},
        goal=OPEN_DRAWER,
        **_DRAWER,
        **_OPEN,
    ),
    _articulated(
        "close_cab",
        "CloseCabinet",
        "skills.programs.articulated:CloseCab",
        start=(0.4, 0.5),
        spawn_x=(0.80, 0.85),
        **_DRAWER,
        **_CLOSE,
    ),
    _articulated(
        "open_fridge",
        "OpenFridge",
        "skills.programs.articulated:OpenFridge",
        {"max_force_sum": 20_000.0, "max_force": 10_000.0, "force_end_penalty": 10.0},
        goal=OPEN_FRIDGE,
        **_FRIDGE,
        **_OPEN,
    ),
    _articulated(
        "close_fridge",
        "CloseFridge",
        "skills.programs.articulated:CloseFridge",
        start=(math.pi / 4, 2 * math.pi / 3),
        **_FRIDGE,
        **_CLOSE,
    ),
    SkillRow(
        RearrangeTask(
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
        "RearrangeEasy",
        "skills.programs.rearrange:Rearrange",
        state=(
            *_BODY,
            *_AROUND,
            "base_scan_far",
            *(f"obj_{point}_{what}" for point in ("start", "goal") for what in _POINT),
        ),
        fine=("obj_start_fine", "obj_goal_fine", "resting_fine"),
        seen=SEEN,
        felt=_FELT,
        course=("way", "way_gap"),
        teaching={
            **_STOPS,
            "slack_reward": -0.005,
            "distance_reward": 3.0,
            "detour": 1.0,
            "shut": 2.0,
            "suction_penalty": 0.02,
            "pick_reward": 2.0,
            "place_reward": 0.0,
            "release_reward": 5.0,
            "success_reward": 10.0,
            "violation_penalty": 1.0,
            "mistakes_end": True,
            "later": 0.7,
            "horizon": 600,
        },
        driving=_DRIVE,
        switches={"grip": 0.998, "stop": 0.02},
    ),
    SkillRow(
        PointNavTask(
            name="pointnav",
            sensors=("head_depth", "pointgoal_with_gps_compass"),
            layout=BASE_STOP,
            horizon=500,
            slack_reward=-0.01,
            success_reward=0.0,
            needs_geodesic="goal",
        ),
        "PointNav",
    ),
    SkillRow(
        FleeTask(
            name="flee",
            sensors=("head_depth", "gps", "compass"),
            layout=BASE,
            horizon=500,
            success_reward=0.0,
            end_on_success=False,
            needs_geodesic="start",
        ),
        "Flee",
    ),
    SkillRow(
        ExploreTask(
            name="explore",
            sensors=("head_depth", "gps", "compass"),
            layout=BASE,
            horizon=1000,
            success_reward=0.0,
            end_on_success=False,
        ),
        "Explore",
    ),
)

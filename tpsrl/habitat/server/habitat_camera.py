"""Colour pictures of Habitat: a camera that is there only while it is asked for.

A camera that stayed would be drawn in every step. Needs Python 3.9, NumPy and habitat-lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

if __package__:
    from . import yup
else:  # run from the server's own folder
    import yup  # type: ignore[no-redef]

_NAME = "tpsrl_colour"
_HEAD = (0.25, 0.0, 1.2), (0.75, 0.0, 1.0), 90.0
_THIRD = (-1.25, -0.85, 2.1), (0.55, 0.05, 0.75), 62.0
_ARM = (-0.02, 0.0, 0.07), (0.98, 0.0, -0.18), 75.0
"""Eye, a point it looks at, in the frame that carries it; vertical field of view, degrees."""
_OVERVIEW = np.array([0.0, -3.235, 12.074]), np.zeros(3), np.array([0.0, 0.0, 1.0]), 45.0
_FOLLOW, _STEEP = 2.2, np.radians(-68.0)
_EDGES = [(a, a | bit) for a in range(8) for bit in (1, 2, 4) if not a & bit]


def place(
    camera: str, base: np.ndarray, gripper: Callable[[], np.ndarray],
    free: Callable[[np.ndarray, np.ndarray], float],
) -> Any:  # fmt: skip
    """Return eye, target and up (3,) in our world, and the vertical field of view in degrees.

    Args:
        camera: ``"third_person"``, ``"head"``, ``"arm"`` or ``"overview"``.
        base: (4, 4) pose of the robot.
        gripper: gives the (4, 4) pose of the gripper.
        free: from a point in a direction -> distance to the first thing that is not the robot, m.
    """
    if camera == "overview":
        return _OVERVIEW
    frame = gripper() if camera == "arm" else base
    *ends, view = {"head": _HEAD, "arm": _ARM}.get(camera, _THIRD)
    eye, target = (frame[:3, :3] @ np.array(p) + frame[:3, 3] for p in ends)
    up = frame[:3, 2] if camera == "arm" else np.array([0.0, 0.0, 1.0])
    if camera == "third_person":
        eye, target = _over_shoulder(eye, target, free)
    return eye, target, up, view


def _over_shoulder(
    eye: np.ndarray, target: np.ndarray, free: Callable[[np.ndarray, np.ndarray], float]
) -> tuple[np.ndarray, np.ndarray]:
    """Rise above the robot where a wall is in the way."""
    forward = (target - eye) / np.linalg.norm(target - eye)
    focus = eye + _FOLLOW * forward
    reach = min(free(focus, -forward) - 0.15, _FOLLOW)
    rise = float(np.clip(1.5 * (1.0 - reach / _FOLLOW), 0.0, 1.0))
    level, heading = np.arcsin(forward[2]), np.arctan2(forward[1], forward[0])
    down = (1.0 - rise) * level + rise * _STEEP
    ahead = np.array([np.cos(down) * np.cos(heading), np.cos(down) * np.sin(heading), np.sin(down)])
    return focus - (_FOLLOW + 0.5 * rise) * ahead, focus


def draw(
    lab: Mapping[str, Any], sim: Any, where: Any, width: int, height: int,
    boxes: Sequence[Any], floor: float,
) -> np.ndarray:  # fmt: skip
    """Return (height, width, 3) uint8 RGB.

    Args:
        lab: see ``setup.load``.
        sim: habitat-lab's simulator.
        where: see :func:`place`.
        width: pixels.
        height: pixels.
        boxes: wireframes as (centre, half extents, rgba).
        floor: height of Habitat's floor, m.
    """
    magnum, habitat_sim = lab["magnum"], lab["habitat_sim"]
    eye, target, up, view = where
    spec = habitat_sim.CameraSensorSpec()
    spec.uuid, spec.sensor_type = _NAME, habitat_sim.SensorType.COLOR
    # Habitat's field of view is the horizontal one.
    wide = 2.0 * np.arctan(np.tan(np.radians(view) / 2.0) * width / height)
    spec.resolution, spec.hfov = [height, width], float(np.degrees(wide))
    sim._try_acquire_context()
    sim.add_sensor(spec)
    try:
        ends = [magnum.Vector3(*map(float, yup.point_back(p, floor))) for p in (eye, target)]
        upright = magnum.Vector3(*map(float, yup.Z_UP.T @ up))
        pose = magnum.Matrix4.look_at(ends[0], ends[1], upright)
        agent = sim.get_agent(0)
        node = agent.scene_node.subtree_sensors[_NAME].node
        node.transformation = agent.scene_node.transformation.inverted() @ pose
        _wireframes(magnum, sim, boxes, floor)
        return np.array(sim.get_sensor_observations()[_NAME][..., :3], dtype=np.uint8)
    finally:
        _remove(habitat_sim, sim)


def _wireframes(magnum: Any, sim: Any, boxes: Sequence[Any], floor: float) -> None:
    if not boxes:
        return
    lines = sim.get_debug_line_render()
    signs = np.array([[(i >> k & 1) * 2 - 1 for k in range(3)] for i in range(8)])
    for center, half, rgba in boxes:
        corners = np.asarray(center) + signs * np.asarray(half)
        points = [magnum.Vector3(*map(float, yup.point_back(c, floor))) for c in corners]
        colour = magnum.Color4(*map(float, rgba))
        for a, b in _EDGES:
            lines.draw_transformed_line(points[a], points[b], colour)


def _remove(habitat_sim: Any, sim: Any) -> None:
    """Take the camera away again; releases differ in how."""
    if hasattr(sim, "remove_sensor"):
        sim.remove_sensor(_NAME)
    else:
        habitat_sim.SensorFactory.delete_subtree_sensor(sim.get_agent(0).scene_node, _NAME)
        for name in ("_Simulator__sensors", "_sensors"):
            held = getattr(sim, name, None)
            for sensors in held if isinstance(held, list) else [held]:
                if isinstance(sensors, dict):
                    sensors.pop(_NAME, None)
    specifications = sim.get_agent(0).agent_config.sensor_specifications
    specifications[:] = [s for s in specifications if s.uuid != _NAME]

"""What the cup has to reach for each use of Pick and Place."""

from __future__ import annotations

import numpy as np

from skills.interface import SkillCall
from skills.motion.moves import GiveUpError
from skills.motion.reach import TipTarget
from skills.motion.view import RobotView
from skills.tasks.places import enclosed, link_pose, support, support_height
from tpsrl.episodes.types import Target
from tpsrl.geometry.rotations import rotation_matrix
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import ReceptacleInfo

_PITCHES = np.radians([90.0, 75.0, 60.0, 45.0, 30.0, 20.0, 10.0])
_APPROACH = (0.09, 0.06, 0.03)
_NEAR = 0.02
"""The cup stops this far from the object in the collision check, m."""
DROP_HEIGHT = 0.02
"""An object is let go this far above where it should lie, m."""


def episode_target(sim: Simulator, env_id: int, call: SkillCall) -> Target:
    """Return the target a call is about.

    Raises:
        GiveUpError: the call names none, or one that the episode lacks.
    """
    targets = sim.episode(env_id).targets
    if call.target is None or not 0 <= call.target < len(targets):
        raise GiveUpError(f"no target {call.target}: the episode has {len(targets)}")
    return targets[call.target]


def place_goal(sim: Simulator, env_id: int, call: SkillCall) -> np.ndarray:
    """Return (3,): where the object belongs, or where it started if the call says so."""
    target = episode_target(sim, env_id, call)
    if call.place == "start":
        return np.asarray(sim.episode(env_id).objects[target.object_index].pos)
    return np.asarray(target.goal_pos)


def pick_target(sim: Simulator, env_id: int, view: RobotView, target: Target) -> TipTarget:
    """Return the cup target of grasping an object where it lies now."""
    centre = view.objects[target.object_index]
    half = float(np.clip(centre[2] - support_height(sim, env_id, centre), 0.012, 0.15))
    low_goal = enclosed(sim, env_id, target.goal_pos)
    inside = enclosed(sim, env_id, centre)
    place = support(sim, env_id, centre)
    drawer = place is not None and place.joint >= 0
    pitches = {}
    for pitch in map(float, _PITCHES):
        if inside and pitch > np.radians(50):
            continue
        # An object that goes into the fridge is best held from the side, so it stands there.
        pitches[pitch] = 25.0 * pitch if low_goal else 0.0

    def surface(pitch: float) -> float:
        """Distance from the centre to the surface against the approach, at most."""
        return min(half / max(np.sin(pitch), 0.2), max(0.09, half))

    def planned(pitch: float) -> float:
        """Distance from the centre at which contact is planned; the cup goes on if need be."""
        return half - 0.005 if pitch > np.radians(80) else 0.5 * surface(pitch)

    def tip(pitch: float) -> np.ndarray:
        away = planned(pitch)
        return np.array([-away * np.cos(pitch), 0.0, centre[2] + away * np.sin(pitch)])

    def approaches(pitch: float) -> list[tuple[float, float]]:
        if inside:
            return [(0.30, 0.04), (0.24, 0.03), (0.24, 0.02)]
        if drawer:
            return [(0.0, up) for up in (0.21, 0.18)]
        lengths = [surface(pitch) - planned(pitch) + _NEAR + extra for extra in _APPROACH]
        return [(s * np.cos(pitch), s * np.sin(pitch)) for s in lengths]

    def clear(pitch: float, length: float) -> float:
        near = 0.10 if inside else surface(pitch) - planned(pitch) + _NEAR
        return 1.0 - near / length

    return TipTarget(
        xy=centre[:2],
        tip=tip,
        approaches=approaches,
        clear=clear,
        pitches=pitches,
        azimuth=_outward(sim, env_id, centre) + np.pi,
    )


def place_target(
    sim: Simulator, env_id: int, view: RobotView, target: Target, goal: np.ndarray
) -> TipTarget:
    """Return the cup target of setting the held object down with its centre at (3,) ``goal``."""
    centre = view.objects[target.object_index]
    rotation = rotation_matrix(view.object_quats[target.object_index])
    offset = view.tip_rotation.T @ (centre - view.tip)
    up_now = view.tip_rotation.T @ np.array([0.0, 0.0, 1.0])
    up = view.tip_rotation.T @ rotation[:, int(np.argmax(np.abs(rotation[2])))]
    up = up if up @ up_now > 0 else -up
    inside = enclosed(sim, env_id, goal)
    height = goal[2] + DROP_HEIGHT

    def tip(pitch: float) -> np.ndarray:
        shift = _pitched(pitch) @ offset
        return np.array([-shift[0], -shift[1], height - shift[2]])

    def approaches(pitch: float) -> list[tuple[float, float]]:
        if inside:
            return [(0.40, 0.03), (0.30, 0.03), (0.40, 0.0)]
        return [(0.0, 0.14), (0.0, 0.10), (0.0, 0.06), (0.05, 0.04)]

    pitches = {}
    for pitch in map(float, _PITCHES):
        tilt = float(np.arccos(np.clip((_pitched(pitch) @ up)[2], -1.0, 1.0)))
        if inside and pitch > np.radians(65):
            continue
        pitches[pitch] = 40.0 * max(tilt - 0.1, 0.0)
    return TipTarget(
        xy=goal[:2],
        tip=tip,
        approaches=approaches,
        clear=lambda pitch, length: 1.0,
        pitches=pitches,
        azimuth=_outward(sim, env_id, goal) + np.pi,
    )


def _pitched(pitch: float) -> np.ndarray:
    """Return the (3, 3) rotation of a cup that points ahead and ``pitch`` down."""
    c, s = np.cos(pitch), np.sin(pitch)
    return np.array([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def _outward(sim: Simulator, env_id: int, point: np.ndarray) -> float:
    """Return the direction in which the furniture that carries a point faces, rad."""
    place: ReceptacleInfo | None = support(sim, env_id, point)
    if place is None:
        return 0.0
    rotation = (
        link_pose(sim, env_id, place.joint)[1]
        if place.joint >= 0
        else rotation_matrix(np.asarray(place.quat))
    )
    return float(np.arctan2(rotation[1, 0], rotation[0, 0]))

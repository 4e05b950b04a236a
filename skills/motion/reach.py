"""Where to stand and how to hold the arm so that the cup reaches a point: a search over base poses.

The arm stays in a vertical plane, so a posture is given by the cup's distance from the shoulder,
its height and its pitch; turning that plane about the target and backing away from it gives the
base poses. Candidates are ordered by the control steps they cost; the cheapest one that touches
nothing (asked of the simulator) wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from skills.motion.moves import GiveUpError
from skills.motion.postures import PAN, arm_steps, rest_posture
from skills.motion.view import RobotView, WhatIf, what_if
from skills.tasks.outlines import free_space
from tpsrl.geometry.rotations import turn, unit, wrap
from tpsrl.robot.fetch import BASE_DELTA_ANGULAR, BASE_DELTA_LINEAR
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.sim.door import Simulator
from tpsrl.sim.scene import Navigation

_RADII = np.arange(0.40, 1.06, 0.05)
_AZIMUTHS = 24
_MOST_QUERIES = 45
_STANDOFFS = (0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Behind the pose at contact, where the arm may be raised, best first, m."""
_FARTHEST = 1.42
"""Largest distance from the target at which a standoff counts as having navigated to it, m."""
_MOST_STEPS = 340.0
"""Arm motion down, in, out and back up to rest that is still tried: 310 from the floor, where the
object is in the hand after 160."""


@dataclass(frozen=True)
class TipTarget:
    """What the cup has to reach.

    Attributes:
        xy: (2,) reference point in the world, m.
        tip: pitch -> (3,): where the cup has to be from the reference point, along the arm's
            horizontal direction and to its left, and its height above the floor, m.
        approaches: pitch -> (back, up) pairs, best first: how far the pre-contact posture lies
            behind and above the contact, m.
        clear: part of the way from pre-contact to contact that must be free of touch, per pair.
        pitches: pitch -> extra cost in control steps.
        azimuth: reference direction; candidates are turned from it in equal steps, rad.
    """

    xy: np.ndarray
    tip: Callable[[float], np.ndarray]
    approaches: Callable[[float], Sequence[tuple[float, float]]]
    clear: Callable[[float, float], float]
    pitches: dict[float, float]
    azimuth: float = 0.0


@dataclass(frozen=True)
class Reach:
    """A plan: drive to ``raise_at``, raise the arm, drive to ``pre_base``, move in.

    Attributes:
        base, pre_base: (3,) base poses at contact and where the approach begins.
        raise_at: (3,) where the arm is raised and lowered.
        standoff: (3,) where the robot comes to, facing the target, its arm still low.
        contact, pre: (7,) arm postures.
        pitch: of the cup's approach direction, rad.
        cost: estimated control steps.
        touches: how many of the tried postures touched something.
    """

    base: np.ndarray
    pre_base: np.ndarray
    raise_at: np.ndarray
    standoff: np.ndarray
    contact: np.ndarray
    pre: np.ndarray
    pitch: float
    cost: float
    touches: int = 0

    def at(self, part: float) -> tuple[np.ndarray, np.ndarray]:
        """Return base pose and posture at a part of the way in; beyond 1 it goes on straight."""
        base = self.pre_base + part * (self.base - self.pre_base)
        return base, self.pre + part * (self.contact - self.pre)


@dataclass(frozen=True)
class _Posture:
    pitch: float
    radius: float
    offset: np.ndarray
    back: float
    contact: np.ndarray
    pre: np.ndarray
    clear: float
    steps: float
    cost: float


@dataclass(frozen=True)
class _Choice:
    """What decides between plans, see :func:`plan_reach`."""

    banned: Sequence[Reach]
    drive_weight: float
    crowd_weight: float


def plan_reach(
    sim: Simulator,
    env_id: int,
    view: RobotView,
    target: TipTarget,
    *,
    banned: Sequence[Reach] = (),
    drive_weight: float = 1.5,
    crowd_weight: float = 0.0,
    low: Sequence[np.ndarray] = (),
    ignore: int | None = None,
) -> Reach:
    """Find the cheapest way for the cup to reach a target.

    Args:
        sim: the simulator.
        env_id: its world.
        view: its state.
        target: what to reach.
        banned: plans that failed before; plans like them are not returned.
        drive_weight: what a control step of driving counts against one of the arm.
        crowd_weight: cost of each blocked eighth of the circle around the standoff, where the
            robot would swing its arm when it turns.
        ignore: index of the object that may be touched.
        low: (7,) postures in which the robot may come to the standoff, besides the present one.

    Raises:
        GiveUpError: no base pose allows it.
    """
    navigation = free_space(sim, env_id)
    postures = [p for p in _postures(view, target) if p.steps <= _MOST_STEPS]
    choice = _Choice(banned, drive_weight, crowd_weight)
    candidates = _candidates(navigation, view, target, postures, choice)
    if not candidates:
        raise GiveUpError("target out of reach")
    best: Reach | None = None
    with what_if(sim, env_id) as world:
        if ignore is not None and ignore != view.held_object:
            world.remove(ignore)
        for reach, posture in candidates[:_MOST_QUERIES]:
            allowed = best.touches if best is not None else 99
            touches = _count_touches(world, [view.qpos, *low], reach, posture, allowed)
            if best is None or touches < best.touches:
                best = replace(reach, touches=touches)
            if touches == 0:
                break
    assert best is not None
    return best


def _postures(view: RobotView, target: TipTarget) -> list[_Posture]:
    """Return the arm postures that put the cup at the target's height, with their cost."""
    found = []
    for pitch, extra in target.pitches.items():
        offset = target.tip(pitch)
        pairs = target.approaches(pitch)
        heights = {up: _planar_row(float(offset[2]) + up, pitch) for _, up in pairs}
        for radius, contact in _planar_row(float(offset[2]), pitch).items():
            best: _Posture | None = None
            for back, up in pairs:
                for other, pre in heights[up].items():
                    shift = back + other - radius
                    if shift < -1e-6:
                        continue
                    steps = arm_steps(view.target, pre) + 2 * arm_steps(pre, contact)
                    steps += arm_steps(pre, rest_posture(pre))
                    if best is None or steps < best.steps:
                        clear = target.clear(pitch, float(np.hypot(back, up)))
                        best = _Posture(
                            pitch, radius, offset, shift, contact, pre, clear, steps, steps + extra
                        )
                if best is not None:
                    break
            if best is not None:
                found.append(best)
    return found


def _planar_row(height: float, pitch: float) -> dict[float, np.ndarray]:
    """Return radius -> posture for all radii within reach."""
    row = {float(r): arm_kinematics().planar(PAN, float(r), height, pitch) for r in _RADII}
    return {r: q for r, q in row.items() if q is not None}


def _candidates(
    navigation: Navigation,
    view: RobotView,
    target: TipTarget,
    postures: Sequence[_Posture],
    choice: _Choice,
) -> list[tuple[Reach, _Posture]]:
    """Return feasible plans, cheapest first, one for each direction and pitch."""
    if not postures:
        return []
    azimuths = target.azimuth + np.arange(_AZIMUTHS) * 2 * np.pi / _AZIMUTHS
    bases = np.array([[_base_pose(target.xy, p, a) for a in azimuths] for p in postures])
    free = navigation.is_navigable(bases[..., :2])
    crowd = _crowd(navigation, bases) if choice.crowd_weight else np.zeros(free.shape)
    field = navigation.distance_field(view.base[None, :2])
    found: dict[tuple[int, float], tuple[Reach, _Posture]] = {}
    for k, posture in enumerate(postures):
        for j in range(_AZIMUTHS):
            if not free[k, j]:
                continue
            base = bases[k, j]
            old = found.get((j, posture.pitch))
            if old is not None and old[0].cost <= posture.cost:
                continue
            reach = _with_standoff(navigation, target.xy, base, posture)
            if reach is None or any(_alike(reach, b) for b in choice.banned):
                continue
            cost = (
                posture.cost
                + choice.crowd_weight * crowd[k, j]
                + choice.drive_weight * drive_steps(field, view.base, reach.standoff)
            )
            if np.isfinite(cost) and (old is None or cost < old[0].cost):
                found[(j, posture.pitch)] = (replace(reach, cost=cost), posture)
    return sorted(found.values(), key=lambda pair: pair[0].cost)


def _crowd(navigation: Navigation, bases: np.ndarray) -> np.ndarray:
    """Return how many of eight points around the standoffs of (..., 3) poses are blocked."""
    angles = np.arange(8) * np.pi / 4
    ring = 0.45 * np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    ahead = np.stack([np.cos(bases[..., 2]), np.sin(bases[..., 2])], axis=-1)
    centres = bases[..., :2] - 0.5 * ahead
    return np.sum(~navigation.is_navigable(centres[..., None, :] + ring), axis=-1)


def _base_pose(xy: np.ndarray, posture: _Posture, azimuth: float) -> np.ndarray:
    """Return the base pose from which a posture reaches the target along an azimuth."""
    yaw = azimuth - PAN
    tip = xy + turn(azimuth) @ posture.offset[:2]
    pan = tip - posture.radius * unit(azimuth)
    return np.append(pan - turn(yaw) @ arm_kinematics().pan_axis, wrap(yaw))


def _with_standoff(
    navigation: Navigation, xy: np.ndarray, base: np.ndarray, posture: _Posture
) -> Reach | None:
    """Find where the robot stops and raises its arm: straight behind the pose at contact."""
    ahead = np.append(unit(base[2]), 0.0)
    pre_base = base - posture.back * ahead
    for back in _STANDOFFS:
        standoff = base - back * ahead
        if np.linalg.norm(standoff[:2] - xy) > _FARTHEST:
            continue
        raise_at = standoff if back >= posture.back else pre_base
        if not navigation.is_navigable(np.array([standoff[:2], raise_at[:2]])).all():
            continue
        reached = navigation.clamp_motion(raise_at[:2], base[:2])
        if np.linalg.norm(reached - base[:2]) > 1e-6:
            continue
        return Reach(
            base,
            pre_base,
            raise_at,
            standoff,
            posture.contact,
            posture.pre,
            posture.pitch,
            0.0,
        )
    return None


def drive_steps(field: object, here: np.ndarray, goal: np.ndarray) -> float:
    """Estimate the control steps of driving to a pose."""
    gap = goal[:2] - here[:2]
    distance = float(field.distance(goal[:2]))  # type: ignore[attr-defined]
    if np.hypot(*gap) < 0.02:
        return abs(wrap(goal[2] - here[2])) / BASE_DELTA_ANGULAR
    bearing = float(np.arctan2(gap[1], gap[0]))
    turning = abs(wrap(bearing - here[2])) + abs(wrap(goal[2] - bearing))
    back = abs(wrap(bearing + np.pi - here[2])) + abs(wrap(goal[2] - bearing - np.pi))
    if distance < 0.8:
        turning = min(turning, back)
    return distance / BASE_DELTA_LINEAR + turning / BASE_DELTA_ANGULAR


def _count_touches(
    world: WhatIf,
    low: Sequence[np.ndarray],
    reach: Reach,
    posture: _Posture,
    enough: int,
) -> int:
    """Count tried postures of a plan that touch something; stops counting at ``enough``."""
    count = 0
    trials = [
        reach.at(1.0),
        reach.at(posture.clear),
        (reach.pre_base, reach.pre),
        reach.at(0.5 * posture.clear),
        (0.5 * (reach.pre_base + reach.raise_at), reach.pre),
        (reach.raise_at, reach.pre),
        *((reach.standoff, qpos) for qpos in low),
    ]
    for base, qpos in trials:
        count += world.touches(base, qpos)
        if count >= enough:
            break
    return count


def _alike(one: Reach, other: Reach) -> bool:
    near = np.linalg.norm(one.base[:2] - other.base[:2]) < 0.12
    return bool(near and abs(one.pitch - other.pitch) < 0.1)

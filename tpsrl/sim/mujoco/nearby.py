"""Which bodies can take part in a contact of the coming control step.

MuJoCo's broad phase sorts the boxes of all bodies that may collide, also of those that sleep or
stand still at the other end of the apartment: two fifths of a step. What is far from everything
that is awake, or can be woken, is left out of it. The contacts stay the same, to the bit: the broad
phase only proposes pairs of bodies, which are then looked at in an order of their own.
"""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.compiled import compiled
from tpsrl.sim.mujoco.memory import Addresses, floats, numbers

AWAKE_MARGIN = 0.4
"""How far what is awake, the base's motion included, comes in a control step, m."""
WAKE_MARGIN = 0.05
"""The same of what is woken in it, m."""
_SPEED_MARGIN = 2.0 / 30.0
"""And for what is faster: twice the way at its speed, s."""


class Nearby:
    """Where compiled code finds what it needs to know those bodies of a world.

    Args:
        model: shared by worlds; its ``body_contype`` and ``body_conaffinity`` are written.
        data: of the world.

    Attributes:
        table: (k,) int64, for :func:`keep` and :func:`keep_all`.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        now = model.body_contype, model.body_conaffinity
        self._boxes = np.zeros((model.nbody, 6))
        self._bodies = np.arange(model.nbody, dtype=np.int32)
        self.look_at(model, self._bodies[1:].copy())
        self._addresses = Addresses(
            [
                *now,
                *(values.copy() for values in now),
                self._boxes,
                np.zeros((model.nbody, 6)),
                data.xipos,
                data.ximat,
                data.tree_asleep,
                data.qvel,
                model.body_treeid,
                model.tree_bodyadr,
                model.tree_bodynum,
                model.tree_dofadr,
                model.tree_dofnum,
                self._bodies,
            ],
            (model.nbody, model.ntree, model.nv),
        )
        self.table = self._addresses.table

    def look_at(self, model: mujoco.MjModel, bodies: np.ndarray) -> None:
        """Never keep any but these (k,) bodies, which hold all of a tree or nothing of it.

        Args:
            model: as that of the world: it says how large they are.
            bodies: of it.
        """
        solid = bodies[model.body_bvhadr[bodies] >= 0]
        self._boxes[solid] = model.bvh_aabb[model.body_bvhadr[solid]]
        self._bodies[0] = len(bodies)
        self._bodies[1 : 1 + len(bodies)] = bodies


@compiled
def keep_all(table: np.ndarray) -> None:
    """Let everything collide again."""
    for k in range(2):
        numbers(table[k], table[16])[:] = numbers(table[2 + k], table[16])


@compiled
def keep(table: np.ndarray) -> None:
    """Leave out what is far away; :func:`keep_all` has to follow before anything is teleported."""
    bodies, trees, dofs = table[16], table[17], table[18]
    listed = numbers(table[15], bodies)
    some = listed[1 : 1 + listed[0]]
    contype, conaffinity = numbers(table[0], bodies), numbers(table[1], bodies)
    all_contype, all_conaffinity = numbers(table[2], bodies), numbers(table[3], bodies)
    spans = floats(table[5], bodies, 6)
    boxes = floats(table[4], bodies, 6)
    _write_spans(spans, some, boxes, floats(table[6], bodies, 3), floats(table[7], bodies, 9))
    asleep, speed = numbers(table[8], trees), floats(table[9], dofs, 1)
    tree_of = numbers(table[10], bodies)
    first_body, body_count = numbers(table[11], trees), numbers(table[12], trees)
    first_dof, dof_count = numbers(table[13], trees), numbers(table[14], trees)
    for body in range(1, bodies):
        contype[body] = conaffinity[body] = 0
    margins, known = np.empty(trees), np.zeros(trees, dtype=np.bool_)
    waiting, count = np.empty(trees, dtype=np.int64), 0
    for tree in range(trees):
        if asleep[tree] < 0:
            fastest = 0.0
            for dof in range(first_dof[tree], first_dof[tree] + dof_count[tree]):
                fastest = max(fastest, abs(speed[dof, 0]))
            margins[tree] = AWAKE_MARGIN + _SPEED_MARGIN * fastest
            known[tree] = True
            waiting[count] = tree
            count += 1
    span = np.empty(6)
    while count:
        count -= 1
        tree = waiting[count]
        _span_of(span, spans, first_body[tree], body_count[tree], margins[tree])
        for body in some:
            if contype[body] or conaffinity[body] or not _overlap(span, spans[body]):
                continue
            contype[body], conaffinity[body] = all_contype[body], all_conaffinity[body]
            other = tree_of[body]
            # What fell asleep together wakes together.
            while other >= 0 and not known[other]:
                known[other] = True
                margins[other] = WAKE_MARGIN
                waiting[count] = other
                count += 1
                other = asleep[other]


@compiled
def _write_spans(
    spans: np.ndarray,
    some: np.ndarray,
    boxes: np.ndarray,
    positions: np.ndarray,
    rotations: np.ndarray,
) -> None:
    """Write the lower and upper corners of the boxes that hold some bodies, in the world."""
    for body in some:
        for k in range(3):
            centre, half = positions[body, k], 0.0
            for j in range(3):
                centre += rotations[body, 3 * k + j] * boxes[body, j]
                half += abs(rotations[body, 3 * k + j]) * boxes[body, 3 + j]
            spans[body, k], spans[body, 3 + k] = centre - half, centre + half


@compiled
def _span_of(span: np.ndarray, spans: np.ndarray, first: int, count: int, margin: float) -> None:
    """Write the box that holds a tree's bodies and a margin."""
    for k in range(3):
        low, high = spans[first, k], spans[first, 3 + k]
        for body in range(first + 1, first + count):
            low, high = min(low, spans[body, k]), max(high, spans[body, 3 + k])
        span[k], span[3 + k] = low - margin, high + margin


@compiled
def _overlap(a: np.ndarray, b: np.ndarray) -> bool:
    apart = False
    for k in range(3):
        apart = apart or a[k] > b[3 + k] or b[k] > a[3 + k]
    return not apart

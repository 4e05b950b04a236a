"""Where compiled code finds what it needs to know of a world to carry out its control steps."""

from __future__ import annotations

import mujoco
import numpy as np

from tpsrl.compiled import compiled
from tpsrl.geometry.polygons import ray_hits
from tpsrl.sim.mujoco import native
from tpsrl.sim.mujoco.memory import Addresses, floats, numbers
from tpsrl.sim.mujoco.model import ModelIndex
from tpsrl.sim.mujoco.shared import Own
from tpsrl.sim.mujoco.states import Counters
from tpsrl.sim.mujoco.suction import Suction
from tpsrl.sim.navigation import GridNavigation

(
    QPOS, QVEL, CTRL, XPOS, XQUAT, XMAT, TIP, ARMATURE, FRICTION, BASE, COUNT, GRASP, ROBOT,
    GRASPABLE, OWNERS, PLACES, TURNS, LINKS, OFFSETS, CLEARANCE, FRAME, TAILS, EDGES, LENGTHS,
    STARTS, OWN_TABLE, MODEL, JACOBIAN, DATA, CONTACTS, FIRST, GEOMS, STRIDE, NQ, NV, BODIES, DOF,
    PLACE, CUP, ALL_GEOMS, ROWS, COLUMNS, SIDES, OUTLINES,
) = range(44)  # fmt: skip
"""What stands where in a world's table."""


class StepTable:
    """The table of a world: addresses, then sizes and numbers of its parts.

    Args:
        model: shared by worlds.
        data: of the world.
        index: ids.
        own: what the world has of its own in the model.
        base: (3,) float64 pose of its base.
        count: its counters.
        suction: its cup.

    Attributes:
        table: (k,) int64.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        index: ModelIndex,
        own: Own,
        base: np.ndarray,
        count: Counters,
        suction: Suction,
    ) -> None:
        joints = model.body_jntadr
        free = (joints >= 0) & (model.body_dofnum == 6)
        graspable = (index.object_of_geom >= 0) | (index.marker_of_geom >= 0)
        arrays: list[np.ndarray] = [
            data.qpos,
            data.qvel,
            data.ctrl,
            data.xpos,
            data.xquat,
            data.xmat,
            data.site_xpos[index.ee_site],
            model.dof_armature,
            model.dof_frictionloss,
            base,
            count.values,
            suction.grasp,
            index.robot_geom.astype(np.int32),
            graspable.astype(np.int32),
            model.geom_bodyid,
            np.where(free, model.jnt_qposadr[joints], -1).astype(np.int32),
            np.where(free, model.jnt_dofadr[joints], -1).astype(np.int32),
            suction.marker_bodies.astype(np.int32),
            np.ascontiguousarray(suction.marker_offsets),
        ]
        self._own = Addresses(arrays)
        layout = native.contact_layout()
        self._rest = (
            own.table.ctypes.data, model._address, model._address + native.jacobian_place(),
            data._address, *native.contact_addresses(data),
            layout.geoms, layout.size, model.nq, model.nv, model.nbody, int(index.base_dof[0]),
            int(index.base_qpos[0]), index.suction_geom, model.ngeom,
        )  # fmt: skip

    def furnish(self, navigation: GridNavigation) -> None:
        """Take in another scene's free space."""
        parts = navigation.parts
        sizes = (*parts[0].shape, len(navigation.parts[2]), len(navigation.parts[5]) - 1)
        self._scene = Addresses([*parts], (*self._rest, *sizes))
        self.table = np.append(self._own.table, self._scene.table)


@compiled
def scan(tables: np.ndarray, poses: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
    """Return (n, k) ranges in the worlds of (n, l) tables, see ``Simulator.scan``."""
    ranges = np.empty((len(tables), len(angles)))
    for i in range(len(tables)):
        table = tables[i]
        ranges[i] = ray_hits(
            poses[i, :2],
            poses[i, 2] + angles,
            floats(table[TAILS], table[SIDES], 2),
            floats(table[EDGES], table[SIDES], 2),
            numbers(table[STARTS], table[OUTLINES] + 1),
            reach,
        )
    return ranges

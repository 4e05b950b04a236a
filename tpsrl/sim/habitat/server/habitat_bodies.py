"""The bodies of habitat-lab's simulator: robot, furniture links, objects; all poses z up.

Needs Python 3.9, NumPy and habitat-lab.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

if __package__:
    from . import habitat_setup, yup
else:  # run from the server's own folder
    import habitat_setup  # type: ignore[no-redef]
    import yup  # type: ignore[no-redef]

LEVEL = 0.3
"""What differs less from the floor's height belongs to the floor, not to a table, m."""
SAMPLES = 50


class HabitatBodies:
    """Reads and writes poses.

    Args:
        lab: see :func:`habitat_setup.load`.
        options: see ``habitat_backend.make``.
    """

    def __init__(self, lab: dict[str, Any], options: Mapping[str, Any]) -> None:
        self._lab, self._options = lab, options
        self._floor = float(options["floor"])
        self._sim: Any = None
        self._joints: list[tuple[Any, int, int, np.ndarray]] = []
        """Furniture, number of the link, place of its position, (4, 4) link in Habitat's frame."""
        self._order: list[int] = []
        self._found, self._island, self._lift = "", -1, 0.0
        self._containers: dict[str, np.ndarray] = {}

    @property
    def _robot(self) -> Any:
        return self._sim.articulated_agent

    def _find_joints(self) -> None:
        manager = self._sim.get_articulated_object_manager()
        self._joints = []
        for name, (handle, link, frame) in self._options["joints"].items():
            ao = manager.get_object_by_handle(handle)
            if ao is None:
                raise habitat_setup.Refusal(
                    f"Habitat loaded no '{handle}', which joint '{name}' is on"
                )
            ids = {ao.get_link_name(i): i for i in ao.get_link_ids()}
            if link not in ids:
                raise habitat_setup.Refusal(f"Habitat's '{handle}' has no link '{link}'")
            place = ao.get_link_joint_pos_offset(ids[link])
            self._joints.append((ao, ids[link], place, np.linalg.inv(np.asarray(frame))))

    def _within_limits(self, qpos: np.ndarray) -> np.ndarray:
        low, high = self._robot.arm_joint_limits
        return np.clip(qpos, low, high)

    def _find_floor(self, scene: str) -> None:
        """Find the free space on the floor, and how far the navigation mesh lies above the floor.

        The mesh is built of cells 0.2 m high, and habitat-lab moves the robot on it; the offset
        between robot and mesh, which habitat-lab knows of, puts the wheels on the floor.
        """
        if scene != self._found:
            finder, best = self._sim.pathfinder, 0.0
            self._island, self._lift, self._found = -1, 0.0, scene
            for island in range(finder.num_islands):
                area = float(finder.island_area(island))
                points = [
                    np.array(finder.get_random_navigable_point(island_index=island))
                    for _ in range(SAMPLES if area > best else 0)
                ]
                lift = float(np.median([p[1] for p in points])) - self._floor if points else np.inf
                if abs(lift) < LEVEL:
                    best, self._island, self._lift = area, island, lift
        self._robot.params.base_offset = self._lab["magnum"].Vector3(0.0, self._lift, 0.0)

    def _write_base(self, pose: np.ndarray) -> None:
        robot = self._robot
        x, y, z = yup.point_back(np.array([pose[0], pose[1], self._lift]), self._floor)
        robot.base_pos = self._lab["magnum"].Vector3(float(x), float(y), float(z))
        robot.base_rot = float(pose[2])
        self._still()

    def _still(self) -> None:
        body = self._robot.sim_obj
        body.joint_velocities = np.zeros(len(body.joint_velocities))

    def _write_joint(self, name: str, value: float) -> None:
        ao, _, offset, _ = self._joints[list(self._options["joints"]).index(name)]
        positions = list(ao.joint_positions)
        positions[offset] = float(value)
        ao.joint_positions = positions
        ao.joint_velocities = np.zeros(len(ao.joint_velocities))
        ao.awake = True

    def _body(self, index: int) -> Any:
        rank = self._order.index(index)
        ids = self._sim.scene_obj_ids
        return self._sim.get_rigid_object_manager().get_object_by_id(ids[rank])

    def _index(self, object_id: int) -> int:
        return self._order[list(self._sim.scene_obj_ids).index(object_id)]

    def _object(self, index: int) -> np.ndarray:
        matrix = array(self._body(index).transformation)
        return matrix_of(yup.object_rotation(matrix[:3, :3]), yup.point(matrix[:3, 3], self._floor))

    def _write_object(self, index: int, pose: np.ndarray) -> None:
        magnum, body = self._lab["magnum"], self._body(index)
        out = np.eye(4)
        out[:3, :3] = yup.object_rotation_back(pose[:3, :3])
        out[:3, 3] = yup.point_back(pose[:3, 3], self._floor)
        body.transformation = magnum.Matrix4([[float(v) for v in column] for column in out.T])
        body.linear_velocity = body.angular_velocity = magnum.Vector3(0.0)
        body.awake = True

    def _hold(self, index: int) -> None:
        """Weld an object at its present pose, as ``SuctionGraspAction`` does on contact."""
        robot, body = self._robot, self._body(index)
        node = robot.sim_obj.get_link_scene_node(robot.params.ee_links[0])
        link = node.absolute_transformation()
        self._sim.grasp_mgr.snap_to_obj(
            int(body.object_id), force=False, should_open_gripper=False,
            rel_pos=link.inverted().transform_point(body.translation),
            keep_T=robot.ee_transform().inverted() @ body.transformation,
        )  # fmt: skip

    def _carry(self, motion: np.ndarray) -> None:
        held = self._sim.grasp_mgr.snap_idx
        if held is not None:
            index = self._index(held)
            self._sim.grasp_mgr.desnap(True)
            self._write_object(index, motion @ self._object(index))
            self._hold(index)

    def _inside(self, name: str) -> list[int]:
        if name not in self._containers:
            return []
        low, high = self._containers[name]
        to_link = np.linalg.inv(self._link_matrix(name))
        local = [(to_link @ self._object(i))[:3, 3] for i in range(len(self._order))]
        return [i for i, p in enumerate(local) if np.all((p >= low) & (p <= high))]

    def _link_matrix(self, name: str) -> np.ndarray:
        ao, link, _, own = self._joints[list(self._options["joints"]).index(name)]
        return self._node(ao.get_link_scene_node(link)) @ own

    def _node(self, node: Any) -> np.ndarray:
        matrix = array(node.absolute_transformation())
        return matrix_of(yup.link_rotation(matrix[:3, :3]), yup.point(matrix[:3, 3], self._floor))

    def _link_matrix_of_gripper(self) -> np.ndarray:
        robot = self._robot
        return self._node(robot.sim_obj.get_link_scene_node(robot.params.ee_links[0]))

    def _base_matrix(self) -> np.ndarray:
        robot = self._robot
        yaw = float(robot.base_rot)
        turn = yup.rotation(np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]))
        return matrix_of(turn, yup.point(np.array(robot.sim_obj.translation), self._floor))

    def _tip(self) -> tuple[np.ndarray, np.ndarray]:
        matrix = array(self._robot.ee_transform())
        return yup.point(matrix[:3, 3], self._floor), yup.link_rotation(matrix[:3, :3])

    def _tip_matrix(self) -> np.ndarray:
        pos, turn = self._tip()
        return matrix_of(turn, pos)

    def _touching(self) -> list[Any]:
        robot, held = self._robot.sim_obj.object_id, self._sim.grasp_mgr.snap_idx
        links = set(self._robot.sim_obj.link_object_ids) | {robot}
        out = []
        for contact in self._sim.get_physics_contact_points():
            ends = {contact.object_id_a, contact.object_id_b}
            if ends & links and not ends <= links and held not in ends:
                out.append(contact)
        return out


def array(matrix: Any) -> np.ndarray:
    """Return magnum's column-major 4x4 matrix as (4, 4) float64."""
    return np.array([[matrix[j][i] for j in range(4)] for i in range(4)], dtype=np.float64)


def matrix_of(turn: np.ndarray, pos: np.ndarray) -> np.ndarray:
    """Return the (4, 4) transform of a rotation and a position."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = turn, pos
    return out


def stack(rows: Sequence[np.ndarray], width: int) -> np.ndarray:
    """Return rows as (k, width) float64, also when there are none."""
    return np.array(rows, dtype=np.float64).reshape(len(rows), width)

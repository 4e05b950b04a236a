"""The bodies of habitat-lab's simulator: robot, furniture links, objects; all poses z up.

Needs Python 3.9, NumPy and habitat-lab.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
        self._joints: list[tuple[Any, Any, int]] = []
        """Furniture, node of the link, place of its position."""
        self._links = np.zeros((0, 4, 4))
        """Links in Habitat's frames of them."""
        self._bodies: list[Any] = []
        self._order: list[int] = []
        self._found, self._island, self._lift = "", -1, 0.0
        self._containers: dict[str, np.ndarray] = {}

    @property
    def _robot(self) -> Any:
        return self._sim.articulated_agent

    def _find_bodies(self) -> None:
        """Look up furniture and objects once an episode: it takes long."""
        found = self._sim.get_rigid_object_manager()
        bodies = [found.get_object_by_id(i) for i in self._sim.scene_obj_ids]
        self._bodies = [bodies[self._order.index(i)] for i in range(len(bodies))]
        manager = self._sim.get_articulated_object_manager()
        known: dict[str, Any] = {}
        self._joints, frames = [], []
        for name, (handle, link, frame) in self._options["joints"].items():
            if handle not in known:
                known[handle] = manager.get_object_by_handle(handle)
            ao = known[handle]
            if ao is None:
                raise habitat_setup.Refusal(
                    f"Habitat loaded no '{handle}', which joint '{name}' is on"
                )
            ids = {ao.get_link_name(i): i for i in ao.get_link_ids()}
            if link not in ids:
                raise habitat_setup.Refusal(f"Habitat's '{handle}' has no link '{link}'")
            place = ao.get_link_joint_pos_offset(ids[link])
            self._joints.append((ao, ao.get_link_scene_node(ids[link]), place))
            frames.append(frame)
        self._links = np.linalg.inv(np.array(frames).reshape(-1, 4, 4))

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
        ao, _, offset = self._joints[list(self._options["joints"]).index(name)]
        positions = list(ao.joint_positions)
        positions[offset] = float(value)
        ao.joint_positions = positions
        ao.joint_velocities = np.zeros(len(ao.joint_velocities))
        ao.awake = True

    def _body(self, index: int) -> Any:
        return self._bodies[index]

    def _index(self, object_id: int) -> int:
        return self._order[list(self._sim.scene_obj_ids).index(object_id)]

    def _object(self, index: int) -> np.ndarray:
        return self._objects([index])[0]

    def _objects(self, indices: Sequence[int]) -> np.ndarray:
        """Return (k, 4, 4) poses of objects."""
        found = matrices([self._bodies[i].transformation for i in indices])
        return self._ours(found, yup.object_rotation)

    def _ours(self, poses: np.ndarray, rotation: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Return (k, 4, 4) poses of Habitat's world in ours."""
        out = np.array(poses)
        out[:, :3, :3] = rotation(poses[:, :3, :3])
        out[:, :3, 3] = yup.point(poses[:, :3, 3], self._floor)
        return out

    def _link_poses(self) -> np.ndarray:
        """Return (J, 4, 4) poses of the furniture's links."""
        nodes = matrices([node.absolute_transformation() for _, node, _ in self._joints])
        return self._ours(nodes, yup.link_rotation) @ self._links

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
        index = list(self._options["joints"]).index(name)
        node = matrices([self._joints[index][1].absolute_transformation()])
        return self._ours(node, yup.link_rotation)[0] @ self._links[index]

    def _link_matrix_of_gripper(self) -> np.ndarray:
        robot = self._robot
        node = robot.sim_obj.get_link_scene_node(robot.params.ee_links[0])
        return self._ours(matrices([node.absolute_transformation()]), yup.link_rotation)[0]

    def _base_matrix(self) -> np.ndarray:
        robot = self._robot
        yaw = float(robot.base_rot)
        turn = yup.rotation(np.array([np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2)]))
        return matrix_of(turn, yup.point(np.array(robot.sim_obj.translation), self._floor))

    def _tip(self) -> tuple[np.ndarray, np.ndarray]:
        pose = self._ours(matrices([self._robot.ee_transform()]), yup.link_rotation)[0]
        return pose[:3, 3], pose[:3, :3]

    def _tip_matrix(self) -> np.ndarray:
        pos, turn = self._tip()
        return matrix_of(turn, pos)

    def _free_way(self, start: np.ndarray, direction: np.ndarray) -> float:
        """Return the distance to the first thing that is not the robot, m."""
        magnum, geo = self._lab["magnum"], self._lab["habitat_sim"].geo
        origin = yup.point_back(start, self._floor)
        ray = geo.Ray(
            magnum.Vector3(*map(float, origin)), magnum.Vector3(*map(float, yup.Z_UP.T @ direction))
        )
        robot = self._robot.sim_obj
        mine = {robot.object_id, *robot.link_object_ids}
        hits = self._sim.cast_ray(ray, max_distance=10.0).hits
        return min((float(h.ray_distance) for h in hits if h.object_id not in mine), default=10.0)

    def _touching(self) -> list[Any]:
        """Return the contacts of the robot with what it does not hold.

        Its base stands on the stage, and the navigation mesh keeps it off the stage's walls.
        """
        robot, held = self._robot.sim_obj.object_id, self._sim.grasp_mgr.snap_idx
        stage = self._lab["habitat_sim"].stage_id
        out = []
        for contact in self._sim.get_physics_contact_points():
            mine = contact.object_id_a, contact.link_id_a
            other = contact.object_id_b, contact.link_id_b
            if mine[0] != robot:
                mine, other = other, mine
            standing = mine[1] == -1 and other[0] == stage
            if mine[0] == robot and other[0] not in (robot, held) and not standing:
                out.append(contact)
        return out


def matrices(found: Sequence[Any]) -> np.ndarray:
    """Return magnum's 4x4 matrices as (k, 4, 4) float64."""
    return np.array([np.asarray(m) for m in found], dtype=np.float64).reshape(-1, 4, 4)


def matrix_of(turn: np.ndarray, pos: np.ndarray) -> np.ndarray:
    """Return the (4, 4) transform of a rotation and a position."""
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = turn, pos
    return out

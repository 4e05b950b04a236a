"""habitat-lab's ``RearrangeSim`` with the operations of the simulator door, one world.

Needs Python 3.9, NumPy and habitat-lab; everything that enters and leaves is z up (``yup.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

if __package__:
    from . import habitat_camera, habitat_setup, layout, yup
    from .habitat_bodies import LEVEL, HabitatBodies, matrix_of
else:  # run from the server's own folder
    import habitat_camera  # type: ignore[no-redef]
    import habitat_setup  # type: ignore[no-redef]
    import layout  # type: ignore[no-redef]
    import yup  # type: ignore[no-redef]
    from habitat_bodies import LEVEL, HabitatBodies, matrix_of  # type: ignore[no-redef]

ARM_INIT = np.array([-0.45, -1.08, 0.1, 0.935, -0.001, 1.573, 0.005])
ARM_NOISE = 0.1
MIN_FORCE = 20.0
"""Smaller increases of force are not accumulated, N (habitat-lab ``min_force``)."""
START_TRIES = 50
SUBSTEPS_HZ = 120.0
CELL = 0.05
"""Of the raster of free space, m."""


def make(options: Mapping[str, Any]) -> HabitatBackend:
    """Load habitat-lab and check everything that can be checked without a scene.

    Args:
        options: see :func:`habitat_setup.configure`; ``joints``: name -> [handle, link,
            (4, 4) Habitat's frame of the link in the link's own]; ``markers``: name -> [handle,
            link, offset in Habitat's frame]; ``floor``: height, m.

    Raises:
        habitat_setup.Refusal: something is missing or does not fit.
    """
    lab = habitat_setup.load()
    habitat_setup.check_files(options)
    return HabitatBackend(lab, options)


class HabitatBackend(HabitatBodies):
    """One world of Habitat.

    Args:
        lab: see :func:`habitat_setup.load`.
        options: see :func:`make`.
    """

    def __init__(self, lab: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(lab, options)
        self._config = habitat_setup.configure(lab, options)
        self._actions: dict[str, Any] = {}
        self._snapshots: dict[int, dict[str, Any]] = {}
        self._request: dict[str, Any] = {}
        self._depth: np.ndarray | None = None
        self._counters()

    def about(self) -> dict[str, Any]:
        """Return engine, versions, joints and handles."""
        version = "+".join(f"{k} {v}" for k, v in sorted(self._lab["versions"].items()))
        engine = {"name": "habitat", "version": version, "control_hz": 30, "physics_hz": 120}
        joints, markers = list(self._options["joints"]), list(self._options["markers"])
        return {"engine": engine, "joints": joints, "markers": markers}

    def op_reset(
        self, episode: dict[str, Any], layout: str, seed: int, start: Any,
        joints: dict[str, float], containers: dict[str, Any],
    ) -> dict[str, Any]:  # fmt: skip
        """Load an episode: scene, objects, joints, robot."""
        self._request = {"episode": episode, "layout": layout, "seed": seed, "start": start,
                         "joints": joints, "containers": containers}  # fmt: skip
        scene = self._options["scenes"].get(layout)
        if scene is None:
            raise habitat_setup.Refusal(f"the dataset has no scene instance for layout '{layout}'")
        ready = self._episode(episode, scene)
        with self._lab["read_write"](self._config):
            self._config.scene = scene
        if self._sim is None:
            self._sim = habitat_setup.start(self._lab, self._config)
            self._actions = habitat_setup.actions(self._lab, self._sim)
        np.random.seed(seed % 2**32)
        self._sim.seed(seed % 2**31)
        self._sim.reconfigure(self._config, ep_info=ready)
        self._sim.reset()
        self._find_floor(scene)
        self._find_bodies()
        self._containers = {k: np.asarray(v) for k, v in containers.items()}
        self._counters()
        for name in self._options["joints"]:
            # Habitat keeps the joints of the episode before where the scene stays the same.
            self._write_joint(name, joints.get(name, 0.0))
        self._start(seed, start)
        return self._look_and_read()

    def op_step(self, actions: np.ndarray) -> dict[str, Any]:
        """Carry out one control step with habitat-lab's own actions."""
        action = np.clip(np.asarray(actions, dtype=np.float64)[0], -1.0, 1.0)
        self.violation = self.diverged = False
        self._actions["arm"].step(action[:7].copy())
        self._actions["grip"].step(float(action[7]))
        self._actions["base"].step(base_vel=action[8:10].copy())
        seen = self._sim.step(None)
        self.steps += 1
        if self._options["depth"]:
            self._depth = self._pixels(seen["head_depth"])
        self._measure()
        return self.op_read()

    def op_read(self) -> dict[str, Any]:
        """Return state and depth."""
        state = self._state()
        objects = len(self._order)
        vector = layout.pack(state, objects, len(self._joints), len(self._options["markers"]))
        reading: dict[str, Any] = {"state": vector, "objects": objects}
        if self._options["depth"] and self._depth is not None:
            reading["depth"] = self._depth
        return reading

    def op_render(self, camera: str, width: int, height: int, boxes: Sequence[Any]) -> np.ndarray:
        """Return a colour picture of the present."""
        place = habitat_camera.place(
            camera, self._base_matrix(), self._link_matrix_of_gripper, self._free_way
        )
        return habitat_camera.draw(self._lab, self._sim, place, width, height, boxes, self._floor)

    def op_capture(self) -> int:
        """Keep the state here and return its number."""
        number = max(self._snapshots, default=0) + 1
        grasp = self._sim.grasp_mgr
        self._snapshots[number] = {
            "request": self._request,
            "state": self._sim.capture_state(with_articulated_agent_js=True),
            "velocities": self._robot.sim_obj.joint_velocities,
            "furniture": [ao.joint_velocities for ao in self._sim.art_objs],
            "targets": np.array(self._robot.arm_motor_pos),
            "held": None if grasp.snap_idx is None else self._index(grasp.snap_idx),
            "marker": grasp.snapped_marker_id,
            "counters": (self.steps, self.force, self.force_sum, self.violation),
            "depth": None if self._depth is None else self._depth.copy(),
        }
        return number

    def op_restore(self, number: int) -> dict[str, Any]:
        """Put a kept state back; velocities are kept, contact caches of the engine are not."""
        saved = self._snapshots[number]
        grasp = self._sim.grasp_mgr
        if saved["request"] is not self._request:
            self.op_reset(**saved["request"])
        grasp.desnap(True)
        self._sim.set_state(saved["state"])
        self._robot.sim_obj.joint_velocities = saved["velocities"]
        for ao, speed in zip(self._sim.art_objs, saved["furniture"]):  # noqa: B905 - Python 3.9
            ao.joint_velocities = speed
        self._robot.arm_motor_pos = saved["targets"]
        if saved["held"] is not None:
            self._hold(saved["held"])
        elif saved["marker"] is not None:
            grasp.snap_to_marker(saved["marker"])
        self.steps, self.force, self.force_sum, self.violation = saved["counters"]
        # Not habitat-lab's update of the robot, which would straighten its back.
        self._sim._update_markers()
        self._depth = saved["depth"]
        return self.op_read()

    def op_forget(self, numbers: Sequence[int]) -> None:
        """Drop kept states."""
        for number in numbers:
            self._snapshots.pop(number, None)

    def op_set_base(self, pose: np.ndarray) -> dict[str, Any]:
        """Teleport the robot; what it holds comes along."""
        before = self._base_matrix()
        self._write_base(np.asarray(pose)[0])
        self._carry(self._base_matrix() @ np.linalg.inv(before))
        return self._look_and_read()

    def op_set_arm(self, qpos: np.ndarray) -> dict[str, Any]:
        """Teleport the arm and its targets; a held object comes along."""
        before = self._tip_matrix()
        self._robot.arm_joint_pos = self._within_limits(np.asarray(qpos, dtype=np.float64)[0])
        self._still()
        self._carry(self._tip_matrix() @ np.linalg.inv(before))
        return self._look_and_read()

    def op_set_joint(self, name: str, value: float) -> dict[str, Any]:
        """Teleport a furniture joint; objects inside a drawer move along."""
        inside = self._inside(name)
        before = self._link_matrix(name)
        self._write_joint(name, value)
        motion = self._link_matrix(name) @ np.linalg.inv(before)
        for index in inside:
            self._write_object(index, motion @ self._object(index))
        return self._look_and_read()

    def op_set_object(self, index: int, pos: np.ndarray, quat: np.ndarray) -> dict[str, Any]:
        """Teleport an object, at rest."""
        self._write_object(index, matrix_of(yup.rotation(quat), pos))
        return self._look_and_read()

    def op_snap_object(self, index: int, pose: Any, half_height: float) -> dict[str, Any]:
        """Hold an object, its top against the cup or at a pose."""
        self._sim.grasp_mgr.desnap(True)
        if pose is None:
            tip, turn = self._tip()
            # The object's z axis points back along the cup's x axis.
            turned = np.stack([turn[:, 2], turn[:, 1], -turn[:, 0]], axis=1)
            matrix = matrix_of(turned, tip + turn[:, 0] * (half_height + 0.002))
        else:
            matrix = matrix_of(yup.rotation(np.asarray(pose)[3:]), np.asarray(pose)[:3])
        self._write_object(index, matrix)
        self._hold(index)
        return self._look_and_read()

    def op_release(self) -> dict[str, Any]:
        """Let go."""
        self._sim.grasp_mgr.desnap()
        return self.op_read()

    def op_settle(self, seconds: float) -> dict[str, Any]:
        """Run physics with the robot's targets fixed."""
        for _ in range(max(1, round(seconds * SUBSTEPS_HZ))):
            self._sim.internal_step(-1)
            self._sim.maybe_update_articulated_agent()
        return self._look_and_read()

    def op_robot_contacts(self) -> bool:
        """Return whether the robot touches anything that it does not hold."""
        self._sim.perform_discrete_collision_detection()
        return any(c.contact_distance < 0.0 for c in self._touching())

    def op_free_space(self) -> dict[str, Any]:
        """Return a raster of the navigation mesh: navigable where the robot's centre may be."""
        finder, height = self._sim.pathfinder, self._floor + self._lift
        low, _ = finder.get_bounds()
        if hasattr(finder, "get_topdown_island_view"):
            islands = np.array(finder.get_topdown_island_view(CELL, height, LEVEL))
            grid = islands == self._island
        else:
            grid = np.array(finder.get_topdown_view(CELL, height, LEVEL))
        # Rows go along Habitat's z, columns along x; our y is its -z.
        free = np.ascontiguousarray(grid.T[:, ::-1])
        origin = [float(low[0]), -(float(low[2]) + CELL * (grid.shape[0] - 1))]
        return {"free": free, "origin": origin, "cell": CELL}

    def op_close(self) -> None:
        """Free the simulator."""
        if self._sim is not None:
            self._sim.close()
            self._sim = None

    def _counters(self) -> None:
        self.steps, self.force, self.force_sum = 0, 0.0, 0.0
        self.violation = self.diverged = False

    def _episode(self, raw: dict[str, Any], scene: str) -> Any:
        """Return habitat-lab's episode; joints are set by name afterwards."""
        names = [pair[0] for pair in raw["rigid_objs"]]
        self._order = sorted(range(len(names)), key=lambda i: names[i])
        lift = np.zeros((4, 4))
        lift[1, 3] = self._floor
        objects = [[n, (np.asarray(m) + lift).tolist()] for n, m in raw["rigid_objs"]]
        markers = [
            {"name": name, "type": "articulated_object",
             "params": {"offset": list(offset), "link": link, "object": handle}}
            for name, (handle, link, offset) in self._options["markers"].items()
        ]  # fmt: skip
        return self._lab["Episode"](
            episode_id=str(raw["episode_id"]), scene_id=scene,
            start_position=[0.0, 0.0, 0.0], start_rotation=[0.0, 0.0, 0.0, 1.0],
            scene_dataset_config=self._options["dataset"],
            additional_obj_config_paths=list(self._options["objects"]),
            ao_states={}, rigid_objs=objects,
            targets={k: (np.asarray(m) + lift).tolist() for k, m in raw["targets"].items()},
            markers=markers, target_receptacles=raw["target_receptacles"],
            goal_receptacles=raw["goal_receptacles"], name_to_receptacle={}, info=raw["info"],
        )  # fmt: skip

    def _start(self, seed: int, start: Any) -> None:
        rng = np.random.default_rng(seed)
        noise = rng.normal(0.0, ARM_NOISE, 7)
        self._robot.arm_joint_pos = self._within_limits(ARM_INIT + noise)
        if start is not None:
            self._write_base(np.asarray(start, dtype=np.float64))
            return
        self._sim.pathfinder.seed(seed % 2**31)
        for _ in range(START_TRIES):
            found = self._sim.pathfinder.get_random_navigable_point(island_index=self._island)
            x, y, _ = yup.point(np.array(found), self._floor)
            self._write_base(np.array([x, y, rng.uniform(-np.pi, np.pi)]))
            if not self.op_robot_contacts():
                return

    def _measure(self) -> None:
        """Forces, hold and sanity after a step."""
        before = self.force
        self.force = max([float(c.normal_force) for c in self._touching()], default=0.0)
        increase = self.force - before
        self.force_sum += increase if increase > MIN_FORCE else 0.0
        self.violation = bool(self._sim.grasp_mgr.is_violating_hold_constraint())
        if self.violation:
            self._sim.grasp_mgr.desnap()
        positions = [np.asarray(body.translation) for body in self._bodies]
        if not (np.isfinite(positions).all() and np.isfinite(self._robot.arm_joint_pos).all()):
            self.op_reset(**self._request)
            self.diverged = True

    def _refresh(self) -> None:
        """Tell sensors, handles and sleeping bodies that something was teleported."""
        self._sim.maybe_update_articulated_agent()
        self._sim._update_markers()

    def _look_and_read(self) -> dict[str, Any]:
        self._refresh()
        if self._options["depth"]:
            self._sim._try_acquire_context()
            seen = self._sim._sensor_suite.get_observations(self._sim.get_sensor_observations())
            self._depth = self._pixels(seen["head_depth"])
        return self.op_read()

    def _pixels(self, depth: Any) -> np.ndarray:
        """Habitat gives 0 where there is nothing, which is far and not near."""
        size = int(self._options["depth"])
        seen = np.asarray(depth, dtype=np.float32).reshape(1, size, size, 1)
        return np.where(seen == 0.0, np.float32(1.0), seen)

    def _state(self) -> dict[str, Any]:
        robot, grasp = self._robot, self._sim.grasp_mgr
        base, (tip, turn) = self._base_matrix(), self._tip()
        objects, links = self._objects(range(len(self._bodies))), self._link_poses()
        opened = {id(ao): ao.joint_positions for ao, _, _ in self._joints}
        markers = list(self._options["markers"])
        handles = [self._sim.get_marker(name).get_current_position() for name in markers]
        held = -1 if grasp.snap_idx is None else self._index(grasp.snap_idx)
        handle = grasp.snapped_marker_id
        return {
            "base_pose": [base[0, 3], base[1, 3], yup.wrap(float(robot.base_rot))],
            "arm_qpos": robot.arm_joint_pos,
            "arm_qvel": robot.arm_velocity,
            "arm_target": robot.arm_motor_pos,
            "ee_pos": tip,
            "ee_quat": yup.quaternion(turn),
            "held_object": held,
            "held_marker": -1 if handle is None else markers.index(handle),
            "hold_violation": self.violation,
            "object_pos": objects[:, :3, 3],
            "object_quat": yup.quaternion(objects[:, :3, :3]),
            "joint_pos": [opened[id(ao)][offset] for ao, _, offset in self._joints],
            "link_pos": links[:, :3, 3],
            "link_quat": yup.quaternion(links[:, :3, :3]),
            "marker_pos": yup.point(np.array(handles).reshape(-1, 3), self._floor),
            "force": self.force,
            "force_sum": self.force_sum,
            "step_count": self.steps,
            "diverged": self.diverged,
        }

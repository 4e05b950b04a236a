"""The default engine: MuJoCo on the CPU, one or a few worlds in a process."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import mujoco
import numpy as np

from tpsrl.episodes.types import Episode, Target
from tpsrl.errors import UserError, nearest
from tpsrl.robot import fetch
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.description import Apartment, ObjectType
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import (
    ACTION_DIM,
    ACTION_GRIP,
    EngineInfo,
    SimState,
    Simulator,
    Snapshot,
    check_reset,
)
from tpsrl.sim.mujoco.contacts import cast, deepest_overlap
from tpsrl.sim.mujoco.forms import Forms, Kinds
from tpsrl.sim.mujoco.head import HeadDepth
from tpsrl.sim.mujoco.model import build
from tpsrl.sim.mujoco.native import stop_clock
from tpsrl.sim.mujoco.render import Renderer
from tpsrl.sim.mujoco.shared import SharedModel
from tpsrl.sim.mujoco.stage import Poses, Solid, place, solid_poses, solids
from tpsrl.sim.mujoco.states import DIVERGED, gather
from tpsrl.sim.mujoco.steps import BEGUN, DONE, advance
from tpsrl.sim.mujoco.table import scan
from tpsrl.sim.mujoco.world import World
from tpsrl.sim.scene import SceneInfo
from tpsrl.sim.scene_info import SceneLibrary

_log = logging.getLogger(__name__)

DEFAULT_POOL = {"002_master_chef_can": 30, "024_bowl": 5}
"""Bodies compiled in from the start, what an episode of the benchmark needs. A pool that is too
small for an episode grows, so types of a user's own need not be among them."""


class MujocoSimulator(Simulator):
    """MuJoCo behind the simulator door.

    Args:
        num_envs: worlds in this process, stepped one after the other.
        depth: pixels of the square head depth picture; ``None`` renders none, which is what
            scripted agents and the episode generator want.
        pool: object type -> bodies to compile in, each of which can be of any type of the same
            form (``tpsrl.sim.mujoco.forms``).
        apartment: the apartment, by default the project's own.
        types: the object types, by default the YCB objects of the benchmark.

    Raises:
        UserError: there is no world, or no such type as ``pool`` names.
    """

    def __init__(
        self,
        num_envs: int = 1,
        *,
        depth: int | None = 128,
        pool: Mapping[str, int] | None = None,
        apartment: Apartment | None = None,
        types: Mapping[str, ObjectType] | None = None,
    ) -> None:
        if num_envs < 1:
            raise UserError(f"num_envs is {num_envs}; it must be at least 1.")
        # By itself MuJoCo would write MUJOCO_LOG.TXT into whatever folder the user stands in.
        mujoco.set_mju_user_warning(_log.warning)
        stop_clock()
        self.num_envs = num_envs
        self.info = EngineInfo("mujoco", mujoco.__version__, fetch.CONTROL_HZ, fetch.PHYSICS_HZ)
        self._forms = Forms(object_types() if types is None else types)
        self._library = SceneLibrary(load_apartment() if apartment is None else apartment)
        if pool is None:
            pool = {name: n for name, n in DEFAULT_POOL.items() if name in self._forms.of}
        self._pool = self._forms.count(pool)
        self._depth_size = depth
        self._renderers: dict[bool, Renderer] = {}  # draft or not
        self._worlds, head = self._build(num_envs, self._pool)
        self._heads = [head] * num_envs
        self._shapes = [np.zeros(0, dtype=np.int64)] * num_envs
        self._states = np.array([world.addresses.table for world in self._worlds])
        self._steps: tuple[np.ndarray, np.ndarray] | None = None
        index = self._worlds[0].index
        self.joint_names = index.joint_names
        self.joint_ranges = self._worlds[0].model.jnt_range[index.joint_ids].copy()
        self.marker_names = tuple(index.markers)
        self.marker_joints = tuple(joint for joint, _, _ in index.markers.values())
        size = depth or 1
        self._depth = np.zeros((num_envs, size, size, 1), dtype=np.float32)
        self._state: SimState | None = None
        self._changed: set[int] = set()
        # Compiled now, half a minute once on a machine: trainers limit the time of a step.
        none = np.zeros((0, 1), dtype=np.int64)
        advance(none, none, np.zeros((0, ACTION_DIM)), 0, False, False)

    def reset(
        self,
        episodes: Sequence[Episode],
        seeds: Sequence[int],
        env_ids: Sequence[int] | None = None,
    ) -> None:
        """See :meth:`Simulator.reset`."""
        ids = self._ids(env_ids)
        check_reset(ids, episodes, seeds)
        self._steps = None
        for episode in episodes:  # all before any is loaded: a reset is done or refused as a whole
            self._library.check_episode(episode, self._forms.types)
        for env_id, episode, seed in zip(ids, episodes, seeds, strict=True):
            scene = self._library.scene(episode.layout)
            self._make_room(env_id, episode)
            self._worlds[env_id].load(episode, scene, int(seed))
            self._show(env_id)
            self._look(env_id)
        self._changed.update(ids)

    def step(self, actions: Any) -> None:
        """See :meth:`Simulator.step`."""
        actions = np.asarray(actions, dtype=np.float64)
        if actions.shape != (self.num_envs, ACTION_DIM):
            raise UserError(
                f"actions have shape {actions.shape}; ({self.num_envs}, {ACTION_DIM}) is needed."
            )
        if not np.all(np.isfinite(actions)):
            raise UserError("actions hold NaN or infinity; check the policy that made them.")
        actions = np.ascontiguousarray(np.clip(actions, -1.0, 1.0))
        tables, near = self._tables()
        pause = self._depth_size is not None
        env_id, why = advance(tables, near, actions, 0, False, pause)
        while why != DONE:
            world = self._worlds[env_id]
            if why == BEGUN:
                world.grip(actions[env_id, ACTION_GRIP])
                self._look(env_id)
                env_id, why = advance(tables, near, actions, env_id, True, pause)
                continue
            world.look_after()
            if world.count.values[DIVERGED]:
                self._look(env_id)
            env_id, why = advance(tables, near, actions, env_id + 1, False, pause)
        self._changed.update(range(self.num_envs))

    def state(self) -> SimState:
        """See :meth:`Simulator.state`."""
        if self._state is None or self._changed:
            sizes = len(self.joint_names), len(self.marker_names)
            self._state = gather(self._states, *sizes, self._state, self._changed)
            self._changed = set()
        return self._state

    def depth(self) -> np.ndarray:
        """See :meth:`Simulator.depth`.

        Raises:
            UserError: this simulator was made with ``depth=None``.
        """
        if self._depth_size is None:
            raise UserError("This simulator renders no depth; make it with depth=128.")
        return self._depth.copy()

    def render(self, camera: str, env_id: int = 0, **options: Any) -> np.ndarray:
        """See :meth:`Simulator.render`."""
        world = self._worlds[env_id]
        mujoco.mj_kinematics(world.model, world.data)
        mujoco.mj_camlight(world.model, world.data)
        draft = bool(options.pop("draft", False))
        renderer = self._renderers.get(draft)
        if renderer is None or renderer.inherited:
            renderer = self._renderers[draft] = Renderer(world.model, draft)
        return renderer.colour(
            world.model,
            world.data,
            camera,
            int(options.pop("width", 640)),
            int(options.pop("height", 480)),
            options.pop("boxes", ()),
            options.pop("view", None),
            bool(options.pop("shadows", True)),
        )

    def scene(self, env_id: int = 0) -> SceneInfo:
        """See :meth:`Simulator.scene`."""
        scene = self._worlds[env_id].scene
        if scene is None:
            raise UserError("The world holds no episode yet; call reset first.")
        return scene

    def scan(self, poses: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
        """See :meth:`Simulator.scan`."""
        return scan(self._tables()[0], np.ascontiguousarray(poses), angles, float(reach))

    def cast(self, origins: np.ndarray, direction: np.ndarray, env_id: int = 0) -> np.ndarray:
        """See :meth:`Simulator.cast`."""
        world = self._worlds[env_id]
        points, along = np.asarray(origins, dtype=float), np.asarray(direction, dtype=float)
        return cast(world.model, world.data, world.index, points, along)

    def episode(self, env_id: int = 0) -> Episode:
        """See :meth:`Simulator.episode`."""
        episode = self._worlds[env_id].episode
        if episode is None:
            raise UserError("The world holds no episode yet; call reset first.")
        return episode

    def capture(self, env_id: int = 0) -> Snapshot:
        """See :meth:`Simulator.capture`."""
        data = self._worlds[env_id].capture()
        picture = None if self._depth_size is None else self._depth[env_id].copy()
        return Snapshot("mujoco", {**data, "depth": picture})

    def restore(self, snapshot: Snapshot, env_id: int = 0) -> None:
        """See :meth:`Simulator.restore`; a picture of another size, or none, is taken anew."""
        if snapshot.engine != "mujoco":
            raise UserError(f"A snapshot of engine '{snapshot.engine}' cannot go into MuJoCo.")
        saved, self._steps = snapshot.data, None
        scene = self._library.scene(saved["episode"].layout)
        if "pool" not in saved:  # in the file of a run that began before it was kept
            self._make_room(env_id, saved["episode"])
        elif saved["pool"] != self._worlds[env_id].pool:
            self._rebuild(env_id, self._forms.count(saved["pool"], "snapshot"))
        self._worlds[env_id].restore(saved, scene)
        self._show(env_id)
        if saved["depth"] is None or saved["depth"].shape != self._depth.shape[1:]:
            self._look(env_id)
        else:
            self._depth[env_id] = saved["depth"]
        self._changed.add(env_id)

    def set_base(self, pose: Any, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_base`."""
        for env_id, row in zip(self._ids(env_ids), np.atleast_2d(pose), strict=True):
            self._worlds[env_id].set_base(row)
            self._look(env_id)
        self._changed.update(self._ids(env_ids))

    def set_arm(self, qpos: Any, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_arm`."""
        for env_id, row in zip(self._ids(env_ids), np.atleast_2d(qpos), strict=True):
            self._worlds[env_id].set_arm(row)
            self._look(env_id)
        self._changed.update(self._ids(env_ids))

    def set_joint(self, name: str, value: float, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_joint`."""
        if name not in self.joint_names:
            raise UserError(f"Unknown furniture joint '{name}'{nearest(name, self.joint_names)}")
        for env_id in self._ids(env_ids):
            self._worlds[env_id].set_joint(name, value)
            self._look(env_id)
        self._changed.update(self._ids(env_ids))

    def set_object(self, index: int, pos: Any, quat: Any, env_id: int = 0) -> None:
        """See :meth:`Simulator.set_object`."""
        self.set_objects([index], np.asarray(pos)[None], np.asarray(quat)[None], env_id)

    def set_objects(self, indices: Sequence[int], pos: Any, quat: Any, env_id: int = 0) -> None:
        """See :meth:`Simulator.set_objects`."""
        self._worlds[env_id].set_objects(indices, np.asarray(pos), np.asarray(quat))
        self._look(env_id)
        self._changed.add(env_id)

    def snap_object(self, index: int, env_id: int = 0, pose: Any = None) -> None:
        """See :meth:`Simulator.snap_object`."""
        self._worlds[env_id].snap(index, None if pose is None else np.asarray(pose, dtype=float))
        self._look(env_id)
        self._changed.add(env_id)

    def release(self, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.release`."""
        for env_id in self._ids(env_ids):
            self._worlds[env_id].suction.release()
        self._changed.update(self._ids(env_ids))

    def robot_contacts(self, env_id: int = 0) -> bool:
        """See :meth:`Simulator.robot_contacts`."""
        return self._worlds[env_id].touches()

    def robot_touches_from(self, pose: Any, env_id: int = 0) -> bool | None:
        """Return whether the robot would touch anything at a (3,) base pose; nothing moves.

        Not part of the door: a fifth of the time of asking through it. ``None`` while something is
        held: it would have to move along to be asked.
        """
        world = self._worlds[env_id]
        return None if world.suction.holding else world.touches_from(np.asarray(pose, dtype=float))

    def robot_touches_at(self, pose: Any, qpos: Any, env_id: int = 0) -> bool:
        """Return whether the robot would touch anything at a (3,) base pose and (7,) posture.

        Not part of the door: a quarter of the time of asking through it. A snapshot must be
        restored before the world goes on.
        """
        self._changed.add(env_id)
        return self._worlds[env_id].touches_at(pose, qpos)

    def deepest_overlap(self, env_id: int = 0, index: int | None = None) -> float:
        """Return how deep, in m, any object of the episode, or one, reaches into what it touches.

        Not part of the door: the episode generator checks its work with it.
        """
        world = self._worlds[env_id]
        bodies = world.object_bodies if index is None else world.object_bodies[index : index + 1]
        return deepest_overlap(world.model, world.data, bodies)

    def place(self, poses: Poses, env_id: int = 0) -> None:
        """Put everything where it was, at rest and with nothing held: to be looked at.

        Not part of the door: recorded states of any engine are shown with it.
        """
        place(self._worlds[env_id], poses)
        self._look(env_id)
        self._changed.add(env_id)

    def set_targets(self, targets: Sequence[Target], env_id: int = 0) -> None:
        """Give the loaded episode other targets; nothing moves. Not part of the door.

        It becomes a plain episode: what else it was asked for was about the targets that it had.
        """
        kept = {f.name: getattr(self.episode(env_id), f.name) for f in fields(Episode)}
        self._worlds[env_id].episode = Episode(**{**kept, "targets": tuple(targets)})

    def solids(self, env_id: int = 0) -> list[Solid]:
        """Return what a picture of this world's episode is made of. Not part of the door."""
        return solids(self._worlds[env_id])

    def solid_poses(self, env_id: int = 0) -> dict[str, np.ndarray]:
        """Return (7,) position and quaternion of each ``Solid.body``. Not part of the door."""
        return solid_poses(self._worlds[env_id])

    def settle(self, seconds: float, env_id: int = 0) -> None:
        """See :meth:`Simulator.settle`."""
        self._worlds[env_id].settle(seconds)
        self._look(env_id)
        self._changed.add(env_id)

    @property
    def divergences(self) -> list[dict[str, object]]:
        """Every world that diverged so far: episode, layout, seed and step."""
        return [event for world in self._worlds for event in world.count.divergences]

    def close(self) -> None:
        """See :meth:`Simulator.close`."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def _ids(self, env_ids: Sequence[int] | None) -> list[int]:
        return list(range(self.num_envs)) if env_ids is None else [int(i) for i in env_ids]

    def _tables(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the tables of all worlds for ``steps.advance``."""
        if self._steps is None:
            if any(world.scene is None for world in self._worlds):
                raise UserError("A world holds no episode yet; call reset first.")
            rows = [(world.steps.table, world.near.table) for world in self._worlds]
            self._steps = np.array([row for row, _ in rows]), np.array([row for _, row in rows])
        return self._steps

    def _build(self, count: int, pool: Mapping[str, int]) -> tuple[list[World], HeadDepth | None]:
        model, index = build(self._library.apartment, self._forms, pool)
        head = None if self._depth_size is None else HeadDepth(model, self._forms)
        kinds = Kinds(model, self._forms, index.pool)
        shared = SharedModel(model, list(index.roots.values()), kinds)
        return [World(shared, index, self._forms) for _ in range(count)], head

    def _make_room(self, env_id: int, episode: Episode) -> None:
        """Recompile a world whose pool is too small for an episode."""
        if not self._forms.fits(self._worlds[env_id].index.pool, episode):
            self._pool |= self._forms.need(episode)
            self._rebuild(env_id, self._pool)

    def _rebuild(self, env_id: int, pool: Mapping[str, int]) -> None:
        """Compile a world anew with these bodies; an episode has to be loaded into it."""
        divergences = self._worlds[env_id].count.divergences
        (self._worlds[env_id],), self._heads[env_id] = self._build(1, pool)
        self._worlds[env_id].count.divergences.extend(divergences)
        self._states[env_id] = self._worlds[env_id].addresses.table

    def _show(self, env_id: int) -> None:
        """Let the head camera of a world see the objects of its episode."""
        head, world = self._heads[env_id], self._worlds[env_id]
        if head is not None and world.episode is not None:
            types = [item.type for item in world.episode.objects]
            self._shapes[env_id] = head.shapes(world.object_bodies, types)

    def _look(self, env_id: int) -> None:
        head = self._heads[env_id]
        if head is not None:
            shapes, data = self._shapes[env_id], self._worlds[env_id].data
            head.look(data, shapes, self._depth[env_id, :, :, 0])

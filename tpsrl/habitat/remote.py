"""The simulator door in front of a backend, wherever that runs."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tpsrl.episodes.habitat_json import episode_to_json
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.link import BackendLink
from tpsrl.habitat.raster import navigation_of
from tpsrl.habitat.server import layout
from tpsrl.scenes.description import ObjectType
from tpsrl.sim.door import ACTION_DIM, EngineInfo, SimState, Simulator, Snapshot, check_reset
from tpsrl.sim.scene import SceneInfo
from tpsrl.sim.scene_info import SceneLibrary

_DIGITS = 9
"""Of the numbers of an episode on its way to the server."""
_CAMERAS = ("third_person", "head", "arm", "overview")


class RemoteSimulator(Simulator):
    """One world of a backend.

    What does not move during an episode (receptacles, containers, resting links) comes from the
    description of the scenes, which the backend has loaded too; what moves comes from the backend.

    Args:
        connect: makes the link to the backend; called now, and again at a reset after the
            backend was lost.
        library: scenes that the backend plays in.
        types: movable objects.
        depth: pixels of the square head depth picture, ``None`` for none.
    """

    num_envs = 1

    def __init__(
        self,
        connect: Callable[[], BackendLink],
        library: SceneLibrary,
        types: Mapping[str, ObjectType],
        depth: int | None,
    ) -> None:
        self._connect, self._library, self._types = connect, library, types
        self._depth_size = depth
        self._link = link = connect()
        about = link.about
        self.info = EngineInfo(**about["engine"])
        self.versions = dict(link.versions)
        apartment = library.apartment
        self.joint_names = tuple(library.joint_names)
        links = [link for piece in apartment.furniture for link in piece.links[1:]]
        ranges = [(k.joint.lower, k.joint.upper) for k in links if k.joint is not None]
        self.joint_ranges = np.array(ranges, dtype=np.float64).reshape(-1, 2)
        handles = {m.name: f"{p.name}/{m.link}" for p in apartment.furniture for m in p.markers}
        self.marker_names = tuple(handles)
        self.marker_joints = tuple(self.joint_names.index(j) for j in handles.values())
        self._check_names(about)
        self._joints = [about["joints"].index(name) for name in self.joint_names]
        self._markers = [about["markers"].index(name) for name in self.marker_names]
        order = self._joints, self._markers
        self._same_order = all(found == list(range(len(found))) for found in order)
        self._episode: Episode | None = None
        self._scene: SceneInfo | None = None
        self._scenes: dict[str, SceneInfo] = {}
        self._reading: SimState | None = None
        self._depth: np.ndarray | None = None
        self._dropped: list[int] = []
        self._closed = False

    def reset(
        self,
        episodes: Sequence[Episode],
        seeds: Sequence[int],
        env_ids: Sequence[int] | None = None,
    ) -> None:
        """See :meth:`Simulator.reset`."""
        ids = self._ids(env_ids)
        check_reset(ids, episodes, seeds)
        if not ids:
            return
        episode = episodes[0]
        self._library.check_episode(episode, self._types)
        if self._link.lost and not self._closed:
            self._link.close()
            self._link = self._connect()
            self._dropped.clear()
        start = None if episode.start is None else np.asarray(episode.start, dtype=np.float64)
        reading = self._link.call(
            "reset",
            episode=episode_to_json(episode, _DIGITS),
            layout=episode.layout,
            seed=int(seeds[0]),
            start=start,
            joints=dict(episode.joints),
            containers=self._containers(episode.layout),
        )
        self._episode, self._scene = episode, self._load_scene(episode.layout)
        self._take(reading)

    def step(self, actions: Any) -> None:
        """See :meth:`Simulator.step`."""
        actions = np.asarray(actions, dtype=np.float64)
        if actions.shape != (1, ACTION_DIM):
            raise UserError(f"actions have shape {actions.shape}; (1, {ACTION_DIM}) is needed.")
        if not np.isfinite(actions).all():
            raise UserError("actions hold NaN or infinity; check the policy that made them.")
        self._take(self._link.call("step", actions=np.minimum(np.maximum(actions, -1.0), 1.0)))

    def state(self) -> SimState:
        """See :meth:`Simulator.state`."""
        if self._reading is None:
            raise UserError("The world holds no episode yet; call reset first.")
        return self._reading

    def depth(self) -> np.ndarray:
        """See :meth:`Simulator.depth`.

        Raises:
            UserError: this simulator was made with ``depth=None``.
        """
        if self._depth_size is None or self._depth is None:
            raise UserError("This simulator renders no depth; make it with depth=128 and reset it.")
        return self._depth.copy()

    def render(self, camera: str, env_id: int = 0, **options: Any) -> np.ndarray:
        """See :meth:`Simulator.render`."""
        if camera not in _CAMERAS:
            raise UserError(f"Unknown camera '{camera}'; cameras are {', '.join(_CAMERAS)}.")
        boxes = [[np.asarray(part, dtype=np.float64) for part in box]
                 for box in options.get("boxes", ())]  # fmt: skip
        picture: np.ndarray = self._link.call(
            "render", camera=camera, width=int(options.get("width", 640)),
            height=int(options.get("height", 480)), boxes=boxes,
        )  # fmt: skip
        return picture

    def scene(self, env_id: int = 0) -> SceneInfo:
        """See :meth:`Simulator.scene`."""
        if self._scene is None:
            raise UserError("The world holds no episode yet; call reset first.")
        return self._scene

    def episode(self, env_id: int = 0) -> Episode:
        """See :meth:`Simulator.episode`."""
        if self._episode is None:
            raise UserError("The world holds no episode yet; call reset first.")
        return self._episode

    def capture(self, env_id: int = 0) -> Snapshot:
        """See :meth:`Simulator.capture`; the state stays with the backend."""
        if self._dropped:
            numbers, self._dropped = self._dropped, []
            self._link.call("forget", numbers=numbers)
        kept = _Kept(int(self._link.call("capture")), self)
        return Snapshot(self.info.name, {"kept": kept, "episode": self.episode()})

    def restore(self, snapshot: Snapshot, env_id: int = 0) -> None:
        """See :meth:`Simulator.restore`."""
        kept = snapshot.data.get("kept")
        if not isinstance(kept, _Kept) or kept.link() is not self._link:
            raise UserError(
                f"A snapshot of engine '{snapshot.engine}' can only go back into the simulator that"
                " made it, because its state lies in that one's process."
            )
        reading = self._link.call("restore", number=kept.number)
        self._episode = snapshot.data["episode"]
        self._scene = self._load_scene(self.episode().layout)
        self._take(reading)

    def set_base(self, pose: Any, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_base`."""
        if self._ids(env_ids):
            self._take(self._link.call("set_base", pose=_row(pose, 3)))

    def set_arm(self, qpos: Any, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_arm`."""
        if self._ids(env_ids):
            self._take(self._link.call("set_arm", qpos=_row(qpos, 7)))

    def set_joint(self, name: str, value: float, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.set_joint`."""
        if name not in self.joint_names:
            raise UserError(f"Unknown furniture joint '{name}'{nearest(name, self.joint_names)}")
        if self._ids(env_ids):
            self._take(self._link.call("set_joint", name=name, value=float(value)))

    def set_object(self, index: int, pos: Any, quat: Any, env_id: int = 0) -> None:
        """See :meth:`Simulator.set_object`."""
        place = np.asarray(pos, dtype=np.float64), np.asarray(quat, dtype=np.float64)
        self._take(self._link.call("set_object", index=int(index), pos=place[0], quat=place[1]))

    def snap_object(self, index: int, env_id: int = 0, pose: Any = None) -> None:
        """See :meth:`Simulator.snap_object`."""
        half = self._types[self.episode().objects[index].type].half_size
        place = None if pose is None else np.asarray(pose, dtype=np.float64)
        self._take(
            self._link.call("snap_object", index=int(index), pose=place, half_height=float(half[2]))
        )

    def release(self, env_ids: Sequence[int] | None = None) -> None:
        """See :meth:`Simulator.release`."""
        if self._ids(env_ids):
            self._take(self._link.call("release"))

    def robot_contacts(self, env_id: int = 0) -> bool:
        """See :meth:`Simulator.robot_contacts`."""
        return bool(self._link.call("robot_contacts"))

    def settle(self, seconds: float, env_id: int = 0) -> None:
        """See :meth:`Simulator.settle`."""
        self._take(self._link.call("settle", seconds=float(seconds)))

    def close(self) -> None:
        """See :meth:`Simulator.close`."""
        if not self._closed:
            self._closed = True
            self._link.close()

    def _ids(self, env_ids: Sequence[int] | None) -> list[int]:
        ids = [0] if env_ids is None else [int(i) for i in env_ids]
        if any(i != 0 for i in ids):
            raise UserError(f"this engine has one world, so env_ids={ids} cannot be")
        return ids

    def _check_names(self, about: Mapping[str, Any]) -> None:
        for kind, mine in (("joints", self.joint_names), ("markers", self.marker_names)):
            missing = sorted(set(mine) - set(about[kind]))
            if missing:
                raise UserError(
                    f"{self.info.name} loaded scenes without {kind[:-1]} '{missing[0]}'; both sides"
                    " must read the same dataset"
                )

    def _containers(self, name: str) -> dict[str, list[list[float]]]:
        scene = self._library.scene(name)
        moving = [j for j in scene.containers if j not in scene.container_static]
        return {joint: scene.containers[joint].tolist() for joint in moving}

    def _load_scene(self, name: str) -> SceneInfo:
        if name not in self._scenes:
            raster = self._link.call("free_space")
            scene = self._library.scene(name)
            if raster is not None:
                scene = replace(scene, navigation=navigation_of(**raster))
            self._scenes[name] = scene
        return self._scenes[name]

    def _take(self, reading: Mapping[str, Any]) -> None:
        counts = int(reading["objects"]), len(self._joints), len(self._markers)
        state = layout.unpack(reading["state"], *counts)
        if not self._same_order:
            for name in ("joint_pos", "link_pos", "link_quat"):
                state[name] = state[name][:, self._joints]
            state["marker_pos"] = state["marker_pos"][:, self._markers]
        self._reading = SimState(**state)
        if "depth" in reading:
            self._depth = reading["depth"]


class _Kept:
    """A state that the backend keeps as long as this object lives.

    Args:
        number: of the state there.
        owner: simulator that made it.
    """

    def __init__(self, number: int, owner: RemoteSimulator) -> None:
        self.number = number
        self.link = weakref.ref(owner._link)
        weakref.finalize(self, _drop, self.link, weakref.ref(owner), number)


def _drop(link: weakref.ref[BackendLink], owner: weakref.ref[RemoteSimulator], number: int) -> None:
    """Note that a state can be dropped, unless its backend is gone with it."""
    simulator = owner()
    if simulator is not None and simulator._link is link():
        simulator._dropped.append(number)


def _row(values: Any, size: int) -> np.ndarray:
    return np.asarray(values, dtype=np.float64).reshape(1, size)

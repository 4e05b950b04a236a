"""``sim=mujoco_server``: one of our own engines behind the transport of Habitat's server.

It shows without Habitat that what stands above the door works across the boundary between two
processes, and the benchmark measures with it what that boundary costs.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tpsrl.episodes.habitat_json import episode_from_json
from tpsrl.habitat.link import ServerProcess
from tpsrl.habitat.remote import RemoteSimulator
from tpsrl.habitat.scenes import Scenes
from tpsrl.habitat.server import layout
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import Simulator, Snapshot
from tpsrl.sim.scene_info import SceneLibrary


def mujoco_server(
    factory: str,
    depth: int | None,
    scenes: Scenes | None = None,
    pool: Mapping[str, int] | None = None,
) -> RemoteSimulator:
    """Return MuJoCo in a process of its own.

    Args:
        factory: ``"module:function"`` that makes the simulator there from the other arguments.
        depth: pixels of the head depth picture, ``None`` for none.
        scenes: of a Habitat dataset, ``None`` for tpsrl's own apartment.
        pool: object type -> bodies that MuJoCo compiles in.
    """
    apartment, types = load_apartment(), object_types()
    if scenes is not None:
        dataset = scenes.read()[0]
        apartment, types = dataset.apartment, dataset.types
    fields = None if scenes is None else dataclasses.asdict(scenes)
    options = {
        "factory": factory,
        "arguments": {"depth": depth, "scenes": fields, "pool": pool},
        "depth": depth is not None,
    }

    def connect() -> ServerProcess:
        return ServerProcess(sys.executable, f"{__name__}:make", options, what="MuJoCo")

    return RemoteSimulator(connect, SceneLibrary(apartment), types, depth)


def make(options: Mapping[str, Any]) -> HostedSimulator:
    """Make a simulator by its factory.

    Args:
        options: ``"factory"``: ``"module:function"``, ``"arguments"``: its keyword arguments,
            ``"depth"``: whether the simulator renders depth.
    """
    module, _, function = options["factory"].partition(":")
    simulator = getattr(importlib.import_module(module), function)(**options["arguments"])
    return HostedSimulator(simulator, bool(options["depth"]))


class HostedSimulator:
    """The server's operations on a simulator with one world.

    Args:
        simulator: of one world.
        depth: it renders depth.
    """

    def __init__(self, simulator: Simulator, depth: bool) -> None:
        self._sim, self._depth = simulator, depth
        self._snapshots: dict[int, Snapshot] = {}
        self._count = 0

    def about(self) -> dict[str, Any]:
        """Return engine, joints and handles."""
        sim = self._sim
        return {
            "engine": {**sim.info.__dict__},
            "joints": list(sim.joint_names),
            "markers": list(sim.marker_names),
        }

    def op_reset(self, episode: dict[str, Any], seed: int, **_: Any) -> dict[str, Any]:
        """Load an episode."""
        self._sim.reset([episode_from_json(episode)], [seed])
        return self.op_read()

    def op_step(self, actions: np.ndarray) -> dict[str, Any]:
        """Advance by a control step."""
        self._sim.step(actions)
        return self.op_read()

    def op_read(self) -> dict[str, Any]:
        """Return state and depth."""
        state = self._sim.state()
        objects = state.object_pos.shape[1]
        fields = {name: value[0] for name, value in vars(state).items()}
        counts = objects, len(self._sim.joint_names), len(self._sim.marker_names)
        reading: dict[str, Any] = {"state": layout.pack(fields, *counts), "objects": objects}
        if self._depth:
            reading["depth"] = self._sim.depth()
        return reading

    def op_render(self, camera: str, width: int, height: int, boxes: Sequence[Any]) -> np.ndarray:
        """Return a picture."""
        return self._sim.render(camera, width=width, height=height, boxes=boxes)

    def op_capture(self) -> int:
        """Keep the state here and return its number."""
        self._count += 1
        self._snapshots[self._count] = self._sim.capture()
        return self._count

    def op_restore(self, number: int) -> dict[str, Any]:
        """Put a kept state back."""
        self._sim.restore(self._snapshots[number])
        return self.op_read()

    def op_forget(self, numbers: Sequence[int]) -> None:
        """Drop states that nobody can ask for any more."""
        for number in numbers:
            self._snapshots.pop(number, None)

    def op_set_base(self, pose: np.ndarray) -> dict[str, Any]:
        """Teleport the robot."""
        self._sim.set_base(pose)
        return self.op_read()

    def op_set_arm(self, qpos: np.ndarray) -> dict[str, Any]:
        """Teleport the arm."""
        self._sim.set_arm(qpos)
        return self.op_read()

    def op_set_joint(self, name: str, value: float) -> dict[str, Any]:
        """Teleport a furniture joint."""
        self._sim.set_joint(name, value)
        return self.op_read()

    def op_set_object(self, index: int, pos: np.ndarray, quat: np.ndarray) -> dict[str, Any]:
        """Teleport an object."""
        self._sim.set_object(index, pos, quat)
        return self.op_read()

    def op_snap_object(self, index: int, pose: np.ndarray | None, **_: Any) -> dict[str, Any]:
        """Hold an object."""
        self._sim.snap_object(index, pose=pose)
        return self.op_read()

    def op_release(self) -> dict[str, Any]:
        """Let go."""
        self._sim.release()
        return self.op_read()

    def op_settle(self, seconds: float) -> dict[str, Any]:
        """Run physics."""
        self._sim.settle(seconds)
        return self.op_read()

    def op_robot_contacts(self) -> bool:
        """Return whether the robot touches anything."""
        return self._sim.robot_contacts()

    def op_free_space(self) -> None:
        """Return no raster: the client's own free space is this engine's."""

    def op_close(self) -> None:
        """Free the simulator."""
        self._sim.close()

"""The simulator door: everything that tasks, planner, skills and evaluation may know of an engine.

Every array has a leading ``num_envs`` axis; an engine on the CPU returns NumPy arrays, a batch
engine on the GPU returns torch tensors. Frames: z up, x forward; metres, radians, seconds,
newtons; quaternions are ``wxyz`` with ``w >= 0``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tpsrl.errors import UserError
from tpsrl.sim.scene import SceneInfo

if TYPE_CHECKING:
    from tpsrl.episodes.types import Episode

Array = Any
"""An array that follows the Python array API: ``numpy.ndarray`` or ``torch.Tensor``."""

ACTION_DIM = 10
"""Arm target deltas (7), grip (1), base forward and turn (2); each in [-1, 1]."""
ACTION_ARM = slice(0, 7)
ACTION_GRIP = 7
ACTION_BASE = slice(8, 10)


@dataclass(frozen=True)
class EngineInfo:
    """Which engine computed a number; stored beside every result.

    Attributes:
        name: ``"mujoco"`` or ``"habitat"``.
        version: version of the engine's package.
        control_hz: robot actions a second.
        physics_hz: physics steps a second.
    """

    name: str
    version: str
    control_hz: int
    physics_hz: int


@dataclass
class SimState:
    """State of all worlds after the last step. Arrays are copies: they do not change later.

    ``n`` is ``num_envs``, ``O`` the largest number of objects of the loaded episodes, ``J`` the
    number of furniture joints, ``M`` of markers.

    Attributes:
        base_pose: (n, 3) float64, x, y, yaw in the world.
        arm_qpos: (n, 7) float64, rad.
        arm_qvel: (n, 7) float64, rad/s.
        arm_target: (n, 7) float64, motor targets, rad.
        ee_pos: (n, 3) float64, tip of the suction cup in the world.
        ee_quat: (n, 4) float64; x of this frame points out of the suction cup.
        held_object: (n,) int64, index into the episode's objects, -1 for none.
        held_marker: (n,) int64, index into ``Simulator.marker_names``, -1 for none.
        hold_violation: (n,) bool, the held thing was ``HOLD_THRESHOLD`` or more from the tip.
        object_pos: (n, O, 3) float64, centres; NaN beyond the episode's number of objects.
        object_quat: (n, O, 4) float64.
        joint_pos: (n, J) float64, furniture joints, m or rad, 0 is closed.
        link_pos: (n, J, 3) float64, frame of the link that each joint moves.
        link_quat: (n, J, 4) float64.
        marker_pos: (n, M, 3) float64, handles in the world.
        force: (n,) float64, largest normal contact force on the robot as the last step ends, N.
        force_sum: (n,) float64, accumulated force since reset, N (see docs/force.md).
        step_count: (n,) int64, control steps since reset.
        diverged: (n,) bool, the physics of this world broke in the last step and it was reset.
    """

    base_pose: Array
    arm_qpos: Array
    arm_qvel: Array
    arm_target: Array
    ee_pos: Array
    ee_quat: Array
    held_object: Array
    held_marker: Array
    hold_violation: Array
    object_pos: Array
    object_quat: Array
    joint_pos: Array
    link_pos: Array
    link_quat: Array
    marker_pos: Array
    force: Array
    force_sum: Array
    step_count: Array
    diverged: Array


@dataclass(frozen=True)
class Snapshot:
    """Full state of one world as the engine stored it; opaque outside the engine."""

    engine: str
    data: Mapping[str, Any] = field(repr=False)


def check_reset(ids: Sequence[int], episodes: Sequence[Episode], seeds: Sequence[int]) -> None:
    """Refuse a reset that does not name one episode and one seed for each world.

    Raises:
        UserError: the numbers differ.
    """
    if not len(ids) == len(episodes) == len(seeds):
        raise UserError(
            f"reset got {len(episodes)} episodes and {len(seeds)} seeds for {len(ids)} worlds;"
            " give one of each per world."
        )


class Simulator(ABC):
    """A batch of apartments, each with one Fetch robot.

    ``env_ids`` selects worlds; ``None`` means all of them. Actions are clipped to [-1, 1].
    """

    num_envs: int
    info: EngineInfo
    joint_names: tuple[str, ...]
    """Furniture joints, e.g. ``"kitchen_counter/drawer3"``, ``"fridge/top_door"``."""
    joint_ranges: np.ndarray
    """(J, 2) limits, m or rad."""
    marker_names: tuple[str, ...]
    """Handles, e.g. ``"cab_push_point_5"``, ``"fridge_push_point"``."""
    marker_joints: tuple[int, ...]
    """For each marker the index of the joint that its link moves with."""

    @abstractmethod
    def reset(
        self,
        episodes: Sequence[Episode],
        seeds: Sequence[int],
        env_ids: Sequence[int] | None = None,
    ) -> None:
        """Load one episode into each selected world: furniture, joints, objects, robot.

        The robot starts at ``episode.start`` if the episode has one, else at a random navigable
        pose with uniform yaw and no contact (at most 50 tries), its arm at ``ARM_INIT`` plus
        Gaussian noise; both are drawn from the seed.

        Raises:
            UserError: the episode needs a layout or object that the engine lacks.
        """

    @abstractmethod
    def step(self, actions: Array) -> None:
        """Advance every world by one control step (1/30 s).

        Args:
            actions: (n, 10) in [-1, 1]: arm target deltas x 0.0125 rad; grip (>= 0 grasp on
                contact, < 0 release); base forward and turn x 1/12 m and rad.
        """

    @abstractmethod
    def state(self) -> SimState:
        """Return the state of all worlds."""

    @abstractmethod
    def depth(self) -> Array:
        """Return (n, H, W, 1) float32 head depth in [0, 1], 1 = 10 m.

        One step stale, as habitat-lab renders it: it shows the world after the base moved and
        before this step's physics. Right after reset it shows the present.
        """

    @abstractmethod
    def render(self, camera: str, env_id: int = 0, **options: Any) -> np.ndarray:
        """Render one world now: (H, W, 3) uint8 RGB.

        Args:
            camera: ``"third_person"``, ``"head"``, ``"arm"`` or ``"overview"``.
            env_id: which world.
            options: ``width``, ``height``, ``boxes``: list of (pos (3,), half_size (3,),
                rgba (4,)) wireframes to draw. An engine may know more, others pass over it:
                ``view``, for third_person the eye and the point it looks at, (3,) each; ``draft``,
                quicker and with rough edges; ``shadows``, which ``False`` leaves out.
        """

    @abstractmethod
    def scene(self, env_id: int = 0) -> SceneInfo:
        """Return what does not change during the episode of this world."""

    def scan(self, poses: np.ndarray, angles: np.ndarray, reach: float) -> np.ndarray:
        """Measure ranges from a base pose in every world, as ``Navigation.scan`` does in one.

        Args:
            poses: (n, 3) x, y, yaw.
            angles: (k,) directions in the base frame, rad.
            reach: where ranges end, m.

        Returns:
            (n, k) float64, m.
        """
        rows = [
            self.scene(env_id).navigation.scan(pose[:2], towards, reach)
            for env_id, (pose, towards) in enumerate(zip(poses, poses[:, 2:] + angles, strict=True))
        ]
        return np.array(rows)

    def cast(self, origins: np.ndarray, direction: np.ndarray, env_id: int = 0) -> np.ndarray:
        """Cast rays at floor, walls and furniture as they stand now.

        Args:
            origins: (k, 3) points in the world, m.
            direction: (3,) unit vector in the world.
            env_id: which world.

        Returns:
            (k,) float64 distances, m; ``inf`` where there is nothing.

        Raises:
            UserError: this engine casts no rays.
        """
        raise UserError(
            f"the engine '{self.info.name}' casts no rays, which the sensors of a policy that knows"
            " the whole state need; use sim=mujoco, or other sensors."
        )

    @abstractmethod
    def episode(self, env_id: int = 0) -> Episode:
        """Return the episode loaded in this world."""

    @abstractmethod
    def capture(self, env_id: int = 0) -> Snapshot:
        """Copy the full state of a world: stepping on from it repeats bit for bit."""

    @abstractmethod
    def restore(self, snapshot: Snapshot, env_id: int = 0) -> None:
        """Put a captured state back, possibly into another world of the same engine."""

    @abstractmethod
    def set_base(self, pose: Array, env_ids: Sequence[int] | None = None) -> None:
        """Teleport robots to (k, 3) x, y, yaw; a held object comes along."""

    @abstractmethod
    def set_arm(self, qpos: Array, env_ids: Sequence[int] | None = None) -> None:
        """Teleport arms and their motor targets to (k, 7) joint positions."""

    @abstractmethod
    def set_joint(self, name: str, value: float, env_ids: Sequence[int] | None = None) -> None:
        """Teleport a furniture joint; objects inside a drawer move along."""

    @abstractmethod
    def set_object(self, index: int, pos: Array, quat: Array, env_id: int = 0) -> None:
        """Teleport an object to (3,) ``pos`` and (4,) ``quat`` at rest."""

    def set_objects(self, indices: Sequence[int], pos: Array, quat: Array, env_id: int = 0) -> None:
        """Teleport objects to (k, 3) ``pos`` and (k, 4) ``quat`` at rest."""
        for row, index in enumerate(indices):
            self.set_object(index, pos[row], quat[row], env_id)

    @abstractmethod
    def snap_object(self, index: int, env_id: int = 0, pose: Array | None = None) -> None:
        """Teleport an object to the end effector and hold it (start of Place and Navigate).

        Args:
            index: of the object.
            env_id: which world.
            pose: (7,) world position and quaternion at which it is held; ``None`` puts its top
                against the cup.
        """

    @abstractmethod
    def release(self, env_ids: Sequence[int] | None = None) -> None:
        """Let go of whatever is held."""

    @abstractmethod
    def robot_contacts(self, env_id: int = 0) -> bool:
        """Return whether the robot touches anything it does not hold, as it stands now."""

    @abstractmethod
    def settle(self, seconds: float, env_id: int = 0) -> None:
        """Run physics with the robot's targets fixed; not counted as steps."""

    @abstractmethod
    def close(self) -> None:
        """Free the engine's memory and graphics context; safe to call twice."""

    def __enter__(self) -> Simulator:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

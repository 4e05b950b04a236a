"""One task in all worlds of a simulator: what the single and the batched environment share."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device

from skills.envs.again import FailedStarts
from skills.envs.distances import distance_source
from skills.envs.plain import plain, whole, whole_like
from skills.envs.starts import Origin, Starts
from skills.tasks.base import Progress, Task
from skills.tasks.course import with_way
from skills.tasks.places import kind_of
from skills.tasks.scan import scan_for
from skills.tasks.seen import SeenWays, sees_way
from skills.tasks.sensors import COLOUR, DEPTH, observe
from skills.tasks.state import GoalRow, Outcome, View, goal_columns, goals_like, set_row
from tpsrl.errors import UserError
from tpsrl.geometry.arrays import Array, host, merge_rows
from tpsrl.sim.door import ACTION_GRIP, Simulator

_MASTERY = 200
"""Episodes over which it is averaged how many succeed."""


class SkillWorlds:
    """Starts, steps and judges a task in every world of a simulator.

    Args:
        task: the skill's contract.
        sim: the simulator.
        starts: where episodes begin.
        again: share of the episodes whose start has failed before, see
            :class:`skills.envs.again.FailedStarts`.
        colour: pixels of the square colour pictures, for tasks that have any.
        coarse_depth: depth as uint8, 255 = 10 m.

    Attributes:
        origins: where the episode of each world comes from.
        mastery: share of the last episodes that succeeded, of starts that had not come before.

    Raises:
        UserError: the task needs an unknown distance.
    """

    def __init__(
        self,
        task: Task,
        sim: Simulator,
        starts: Starts,
        *,
        again: float = 0.0,
        colour: int = 64,
        coarse_depth: bool = False,
    ) -> None:
        self.task, self.sim, self.starts = task, sim, starts
        self._failed = FailedStarts(again, sim.num_envs)
        self._colour, self._coarse_depth = colour, coarse_depth
        self._cameras = {name: COLOUR[name] for name in task.sensors if name in COLOUR}
        self.origins = [Origin("", "", 0)] * sim.num_envs
        self._rows = [GoalRow()] * sim.num_envs
        self._goals = goal_columns(self._rows)
        self._distances = distance_source(task, sim.num_envs)
        self._seen = SeenWays(sim.num_envs) if sees_way(task.sensors) else None
        self.progress: Progress | None = None
        self.view: View | None = None
        self.mastery = 0.0
        self._before: Array | None = None
        self._steps: Array | None = None
        self._told: Array | None = None

    def start(
        self,
        env_ids: Sequence[int],
        seeds: Sequence[int],
        exact: bool = False,
        index: int | None = None,
    ) -> None:
        """Begin episodes in some worlds, each decided by its seed, or by one that failed before.

        Args:
            env_ids: which worlds.
            seeds: one a world.
            exact: by these seeds, whatever failed before.
            index: of the hand-off start to begin at, instead of a drawn one.

        Raises:
            UserError: no start state was found in many episodes, or none has that index.
        """
        for env_id, seed in zip(env_ids, seeds, strict=True):
            choose = self._failed.take if exact else self._failed.draw
            drawn = choose(env_id, int(seed))
            self.origins[env_id], self._rows[env_id] = self.starts.draw(env_id, drawn, index)
        self._aim(env_ids)
        like = self.sim.state().base_pose
        chosen = np.zeros(self.sim.num_envs, dtype=bool)
        chosen[list(env_ids)] = True
        xp = array_namespace(like)
        mask = xp.asarray(chosen, device=device(like))
        past = like if self._before is None else self._before
        self._before = xp.where(mask[:, None], like, past)
        counted = xp.zeros_like(like[:, 0]) if self._steps is None else self._steps
        self._steps = xp.where(mask, 0.0, counted)
        told = xp.zeros_like(like) if self._told is None else self._told
        self._told = xp.where(mask[:, None], 0.0, told)
        self._look()
        assert self.view is not None
        fresh = self.task.begin(self.view)
        fresh = dataclasses.replace(fresh, mastery=fresh.mastery + self.mastery)
        self.progress = fresh if self.progress is None else merge_rows(self.progress, fresh, mask)

    def step(self, actions: Array) -> Outcome:
        """Carry out (n, ``task.layout.size``) actions in [-1, 1] and judge what follows."""
        assert self.view is not None and self.progress is not None and self._steps is not None
        robot, stop = self.task.robot_action(self.view, actions)
        self._before, self._steps = self.view.state.base_pose, self._steps + 1.0
        self._told = robot[:, ACTION_GRIP:]
        self.sim.step(robot)
        if self._seen is not None:
            self._seen.look(self.sim.state(), self.sim.depth(), range(self.sim.num_envs))
        self._look(fresh=False)
        self.progress, outcome = self.task.step(self.view, self.progress, stop)
        self._follow(outcome)
        self._go_on()
        return outcome

    def _go_on(self) -> None:
        """Give the worlds whose task is about another point from now on its goal."""
        assert self.view is not None
        env_ids = np.flatnonzero(host(self.task.goes_on(self.view))).tolist()
        if not env_ids:
            return
        for env_id in env_ids:
            self._rows[env_id] = self.task.go_on(self.sim, env_id, self._rows[env_id])
        self._aim(env_ids)
        self._look()

    def _aim(self, env_ids: Sequence[int]) -> None:
        """Measure, and see, the way to what the goals of some worlds are about."""
        for env_id in env_ids:
            set_row(self._goals, env_id, self._rows[env_id])
            self._distances.begin(self.sim, env_id, self._rows[env_id])
        if self._seen is None:
            return
        state = self.sim.state()
        poses = host(state.base_pose)
        for env_id in env_ids:
            self._seen.begin(env_id, poses[env_id], self.task.told(self._rows[env_id]))
        self._seen.look(state, self.sim.depth(), env_ids)

    def _follow(self, outcome: Outcome) -> None:
        ended = host(outcome.terminated | outcome.truncated)
        if ended.any():
            success, rows = host(outcome.success), np.flatnonzero(ended)
            self._failed.note(rows.tolist(), success[rows].tolist())
            # What comes again has failed: of a share of it nobody could tell what is mastered.
            self.mastery = follow(self.mastery, success[ended & self._failed.fresh])

    def observe(self) -> dict[str, Array]:
        """Return the observations of all worlds, (n, ...) float32; colour and coarse depth uint8.

        Colour shows the present, depth the world one step before (``Simulator.depth``).
        """
        assert self.view is not None
        xp, like = self.view.xp, self.view.state.base_pose
        seen = observe(self.view, self.task.sensors)
        if DEPTH in self.task.sensors:
            depth = self.sim.depth()
            seen[DEPTH] = xp.astype(depth * 255 + 0.5, xp.uint8) if self._coarse_depth else depth
        quick: dict[str, Any] = {"draft": True, "shadows": False}
        quick.update(width=self._colour, height=self._colour)
        for name, camera in self._cameras.items():
            taken = [self.sim.render(camera, i, **quick) for i in range(self.sim.num_envs)]
            seen[name] = xp.asarray(np.stack(taken), device=device(like))
        return seen

    def get_state(self) -> dict[str, Any]:
        """Return everything that decides the future of all worlds, as plain values and arrays.

        Raises:
            UserError: nothing was started yet, or the engine keeps its states to itself.
        """
        if self.view is None:
            raise UserError(f"'{self.task.name}' has no state yet; call reset first.")
        if self.sim.info.name == "habitat":
            raise UserError("sim=habitat cannot hand out its state; resume with sim=mujoco.")
        return {
            "snapshots": [plain(self.sim.capture(i)) for i in range(self.sim.num_envs)],
            "origins": plain(self.origins),
            "goals": plain(self._rows),
            "progress": plain(copy.deepcopy(self.progress)),
            "mastery": self.mastery,
            "before": plain(self._before),
            "steps": plain(self._steps),
            "told": plain(self._told),
            "failed": self._failed.get_state(),
            "seen": None if self._seen is None else self._seen.get_state(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Put back what :meth:`get_state` returned, exact to the bit.

        Raises:
            UserError: the state is of another number of worlds.
        """
        if len(state["snapshots"]) != self.sim.num_envs:
            raise UserError(
                f"the state is of {len(state['snapshots'])} worlds, here are {self.sim.num_envs};"
                " make the environment with as many."
            )
        self.origins, self._rows = whole(state["origins"], Origin), whole(state["goals"])
        for env_id, snapshot in enumerate(whole(state["snapshots"])):
            self.sim.restore(snapshot, env_id)
            set_row(self._goals, env_id, self._rows[env_id])
            self._distances.begin(self.sim, env_id, self._rows[env_id])
        self.mastery, self._before = float(state["mastery"]), whole(state["before"])
        self._steps, self._told = whole(state["steps"]), whole(state["told"])
        self._failed.set_state(state["failed"])
        if self._seen is not None:
            self._seen.set_state(state["seen"])
        self._look()
        assert self.view is not None
        fresh = self.task.begin(self.view)
        self.progress = whole_like(copy.deepcopy(state["progress"]), fresh)

    def place_kind(self, env_id: int) -> str:
        """Return the kind of place that Pick takes from, or that Place sets down in."""
        return kind_of(self.task.carrier(self._rows[env_id]))

    def way_left(self, env_id: int) -> float:
        """Return how far a base has to drive to where it can reach what the skill is about.

        Seconds at full speed are told as metres, see :class:`skills.tasks.course.Course`.

        Raises:
            UserError: the engine casts no rays.
        """
        row = self._rows[env_id]
        if row.fan is None:
            row = with_way(self.sim, env_id, row, self.task.about(row))
        pose = host(self.sim.state().base_pose)[env_id]
        return float(self.task.course(self.sim, env_id, row).look(pose[:2])[0])

    def _look(self, fresh: bool = True) -> None:
        state = self.sim.state()
        if fresh or self.view is None:
            goal = goals_like(self._goals, state.base_pose)
        else:
            goal = self.view.goal
        xp = None if self.view is None else self.view.xp
        scan = scan_for(self.task.sensors, self.sim, state.base_pose)
        far = self._distances.measure(state.base_pose)
        past = self._before, self._steps, self._told
        seen = None if self._seen is None else self._seen.read(host(state.base_pose))
        self.view = View(state, goal, far.geodesic, xp, scan, far.course, *past, seen)


class CarriesMastery:
    """An environment whose rewards depend on how much is mastered.

    Attributes:
        worlds: that it steps.
    """

    worlds: SkillWorlds

    @property
    def carried(self) -> float:
        """Share of the last episodes that succeeded: ``reward="teaching"`` depends on it.

        A trainer keeps it, so that it goes on in another process.
        """
        return self.worlds.mastery

    @carried.setter
    def carried(self, value: float) -> None:
        self.worlds.mastery = value


def follow(share: float, success: np.ndarray) -> float:
    """Return the share of the last episodes that succeeded, after (n,) bool that have ended."""
    if not success.size:
        return share
    won = float(success.mean())
    return won + (share - won) * (1.0 - 1.0 / _MASTERY) ** success.size


def check_options(options: Mapping[str, Any] | None, known: Sequence[str]) -> Mapping[str, Any]:
    """Return reset options.

    Raises:
        UserError: an option is unknown.
    """
    for key in options or {}:
        if key not in known:
            raise UserError(f"reset has no option '{key}'; known: {', '.join(known)}")
    return options or {}

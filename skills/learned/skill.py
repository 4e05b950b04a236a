"""A trained policy as a skill of the chain.

What it sees is built by the functions that built it in training. It ends as in habitat-baselines
(docs/policies.md, "In the chain"): pick, place, open and close by what they observe,
navigation by its own stop action, which counts within 2 m of the goal only (VER, appendix B).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skills.book import Actions, Contract, Stop, make_task
from skills.interface import Skill, SkillCall, SkillStatus
from skills.learned.cards import Card, PolicyFiles
from skills.learned.find import acts_as
from skills.learned.inference import NumpyPolicy, read_weights
from skills.learned.restless import Restless
from skills.tasks.base import Task
from skills.tasks.scan import scan_for
from skills.tasks.seen import PIXELS, SeenWays, sees_way
from skills.tasks.sensors import COLOUR, DEPTH, observe, shows_course
from skills.tasks.state import View, stack_goals
from tpsrl.errors import UserError
from tpsrl.sim.door import ACTION_DIM, ACTION_GRIP, Simulator


class LearnedSkill(Skill):
    """Runs a policy with the contract that its card names: its mean action, stirred at rest.

    Args:
        card: of the policy.
        policy: its network; the recurrent state is cleared at every reset, and with it the
            previous action of a policy that reads it.
        acts: what its actions depend on otherwise, see :func:`skills.learned.find.acts_as`.

    Attributes:
        task: of the policy.
        told: (n, 3) what grip and base were told in the last step, in [-1, 1].
        seen: the map that its policy keeps, if it does.
    """

    privileged = False

    def __init__(
        self, card: Card, policy: NumpyPolicy, acts: Mapping[str, Any] | None = None
    ) -> None:
        self.name = card.skill
        self._policy, self.task = policy, _task_of(card, policy, acts or {})
        self._restless = Restless(self.task.layout.moving)

    @classmethod
    def load(cls, policy: PolicyFiles) -> LearnedSkill:
        """Read a policy.

        Raises:
            UserError: the weights cannot be read or do not fit the card.
        """
        acts = acts_as(policy.path, read_weights(policy.path)[1])
        return cls(policy.card, NumpyPolicy.load(policy.path), acts)

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`.

        Raises:
            UserError: the simulator has no depth picture of the policy's size.
        """
        self._row = self.task.goal_for(sim, env_id, call)
        self._policy.reset()
        # Navigation comes to the same place again and again, and is right to.
        self._restless.reset(seed, self.failed_before if self.task.layout.arm else 0)
        self._rng = np.random.default_rng([seed, 3])
        self._stopped = self._under_way = False
        self._before: np.ndarray | None = None
        self._steps, self.told = 0, np.zeros((sim.num_envs, 3))
        self._first_resting = self._view(sim).resting
        self._check_depth(sim)
        self.seen = SeenWays(sim.num_envs) if sees_way(self.task.sensors) else None
        self._aim(sim, env_id)

    def _aim(self, sim: Simulator, env_id: int) -> None:
        """Look for the way to what the skill is about."""
        shown = shows_course(self.task.sensors)
        self._course = self.task.course(sim, env_id, self._row) if shown else None
        if self.seen is not None:
            pose = np.asarray(sim.state().base_pose)[env_id]
            self.seen.begin(env_id, pose, self.task.told(self._row))

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = self._look(sim, env_id)
        if bool(self.task.goes_on(view)[env_id]):
            self._row = self.task.go_on(sim, env_id, self._row)
            self._aim(sim, env_id)
            view = self._look(sim, env_id)
        self._before = np.asarray(view.state.base_pose)
        self._steps += 1
        if self._stopped:
            action = np.zeros(ACTION_DIM)
            action[ACTION_GRIP] = 1.0 if bool(view.holds[env_id]) else -1.0
            return action
        seen = {k: np.asarray(v)[env_id] for k, v in observe(view, self.task.sensors).items()}
        if DEPTH in self.task.sensors:
            seen[DEPTH] = np.asarray(sim.depth())[env_id]
        stirred = self._restless.feel(self._before[env_id], np.asarray(view.ee)[env_id])
        drawn = self._rng if stirred else None
        wanted = self._policy.step(seen, drawn, motions=False).astype(np.float64)
        flat = self._restless.stir(wanted)
        if flat is not wanted:
            self._policy.did(flat)
        robot, stop = self.task.robot_action(view, np.tile(flat, (sim.num_envs, 1)))
        counts = self.task.stop_counts(view) & (not self.task.stops_itself)
        self._stopped = bool((stop & counts)[env_id])
        self.told = np.asarray(robot)[:, ACTION_GRIP:]
        return np.asarray(robot)[env_id]

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`; judged on what the robot observes."""
        view, task = self._view(sim), self.task
        self._under_way |= bool(task.under_way(view, self._first_resting)[env_id])
        sensed = self._under_way and bool(task.at_end(view)[env_id])
        return SkillStatus(done=self._stopped or sensed)

    def _look(self, sim: Simulator, env_id: int) -> View:
        if self.seen is not None:
            self.seen.look(sim.state(), sim.depth(), [env_id])
        return self._view(sim, scanned=True)

    def _view(self, sim: Simulator, scanned: bool = False) -> View:
        state = sim.state()
        scan = scan_for(self.task.sensors, sim, state.base_pose) if scanned else None
        rows = stack_goals([self._row] * sim.num_envs, state.base_pose)
        course = None
        if scanned and self._course is not None:
            course = np.array([self._course.look(p) for p in np.asarray(state.base_pose)[:, :2]])
        before = state.base_pose if self._before is None else self._before
        steps = np.full(sim.num_envs, self._steps)
        past = {"before": before, "steps": steps, "told": self.told}
        seen = None
        if scanned and self.seen is not None:
            seen = self.seen.read(np.asarray(state.base_pose))
        return View(state, rows, scan=scan, course=course, **past, seen=seen)

    def _check_depth(self, sim: Simulator) -> None:
        shown = self._policy.observations.get(DEPTH)
        if shown is None and not sees_way(self.task.sensors):
            return
        wanted, seen = PIXELS if shown is None else shown[0], _pixels_of(sim)
        if seen != wanted:
            raise UserError(
                f"the policy of '{self.name}' needs a depth picture of {wanted} pixels, the"
                f" simulator renders {seen or 'none'}; give the simulator depth={wanted}."
            )


def _pixels_of(sim: Simulator) -> int:
    """Return the pixels along the side of its depth picture, 0 for none."""
    try:
        return int(np.shape(sim.depth())[1])
    except UserError:
        return 0


def _task_of(card: Card, policy: NumpyPolicy, acts: Mapping[str, Any]) -> Task:
    """Return the skill's task with what a policy senses.

    Raises:
        UserError: the policy has another number of actions, lacks the stop by which its skill ends
            in a chain, or looks at what no chain renders.
    """
    contract: Contract = card.contract  # type: ignore[assignment]
    actions: Actions = card.actions  # type: ignore[assignment]
    options = {"sensors": tuple(policy.observations), **acts.get("options", {})}
    stop: Stop = acts.get("stop", "action")
    task = make_task(card.skill, contract=contract, actions=actions, stop=stop, options=options)
    if task.stops_itself and type(task).at_end is Task.at_end:
        raise UserError(
            f"the policy of '{card.skill}' was trained with stop={stop}, and in a chain its own"
            " stop ends it; measure it with 'tpsrl eval skill='."
        )
    if colour := [name for name in task.sensors if name in COLOUR]:
        raise UserError(
            f"the policy of '{card.skill}' looks at {', '.join(colour)}, and a chain renders depth"
            " pictures only; measure it with 'tpsrl eval skill='."
        )
    if policy.size != task.layout.size:
        raise UserError(
            f"the policy of '{card.skill}' has {policy.size} actions and the skill"
            f" {task.layout.size}; its card names another action space."
        )
    return task

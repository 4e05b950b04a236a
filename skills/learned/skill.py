"""A trained policy as a skill of the chain.

What it sees is built by the functions that built it in training. It ends as in habitat-baselines
(docs/training_skills.md, "In the chain"): pick, place, open and close by what they observe,
navigation by its own stop action, which counts within 2 m of the goal only (VER, appendix B).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from skills.interface import Skill, SkillCall, SkillName, SkillStatus
from skills.learned.cards import Card, Policy
from skills.learned.inference import NumpyPolicy
from skills.tasks.articulated import ArticulatedTask
from skills.tasks.base import Task
from skills.tasks.catalog import Actions, Contract, make_task
from skills.tasks.goals import goal_for_call
from skills.tasks.places import kind_of
from skills.tasks.scan import scan_for
from skills.tasks.sensors import DEPTH, observe
from skills.tasks.state import View, stack_goals
from tpsrl.errors import UserError
from tpsrl.sim.door import ACTION_DIM, ACTION_GRIP, Simulator

STOP_DISTANCE = 2.0
"""Farthest base from the goal at which navigation's stop counts, m."""
REST_THRESHOLD = 0.15
"""Farthest end effector from its resting position at the end of a manipulation, m."""
START_RADIUS = 0.3
"""How far from where it began the end effector must have been before Open and Close end, m."""
HANDLE_MOVED = 0.1
"""Or how far the handle must have come: some policies work nearer to where they begin, m."""

_OWN_STOP = ("navigate", "rearrange_easy")
"""Skills that end by their own stop action."""


class LearnedSkill(Skill):
    """Runs a policy with the contract that its card names; the mean action, no sampling.

    Args:
        card: of the policy.
        policy: its network; the recurrent state is cleared at every reset. The policies of
            ``ver_trainer`` do not see their previous action, so there is none to clear.
        special: kind of place -> network that acts instead where the target lies (pick) or is
            wanted (place) in such a place; it may see other sensors.

    Attributes:
        task: of the policy that acts since the last reset, of the general one before.
    """

    privileged = False

    def __init__(
        self, card: Card, policy: NumpyPolicy, special: Mapping[str, NumpyPolicy] | None = None
    ) -> None:
        self.name: SkillName = card.skill  # type: ignore[assignment]
        self._card, self._general = card, (policy, _task_of(card, policy))
        self._special = {k: (p, _task_of(card, p)) for k, p in (special or {}).items()}
        self._policy, self.task = self._general

    @classmethod
    def load(cls, policy: Policy) -> LearnedSkill:
        """Read a policy.

        Raises:
            UserError: the weights cannot be read or do not fit the card.
        """
        special = {kind: NumpyPolicy.load(p.path) for kind, p in policy.special.items()}
        return cls(policy.card, NumpyPolicy.load(policy.path), special)

    def reset(self, sim: Simulator, env_id: int, call: SkillCall, seed: int) -> None:
        """See :meth:`Skill.reset`; the kind of place of the goal says which policy acts.

        Raises:
            UserError: the simulator has no depth picture of the policy's size.
        """
        self._row = goal_for_call(self._general[1], sim, env_id, call)
        kind = kind_of(self._row.carrier(self.name))
        self._policy, self.task = self._special.get(kind, self._general)
        self._policy.reset()
        self._stopped = self._left_start = False
        self._first_rest = np.asarray(self._view(sim).resting)[env_id]
        self._check_depth(sim)

    def act(self, sim: Simulator, env_id: int) -> np.ndarray:
        """See :meth:`Skill.act`."""
        view = self._view(sim)
        if self._stopped:
            action = np.zeros(ACTION_DIM)
            action[ACTION_GRIP] = 1.0 if bool(view.holds[env_id]) else -1.0
            return action
        seen = {k: np.asarray(v)[env_id] for k, v in observe(view, self.task.sensors).items()}
        if DEPTH in self.task.sensors:
            seen[DEPTH] = np.asarray(sim.depth())[env_id]
        flat = self._policy.step(seen).astype(np.float64)
        robot, stop = self.task.robot_action(view, np.tile(flat, (sim.num_envs, 1)))
        if self.name in _OWN_STOP and bool(stop[env_id]):
            near = float(view.heading[0][env_id]) <= STOP_DISTANCE
            self._stopped = near or self.name != "navigate"
        return np.asarray(robot)[env_id]

    def status(self, sim: Simulator, env_id: int) -> SkillStatus:
        """See :meth:`Skill.status`; judged on what the robot observes."""
        if self.name in _OWN_STOP:
            return SkillStatus(done=self._stopped)
        view = self._view(sim)
        holds = bool(view.holds[env_id])
        rested = float(view.rest_distance[env_id]) < REST_THRESHOLD
        if self.name == "pick":
            return SkillStatus(done=holds and rested)
        if isinstance(self.task, ArticulatedTask):
            gone = np.linalg.norm(np.asarray(view.resting)[env_id] - self._first_rest)
            came = np.linalg.norm(np.asarray(view.marker_pos)[env_id] - self._row.position)
            self._left_start |= bool(gone > START_RADIUS or came > HANDLE_MOVED)
            return SkillStatus(done=not holds and rested and self._left_start)
        return SkillStatus(done=not holds and rested)

    def _view(self, sim: Simulator) -> View:
        state = sim.state()
        scan = scan_for(self.task.sensors, sim, state.base_pose)
        rows = stack_goals([self._row] * sim.num_envs, state.base_pose)
        return View(state, rows, scan=scan)

    def _check_depth(self, sim: Simulator) -> None:
        if DEPTH not in self.task.sensors:
            return
        wanted = self._policy.observations[DEPTH]
        seen = np.shape(sim.depth())[1:]
        if tuple(seen) != wanted:
            raise UserError(
                f"the policy of '{self.name}' needs a depth picture of {wanted[0]} pixels, the"
                f" simulator renders {seen[0]}; give the simulator depth={wanted[0]}."
            )


def _task_of(card: Card, policy: NumpyPolicy) -> Task:
    """Return the skill's task with what a policy senses.

    Raises:
        UserError: the policy has another number of actions.
    """
    contract: Contract = card.contract  # type: ignore[assignment]
    actions: Actions = card.actions  # type: ignore[assignment]
    options = {"sensors": tuple(policy.observations)}
    task = make_task(card.skill, contract=contract, actions=actions, options=options)
    if policy.size != task.layout.size:
        raise UserError(
            f"the policy of '{card.skill}' has {policy.size} actions and the skill"
            f" {task.layout.size}; its card names another action space."
        )
    return task

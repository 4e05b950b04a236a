"""Two ways to carry out a plan: the benchmark's, and one that looks and plans again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from planner import Action, Atom, Plan, Problem
from planner.chain.calls import (
    Step,
    TpsrlOptions,
    detour_step,
    front_step,
    motion_step,
    plan_step,
    reset_arm_step,
    return_step,
    wait_step,
)
from planner.chain.interface import AgentReport, SkillRecord
from planner.chain.predicates import SymbolicWorld, plan_for, present_problem
from planner.monitor import Monitor
from skills.book import row_of
from tpsrl.errors import UserError

DROPPED, WRONG_OBJECT = "dropped", "wrong object"
"""Causes for which a running skill is cut short."""


class Executor(Protocol):
    """Chooses the next skill run from how the last one ended.

    Attributes:
        finished: it ended because all was done, as far as it can tell.
    """

    finished: bool

    def next(self, last: tuple[Step, SkillRecord] | None) -> Step | None:
        """Return the next step, ``None`` to call stop.

        Args:
            last: the step that has just ended and its record, whose outcome is ``"done"``,
                ``"failure"`` or ``"timeout"`` as the skill has it; the executor replaces it by
                its own judgement. ``None`` at the start.
        """

    def interrupted(self, step: Step) -> str:
        """Return why a running step should be cut short, ``""`` to let it run."""


class HabExecutor:
    """The benchmark's rules: a fixed plan, and a skill that times out ends the episode.

    Between every two actions the arm is reset; after the last the robot waits, then stop is
    called (habitat-baselines' ``FixedHighLevelPolicy`` and ``HierarchicalPolicy``).

    Args:
        problem: with the episode's labels.
        world: the present; the plan is made from it.
        report: kept current.
        options: see :class:`TpsrlOptions`.

    Raises:
        UserError: there is no plan.
    """

    def __init__(
        self, problem: Problem, world: SymbolicWorld, report: AgentReport, options: TpsrlOptions
    ) -> None:
        self._world, self._report, self.finished = world, report, False
        plan, _ = plan_for(present_problem(problem, world), world)
        if plan is None:
            raise UserError(
                f"no plan solves episode {world.grounding.episode.episode_id} of {problem.name}; "
                "check its containers and their handles."
            )
        self._actions = plan.actions
        report.plan = plan.text()
        self._steps = self._schedule(plan, options)
        self._position = 0

    def _schedule(self, plan: Plan, options: TpsrlOptions) -> list[Step]:
        grounding, steps = self._world.grounding, []
        for index, action in enumerate(plan.actions):
            if (index > 0 or self._report.skills) and options.arm_rest:
                steps.append(reset_arm_step(options))
            front = front_step(action, self._world, options)
            if front is not None:
                steps.append(front)
                if options.arm_rest:  # nothing touches the arm here
                    steps.append(reset_arm_step(options))
            step = plan_step(action, index, grounding, options)
            steps.append(step)
            if step.target is not None and needs_return(plan.actions, index, options):
                if options.arm_rest:
                    steps.append(reset_arm_step(options))
                steps.append(return_step(step.target, grounding, options))
        if options.final_wait:
            steps.append(wait_step(options.final_wait))
        return steps

    def next(self, last: tuple[Step, SkillRecord] | None) -> Step | None:
        """See :meth:`Executor.next`."""
        if last is not None:
            step, record = last
            ended = record.outcome
            effects = self._actions[step.index].effects if step.index is not None else ()
            judge(record, effects, self._world)
            # A navigation that stops has ended, wherever it is; a manipulation that gives up would
            # stand still until its time is up, and time up ends the episode.
            stopped = ended == "failure" and step.call.skill == "navigate"
            if ended != "done" and not stopped and not step.optional:
                record.outcome = ended
                record.cause = record.cause or "effects hold, but the skill did not end"
                return None
            if step.index is not None:
                self._report.cursor = step.index + 1
        if self._position >= len(self._steps):
            self._report.cursor, self.finished = len(self._actions), True
            return None
        step = self._steps[self._position]
        self._position += 1
        if step.index is not None:
            self._report.cursor = step.index
        return step

    def interrupted(self, step: Step) -> str:
        """See :meth:`Executor.interrupted`: never."""
        return ""


class ReplanExecutor:
    """Checks each action's effects; on failure sees the world as it is and plans again.

    A target steps back behind the others after every ``rotate_after`` failures of it; after
    ``max_failures`` it is given up. When the plan is done the whole goal is verified and, if
    something was disturbed, planned for again.

    Args:
        problem: with the episode's labels.
        world: the present.
        report: kept current.
        options: see :class:`TpsrlOptions`.
    """

    def __init__(
        self, problem: Problem, world: SymbolicWorld, report: AgentReport, options: TpsrlOptions
    ) -> None:
        self._base, self._world, self.finished = problem, world, False
        self._report, self._options = report, options
        self._failures = [0] * len(world.grounding.targets)
        self._releases = 0
        self._at: str | None = None
        self._plan: Plan | None = None
        self._monitor: Monitor | None = None
        self._cursor = 0
        self._plans = 0
        self._queue: list[Step] = []
        self._settled = False
        self._before_front = False
        self._failed: int | None = None
        self._why = ""
        self._ajar: frozenset[str] = frozenset()

    def next(self, last: tuple[Step, SkillRecord] | None) -> Step | None:
        """See :meth:`Executor.next`."""
        if last is not None:
            self._settle_account(*last)
        while True:
            loose = self._let_go()  # before the arm is reset, while the thing still lies there
            if loose is not None:
                return loose
            if self._queue:
                return self._queue.pop(0)
            if not self._keep_plan() and not self._make_plan():
                return None
            if self._plan is None:
                continue
            if self._cursor < len(self._plan):
                self._settled = False
                return self._begin(self._plan.actions[self._cursor])
            if self._settled:
                self.finished = not self._report.extra["given_up"]
                return None
            self._settled, self._plan = True, None
            self._why = "the goal does not hold after the last action"
            if self._options.settle_steps:
                self._queue.append(wait_step(self._options.settle_steps))

    def _begin(self, action: Action) -> Step:
        """Return the step of an action, or one that has to come before it."""
        step = plan_step(action, self._cursor, self._world.grounding, self._options)
        if step.call.skill != "navigate":
            return step
        failed, self._failed = self._failed, None
        if failed is not None and failed == step.target and self._options.detour:
            away = detour_step(self._failures[failed], self._world, self._options)
            if away is not None:
                return away
        front = front_step(action, self._world, self._options)
        self._before_front = front is not None and not self._before_front
        if front is None or not self._before_front:
            return step
        if self._options.arm_rest:
            self._queue.append(reset_arm_step(self._options))
        return front

    def interrupted(self, step: Step) -> str:
        """Cut a skill short that carries an object no more, or holds a wrong one."""
        if self._plan is None or step.index is None:
            return ""
        action = self._plan.actions[step.index]
        held = self._world.held()[0]
        if action.label == "pick":
            wanted = self._world.held_target()
            return WRONG_OBJECT if held >= 0 and wanted != step.target else ""
        if action.label == "nav" and held < 0:
            following = self._plan.actions[step.index + 1 : step.index + 2]
            if any(a.label == "place" for a in following):
                return DROPPED
        return ""

    def _settle_account(self, step: Step, record: SkillRecord) -> None:
        if step.call.skill == "navigate" and record.outcome == "timeout" and self._options.detour:
            self._queue.append(motion_step("spin"))
        if step.index is None or self._plan is None:
            judge(record, (), self._world)
            if step.call.skill == "navigate" and record.outcome != "success" and not step.optional:
                self._plan = None  # it did not get back to the drawer: look again
                self._why = f"{step.text}: {record.cause}"
            return
        action = self._plan.actions[step.index]
        judge(record, action.effects, self._world)
        if record.outcome == "success":
            self._cursor = self._report.cursor = step.index + 1
            self._at = next((a.args[0] for a in action.effects if a.name == "robot_at"), self._at)
        else:
            self._at = self._plan = None
            self._why = f"{step.text}: {record.cause}"
            if step.target is not None:
                self._failures[step.target] += 1
            self._failed = None if record.cause == DROPPED else step.target
        self._follow_up(step, record.outcome == "success")

    def _follow_up(self, step: Step, success: bool) -> None:
        if row_of(step.call.skill).uses_arm and self._options.arm_rest:
            self._queue.append(reset_arm_step(self._options))
        if success and self._plan is not None and step.target is not None:
            assert step.index is not None
            if needs_return(self._plan.actions, step.index, self._options):
                self._queue.append(return_step(step.target, self._world.grounding, self._options))

    def _let_go(self) -> Step | None:
        """Release what no plan can use: a handle, a wrong object, an object given up."""
        held_object, held_marker = self._world.held()
        if held_object < 0 and held_marker < 0:
            self._releases = 0
            return None
        target = self._world.held_target()
        if target is not None and self._failures[target] < self._options.max_failures:
            return None
        self._releases += 1
        if self._plan is not None:
            self._plan, self._why = None, "holds what the plan cannot use"
        return motion_step("release") if self._releases <= self._options.max_failures else None

    def _keep_plan(self) -> bool:
        if self._plan is None or self._monitor is None:
            return False
        lost = self._monitor.threatened(self._cursor)
        if lost:
            self._why = f"{lost[0]} does not hold any more"
        return not lost

    def _make_plan(self) -> bool:
        """Plan from the present; return whether there is something to carry out or verify."""
        if self._plans >= self._options.max_plans:
            return False
        self._plans += 1
        goal = self._goals()
        held = self._world.held_target()
        plan = self._find_plan(goal)
        if plan is None and held is not None:
            plan = self._find_plan(goal, put_back=held)
            if plan is None:
                self._failures[held] += 1
                self._plan = None
                self._queue += [motion_step("release"), reset_arm_step(self._options)]
                return True
        if plan is None:
            self._report.extra["stuck"] = True
            return False
        self._plan, self._monitor, self._cursor = plan, Monitor(plan, self._sees), 0
        if plan.actions:  # an empty plan only says that the goal was verified
            if self._report.plan:
                self._report.replans, self._report.why = self._report.replans + 1, self._why
            self._report.plan, self._report.cursor = plan.text(), 0
        return True

    def _sees(self, atom: Atom) -> bool:
        """Judge an atom as plans see it (:meth:`SymbolicWorld.state`), so that both agree."""
        if atom.name == "robot_at":
            return atom.args[0] == self._at
        kind, _, what = atom.name.partition("_")
        if kind in ("opened", "closed"):
            limit = "closed" if atom.args[0] in self._ajar else "opened"
            beyond = self._world.holds(Atom(f"{limit}_{what}", atom.args)) == (limit == "opened")
            return beyond == (kind == "opened")
        return self._world.holds(atom)

    def _find_plan(self, goal: Sequence[Atom], put_back: int | None = None) -> Plan | None:
        plan, self._ajar = plan_for(self._present(goal, put_back), self._world)
        return plan

    def _present(self, goal: Sequence[Atom], put_back: int | None = None) -> Problem:
        problem = present_problem(self._base, self._world, at=self._at, put_back=put_back)
        return problem.replace(goal=goal)

    def _goals(self) -> list[Atom]:
        """Goal atoms in the order to be dealt with, without targets that were given up."""
        grounding, options = self._world.grounding, self._options

        def target(atom: Atom) -> int | None:
            return next((grounding.roles[a][1] for a in atom.args if a in grounding.roles), None)

        kept, given_up = [], set()
        for position, atom in enumerate(self._base.goal):
            index = target(atom)
            failures = self._failures[index] if index is not None else 0
            if index is not None and failures >= options.max_failures:
                given_up.add(grounding.label(index))
                continue
            last = index is None
            kept.append((last, failures // options.rotate_after, position, atom))
        self._report.extra["given_up"] = sorted(given_up)
        return [atom for *_, atom in sorted(kept)]


def needs_return(actions: Sequence[Action], index: int, options: TpsrlOptions) -> bool:
    """Return whether action ``index`` opens a drawer out of which the next action picks."""
    return (
        options.navigate_after_open_cab
        and actions[index].label == "open_cab"
        and index + 1 < len(actions)
        and actions[index + 1].label == "pick"
    )


def judge(record: SkillRecord, effects: Sequence[Atom], world: SymbolicWorld) -> None:
    """Set outcome and cause of a run from the effects that it should have had."""
    # Which box an object is in decides about opening, not about success.
    effects = [a for a in effects if a.name not in ("in", "outside")]
    missing = [a for a in effects if not world.holds(a)]
    if record.cause in (DROPPED, WRONG_OBJECT):
        return  # cut short: near the goal by chance, but with an empty hand
    if not missing and (effects or record.outcome == "done"):
        record.outcome, record.cause = "success", ""
        return
    if record.outcome == "done":
        record.outcome = "failure"
    if not record.cause:
        record.cause = _cause(missing, world) if missing else record.outcome
    elif record.outcome == "timeout" and missing:
        record.cause = f"timeout, {_cause(missing, world)}"


_CAUSES = {
    "holding": "nothing grasped",
    "object_at": "not at goal",
    "not_holding": "not released",
    "robot_at": "too far away",
    "opened_cab": "not open",
    "opened_fridge": "not open",
    "closed_cab": "not closed",
    "closed_fridge": "not closed",
}


def _cause(missing: Sequence[Atom], world: SymbolicWorld) -> str:
    order = list(_CAUSES)
    first = min(missing, key=lambda a: order.index(a.name) if a.name in order else len(order))
    if first.name == "holding" and world.held()[0] >= 0:
        return WRONG_OBJECT
    cause = _CAUSES.get(first.name, str(first))
    if first.name in ("holding", "object_at"):
        container = world.container(first.args[-1])
        if container is not None and not world.opened(container):
            return f"{cause}, container not open"
    return cause

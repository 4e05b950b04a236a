"""From a goal in words, and perhaps a language model's proposal, to an episode with that goal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from planner.chain.errand import Errand
from planner.chain.problems import containers
from planner.words.goals import Meaning, Wish
from planner.words.grammar import GoalReader
from planner.words.lexicon import lexicon
from planner.words.options import PlannerConfig
from planner.words.order import Goal, finished, goals_of, onward, worthwhile
from planner.words.propose import (
    NoAnswerError,
    Proposal,
    Proposer,
    Question,
    make_proposer,
    propose,
)
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.generation.rules import OPENED

OWN_TASK = "tidy up"
"""The scenario's own task in the grammar's words."""


class GoalError(UserError):
    """An episode cannot have a goal; others may."""


def errand_for(
    episode: Episode,
    goal: str | None,
    planner: PlannerConfig | None = None,
    scenario: str = "",
    proposer: Proposer | None = None,
) -> Episode:
    """Return an episode with its goal given in words.

    The goal that counts is that of the words, where the grammar understands them. A language model
    may then propose a plan for it; where the grammar does not understand, the model's goal counts,
    or else what its plan comes to. Proposals are checked, mended or refused by the planner.

    Args:
        episode: of tpsrl's own apartment.
        goal: in words, ``None`` for the scenario's own task.
        planner: who may propose, as text, and how often to ask.
        scenario: the episode's, as a name or file; ``""`` takes the one that it names.
        proposer: a function that proposes, in the place of ``planner.llm``.

    Returns:
        An :class:`Errand`, whose ``notes`` say how the words were understood; the episode itself
        without a goal in words and without anyone who proposes.

    Raises:
        GoalError: unknown words, no such thing or place here, no plan can reach the goal, or the
            proposals were of no use.
        UserError: it takes a proposal, and nobody answers; or ``planner.llm`` is nobody to ask.
    """
    config = planner or PlannerConfig()
    proposer, who = _who_proposes(config, proposer)
    if goal is None and proposer is None:
        return episode
    work = _Work(episode, scenario or episode.scenario, goal, who)
    try:
        asked = work.understood()
    except UserError as error:
        if proposer is None:
            raise GoalError(str(error)) from error
        asked, trouble = None, str(error)
    if proposer is None:
        assert asked is not None
        return asked
    question = Question(goal or "the usual task: tidy up", scene_text(episode))
    try:
        found: Errand = propose(proposer, question, config, lambda p: work.mended(p, asked))
        return found
    except UserError as error:
        if asked is None:
            # Who is silent now may answer when the run goes on; the episode is not to blame.
            kind = UserError if isinstance(error, NoAnswerError) else GoalError
            raise kind(f"{trouble}; and {who} helped not: {error}") from None
        what = "the scenario's own task" if goal is None else "the goal as the grammar reads it"
        return asked.noting(f"{who} gave nothing usable ({error}), so {what} is planned for")


def _who_proposes(config: PlannerConfig, own: Proposer | None) -> tuple[Proposer | None, str]:
    """Return who proposes, if anybody, and what notes call it."""
    if own is None:
        return (None if config.llm is None else make_proposer(config)), "planner.llm"
    if config.llm is not None:
        raise UserError(
            f"planner.llm={config.llm} and proposer= of errand_for both propose; give one of them"
        )
    return own, "the proposer"


@dataclass(frozen=True)
class _Work:
    episode: Episode
    scenario: str
    goal: str | None
    who: str

    def understood(self) -> Errand:
        """Return the errand of the user's own words."""
        meaning = self._meaning()
        wishes = meaning.wishes(GoalReader(meaning.lexicon).read(self._words()))
        return _reachable(meaning, self._words(), goals_of(wishes, meaning.shut()), wishes)

    def mended(self, proposal: Proposal, asked: Errand | None) -> Errand:
        """Return the errand of a proposal, as far as it is of use.

        Raises:
            UserError: it is of none.
        """
        meaning, faults = self._meaning(), list[str]()
        if not proposal.plan:
            GoalReader(meaning.lexicon).read(proposal.goal)
        wishes = self._wanted(meaning, proposal, asked is not None)
        steps = _steps(meaning, proposal.plan, faults)
        if not wishes:
            if not steps:
                raise UserError("; ".join(faults) or "nothing was proposed")
            errand = _reachable(meaning, self._words(), goals_of(steps, meaning.shut()), steps)
            return errand.noting(_summary(self.who, proposal, faults))
        goals = goals_of(wishes, meaning.shut())
        if len(goals) == 1:
            problem = meaning.errand(self._words(), goals, wishes, prune=False).problem()
            kept, dropped = worthwhile(problem, steps, goals[0])
            faults += [f"'{step.text}' does not lead to the goal" for step in dropped]
            goals = _through(kept, goals[0])
        elif steps:
            faults.append("the goal gives the order itself")
        errand = _reachable(meaning, self._words(), goals, wishes)
        if asked is not None and proposal.goal and self._other(proposal.goal):
            faults.append(f"its goal '{proposal.goal}' is another than the one asked for")
        return errand.noting(_summary(self.who, proposal, faults))

    def _wanted(self, meaning: Meaning, proposal: Proposal, understood: bool) -> list[Wish]:
        """Return what counts: the user's words, or else the proposed goal."""
        text = self._words() if understood else proposal.goal
        return meaning.wishes(GoalReader(meaning.lexicon).read(text)) if text else []

    def _other(self, goal: str) -> bool:
        meaning = self._meaning()
        own = meaning.wishes(GoalReader(meaning.lexicon).read(self._words()))
        try:
            theirs = meaning.wishes(GoalReader(meaning.lexicon).read(goal))
        except UserError:
            return True
        return set(goals_of(own)[-1]) != set(goals_of(theirs)[-1])

    def _words(self) -> str:
        return OWN_TASK if self.goal is None else self.goal

    def _meaning(self) -> Meaning:
        return Meaning(self.episode, self.scenario, lexicon())


def _reachable(
    meaning: Meaning, words: str, goals: Sequence[Goal], wishes: Sequence[Wish]
) -> Errand:
    """Return the errand without goals on the way that cannot be reached.

    Raises:
        UserError: its last goal cannot be reached.
    """
    _, left_out = onward(meaning.errand(words, goals, wishes).problem(), goals)
    return meaning.errand(words, [goal for goal in goals if goal not in left_out], wishes)


def _steps(meaning: Meaning, plan: Sequence[str], faults: list[str]) -> list[Wish]:
    """Return the steps that mean something in the episode; what is wrong with others is noted."""
    reader, found = GoalReader(meaning.lexicon), list[Wish]()
    for step in plan:
        try:
            for wish in meaning.wishes(reader.read(_spoken(step))):
                found.append(Wish(step, wish.atoms, then=True))
        except UserError as error:
            faults.append(f"'{step}' is no step ({error})")
    return found


def _spoken(step: str) -> str:
    """Return a step as words: ``"2. place(apple|0, table)"`` is "place apple to table"."""
    step = re.sub(r"^\s*(?:\d+[.):]|[-*])\s*", "", step)
    step = re.sub(r"\|\d+", "", step).replace("TARGET_", "")
    step = re.sub(r"\b(\w+)\(([^,()]*),([^()]*)\)", r"\1 \2 to \3", step)
    return re.sub(r"[_()]", " ", step)


def _through(steps: Sequence[Wish], goal: Goal) -> list[Goal]:
    """Return the goals of a plan's steps, and then the goal itself."""
    on_the_way = goals_of(steps)
    if on_the_way and set(goal) <= set(on_the_way[-1]):
        on_the_way.pop()
    return [*on_the_way, finished(goal)]


def _summary(who: str, proposal: Proposal, faults: Sequence[str]) -> str:
    what = f"a plan of {len(proposal.plan)} steps" if proposal.plan else f"'{proposal.goal}'"
    return f"{who} proposed {what}" + (f"; {'; '.join(faults)}" if faults else "")


def scene_text(episode: Episode) -> str:
    """Return what there is in an episode, a line for each place, in the grammar's words."""
    words = lexicon()
    around, joints = containers()
    lines = []
    for place in dict.fromkeys(name for names in words.places.values() for name in names):
        joint = around.get(place)
        lying = Counter(words.object_name(o.type) for o in episode.objects if o.receptacle == place)
        things = ", ".join(f"{n} {name}" for name, n in sorted(lying.items())) or "nothing"
        state = ""
        if joint in joints.values():
            limit = "hinge" if "fridge" in str(joint) else "slide"
            state = (
                " (open)" if episode.joints.get(str(joint), 0.0) > OPENED[limit] else " (closed)"
            )
        elif joint is not None:
            state = " (cannot be opened)"
        lines.append(f"{words.place_name(place)}{state}: {things}")
    return "\n".join(lines)

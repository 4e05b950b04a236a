"""Makes an agent and the measure of an episode, by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from planner.chain.catalog import (
    WHOLE_TASK,
    agent_kind,
    agent_options,
    describe,
    policies_of,
)
from planner.chain.errand import problem_of
from planner.chain.grounding import without_navigation
from planner.chain.interface import Agent, EpisodeMeasure
from planner.chain.monolithic import MonolithicAgent
from planner.chain.predicates import HabTask
from planner.chain.tpsrl import EXECUTORS, ProblemSource, TpsrlAgent
from skills.learned.cards import PolicyFiles
from skills.learned.factory import skill_factory
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest


def make_agent(
    agent: str = "scripted",
    executor: str = "hab",
    scenario: str = "",
    weights: str | Path | Mapping[str, PolicyFiles] | None = None,
    source: ProblemSource | None = None,
) -> Agent:
    """Return an agent that plans a scenario and carries the plan out.

    Args:
        agent: one of ``AGENTS``.
        executor: one of ``EXECUTORS``; ``"monolithic"`` has no plan to carry out.
        scenario: planning problem to solve; ``""`` takes the one that each episode names, and an
            :class:`Errand` has its own.
        weights: of learned skills, see :func:`planner.chain.catalog.policies_of`.
        source: problem of an episode, instead of its scenario's.

    Raises:
        UserError: unknown agent or executor, or unusable or missing weights.
    """
    kind = agent_kind(agent)
    if executor not in EXECUTORS:
        raise UserError(f"unknown executor '{executor}'{nearest(executor, EXECUTORS)}")
    policies = policies_of(agent, scenario, Path(weights) if isinstance(weights, str) else weights)
    if agent == "monolithic":
        return MonolithicAgent(policies[WHOLE_TASK])

    def problem(episode: Episode) -> Any:
        found = problem_of(episode, scenario) if source is None else source(episode)
        return found if kind.navigates else without_navigation(found)

    skills = skill_factory(policies)
    return TpsrlAgent(
        skills, cast(Any, executor), problem, agent_options(agent, policies), name=agent
    )


def skills_in_use(agent: str, scenario: str = "", weights: Path | None = None) -> str:
    """Return a sentence: which skills of an agent are learned, which scripted stand-ins.

    Raises:
        UserError: unusable or missing weights.
    """
    return describe(agent, policies_of(agent, scenario, weights))


def make_task(episode: Episode, scenario: str = "") -> EpisodeMeasure:
    """Return the measure of an episode: stages and goal of the scenario, or of the errand.

    Args:
        episode: what is to be solved.
        scenario: ``""`` takes the one that the episode names.
    """
    return HabTask(scenario or episode.scenario)

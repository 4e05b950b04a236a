"""Puts the rooms together: engines, skills, planner and episodes for evaluation and videos."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tpsrl.errors import UserError, nearest
from tpsrl.sim.engines import ENGINES as ENGINES
from tpsrl.sim.engines import Scenes
from tpsrl.sim.engines import make_simulator as make_simulator

if TYPE_CHECKING:
    from eval.spec import EvaluationSpec
    from tpsrl.agents.interface import Agent, Task
    from tpsrl.episodes.types import Episode

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table", "rearrange_easy")
"""Scenarios with a planning problem, so that an agent can solve them."""
SPLITS = ("train", "val", "test")
AGENTS = ("scripted", "tpsrl", "tpsrl-restricted", "tpsrl-nonav", "monolithic")
"""See :data:`tpsrl.agents.catalog.KINDS`."""
EXECUTORS = ("hab", "replan")
MAX_STEPS = {
    "tidy_house": 5000,
    "prepare_groceries": 4000,
    "set_table": 4500,
    "rearrange_easy": 1500,
}
"""Control steps after which an episode fails (habitat-lab v0.2.x, as VER used it)."""

_SHIPPED = Path(__file__).parent / "episodes" / "data"


def all_cores() -> int:
    """Return the number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def make_agent(
    agent: str = "scripted",
    executor: str = "hab",
    scenario: str = "",
    weights: str | None = None,
) -> Agent:
    """Return an agent that plans a scenario and carries the plan out.

    Args:
        agent: one of ``AGENTS``.
        executor: one of ``EXECUTORS``; ``"monolithic"`` has no plan to carry out.
        scenario: planning problem to solve; ``""`` takes the one that each episode names.
        weights: folder of learned skills, ``None`` for those shipped.

    Raises:
        UserError: unknown agent or executor, or unusable or missing weights.
    """
    from skills.learned.factory import skill_factory
    from tpsrl.agents.catalog import WHOLE_TASK, agent_kind, agent_options, policies_of
    from tpsrl.agents.grounding import hab_problem, without_navigation
    from tpsrl.agents.monolithic import MonolithicAgent
    from tpsrl.agents.tpsrl import TpsrlAgent

    kind = agent_kind(agent)
    if executor not in EXECUTORS:
        raise UserError(f"unknown executor '{executor}'{nearest(executor, EXECUTORS)}")
    policies = policies_of(agent, scenario, None if weights is None else Path(weights))
    if agent == "monolithic":
        return MonolithicAgent(policies[WHOLE_TASK])

    def problem(episode: Episode) -> Any:
        found = hab_problem(scenario or episode.scenario)
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
    from tpsrl.agents.catalog import describe, policies_of

    return describe(agent, policies_of(agent, scenario, weights))


def make_task(episode: Episode, scenario: str = "") -> Task:
    """Return the measure of an episode: the scenario's stages and goal.

    Args:
        episode: what is to be solved.
        scenario: ``""`` takes the one that the episode names.
    """
    from tpsrl.agents.predicates import HabTask

    return HabTask(scenario or episode.scenario)


def evaluation_spec(
    *,
    scenario: str,
    agent: str,
    executor: str,
    engine: str = "mujoco",
    max_steps: int | None = None,
    seed: int = 0,
    depth: int | None = None,
    config: Mapping[str, Any] | None = None,
    weights: Path | None = None,
    scenes: Scenes | None = None,
    habitat: Mapping[str, Any] | None = None,
) -> EvaluationSpec:
    """Return what worker processes need to run a scenario.

    Args:
        scenario: one of ``SCENARIOS``.
        agent: one of ``AGENTS``.
        executor: one of ``EXECUTORS``.
        engine: one of ``ENGINES``.
        max_steps: control steps, ``None`` for the benchmark's.
        seed: of the run.
        depth: pixels of the head depth picture, ``None`` for none.
        config: further plain values that describe the run.
        weights: folder of learned skills, ``None`` for those shipped; they decide ``depth``.
        scenes: of a Habitat dataset, ``None`` for tpsrl's own.
        habitat: ``engine="habitat"``: interpreter, robot and GPU.

    Raises:
        UserError: unknown agent, or unusable or missing weights.
    """
    from eval.spec import EvaluationSpec, Factory

    steps = MAX_STEPS[scenario] if max_steps is None else max_steps
    described: dict[str, Any] = {"scenario": scenario, "agent": agent, "executor": executor}
    described |= {"engine": engine, "max_steps": steps, "seed": seed, **(config or {})}
    options: dict[str, Any] = {"agent": agent, "executor": executor, "scenario": scenario}
    if agent != "scripted":
        learned, needed = _learned(agent, scenario, weights)
        depth = needed or depth
        options["weights"] = learned["weights"]
        described |= learned
        if agent == "monolithic":
            described["executor"] = None
    engine_options: dict[str, Any] = {"engine": engine, "depth": depth}
    if scenes is not None:
        described["scenes"] = scenes.path
        engine_options["scenes"] = dataclasses.asdict(scenes)
    if habitat is not None and engine == "habitat":
        engine_options["habitat"] = dict(habitat)
    return EvaluationSpec(
        simulator=Factory("tpsrl.assembly:make_simulator", engine_options),
        agent=Factory("tpsrl.assembly:make_agent", options),
        task=Factory("tpsrl.assembly:make_task", {"scenario": scenario}),
        config=described,
        max_steps=steps,
        seed=seed,
    )


def _learned(agent: str, scenario: str, weights: Path | None) -> tuple[dict[str, Any], int | None]:
    """Return what describes an agent's policies, and the depth pixels that they need.

    Raises:
        UserError: unknown agent, or unusable or missing weights.
    """
    from skills.learned.cards import common_depth
    from tpsrl.agents.catalog import fingerprints, policies_of, stand_ins

    policies = policies_of(agent, scenario, weights)
    described = {
        "weights": None if weights is None else str(weights.resolve()),
        "policies": fingerprints(policies),
        "stand_ins": stand_ins(agent, scenario, policies),
    }
    return described, common_depth({name: p.card for name, p in policies.items()})


def load_scenario_episodes(
    scenario: str,
    split: str = "val",
    data: Path | None = None,
    count: int | None = None,
    cache: Path | None = None,
    workers: int = 1,
    scenes: Scenes | None = None,
) -> tuple[Episode, ...]:
    """Return the first episodes of a file, of the shipped set, or of a newly generated one.

    Args:
        scenario: one of ``SCENARIOS``.
        split: one of ``SPLITS``; unused with ``data``.
        data: Habitat episode file of one's own.
        count: how many; ``None`` for all there are.
        cache: file to generate episodes into when the shipped set is too small.
        workers: processes that generate.
        scenes: of a Habitat dataset; its episodes are taken and ``data`` is not looked at.

    Raises:
        UserError: unreadable file, episodes of another scenario, or fewer than ``count``.
    """
    from tpsrl.episodes.habitat_json import load_episodes

    if scenes is not None:
        return _of_dataset(scenes, count)
    source = data or _SHIPPED / f"{scenario}_{split}.json.gz"
    episodes = load_episodes(source).episodes if data or source.exists() else ()
    _check_scenario(scenario, episodes, source)
    if data is not None:
        _check_playable(episodes[:count], source)
    if data is None and len(episodes) < (count or 1):
        if cache is None:
            raise UserError(
                f"only {len(episodes)} {split} episodes of {scenario} ship with tpsrl; make more "
                f"with 'tpsrl episodes scenario={scenario} split={split} n={count or 100} "
                "out=FILE.json.gz' and give data=FILE.json.gz"
            )
        episodes = _generated(scenario, split, count or 100, cache, workers)
        source = cache
    if count is not None and len(episodes) < count:
        raise UserError(f"{source} holds {len(episodes)} episodes; {count} were asked for")
    return tuple(episodes[:count])


def _of_dataset(scenes: Scenes, count: int | None) -> tuple[Episode, ...]:
    from tpsrl.episodes.validate import validate

    dataset, episodes = scenes.read()
    _check_scenario(scenes.scenario, episodes, Path(scenes.file or scenes.path))
    if count is not None and len(episodes) < count:
        raise UserError(f"{scenes.path} has {len(episodes)} episodes; {count} were asked for")
    for episode in episodes:
        validate(episode, dataset.apartment, dataset.types)
    return episodes


def pick_episode(episodes: tuple[Episode, ...], index: int) -> Episode:
    """Return the episode with this index.

    Raises:
        UserError: there is none.
    """
    if not 0 <= index < len(episodes):
        raise UserError(f"episode={index} does not exist; give 0 to {len(episodes) - 1}")
    return episodes[index]


def _check_scenario(scenario: str, episodes: tuple[Episode, ...], source: Path) -> None:
    for episode in episodes:
        if episode.scenario and episode.scenario != scenario:
            raise UserError(
                f"{source} holds episodes of {episode.scenario}, not of {scenario}; "
                f"give scenario={episode.scenario}"
            )


def _check_playable(episodes: tuple[Episode, ...], source: Path) -> None:
    """Refuse a foreign file before hours are spent on its good part."""
    from tpsrl.episodes.validate import validate
    from tpsrl.scenes.apartment import load_apartment
    from tpsrl.scenes.objects import object_types

    if not episodes:
        raise UserError(f"{source} holds no episodes")
    apartment, types = load_apartment(), object_types()
    for episode in episodes:
        try:
            validate(episode, apartment, types)
        except UserError as error:
            raise UserError(f"{source}: {error}") from error


def _generated(
    scenario: str, split: str, count: int, cache: Path, workers: int
) -> tuple[Episode, ...]:
    """Read a generated set, making it (or its missing rest) first."""
    from tpsrl.episodes.habitat_json import load_episodes
    from tpsrl.episodes.parallel import generate
    from tpsrl.episodes.scenarios import load_scenario

    if cache.exists():
        episodes = load_episodes(cache).episodes
        if len(episodes) >= count:
            return episodes
    cache.parent.mkdir(parents=True, exist_ok=True)
    generate(load_scenario(scenario), split, count, 0, cache, workers)
    return load_episodes(cache).episodes

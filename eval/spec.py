"""What to run: factories that a worker process can call, and the rules of an episode."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from eval.episode import EpisodeJob, EpisodeRecord, fingerprint
from planner.chain.catalog import ANYTHING, fingerprints, policies_of, stand_ins
from planner.chain.errand import Errand
from planner.chain.problems import to_solve
from planner.words.door import GoalError
from planner.words.grammar import GoalReader
from planner.words.lexicon import lexicon
from planner.words.options import PlannerConfig
from skills.learned.cards import PolicyFiles, common_depth
from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import Scenes


@dataclass(frozen=True)
class Factory:
    """A call that can be sent to another process: ``"module:function"`` and its keywords.

    Attributes:
        target: importable callable, e.g. ``"tpsrl.engines:make_simulator"``.
        kwargs: picklable keyword arguments.
    """

    target: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def build(self, *args: Any) -> Any:
        """Import the callable and call it with ``args`` and the stored keywords.

        Raises:
            ImportError: the module or the name in it does not exist.
        """
        module_name, _, name = self.target.partition(":")
        module = importlib.import_module(module_name)
        try:
            function: Callable[..., Any] = getattr(module, name)
        except AttributeError as error:
            raise ImportError(f"{module_name} has no '{name}'") from error
        return function(*args, **self.kwargs)


@dataclass(frozen=True)
class EvaluationSpec:
    """Everything that decides a result, apart from the episodes themselves.

    Attributes:
        simulator: ``() -> Simulator`` with one world.
        agent: ``() -> Agent``.
        task: ``(Episode) -> EpisodeMeasure``.
        config: plain values that describe the run; a result folder holds runs of one config only.
        max_steps: control steps after which an episode fails.
        seed: seed of the run; every episode gets its own seed from it and its index.
        words: ``(Episode) -> Episode`` with its goal in words, ``None`` for the scenario's own.
    """

    simulator: Factory
    agent: Factory
    task: Factory
    config: Mapping[str, Any]
    max_steps: int
    seed: int = 0
    words: Factory | None = None

    def begin(self, record: EpisodeRecord, episode: Episode) -> Episode:
        """Return the episode to run, its goal in words understood, and note in ``record`` how.

        Raises:
            GoalError: the words mean nothing in this episode.
            UserError: a language model was to say what they mean, and none answers.
        """
        found: Episode = episode if self.words is None else self.words.build(episode)
        if isinstance(found, Errand):
            record.extra |= {"goal": found.words, "notes": list(found.notes)}
        return found

    def check_goal(self, episodes: Sequence[Episode]) -> None:
        """Refuse a goal in words that none of the episodes can have.

        Where a language model may have a say nothing is known before it is asked.

        Raises:
            GoalError: none can; the sentence says why the first one cannot.
        """
        if self.words is None or self.config.get("llm") is not None:
            return
        first: GoalError | None = None
        for episode in episodes:
            try:
                self.words.build(episode)
            except GoalError as error:
                first = first or error
            else:
                return
        if first is not None:
            others = f" (nor can any other of the {len(episodes)})" if len(episodes) > 1 else ""
            raise GoalError(f"{first}{others}")

    @property
    def about(self) -> dict[str, Any]:
        """What a recording says of the run: its config and its simulator."""
        return {"config": dict(self.config), "simulator": dict(self.simulator.kwargs)}

    def job(self, index: int, episode: Episode) -> EpisodeJob:
        """Return an episode with the seed that its index gives it, whatever else is run."""
        seed = int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])
        return EpisodeJob(index, episode, fingerprint(episode), seed)


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
    goal: str | None = None,
    planner: PlannerConfig | None = None,
) -> EvaluationSpec:
    """Return what worker processes need to run a scenario.

    Args:
        scenario: name of one that ships, or the path of a YAML file.
        agent: one of ``AGENTS``.
        executor: one of ``EXECUTORS``.
        engine: one of ``ENGINES``.
        max_steps: control steps, ``None`` for the scenario's.
        seed: of the run.
        depth: pixels of the head depth picture, ``None`` for none.
        config: further plain values that describe the run.
        weights: of learned skills, ``None`` for those shipped (``skills.learned.find``); they
            decide ``depth``.
        scenes: of a Habitat dataset, ``None`` for tpsrl's own.
        habitat: ``engine="habitat"``: interpreter, robot and GPU.
        goal: in words, ``None`` for the scenario's own.
        planner: who may propose a goal or a plan.

    Raises:
        UserError: unknown agent, unusable or missing weights, no such scenario to solve, or a goal
            in words for scenes of others.
    """
    rules = to_solve(scenario)
    steps = rules.max_steps if max_steps is None else max_steps
    scenario = rules.file or rules.name  # a relative path is another file for workers elsewhere
    words = _words(goal, planner, scenario, scenes)
    described: dict[str, Any] = {"scenario": rules.name, **rules.origin()}
    described |= {"agent": agent, "executor": executor}
    described |= {"engine": engine, "max_steps": steps, "seed": seed, **(config or {})}
    options: dict[str, Any] = {"agent": agent, "executor": executor, "scenario": scenario}
    if agent != "scripted" or weights is not None:
        asked = ANYTHING if words else scenario
        policies = policies_of(agent, asked, weights)
        options["weights"] = policies  # a run may get a better checkpoint while this goes on
        depth = common_depth({name: p.card for name, p in policies.items()}) or depth
        described |= _about(policies, agent, asked, weights)
    engine_options: dict[str, Any] = {"engine": engine, "depth": depth}
    if words is not None:
        described |= {"goal": goal, "llm": planner.llm if planner else None}
        if planner is not None and planner.llm is not None:
            described["llm_model"] = planner.model
    if scenes is not None:
        described["scenes"] = scenes.path
        engine_options["scenes"] = dataclasses.asdict(scenes)
    if habitat is not None and engine == "habitat":
        engine_options["habitat"] = dict(habitat)
    return EvaluationSpec(
        simulator=Factory("tpsrl.engines:make_simulator", engine_options),
        agent=Factory("planner.chain.make:make_agent", options),
        task=Factory("planner.chain.make:make_task", {"scenario": scenario}),
        config=described,
        max_steps=steps,
        seed=seed,
        words=words,
    )


def _words(
    goal: str | None, planner: PlannerConfig | None, scenario: str, scenes: Scenes | None
) -> Factory | None:
    """Return what understands a goal in words in an episode, ``None`` if there is none.

    Raises:
        UserError: the words mean nothing in any episode, or the scenes are not tpsrl's own.
    """
    proposes = planner is not None and planner.llm is not None
    if goal is None and not proposes:
        return None
    if scenes is not None:
        raise UserError("goal= and planner.llm= know tpsrl's own apartments only; leave out path=")
    if goal is not None and not proposes:
        GoalReader(lexicon()).read(goal)
    asked = {"goal": goal, "planner": planner, "scenario": scenario}
    return Factory("planner.words.door:errand_for", asked)


def _about(
    policies: Mapping[str, PolicyFiles], agent: str, scenario: str, weights: Path | None
) -> dict[str, Any]:
    """Return what describes an agent's policies."""
    about = {
        "weights": None if weights is None else str(weights.resolve()),
        "policies": fingerprints(policies),
        "stand_ins": stand_ins(agent, scenario, policies),
    }
    return about | ({"executor": None} if agent == "monolithic" else {})

"""Episodes of a skill's own environment, to measure a policy, the scripted skill or chance."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from eval.episode import plain
from eval.recording import Keeper, Recording
from eval.statistics import wilson
from eval.trace import Trace
from planner.chain.interface import AgentReport, SkillRecord
from planner.chain.problems import GOAL_PREFIX
from skills.book import make_skill, row_of
from skills.envs.agents import DrivingAgent, EnvAgent, RandomAgent, SkillAgent
from skills.envs.single import SkillEnv
from skills.learned.cards import PolicyFiles
from skills.learned.inference import NumpyPolicy
from skills.learned.restless import Restless
from tpsrl.errors import UserError

WAYS = (0.5, 1.5)
"""Where starts are told apart by how far the base has to go, m at full speed."""


@dataclass(frozen=True)
class TrialJob:
    """One episode of a skill's environment.

    Attributes:
        index: number of its record.
        seed: of the episode.
        fingerprint: hash of the data that seeds draw episodes from.
    """

    index: int
    seed: int
    fingerprint: str

    def __str__(self) -> str:
        return f"the episode of seed {self.seed}"


@dataclass(frozen=True)
class SkillStudy:
    """An agent in a skill's environment, see :class:`eval.runner.Study`.

    Attributes:
        config: what decides the results.
        skill: name of the environment's skill.
        env_args: arguments of the environment.
        agent: ``"scripted"``, ``"random"``, or whose policy acts: ``"tpsrl"``, ``"teacher"``.
        policy: weights of the trained policy; the environment offers what all of them sense.
        sample: actions are drawn from the policy's distribution; otherwise its mean acts.
        keeper: of the states of episodes; ``None`` keeps none.
    """

    config: Mapping[str, Any]
    skill: str
    env_args: dict[str, Any]
    agent: str
    policy: PolicyFiles | None = None
    sample: bool = False
    keeper: Keeper | None = None

    @contextlib.contextmanager
    def player(self) -> Iterator[tuple[Callable[[TrialJob], dict[str, Any]], dict[str, Any]]]:
        """See :class:`eval.runner.Study`."""
        with contextlib.closing(SkillEnv(self.skill, **self.env_args)) as env:
            agent = self.acting(env)

            def play(job: TrialJob) -> dict[str, Any]:
                own = {"index": job.index, "fingerprint": job.fingerprint}
                trial = Trial(env, agent, job.seed)
                about = {"config": dict(self.config), "simulator": scenes_of(env)}
                keeper = self.keeper or Keeper(Path())
                kept = keeper.begin(env.sim.episode(0), about)
                record = own | plain(trial.play(kept))
                keeper.end(kept, record)
                return record

            yield play, dataclasses.asdict(env.sim.info)

    def acting(self, env: SkillEnv) -> EnvAgent:
        """Return who acts, in an environment made with ``env_args``."""
        if self.agent == "random":
            return RandomAgent(env)
        if self.agent == "scripted":
            return scripted_agent(env)
        assert self.policy is not None
        return PolicyAgent(env, NumpyPolicy.load(self.policy.path), self.sample)

    def failed(self, job: TrialJob, end: str, extra: dict[str, Any]) -> dict[str, Any]:
        """See :class:`eval.runner.Study`."""
        nothing = {"return": 0.0, "steps": 0, "states": "", "force_max": 0.0}
        how = {"success": False, "cause": end, "reason": "", **nothing, "extra": extra}
        return dataclasses.asdict(job) | how

    def summarize(self, records: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return success with its 95% Wilson interval, mean return and length, and causes.

        Where records name the place of the target (Pick, Place) its kinds are counted by
        themselves, and starts by how far the base has to go.
        """
        kinds = sorted({record["place"] for record in records if "place" in record})
        count = max(len(records), 1)
        forces = [record["force_max"] for record in records]
        returns = [r for record in records if (r := record["return"]) is not None]  # finite
        return {
            **_rate(records),
            "mean_return": sum(returns) / max(len(returns), 1),
            "mean_steps": sum(record["steps"] for record in records) / count,
            "median_force_max": median(forces) if forces else None,
            "causes": dict(Counter(_cause(record) for record in records).most_common()),
            "places": {k: _rate([r for r in records if r.get("place") == k]) for k in kinds},
            "ways": _by_way([record for record in records if "way" in record]),
            "errors": [record["index"] for record in records if "extra" in record],
        }


def _cause(record: Mapping[str, Any]) -> str:
    """Return why an episode ended, and what the scripted skill said if it failed."""
    reason = record.get("reason", "")
    return f"{record['cause']} ({reason})" if reason and not record["success"] else record["cause"]


def _rate(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return how many records succeeded, with the 95% Wilson interval."""
    count, won = len(records), sum(record["success"] for record in records)
    low, high = wilson(won, count) if count else (None, None)
    success = won / count if count else None
    return {"episodes": count, "successes": won, "success": success, "low": low, "high": high}


def _by_way(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the rates of starts whose base has a short, a middling and a long way to go."""
    found = {}
    for low, high in itertools.pairwise((0.0, *WAYS, math.inf)):
        name = f"from {low:g} m" if high == math.inf else f"{low:g} to {high:g} m"
        some = [record for record in records if low <= max(record["way"], 0.0) < high]
        if some:
            found[name] = _rate(some)
    return found


class PolicyAgent(EnvAgent):
    """The mean action of a policy, stirred at rest, or a drawn one.

    Set ``observation`` before :meth:`act`.

    Args:
        env: to act in.
        policy: that acts.
        sample: actions are drawn.
    """

    def __init__(self, env: SkillEnv, policy: NumpyPolicy, sample: bool = False) -> None:
        super().__init__(env)
        self._policy, self._sample = policy, sample
        self._restless = Restless(env.worlds.task.layout.moving)
        self._rng = np.random.default_rng(0)
        self.observation: dict[str, np.ndarray] = {}

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`."""
        self._policy.reset()
        self._restless.reset(seed)
        self._rng = np.random.default_rng([seed, 3])

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        if self._sample:
            return self._policy.step(self.observation, self._rng)
        view = self.env.worlds.view
        assert view is not None
        stirred = self._restless.feel(np.asarray(view.state.base_pose)[0], np.asarray(view.ee)[0])
        drawn = self._rng if stirred else None
        wanted = self._policy.step(self.observation, drawn, motions=False)
        done = self._restless.stir(wanted)
        if done is not wanted:
            self._policy.did(done)
        return done


def scripted_agent(env: SkillEnv) -> EnvAgent:
    """Return the scripted agent of an environment."""
    if not row_of(env.skill).program:
        return DrivingAgent(env)
    return SkillAgent(env, make_skill)


def scenes_of(env: SkillEnv) -> dict[str, Any]:
    """Return what a recording says of an environment's simulator."""
    scenes = env.config.scenes(env.worlds.task.scenario)
    return {
        "engine": env.config.sim,
        "scenes": None if scenes is None else dataclasses.asdict(scenes),
    }


def handoff_start(env: SkillEnv, seed: int) -> int | None:
    """Return the index of the hand-off start at which the episode of a seed begins.

    As many seeds in a row as there are starts begin at each of them once: a policy's mean does
    nearly the same wherever it begins twice, which would count as evidence.

    Returns:
        ``None`` where not all episodes begin at such starts, or only at those of some kinds of
        places: the seed draws where.
    """
    count = len(env.worlds.starts.starts)
    if not count or env.config.handoff_fraction < 1.0 or env.config.places:
        return None
    return int(np.random.default_rng(count).permutation(count)[seed % count])


class Trial:
    """The episode of a seed, begun and not yet played.

    Args:
        env: environment of the skill.
        agent: that acts in it.
        seed: of the episode.

    Attributes:
        report: the one skill that runs, as the agent of a chain reports it.
        reward: of the last step.
        over: the episode has ended.
        observation: what the agent sees now.
    """

    def __init__(self, env: SkillEnv, agent: EnvAgent, seed: int) -> None:
        self.env, self.agent, self.seed = env, agent, seed
        start = handoff_start(env, seed)
        options = None if start is None else {"start": start}
        self.observation, self._info = env.reset(seed=seed, options=options)
        self._where = _place(env)
        agent.reset(seed)
        run = SkillRecord(env.skill, _action(env), policy=_policy(agent))
        self.report = AgentReport(skills=[run])
        self.reward, self._total, self._peak, self.over = 0.0, 0.0, 0.0, False
        self._trace = Trace()
        self._trace.add(env.sim.state())

    def step(self) -> None:
        """Let the agent act once."""
        if isinstance(self.agent, PolicyAgent):
            self.agent.observation = self.observation
        after = self.env.step(self.agent.act())
        self.observation, self.reward, terminated, truncated, self._info = after
        self._trace.add(self.env.sim.state())
        self._total += float(self.reward)
        self._peak = max(self._peak, self._info["force"])
        self.over = terminated or truncated
        run = self.report.skills[0]
        run.steps += 1
        if self.over:
            run.outcome = "success" if self._info["success"] else "failure"
            run.cause = self._info["cause"]

    def play(self, recording: Recording | None = None) -> dict[str, Any]:
        """Play to the end; return the record."""
        if recording is not None:
            recording.add(self.env.sim.state(), self.report)
        while not self.over:
            self.step()
            if recording is not None:
                recording.add(self.env.sim.state(), self.report, self.reward)
        return self.record()

    def record(self) -> dict[str, Any]:
        """Return what happened so far."""
        info, skill = self._info, getattr(self.agent, "skill", None)
        reason = "" if skill is None else skill.status(self.env.sim, 0).reason
        return {
            "seed": self.seed,
            "episode_id": info["episode_id"],
            "layout": info["layout"],
            "success": bool(info["success"]),
            "cause": info["cause"],
            "reason": reason,
            "return": self._total,
            "steps": self.report.skills[0].steps,
            "states": self._trace.digest,
            "force_max": self._peak,
            **self._where,
            **{k: v for k, v in info.items() if k.endswith(("distance", "angle", "error"))},
        }


def _place(env: SkillEnv) -> dict[str, Any]:
    """Return, for Pick and Place, in what kind of place the target lies or is wanted.

    And how far the base has to go, in metres at full speed, where the engine can tell.
    """
    if not row_of(env.skill).placed:
        return {}
    found: dict[str, Any] = {"place": env.worlds.place_kind(0)}
    with contextlib.suppress(UserError):  # an engine that casts no rays
        found["way"] = env.worlds.way_left(0)
    return found


def _policy(agent: EnvAgent) -> str:
    """Return what a report says of who acts."""
    if isinstance(agent, RandomAgent):
        return ""
    return "learned" if isinstance(agent, PolicyAgent) else "scripted"


def _action(env: SkillEnv) -> str:
    """Return what the skill is about, as a plan would say it."""
    call = env.worlds.origins[0].call
    if call is None:
        return env.skill
    label = env.sim.episode(0).targets[call.target].label if call.target is not None else ""
    if call.joint is not None:
        label = call.joint
    elif env.skill == "place" or call.place == "goal":
        return f"{env.skill}({label}, {GOAL_PREFIX}{label})"
    return f"{env.skill}({label})"

"""Episodes of a skill's own environment, to measure a policy, the scripted skill or chance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skills.book import make_skill, row_of
from skills.envs.agents import DrivingAgent, EnvAgent, RandomAgent, SkillAgent
from skills.envs.single import SkillEnv
from skills.learned.cards import SHIPPED, policy_of, special_places, weights_path
from skills.learned.inference import NumpyPolicy
from skills.superseded.imitation.collect import environment
from skills.superseded.laws.standing import STANDING
from tpsrl.errors import UserError


@dataclass(frozen=True)
class Weights:
    """The files that act in a skill's environment.

    Attributes:
        general: acts wherever no other does.
        special: kind of place -> the file that acts there instead.
    """

    general: Path
    special: Mapping[str, Path] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, Path]:
        """All of them, by their names without the ending."""
        return {path.stem: path for path in (self.general, *self.special.values())}


@dataclass(frozen=True)
class TrialJob:
    """Some episodes to run in one worker process.

    Attributes:
        skill: name of the environment's skill.
        env_args: arguments of the environment.
        agent: ``"tpsrl"`` (a trained policy), ``"scripted"`` or ``"random"``.
        policy: weights of the trained policy; the environment offers what all of them sense.
        seeds: of the episodes.
        sample: actions are drawn from the policy's distribution; otherwise its mean acts.
    """

    skill: str
    env_args: dict[str, Any]
    agent: str
    policy: Weights | None
    seeds: tuple[int, ...]
    sample: bool = False


class PolicyAgent(EnvAgent):
    """The mean or a drawn action of a policy; set ``observation`` before :meth:`act`.

    Args:
        env: to act in.
        policy: that acts.
        sample: actions are drawn.
        special: kind of place -> policy that acts in its episodes instead.
    """

    def __init__(
        self,
        env: SkillEnv,
        policy: NumpyPolicy,
        sample: bool = False,
        special: Mapping[str, NumpyPolicy] | None = None,
    ) -> None:
        super().__init__(env)
        self._general, self._special = policy, special or {}
        self._policy, self._sample = policy, sample
        self._rng: np.random.Generator | None = None
        self.observation: dict[str, np.ndarray] = {}

    def reset(self, seed: int) -> None:
        """See :meth:`EnvAgent.reset`; the kind of place says which policy acts."""
        self._policy = self._special.get(_place(self.env).get("place", ""), self._general)
        self._policy.reset()
        self._rng = np.random.default_rng([seed, 3]) if self._sample else None

    def act(self) -> np.ndarray:
        """See :meth:`EnvAgent.act`."""
        return self._policy.step(self.observation, self._rng)


def run_trials(job: TrialJob) -> list[dict[str, Any]]:
    """Run the episodes of a job; return one record each."""
    env = environment(job.skill, job.env_args)
    agent = _agent(job, env)
    return [play_episode(env, agent, seed) for seed in job.seeds]


def _agent(job: TrialJob, env: SkillEnv) -> EnvAgent:
    if job.agent == "random":
        return RandomAgent(env)
    if job.agent == "scripted":
        return scripted_agent(env)
    assert job.policy is not None
    special = {kind: NumpyPolicy.load(path) for kind, path in job.policy.special.items()}
    return PolicyAgent(env, NumpyPolicy.load(job.policy.general), job.sample, special)


def scripted_agent(env: SkillEnv) -> EnvAgent:
    """Return the scripted agent of an environment."""
    if not row_of(env.skill).program:
        return DrivingAgent(env)
    if env.skill in STANDING and not env.worlds.task.layout.base:
        return SkillAgent(env, lambda name: STANDING[name]())
    return SkillAgent(env, make_skill)


def play_episode(env: SkillEnv, agent: EnvAgent, seed: int) -> dict[str, Any]:
    """Let an agent play the episode of a seed; return its record."""
    observation, info = env.reset(seed=seed)
    place = _place(env)
    agent.reset(seed)
    total, steps, peak, over = 0.0, 0, 0.0, False
    while not over:
        if isinstance(agent, PolicyAgent):
            agent.observation = observation
        observation, reward, terminated, truncated, info = env.step(agent.act())
        total, steps, peak = total + float(reward), steps + 1, max(peak, info["force"])
        over = terminated or truncated
    skill = getattr(agent, "skill", None)
    reason = "" if skill is None else skill.status(env.sim, 0).reason
    return {
        "seed": seed,
        "episode_id": info["episode_id"],
        "layout": info["layout"],
        "success": bool(info["success"]),
        "cause": info["cause"],
        "reason": reason,
        "return": total,
        "steps": steps,
        "peak_force": peak,
        **place,
        **{k: v for k, v in info.items() if k.endswith(("distance", "angle", "error"))},
    }


def _place(env: SkillEnv) -> dict[str, str]:
    """Return, for Pick and Place, in what kind of place the target lies or is wanted."""
    return {"place": env.worlds.place_kind(0)} if row_of(env.skill).placed else {}


def find_weights(weights: Path | None, skill: str) -> Weights:
    """Return the files of a skill's policy; a single file acts alone.

    Args:
        weights: a ``.safetensors`` file, a folder of them, or ``None`` for those shipped.
        skill: its name.

    Raises:
        UserError: there are none, or those for kinds of places do not fit the general ones.
    """
    if weights is not None and weights.is_file():
        return Weights(weights.resolve())
    folder = (SHIPPED if weights is None else weights).resolve()
    path = weights_path(folder, skill)
    if special_places(folder, skill):
        policy = policy_of(folder, skill)
        return Weights(path, {kind: p.path for kind, p in policy.special.items()})
    if not path.exists():
        raise UserError(f"{path}: there are no weights of '{skill}'; 'tpsrl train' makes them.")
    return Weights(path)

"""Demonstrations from the scripted skill in the skill's own environment.

Plain demonstrations: the expert acts, in half of the episodes with noise on the action that is
carried out while the label stays the expert's (Laskey et al. 2017, DART). DAgger (Ross et al.
2011): the learner acts at first and the expert says at every step what it would have done; then the
expert takes over. The scripted skills are programs that look at the present state at every step, so
one can follow what the learner does; where it gives up it is begun anew from where the learner is.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from skills.envs.single import SkillEnv
from skills.interface import Skill, SkillCall
from skills.learned.inference import NumpyPolicy
from skills.superseded.imitation.demonstrations import Demonstration, write_shard
from skills.superseded.laws.teachers import make_teacher
from skills.tasks.sensors import DEPTH

_NOISE_MEMORY = 0.9
"""Correlation of the noise from one step to the next."""
_WAIT_FOR_STOP = 5
"""Steps that the expert's stop is shown, and not carried out, before the episode ends with it."""
_WAIT_FOR_RELEASE = 5
"""Steps that the expert's release is shown, and not carried out, while nothing else moves."""
_STANDS = np.array([0.03, 0.03, 0.03] + [0.06] * 7)
"""A robot whose base (m, rad) and arm (rad) have moved less stands still."""
_WAITS = 0.05
"""The expert waits where none of its arm and base actions is larger."""


@dataclass(frozen=True)
class CollectOptions:
    """How an episode is recorded.

    Attributes:
        noise: largest standard deviation of the noise on the expert's arm and base actions.
        noise_steps: noise ends after at most so many steps, so that the expert can finish.
        roll_in: most steps that the learner acts before the expert takes over.
        restart: the expert does not follow the learner but is begun anew when it takes over; the
            learner's own steps are then not labelled.
        stall: if not 0, the expert takes over where the learner has stood still for so many steps,
            where it would end the episode in failure (``Task.spoils``), or after ``roll_in``
            (HG-DAgger, Kelly et al. 2019, with this rule in the human's place). The learner's steps
            have its own actions as labels where it succeeds by itself, so that it does not forget
            how, and none elsewhere.
        teacher: one of ``skills.superseded.laws.teachers.TEACHERS``, see :func:`make_teacher`.
    """

    noise: float = 0.3
    noise_steps: int = 80
    roll_in: int = 150
    restart: bool = False
    stall: int = 0
    teacher: str = "law"


@dataclass(frozen=True)
class ShardJob:
    """Some episodes to record, in one worker process.

    Attributes:
        skill: name of the environment's skill.
        env_args: arguments of the environment.
        seeds: of the episodes.
        path: file to write.
        options: see :class:`CollectOptions`.
        policy: weights of the learner, ``None`` for plain demonstrations.
    """

    skill: str
    env_args: dict[str, Any]
    seeds: tuple[int, ...]
    path: Path
    options: CollectOptions
    policy: Path | None = None


@dataclass
class ShardResult:
    """What was recorded: (episodes,) success flags and lengths, and why others failed."""

    success: list[bool] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    causes: list[str] = field(default_factory=list)


_environments: dict[str, SkillEnv] = {}


def environment(skill: str, env_args: dict[str, Any]) -> SkillEnv:
    """Return this process's environment, made at the first use."""
    key = f"{skill} {sorted(env_args.items())}"
    if key not in _environments:
        for env in _environments.values():
            env.close()
        _environments.clear()
        _environments[key] = SkillEnv(skill, **env_args)
    return _environments[key]


def record_shard(job: ShardJob) -> ShardResult:
    """Record the episodes of a job and write its file."""
    env = environment(job.skill, job.env_args)
    learner = None if job.policy is None else NumpyPolicy.load(job.policy)
    found, result = [], ShardResult()
    for seed in job.seeds:
        episode = record_episode(env, seed, job.options, learner)
        found.append(episode)
        result.success.append(episode.success)
        result.steps.append(len(episode))
        result.causes.append(episode.cause)
    write_shard(job.path, found)
    return result


def record_episode(
    env: SkillEnv, seed: int, options: CollectOptions, learner: NumpyPolicy | None = None
) -> Demonstration:
    """Record one episode.

    Args:
        env: environment of one of the seven skills.
        seed: of the episode and of all that is random here.
        options: see :class:`CollectOptions`.
        learner: acts first, if given.
    """
    return _Recorder(env, seed, options).run(learner)


class _Recorder:
    def __init__(self, env: SkillEnv, seed: int, options: CollectOptions) -> None:
        self.env, self.seed, self.options = env, seed, options
        self.rng = np.random.default_rng([seed, 2])
        self.task = env.worlds.task
        self.steps: dict[str, list[Any]] = defaultdict(list)
        self.over, self.info = False, dict[str, Any]()

    def run(self, learner: NumpyPolicy | None) -> Demonstration:
        self.observation, self.info = self.env.reset(seed=self.seed)
        call = self.env.worlds.origins[0].call
        assert call is not None, "PointNav, Flee and Explore have no scripted skill"
        self.call: SkillCall = call
        expert = None if learner is None else self._learner_acts(learner)
        reason = "" if self.over else self._expert_acts(expert or self._expert())
        return self._finished(reason)

    def _learner_acts(self, learner: NumpyPolicy) -> Skill | None:
        """Let the learner act for a while; return the expert that followed it."""
        learner.reset()
        stall, most = self.options.stall, self.options.roll_in
        expert = None if self.options.restart or stall else self._expert()
        trail: list[np.ndarray] = []
        own: list[np.ndarray] = []
        for _ in range(most if stall else int(self.rng.integers(most + 1))):
            state = self.env.sim.state()
            trail.append(np.concatenate([state.base_pose[0], state.arm_qpos[0]]))
            if stall and len(trail) > stall and (abs(trail[-1] - trail[-stall]) < _STANDS).all():
                break
            action, label = learner.step(self.observation), None
            if self.task.layout.stop:
                action[-1] = -1.0  # what follows is what can be learned from
            if stall and self._spoils(action):
                break
            if expert is not None:
                label, failed = self._ask(expert)
                if failed:
                    return None
            own.append(action)
            self._step(action, label)
            if self.over:
                break
        if stall and self.over and self.info["success"]:
            self.steps["actions"] = [np.clip(a, -1.0, 1.0).astype(np.float32) for a in own]
            self.steps["weights"] = [np.float32(1.0)] * len(own)
        return expert

    def _spoils(self, action: np.ndarray) -> bool:
        view = self.env.worlds.view
        return view is not None and bool(self.task.spoils(view, action[None])[0])

    def _expert(self) -> Skill:
        layout = self.task.layout
        standing = layout.arm and not layout.base
        skill = make_teacher(self.call.skill, standing, self.options.teacher)
        skill.reset(self.env.sim, 0, self.call, self.seed)
        return skill

    def _ask(self, skill: Skill) -> tuple[np.ndarray, str]:
        """Return the expert's flat action, and why it gave up."""
        robot = skill.act(self.env.sim, 0)
        status = skill.status(self.env.sim, 0)
        stop = np.array([status.done or status.failed])
        flat = self.task.flat_action(robot[None], stop)[0].astype(np.float32)
        return np.clip(flat, -1.0, 1.0), (status.reason or "gave up") if status.failed else ""

    def _expert_acts(self, skill: Skill) -> str:
        """Let the expert act to the end; return why it gave up."""
        stops = releases = 0
        noise = np.zeros(self.task.layout.size)
        scale = self.options.noise * self.rng.random() * (self.rng.random() < 0.5)
        moving = self.task.layout.moving
        quiet = int(self.rng.integers(self.options.noise_steps + 1))
        while not self.over:
            label, failed = self._ask(skill)
            if failed:
                return failed
            moving, quiet = moving & (quiet > 0), quiet - 1
            drawn = self.rng.normal(size=noise.shape) * moving * scale
            noise = _NOISE_MEMORY * noise * (quiet > 0) + np.sqrt(1 - _NOISE_MEMORY**2) * drawn
            action = np.clip(label + noise, -1.0, 1.0)
            if self.task.layout.stop and label[-1] > 0:
                # A single step of stop in a hundred would hardly be learned.
                action = label.copy()
                action[-1] = 1.0 if stops >= _WAIT_FOR_STOP else -1.0
                stops += 1
            if releases < _WAIT_FOR_RELEASE and self._releases(label):
                # One step in a hundred would hardly be learned. The expert is not asked again
                # meanwhile: nothing moves.
                action = label.copy()
                action[self.task.layout.grip_index] = 1.0
                while releases < _WAIT_FOR_RELEASE and not self.over:
                    self._step(action, label)
                    releases += 1
                action = label
                if self.over:
                    break
            self._step(action, label)
        return ""

    def _releases(self, label: np.ndarray) -> bool:
        """Return whether the expert lets go of what is held and does nothing else."""
        layout = self.task.layout
        if not (layout.grip and layout.arm) or not self.observation.get("is_holding", [0])[0]:
            return False
        still = np.abs(label[layout.moving]).max() <= _WAITS
        return bool(label[layout.grip_index] < 0 and still)

    def _step(self, action: np.ndarray, label: np.ndarray | None) -> None:
        for name, value in self.observation.items():
            kept = value.astype(np.float16) if name == DEPTH else np.array(value)
            self.steps["obs." + name].append(kept)
        size = self.task.layout.size
        self.steps["actions"].append(np.zeros(size, np.float32) if label is None else label)
        self.steps["weights"].append(np.float32(label is not None))
        self.observation, reward, terminated, truncated, self.info = self.env.step(action)
        self.steps["rewards"].append(np.float32(reward))
        self.over = terminated or truncated

    def _finished(self, reason: str) -> Demonstration:
        arrays = {name: np.stack(values) for name, values in self.steps.items()}
        if not arrays:  # the expert gave up at once
            arrays = self._empty()
        observations = {
            name.removeprefix("obs."): array
            for name, array in arrays.items()
            if name.startswith("obs.")
        }
        return Demonstration(
            observations,
            arrays["actions"],
            arrays["weights"],
            arrays["rewards"],
            bool(self.info["success"]),
            reason or str(self.info["cause"]),
            self.seed,
            str(self.info["episode_id"]),
        )

    def _empty(self) -> dict[str, np.ndarray]:
        none = np.zeros(0, np.float32)
        arrays = {
            "obs." + name: np.zeros((0, *np.shape(value)), np.float32)
            for name, value in self.observation.items()
        }
        actions = np.zeros((0, self.task.layout.size), np.float32)
        return {**arrays, "actions": actions, "weights": none, "rewards": none}

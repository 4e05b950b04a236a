"""A policy of our own trainer that learns a skill from a data set: behaviour cloning."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eval.dataset.frames import goal_sensors_of
from eval.dataset.reading import DataSet
from skills.book import chained, row_of
from skills.envs import env_id
from skills.envs.config import EnvConfig, action_space
from skills.tasks.base import Task
from skills.tasks.sensors import PICTURES
from tpsrl.errors import UserError
from tpsrl.files import write_json
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.envs.spaces import describe

_APART = 5
"""Of so many episodes one is kept from learning, to measure on."""


@dataclass(frozen=True)
class CloneConfig:
    """How a skill is learned.

    Attributes:
        skill: which.
        epochs: passes over the frames.
        trials: episodes of the skill's environment in which the policy is tried; 0 for none.
        seed: of weights and order.
    """

    skill: str
    epochs: int = 60
    trials: int = 50
    seed: int = 0


def clone_skill(path: Path, config: CloneConfig, out: Path) -> dict[str, float]:
    """Learn a skill from a data set; write ``policy.safetensors`` and ``clone.json`` into ``out``.

    The policy sees what the contract shows of the skill beside pictures, and what the set keeps of
    it; its action has no stop (``stop="success"``).

    Returns:
        ``frames``; ``error``, the squared distance of its motions from those of episodes that it
        did not learn from; ``guess``, that of the mean motion; ``success`` in the environment.

    Raises:
        UserError: there is no such data set, or the skill is not in it or in one episode only.
    """
    import torch

    from ver_trainer import evaluate
    from ver_trainer.cloning import clone
    from ver_trainer.config import NetConfig
    from ver_trainer.export import save_policy
    from ver_trainer.nets.policy import make_policy

    env = EnvConfig(depth=None, sensors=_sensors(config.skill), stop="success", split="val")
    task = env.task(config.skill)
    learned, apart = _rows(path, config.skill, task)
    torch.manual_seed(config.seed)
    net = NetConfig(mlp=[256, 256], activation="relu", normalize_obs=True)
    net.binary_actions = [task.layout.grip_index] if task.layout.grip else []
    policy = make_policy(describe(env.space(task), action_space(task)), net)
    clone(policy, learned, learned["action"], config.epochs, seed=config.seed)
    with torch.no_grad():
        seen = {name: torch.from_numpy(apart[name]) for name in policy.actor_obs}
        acted = policy.act_mode(seen, torch.zeros(len(apart["action"]), 0))[0]
    moving = task.layout.moving
    found = {
        "frames": float(len(learned["action"])),
        "error": _apart(acted.clamp(-1, 1).numpy(), apart["action"], moving),
        "guess": _apart(learned["action"].mean(0), apart["action"], moving),
    }
    if config.trials:
        factory = EnvFactory(
            f"skills.envs:{env_id(config.skill)}",
            {"depth": None, "sensors": env.sensors, "stop": "success", "split": "val"},
        )
        result = evaluate(policy, factory, config.trials, num_envs=2)
        found["success"] = result.summary()["success"]
    out.mkdir(parents=True, exist_ok=True)
    save_policy(policy, out / "policy.safetensors")
    write_json(out / "clone.json", {"data": str(path), **vars(config), **found})
    return found


def _apart(acted: np.ndarray, wanted: np.ndarray, moving: np.ndarray) -> float:
    return float(((acted - wanted)[:, moving] ** 2).sum(1).mean())


def _sensors(skill: str) -> tuple[str, ...]:
    contract = [name for name in row_of(skill).task.sensors if name not in PICTURES]
    if skill not in chained():
        raise UserError(f"the skill '{skill}' is no part of a plan, so no data set shows it")
    return tuple(dict.fromkeys((*contract, *goal_sensors_of(skill))))


def _rows(path: Path, skill: str, task: Task) -> tuple[dict[str, np.ndarray], ...]:
    """Return the frames to learn from and those to measure on, with the task's own actions."""
    found = DataSet(path).of_skill(skill, task.sensors)
    robot = found["action"].astype(np.float64)
    flat = task.flat_action(robot, np.zeros(len(robot), dtype=bool))
    if task.layout.grip:
        grip = task.layout.grip_index
        flat[:, grip] = np.where(flat[:, grip] >= 0, 1.0, -1.0)
    found["action"] = flat.astype(np.float32)
    episodes = np.unique(found["episode_index"])
    if len(episodes) < 2:
        raise UserError(f"'{skill}' runs in one episode of {path}; two are needed, one to measure")
    kept = episodes[_APART - 1 :: _APART] if len(episodes) >= _APART else episodes[-1:]
    apart = np.isin(found["episode_index"], kept)
    return tuple({k: v[rows] for k, v in found.items()} for rows in (~apart, apart))

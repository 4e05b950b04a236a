"""Small policies for the tests."""

from __future__ import annotations

from pathlib import Path

import torch

from skills.envs.config import EnvConfig, action_space
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import describe
from ver_trainer.export import save_policy
from ver_trainer.nets.policy import Policy, make_policy

STATE = {"depth": None, "split": "val"}
SMALL = NetConfig(encoder="auto", mlp=[16], core="lstm", core_size=8, core_layers=1)


def small_policy(skill: str, seed: int = 0, sensors: tuple[str, ...] | None = None) -> Policy:
    """Return a random policy of a skill, without depth; ``sensors`` instead of the contract's."""
    torch.manual_seed(seed)
    env = EnvConfig(depth=None, split="val", sensors=sensors)
    task = env.task(skill)
    policy = make_policy(describe(env.space(task), action_space(task)), SMALL)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return policy.eval()


def saved_policy(path: Path, skill: str, stop: float | None = None) -> Path:
    """Write a random policy; ``stop`` fixes what it says about stopping."""
    policy = small_policy(skill)
    if stop is not None:
        with torch.no_grad():
            policy.actor.linear.weight[-1] = 0.0
            policy.actor.linear.bias[-1] = stop
    save_policy(policy, path)
    return path

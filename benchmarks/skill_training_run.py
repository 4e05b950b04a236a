"""Runs one workload of ``benchmarks.skill_training`` and prints its speed as JSON.

``python -m benchmarks.skill_training_run NAME WARMUP SECONDS SB3_ENVS DEVICE``
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from typing import Any

import gymnasium

from benchmarks.names import run_main
from benchmarks.trainer_peers import Stopwatch, learn
from skills.book import row_of
from skills.envs import env_id
from skills.tasks.sensors import DEPTH

SKILL = "pick"
WORLDS, STEPS, EPOCHS, MINI_BATCHES, LAYERS = 64, 128, 4, 4, [256, 256]
"""Of ``state``."""


def environment(depth: int | None) -> dict[str, Any]:
    """Arguments of the environment; without a picture the object's place is told instead."""
    if depth is not None:
        return {"depth": depth}
    contract = [name for name in row_of(SKILL).task.sensors if name != DEPTH]
    added = [name for name in ("obj_start_in_base", "ee_pos") if name not in contract]
    return {"depth": None, "sensors": [*contract, *added]}


def settings(workload: str) -> dict[str, Any]:
    """Settings of the trainer; all that is not named is as shipped."""
    if workload == "state":
        return {
            "env_args": environment(None), "collect.num_envs": WORLDS, "collect.steps": STEPS,
            "net.mlp": LAYERS, "net.separate_critic": True, "net.normalize_obs": True,
            "ppo.epochs": EPOCHS, "ppo.mini_batches": MINI_BATCHES,
        }  # fmt: skip
    if workload == "depth64":
        return {
            "env_args": environment(64), "collect.num_envs": 16, "collect.steps": 32,
            "net.encoder": "cnn", "net.image_features": 256, "net.core": "lstm",
            "net.core_size": 256, "net.core_layers": 1, "ppo.epochs": 1, "ppo.mini_batches": 1,
        }  # fmt: skip
    return {
        "env_args": environment(128), "collect.num_envs": 8, "collect.steps": 32,
        "net.encoder": "resnet18", "net.image_features": 512, "net.core": "lstm",
        "net.core_size": 512, "net.core_layers": 2, "ppo.epochs": 2, "ppo.mini_batches": 2,
    }  # fmt: skip


def ours(name: str, device: str, watch: Stopwatch) -> None:
    """Train with VER."""
    from ver_trainer.config import load_config
    from ver_trainer.runner import Runner

    workload, _, variant = name.partition("_")
    spent = {"collect": 0.0, "learn": 0.0}

    class TimedRunner(Runner):
        def _after_update(self, stats: Any, metrics: Any, learn_seconds: float) -> None:
            super()._after_update(stats, metrics, learn_seconds)
            if watch.first is not None:
                spent["collect"] += stats.total
                spent["learn"] += learn_seconds
            if watch.tick(self.steps):
                self.signals.received = signal.SIGTERM

    with tempfile.TemporaryDirectory() as out:
        values = {
            "env": f"skills.envs:{env_id(SKILL)}", "preload": ["skills.envs"], "out": out,
            "device": device, "total_steps": 10**9, "collect.worlds": 0,
            "collect.overlap": "overlap" in variant,
            "precision": "bf16" if "bf16" in variant else "float32",
            "ppo.normalize_advantage": True, "optim.lr": 1e-4, "log.progress": False,
            "log.tensorboard": False, "log.checkpoint_interval": 10**6, **settings(workload),
        }  # fmt: skip
        TimedRunner(load_config(**values)).run()
    report = watch.result()
    report["collect_share"] = spent["collect"] / max(sum(spent.values()), 1e-9)
    print(json.dumps(report), flush=True)


def single() -> gymnasium.Env[Any, Any]:
    """Make the environment of ``state`` as any other library gets it."""
    return gymnasium.make(env_id(SKILL), disable_env_checker=True, **environment(None))


def sb3(count: int, watch: Stopwatch) -> None:
    """Train with Stable-Baselines3's PPO."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import SubprocVecEnv

    from ver_trainer.machine import cores

    torch.set_num_threads(cores())
    rows = WORLDS * STEPS
    envs = SubprocVecEnv([single] * count, start_method="forkserver")
    model = PPO(
        "MultiInputPolicy",
        envs,
        n_steps=rows // count,
        batch_size=rows // MINI_BATCHES,
        n_epochs=EPOCHS,
        learning_rate=1e-4,
        device="cpu",
        policy_kwargs={"net_arch": {"pi": LAYERS, "vf": LAYERS}},
    )

    learn(model, watch)
    watch.report()
    envs.close()


def main(words: list[str]) -> None:
    """Measure the workload named on the command line."""
    name, warmup, seconds, count, device = words
    watch = Stopwatch(float(warmup), float(seconds))
    if name == "sb3_state":
        sb3(int(count), watch)
    else:
        ours(name, device, watch)


if __name__ == "__main__":
    sys.exit(run_main(main))

"""One run of a task of ``benchmarks.learning`` that needs packages of others, in their environment.

``python -m benchmarks.learning_peer TASK SCHEME SEED STEPS``, started by ``benchmarks.learning``:
``sb3`` is Stable-Baselines3's PPO (tasks with memory: sb3-contrib's RecurrentPPO), anything else a
scheme of ours. Prints ``{"return": ..., "reached": ...}`` as JSON.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

from benchmarks.learning import TASKS, make, train_here
from benchmarks.names import run_main


def sb3(task: str, seed: int, steps: int) -> tuple[float, float | None]:
    """Trains with the settings of our run, and evaluates as it does."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import VecNormalize

    torch.set_num_threads(1)
    ours, threshold = TASKS[task]["values"], TASKS[task]["threshold"]
    count, length = ours["collect.num_envs"], ours["collect.steps"]
    common: dict[str, Any] = {
        "n_steps": length, "batch_size": count * length // ours["ppo.mini_batches"],
        "n_epochs": ours["ppo.epochs"], "gamma": ours["ppo.gamma"], "seed": seed,
        "gae_lambda": ours["ppo.gae_lambda"], "ent_coef": ours["ppo.entropy_coef"],
        "learning_rate": lambda left: ours["optim.lr"] * left, "device": "cpu",
        "stats_window_size": 50,
    }  # fmt: skip
    env: Any = make_vec_env(lambda: make(task), count, seed=seed)
    if ours.get("net.normalize_obs"):
        env = VecNormalize(env, gamma=ours["ppo.gamma"])
    if ours.get("net.core") == "lstm":
        kwargs = {"lstm_hidden_size": ours["net.core_size"], "net_arch": []}
        model: Any = RecurrentPPO("MlpLstmPolicy", env, policy_kwargs=kwargs, **common)
    else:
        model = PPO("MlpPolicy", env, policy_kwargs={"net_arch": list(ours["net.mlp"])}, **common)
    reached: list[int] = []

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            returns = [episode["r"] for episode in model.ep_info_buffer]
            if returns and sum(returns) / len(returns) >= threshold:
                reached.append(model.num_timesteps)

    model.learn(steps, callback=Watch())
    test: Any = make_vec_env(lambda: make(task), 4, seed=seed + 10**6)
    if isinstance(env, VecNormalize):
        test = VecNormalize(test, training=False, norm_reward=False)
        test.obs_rms = env.obs_rms
    mean, _ = evaluate_policy(model, test, 20)
    return float(np.mean(mean)), float(reached[0]) if reached else None


def main(words: list[str]) -> None:
    """Run and print."""
    task, scheme, seed, steps = words[0], words[1], int(words[2]), int(words[3])
    run = sb3(task, seed, steps) if scheme == "sb3" else train_here(task, scheme, seed, steps)
    print(json.dumps(dict(zip(("return", "reached"), run, strict=True))), flush=True)


if __name__ == "__main__":
    sys.exit(run_main(main))

"""One training of ``benchmarks.clients``, in the Python of its library.

``python -m benchmarks.clients_run CLIENT STEPS SEED WORLDS ENV_ARGS`` prints a JSON line a rollout:
steps so far, and mean success and return of the last 100 episodes.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import clients_ppo as ppo
from benchmarks.names import run_main

ENV = "skills.envs:tpsrl/OpenCabinet-v0"
ROWS = 4096
"""Of a rollout, in all clients."""


def say(step: int, won: Sequence[float], returns: Sequence[float]) -> None:
    """Print how the training stands."""
    means = [float(np.mean(values)) if values else None for values in (won, returns)]
    print(json.dumps({"step": step, "success": means[0], "return": means[1]}), flush=True)


def ours(steps: int, seed: int, worlds: int, arguments: dict[str, Any]) -> None:
    """VER, with the settings that the others have."""
    from ver_trainer import load_config, train

    def note(record: dict[str, Any]) -> None:
        means = (record.get(f"episode/{name}") for name in ("success", "return"))
        say(record["step"], *([] if mean is None else [mean] for mean in means))

    with tempfile.TemporaryDirectory() as out:
        values = {
            "env": ENV, "env_args": arguments, "preload": ["skills.envs"], "out": out, "seed": seed,
            "device": "cpu", "total_steps": steps, "collect.num_envs": worlds, "collect.worlds": 0,
            "collect.steps": ROWS // worlds, "net.normalize_returns": True,
            "net.encoder": "cnn" if arguments["depth"] else "mlp",
            "net.image_features": 256, "net.mlp": [64, 64], "net.fusion": [64, 64],
            "net.separate_critic": True,
            "net.initial_std": ppo.FIRST_STD, "ppo.epochs": ppo.EPOCHS, "ppo.gamma": ppo.GAMMA,
            "ppo.mini_batches": ppo.PARTS, "ppo.gae_lambda": ppo.LAMBDA, "ppo.clip": ppo.CLIP,
            "ppo.entropy_coef": 0.0, "ppo.normalize_advantage": True, "optim.lr": ppo.RATE,
            "optim.schedule": "linear", "log.progress": False, "log.tensorboard": False,
            "log.checkpoint_interval": 10**6, "log.window": 100,
        }  # fmt: skip
        train(load_config(**values), on_record=note)


def sb3(steps: int, seed: int, worlds: int, arguments: dict[str, Any]) -> None:
    """Stable-Baselines3's PPO."""
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.preprocessing import is_image_space
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

    from ver_trainer.machine import cores

    torch.set_num_threads(cores())
    env: Any = make_vec_env(
        lambda: gymnasium.make(ENV, disable_env_checker=True, **arguments),
        worlds,
        seed=seed,
        monitor_kwargs={"info_keywords": ("success",)},
        vec_env_cls=SubprocVecEnv,
    )
    pictures = [k for k, box in env.observation_space.items() if is_image_space(box)]
    assert len(pictures) == bool(arguments["depth"]), "a CNN must look at the depth picture"
    env = VecNormalize(env, norm_obs=False, gamma=ppo.GAMMA)
    model = PPO(
        "MultiInputPolicy", env, n_steps=ROWS // worlds, batch_size=ROWS // ppo.PARTS,
        n_epochs=ppo.EPOCHS, gamma=ppo.GAMMA, gae_lambda=ppo.LAMBDA, clip_range=ppo.CLIP, seed=seed,
        learning_rate=lambda left: ppo.RATE * left, ent_coef=0.0, device="cpu",
        policy_kwargs={"log_std_init": float(np.log(ppo.FIRST_STD))}, stats_window_size=100,
    )  # fmt: skip

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            last = list(model.ep_info_buffer or ())
            say(model.num_timesteps, [e["success"] for e in last], [e["r"] for e in last])

    model.learn(steps, callback=Watch())
    env.close()


def main(words: list[str]) -> None:
    """Train as the command line says."""
    client, arguments = words[0], json.loads(words[4])
    steps, seed, worlds = (int(word) for word in words[1:4])
    if client == "cleanrl":
        ppo.train(ENV, arguments, worlds, ROWS // worlds, steps, seed, say)
    else:
        {"sb3": sb3, "ours": ours}[client](steps, seed, worlds, arguments)


if __name__ == "__main__":
    sys.exit(run_main(main))

"""One run of ``benchmarks.skill_learning``: writes a folder with ``metrics.jsonl``.

``python -m benchmarks.skill_learning_run SKILL SCHEME SEED STEPS SB3_ENVS OUT``
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import yaml

from skills import training
from skills.book import row_of
from skills.envs import env_id
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import make_episodes

ROOT = Path(__file__).parents[1]
EVERY = 50
"""Updates between checkpoints of Stable-Baselines3."""
WINDOW = 1000
"""Episodes over which success is averaged."""
EPISODES = 500
"""Train episodes that both sides draw from, as the recipe makes them."""


def recipe() -> dict[str, Any]:
    """Return the config of teachers."""
    text = (ROOT / "configs" / "skills" / "teacher.yaml").read_text()
    return dict(yaml.safe_load(text))


def ours(skill: str, seed: int, steps: int, out: Path) -> None:
    """Train by the recipe, without starts of a chain and without starts that come again."""
    training.run(
        [
            f"skill={skill}", "config=teacher", f"seed={seed}", f"total_steps={steps}",
            f"out={out}", "chain_starts=0", "env_args.again=0.0", "also_wide=false",
            f"train_episodes={EPISODES}",
            "env_args.handoff_fraction=0.0", f"log.window={WINDOW}", "log.tensorboard=false",
        ]
    )  # fmt: skip


class Told(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Tells Stable-Baselines3 of success by the name that it knows."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """See :meth:`gymnasium.Env.step`."""
        *rest, info = self.env.step(action)
        return *rest, {**info, "is_success": info["success"]}  # type: ignore[return-value]


def single(skill: str, episodes: str) -> gymnasium.Env[Any, Any]:
    """Make a teacher's environment as any other library gets it."""
    args = {k: v for k, v in recipe()["env_args"].items() if k not in ("again", "handoff_fraction")}
    return Told(gymnasium.make(env_id(skill), disable_env_checker=True, episodes=episodes, **args))


def sb3(skill: str, seed: int, steps: int, count: int, out: Path) -> None:
    """Train with Stable-Baselines3's PPO, from its last checkpoint if there is one."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

    from ver_trainer.machine import cores

    config = recipe()
    ppo, net, collect = config["ppo"], config["net"], config["collect"]
    rows = collect["num_envs"] * collect["steps"]
    torch.set_num_threads(cores())
    out.mkdir(parents=True, exist_ok=True)
    weights, scales, metrics = out / "model.zip", out / "scales.pkl", out / "metrics.jsonl"
    scenario = load_scenario(row_of(skill).task.scenario)
    episodes = str(make_episodes(scenario, "train", EPISODES, cores()))
    make = partial(single, skill, episodes)
    plain = SubprocVecEnv([make] * count, start_method="forkserver")
    plain.seed(seed)
    if weights.exists():
        env = VecNormalize.load(str(scales), plain)
        model = PPO.load(weights, env, device="cpu")
        kept = [json.loads(line) for line in metrics.read_text().splitlines()]
        known = [record for record in kept if record["step"] <= model.num_timesteps]
        metrics.write_text("".join(json.dumps(record) + "\n" for record in known))
    else:
        metrics.unlink(missing_ok=True)
        env = VecNormalize(plain, gamma=ppo["gamma"], clip_obs=10.0)
        model = PPO(
            "MultiInputPolicy", env, seed=seed, device="cpu", n_steps=rows // count,
            batch_size=rows // ppo["mini_batches"], n_epochs=ppo["epochs"], gamma=ppo["gamma"],
            gae_lambda=ppo["gae_lambda"], learning_rate=config["optim"]["lr"],
            target_kl=ppo["target_kl"], max_grad_norm=ppo["max_grad_norm"], ent_coef=0.0,
            stats_window_size=WINDOW,
            policy_kwargs={
                "net_arch": {"pi": net["mlp"], "vf": net["mlp"]},
                "activation_fn": torch.nn.ELU, "log_std_init": float(torch.tensor(0.5).log()),
            },
        )  # fmt: skip

    class Watch(BaseCallback):
        begin = time.monotonic()

        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            ended = list(model.ep_success_buffer)
            record = {"step": model.num_timesteps, "time/seconds": time.monotonic() - self.begin}
            if ended:
                record["episode/success"] = sum(ended) / len(ended)
            with metrics.open("a") as file:
                file.write(json.dumps(record) + "\n")
            if model.num_timesteps // rows % EVERY == 0:
                model.save(weights)
                env.save(str(scales))

    left = steps - model.num_timesteps
    if left > 0:
        model.learn(left, callback=Watch(), reset_num_timesteps=False)
        model.save(weights)
        env.save(str(scales))
    env.close()


def main(words: list[str]) -> None:
    """Run."""
    skill, scheme, seed, steps, count, out = words
    if scheme == "sb3":
        sb3(skill, int(seed), int(steps), int(count), Path(out))
    else:
        ours(skill, int(seed), int(steps), Path(out))


if __name__ == "__main__":
    main(sys.argv[1:])

"""One run of ``benchmarks.skill_learning``: writes a folder with ``metrics.jsonl``.

``python -m benchmarks.skill_learning_run SKILL SCHEME SEED STEPS OUT``
"""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import yaml

from benchmarks.names import run_main
from skills import training
from skills.book import row_of
from skills.envs import env_id
from tpsrl.files import lines_of, write_atomically
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import make_episodes
from ver_trainer.files import locked

ROOT = Path(__file__).parents[1]
EVERY = 50
"""Updates between checkpoints of Stable-Baselines3."""
WINDOW = 1000
"""Episodes over which success is averaged."""
EPISODES = 500
"""Train episodes that both sides draw from, as the recipe makes them."""
SENSES = ("state", "seen")
"""What actor and critic of both sides observe."""
ALIKE = {"mistake_penalty": 0.0, "haste": 0.0, "pressing": 0.0}
"""Rewards that grow with what was mastered in the last 200 episodes of a process are left out: how
many worlds a process has depends on the machine."""


def recipe() -> dict[str, Any]:
    """Return the config of teachers."""
    text = (ROOT / "configs" / "skills" / "teacher.yaml").read_text()
    return dict(yaml.safe_load(text))


def words_of(skill: str, seed: int, steps: int, out: Path) -> list[str]:
    """Return ours: the recipe without starts of a chain and without starts that come again."""
    senses = f"[{','.join(SENSES)}]"
    return [
        f"skill={skill}", "config=teacher", f"seed={seed}", f"total_steps={steps}",
        f"out={out}", "chain_starts=0", "env_args.again=0.0", "also_wide=false",
        f"train_episodes={EPISODES}", f"env_args.sensors={senses}", f"net.actor_obs={senses}",
        f"net.critic_obs={senses}", "device=cpu", "optim.schedule=constant",
        "env_args.handoff_fraction=0.0", f"env_args.options={json.dumps(ALIKE)}",
        f"log.window={WINDOW}", "log.tensorboard=false",
    ]  # fmt: skip


def worlds_of(skill: str, episodes: str, count: int) -> gymnasium.vector.VectorEnv[Any, Any, Any]:
    """Make ``count`` worlds of a teacher's environment as any other library gets them."""
    args = {k: v for k, v in recipe()["env_args"].items() if k not in ("again", "handoff_fraction")}
    args |= {"sensors": list(SENSES), "options": dict(ALIKE), "episodes": episodes}
    return gymnasium.make_vec(
        env_id(skill), num_envs=count, vectorization_mode="vector_entry_point", **args
    )


def saved(out: Path) -> list[Path]:
    """Return the folders of a run that hold whole checkpoints, the newest last."""
    found = [path for path in out.glob("saved_*") if not path.suffix]
    return sorted(found, key=lambda path: int(path.name.removeprefix("saved_")))


def save(model: Any, env: Any, out: Path) -> None:
    """Keep weights and scales of observations together, however the run ends meanwhile."""
    before = saved(out)
    last = int(before[-1].name.removeprefix("saved_")) if before else 0
    new = out / f"saved_{last + 1}"
    half = new.with_suffix(".tmp")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    model.save(half / "model.zip")
    env.save(str(half / "scales.pkl"))
    half.rename(new)
    for old in before:
        shutil.rmtree(old)


def forget(metrics: Path, step: int) -> None:
    """Leave out the records of what was done after a checkpoint, and one that was half written."""
    kept = [line for line in lines_of(metrics) if json.loads(line)["step"] <= step]
    write_atomically(metrics, "".join(line + "\n" for line in kept).encode())


def seconds_of(metrics: Path) -> float:
    """Return the seconds of the last record, 0 if there is none."""
    lines = lines_of(metrics)
    return float(json.loads(lines[-1])["time/seconds"]) if lines else 0.0


def learner(plain: Any, seed: int, count: int, out: Path) -> tuple[Any, Any]:
    """Return Stable-Baselines3's PPO and its environment, of the last checkpoint or new."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import VecNormalize

    config = recipe()
    ppo, net, collect = config["ppo"], config["net"], config["collect"]
    rows = collect["num_envs"] * collect["steps"]
    if folders := saved(out):
        env = VecNormalize.load(str(folders[-1] / "scales.pkl"), plain)
        return PPO.load(folders[-1] / "model.zip", env, device="cpu"), env
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
    return model, env


def sb3(skill: str, seed: int, steps: int, out: Path) -> None:
    """Train with Stable-Baselines3's PPO, from its last checkpoint if there is one."""
    import torch
    from stable_baselines3.common.callbacks import BaseCallback

    from benchmarks.skill_learning_envs import Batches
    from ver_trainer.machine import cores

    torch.set_num_threads(cores())
    metrics = out / "metrics.jsonl"
    scenario = load_scenario(row_of(skill).task.scenario)
    episodes = str(make_episodes(scenario, "train", EPISODES, cores()))
    count, processes = int(recipe()["collect"]["num_envs"]), cores()
    worlds = count // processes
    count = worlds * processes
    plain = Batches(partial(worlds_of, skill, episodes, worlds), processes, worlds)
    plain.seed(seed)
    model, env = learner(plain, seed, count, out)
    forget(metrics, model.num_timesteps)
    if done := model.num_timesteps:  # goes on with other starts and noise than it began with
        model.set_random_seed(seed + done)

    class Watch(BaseCallback):
        """Write a row after every rollout, and a checkpoint now and then and when told to stop."""

        begin = time.monotonic() - seconds_of(metrics)
        told = stopped = False

        def tell(self, *_: object) -> None:
            self.told = True

        def _on_step(self) -> bool:
            return not self.stopped

        def _on_rollout_start(self) -> None:
            updates = model.num_timesteps // (model.n_steps * count)
            if self.told or (updates and updates % EVERY == 0):
                save(model, env, out)
            self.stopped = self.told

        def _on_rollout_end(self) -> None:
            ended = list(model.ep_success_buffer)
            record = {"step": model.num_timesteps, "time/seconds": time.monotonic() - self.begin}
            if ended:
                record["episode/success"] = sum(ended) / len(ended)
            with metrics.open("a") as file:
                file.write(json.dumps(record) + "\n")

    watch = Watch()
    signal.signal(signal.SIGTERM, watch.tell)
    left = steps - model.num_timesteps
    if left > 0:
        model.learn(left, callback=watch, reset_num_timesteps=False)
        if not watch.stopped:
            save(model, env, out)
    env.close()


def main(words: list[str]) -> None:
    """Run."""
    skill, scheme, seed, steps, out = words
    if scheme == "sb3":
        with locked(Path(out), "a training"):  # ours has a lock of its own
            sb3(skill, int(seed), int(steps), Path(out))
    else:
        training.run(words_of(skill, int(seed), int(steps), Path(out)))


if __name__ == "__main__":
    sys.exit(run_main(main))

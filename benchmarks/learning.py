"""Does it learn? Small tasks over several seeds, ``ver`` beside ``ddppo`` and Stable-Baselines3.

``python -m benchmarks.learning json=FILE [tasks=cartpole,pendulum,memory schemes=ver,ddppo
seeds=5 steps=0]`` trains, evaluates every policy over 20 episodes, and prints the interquartile
mean over seeds with a 95% bootstrap interval, and the steps needed to reach the task's threshold.
Runs that FILE already holds are not done again, so the same command goes on after an interruption;
more seeds than are asked for stay in it, and are not printed.

``tasks=repeat_previous,hopper schemes=ver,sb3`` needs packages of others (POPGym, MuJoCo's tasks,
sb3-contrib): all runs of these tasks, ours too, are made in an environment of their own that
``benchmarks.trainer_setup`` makes. Both sides have the same environments, steps, network, epochs,
mini-batches, discounts and rates; what one of them does not have is left at its default.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from benchmarks.names import chosen, run_main
from benchmarks.trainer import SCHEMES, describe_machine
from benchmarks.trainer_setup import python_of
from tpsrl.files import write_json
from ver_trainer import evaluate, load_config, load_policy, train
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.errors import UserError
from ver_trainer.options import option, parse_or_help
from ver_trainer.reading import read_json


class Recall(gym.Env[Any, Any]):
    """Shows one of four symbols in the first step only and asks for it six steps later.

    Reward 1 for the right answer; a policy without memory gets 0.25.
    """

    metadata = {"render_modes": []}  # noqa: RUF012
    DELAY = 6

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.0, (5,), np.float32)
        self.action_space = spaces.Discrete(4)

    def _observe(self) -> np.ndarray:
        seen = np.zeros(5, np.float32)
        if self._t == 0:
            seen[self._symbol] = 1.0
        seen[4] = float(self._t == self.DELAY)
        return seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Draws a symbol."""
        super().reset(seed=seed)
        self._symbol, self._t = int(self.np_random.integers(4)), 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        """Counts the answer given when it is asked for."""
        asked = self._t == self.DELAY
        reward = float(asked and int(action) == self._symbol)
        self._t += 1
        return self._observe(), reward, asked, False, {}


def make(task: str) -> gym.Env[Any, Any]:
    """Makes a task's environment."""
    if task == "memory":
        return Recall()
    if task == "repeat_previous":
        from popgym.envs.repeat_previous import RepeatPreviousEasy

        return RepeatPreviousEasy()
    return gym.make(IDS[task])


IDS = {"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1", "hopper": "Hopper-v5"}
ROOT = Path(__file__).parents[1]


TASKS: dict[str, dict[str, Any]] = {
    "cartpole": {
        "threshold": 475.0,
        "values": {
            "total_steps": 100_000, "collect.num_envs": 8, "collect.steps": 128,
            "net.separate_critic": True, "ppo.epochs": 10, "ppo.mini_batches": 8,
            "ppo.normalize_advantage": True, "ppo.entropy_coef": 0.0, "ppo.gae_lambda": 0.95,
            "optim.lr": 1e-3, "optim.schedule": "linear",
        },
    },
    "pendulum": {
        "threshold": -250.0,
        "values": {
            "total_steps": 150_000, "collect.num_envs": 8, "collect.steps": 128,
            "net.separate_critic": True, "net.normalize_obs": True, "net.initial_std": 1.0,
            "ppo.epochs": 10, "ppo.mini_batches": 16, "ppo.normalize_advantage": True,
            "ppo.gamma": 0.9, "ppo.entropy_coef": 0.0, "net.normalize_returns": True,
            "optim.lr": 1e-3, "optim.schedule": "linear",
        },
    },
    "memory": {
        "threshold": 0.95,
        "values": {
            "total_steps": 60_000, "collect.num_envs": 16, "collect.steps": 32, "net.mlp": [32],
            "net.core": "lstm", "net.core_size": 32, "net.core_layers": 1, "ppo.epochs": 4,
            "ppo.mini_batches": 2, "ppo.normalize_advantage": True, "ppo.entropy_coef": 0.01,
            "ppo.gamma": 0.95, "optim.lr": 3e-3, "optim.schedule": "linear",
        },
    },
    # POPGym (Morad et al. 2023): name the suit of the card dealt three cards ago, 48 times; a right
    # one is worth 1/48, a wrong one -1/48.
    "repeat_previous": {
        "threshold": 0.8, "apart": True,
        "values": {
            "total_steps": 300_000, "collect.num_envs": 16, "collect.steps": 64, "net.mlp": [],
            "net.core": "lstm", "net.core_size": 64, "net.core_layers": 1, "ppo.epochs": 4,
            "net.separate_critic": True, "ppo.mini_batches": 4, "ppo.normalize_advantage": True,
            "ppo.entropy_coef": 0.01, "ppo.gamma": 0.95, "ppo.gae_lambda": 0.95,
            "optim.lr": 1e-3, "optim.schedule": "linear",
        },
    },
    # Gymnasium's MuJoCo with the settings that Stable-Baselines3 has as defaults.
    "hopper": {
        "threshold": 1000.0, "apart": True,
        "values": {
            "total_steps": 300_000, "collect.num_envs": 8, "collect.steps": 256,
            "net.mlp": [64, 64], "net.separate_critic": True, "net.normalize_obs": True,
            "net.normalize_returns": True, "ppo.epochs": 10, "ppo.mini_batches": 32,
            "ppo.normalize_advantage": True, "ppo.entropy_coef": 0.0, "ppo.gamma": 0.99,
            "ppo.gae_lambda": 0.95, "optim.lr": 3e-4, "optim.schedule": "linear",
        },
    },
}  # fmt: skip


def one_run(task: str, scheme: str, seed: int, steps: int) -> tuple[float, float | None]:
    """Trains once, elsewhere if need be.

    Returns:
        Mean evaluation return, and steps to the threshold (None if never).

    Raises:
        RuntimeError: with the last lines of a run elsewhere that failed.
    """
    if not TASKS[task].get("apart"):
        return train_here(task, scheme, seed, steps)
    command = [python_of("learning"), "-m", "benchmarks.learning_peer", task, scheme]
    done = subprocess.run(
        [*command, str(seed), str(steps)], cwd=ROOT, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{task} {scheme} seed {seed}: {done.stderr.strip()[-800:]}")
    found = json.loads(done.stdout.splitlines()[-1])
    return found["return"], found["reached"]


def train_here(task: str, scheme: str, seed: int, steps: int) -> tuple[float, float | None]:
    """Trains once with our trainer in this process; see :func:`one_run`."""
    with tempfile.TemporaryDirectory() as out:
        config = load_config(
            scheme=scheme, seed=seed, out=out, device="cpu", env_args={"task": task},
            **{"log.progress": False, "log.tensorboard": False, "log.keep_checkpoints": 1,
               "log.checkpoint_interval": 10**6, "log.window": 50},
            **TASKS[task]["values"] | {"total_steps": steps},
        )  # fmt: skip
        if not train(config, make).finished:
            raise KeyboardInterrupt  # the trainer ends in good order, but this was no whole run
        lines = [json.loads(x) for x in (Path(out) / "metrics.jsonl").read_text().splitlines()]
        curve = [(x["step"], x.get("episode/return")) for x in lines]
        reached = [s for s, r in curve if r is not None and r >= TASKS[task]["threshold"]]
        policy = load_policy(out)
        result = evaluate(policy, EnvFactory(make, {"task": task}), 20, seed=seed + 10**6)
        return float(result.returns.mean()), float(reached[0]) if reached else None


def interquartile_mean(values: np.ndarray) -> float:
    """Mean of the middle half (Agarwal et al. 2021)."""
    ordered = np.sort(values)
    cut = int(0.25 * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


def interval(values: np.ndarray) -> tuple[float, float]:
    """95% percentile-bootstrap interval of the interquartile mean."""
    rng = np.random.default_rng(0)
    draws = [interquartile_mean(rng.choice(values, len(values))) for _ in range(2000)]
    return float(np.percentile(draws, 2.5)), float(np.percentile(draws, 97.5))


def summarise(runs: list[list[Any]], threshold: float) -> dict[str, Any]:
    """Interquartile mean, interval and steps to the threshold of ``[return, steps]`` per seed."""
    median = float(np.median([np.inf if s is None else s for _, s in runs]))
    returns = np.array([r for r, _ in runs])
    low, high = interval(returns)
    return {
        "runs": runs, "iqm": interquartile_mean(returns), "interval": [low, high],
        "threshold": threshold, "reached": sum(r[1] is not None for r in runs),
        "median_steps": median if np.isfinite(median) else None,
    }  # fmt: skip


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write, and to go on from")
    tasks: str = option("cartpole,pendulum,memory", "with commas; also repeat_previous, hopper")
    schemes: str = option("ver,ddppo", "with commas; sb3 for repeat_previous and hopper")
    seeds: int = option(5, "runs of each task and scheme", min=1)
    steps: int = option(0, "environment steps of a run; 0: the task's", min=0)


def pairs_of(config: Config) -> list[tuple[str, str]]:
    """Return the tasks and schemes to run.

    Raises:
        UserError: an unknown name, or a task that the other trainer is not measured on.
    """
    tasks = chosen(config.tasks, tuple(TASKS), "tasks")
    schemes = chosen(config.schemes, (*SCHEMES, "sb3"), "schemes")
    ours = [task for task in tasks if not TASKS[task].get("apart")]
    if "sb3" in schemes and ours:
        peers = [task for task, row in TASKS.items() if row.get("apart")]
        raise UserError(f"schemes=sb3 has no task '{ours[0]}'; give tasks={','.join(peers)}")
    return [(task, scheme) for task in tasks for scheme in schemes]


def show(task: str, scheme: str, row: dict[str, Any]) -> None:
    """Print a line of the table."""
    low, high = row["interval"]
    middle = "never" if row["median_steps"] is None else f"after {row['median_steps']:,.0f} steps"
    print(
        f"{task:9} {scheme:6} IQM {row['iqm']:8.2f} [{low:.2f}, {high:.2f}]  threshold "
        f"{row['threshold']:g} reached by {row['reached']}/{len(row['runs'])}, median {middle}",
        flush=True,
    )


def main(words: Sequence[str]) -> None:
    """Train what is missing and print one line a task and scheme."""
    config = parse_or_help(Config, words, __doc__)
    known, seeds, pairs = config.json, config.seeds, pairs_of(config)
    report = read_json(known) if known is not None and known.exists() else {}
    begin, fresh = time.monotonic(), 0
    for number, (task, scheme) in enumerate(pairs):
        own = TASKS[task]["values"]["total_steps"]
        key = f"{task}/{scheme}" + (f"@{config.steps}" if config.steps else "")
        kept = report.get(key, {})
        runs, threshold = kept.get("runs", []), TASKS[task]["threshold"]
        machines = kept.get("machines", [None] * len(runs))
        for seed in range(len(runs) + 1, seeds + 1):
            machines.append(describe_machine())
            mean, steps = one_run(task, scheme, seed, config.steps or own)
            runs.append([mean, steps])
            report[key] = {**summarise(runs, threshold), "machines": machines}
            if known is not None:
                write_json(known, report)
            fresh += 1
            left = (seeds - seed) + seeds * (len(pairs) - number - 1)
            rest = (time.monotonic() - begin) / fresh * left / 60
            after = "never" if steps is None else f"after {steps:,.0f} steps"
            print(f"{task} {scheme} seed {seed}: return {mean:.2f}, threshold {after} "
                  f"(at most {rest:.0f} min left)", file=sys.stderr, flush=True)  # fmt: skip
        show(task, scheme, summarise(runs[:seeds], threshold))


if __name__ == "__main__":
    sys.exit(run_main(main))

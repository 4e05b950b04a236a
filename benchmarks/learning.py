"""Does it learn? Three small tasks over several seeds, ``ver`` beside ``ddppo``.

``python -m benchmarks.learning json=FILE [tasks=cartpole,pendulum,memory schemes=ver,ddppo
seeds=5]`` trains, evaluates every policy over 20 episodes, and prints the interquartile mean over
seeds with a 95% bootstrap interval, and the steps needed to reach the task's threshold. Runs that
FILE already holds are not done again, so the same command goes on after an interruption.
"""

from __future__ import annotations

import json
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

from tpsrl.files import write_json
from ver_trainer import evaluate, load_config, load_policy, train
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.options import option, parse_or_help


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
    return gym.make({"cartpole": "CartPole-v1", "pendulum": "Pendulum-v1"}[task])


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
}  # fmt: skip


def one_run(task: str, scheme: str, seed: int) -> tuple[float, float]:
    """Trains once; returns mean evaluation return and steps to the threshold (inf if never)."""
    with tempfile.TemporaryDirectory() as out:
        config = load_config(
            scheme=scheme, seed=seed, out=out, env_args={"task": task},
            **{"log.progress": False, "log.tensorboard": False, "log.keep_checkpoints": 1,
               "log.checkpoint_interval": 10**6, "log.window": 50},
            **TASKS[task]["values"],
        )  # fmt: skip
        if not train(config, make).finished:
            raise KeyboardInterrupt  # the trainer ends in good order, but this was no whole run
        lines = [json.loads(x) for x in (Path(out) / "metrics.jsonl").read_text().splitlines()]
        curve = [(x["step"], x.get("episode/return")) for x in lines]
        reached = [s for s, r in curve if r is not None and r >= TASKS[task]["threshold"]]
        policy = load_policy(out)
        result = evaluate(policy, EnvFactory(make, {"task": task}), 20, seed=seed + 10**6)
        return float(result.returns.mean()), float(reached[0]) if reached else float("inf")


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


def summarise(runs: list[list[float]], threshold: float) -> dict[str, Any]:
    """Interquartile mean, interval and steps to the threshold of ``[return, steps]`` per seed."""
    returns = np.array([r for r, _ in runs])
    low, high = interval(returns)
    return {
        "runs": runs, "iqm": interquartile_mean(returns), "interval": [low, high],
        "threshold": threshold, "reached": sum(r[1] is not None for r in runs),
        "median_steps": float(np.median([np.inf if s is None else s for _, s in runs])),
    }  # fmt: skip


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write, and to go on from")
    tasks: str = option(",".join(TASKS), "with commas")
    schemes: str = option("ver,ddppo", "with commas")
    seeds: int = option(5, "runs of each task and scheme", min=1)


def main(words: Sequence[str]) -> None:
    """Train what is missing and print one line a task and scheme."""
    config = parse_or_help(Config, words, __doc__)
    known, seeds = config.json, config.seeds
    report = json.loads(known.read_text()) if known is not None and known.exists() else {}
    pairs = [(t, s) for t in config.tasks.split(",") for s in config.schemes.split(",")]
    begin, fresh = time.monotonic(), 0
    for number, (task, scheme) in enumerate(pairs):
        runs = report.get(f"{task}/{scheme}", {}).get("runs", [])[:seeds]
        for seed in range(len(runs) + 1, seeds + 1):
            mean, steps = one_run(task, scheme, seed)
            runs.append([mean, steps if np.isfinite(steps) else None])
            report[f"{task}/{scheme}"] = summarise(runs, TASKS[task]["threshold"])
            if known is not None:
                write_json(known, report)
            fresh += 1
            left = (seeds - seed) + seeds * (len(pairs) - number - 1)
            rest = (time.monotonic() - begin) / fresh * left / 60
            print(f"{task} {scheme} seed {seed}: return {mean:.2f}, threshold after {steps:,.0f} "
                  f"steps (at most {rest:.0f} min left)", file=sys.stderr, flush=True)  # fmt: skip
        row = report[f"{task}/{scheme}"] = summarise(runs, TASKS[task]["threshold"])
        low, high = row["interval"]
        print(
            f"{task:9} {scheme:6} IQM {row['iqm']:8.2f} [{low:.2f}, {high:.2f}]  threshold "
            f"{row['threshold']:g} reached by {row['reached']}/{len(runs)}, median after "
            f"{row['median_steps']:,.0f} steps",
            flush=True,
        )


if __name__ == "__main__":
    main(sys.argv[1:])

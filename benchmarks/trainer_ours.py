"""Runs one of our schemes on one workload and prints its speed as JSON.

``python -m benchmarks.trainer_ours SCHEME WORKLOAD WARMUP SECONDS [key=value ...]``
"""

from __future__ import annotations

import signal
import sys
import tempfile
from typing import Any

from benchmarks.names import run_main
from benchmarks.trainer_envs import WORKLOADS, make
from benchmarks.trainer_peers import Stopwatch
from ver_trainer.config import TrainConfig, load_config
from ver_trainer.options import HELP_WORDS, parse_or_help
from ver_trainer.runner import Runner


def configuration(scheme: str, workload: str, out: str, overrides: list[str]) -> TrainConfig:
    """Same network, batch, epochs and threads as the peers, on the processor."""
    size = WORKLOADS[workload]
    values: dict[str, Any] = {
        "scheme": scheme, "out": out, "total_steps": 10**9, "env_args": {"workload": workload},
        "device": "cpu", "threads": 2 if size["recurrent"] else 1,
        "collect.num_envs": size["num_envs"], "collect.steps": size["steps"], "ppo.epochs": 1,
        "ppo.mini_batches": 1, "optim.lr": 1e-4, "ppo.normalize_advantage": True,
        "log.progress": False, "log.tensorboard": False, "log.checkpoint_interval": 10**6,
    }  # fmt: skip
    if size["recurrent"]:
        values |= {"net.encoder": "cnn", "net.image_features": 256, "net.core": "lstm",
                   "net.core_size": 256, "net.core_layers": 1,
                   "collect.envs_per_worker": 8}  # fmt: skip
    pairs = [f"{key}={value}" for key, value in values.items()]
    return load_config([*pairs, *overrides])


class TimedRunner(Runner):
    """Stops by itself when the measurement is complete."""

    watch: Stopwatch

    def _after_update(self, *arguments: Any) -> None:
        super()._after_update(*arguments)
        if self.watch.tick(self.steps):
            self.signals.received = signal.SIGTERM


def main(words: list[str]) -> None:
    """Measures the scheme named on the command line."""
    parse_or_help(TrainConfig, [word for word in words if word in HELP_WORDS], __doc__)
    scheme, workload, warmup, seconds, *overrides = words
    with tempfile.TemporaryDirectory() as out:
        runner = TimedRunner(configuration(scheme, workload, out, overrides), make)
        runner.watch = Stopwatch(float(warmup), float(seconds))
        runner.run()
        runner.watch.report()


if __name__ == "__main__":
    sys.exit(run_main(main))

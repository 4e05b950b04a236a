"""LeRobot's own package loads a data set of ours, offline.

``python -m benchmarks.lerobot data=DIR [frames=200 json=FILE]`` sets the ``lerobot`` package up in
an environment of its own (``benchmarks.trainer_setup``), loads the data set there without a network
and reads random frames, their pictures decoded, each with the next 10 actions. Without ``data=``
two episodes are exported first.

The environment sees our torch. lerobot pins an older torch, whose CUDA libraries would be
downloaded to read files; so it and torchvision are installed with ``--no-deps``, beside those of
its dependencies that data sets need. Pictures are decoded by PyAV.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.names import run_main
from benchmarks.trainer import ROOT, describe_machine
from benchmarks.trainer_setup import python_of
from eval.commands import dataset
from tpsrl.files import write_json
from ver_trainer.errors import UserError
from ver_trainer.options import option, parse_or_help


@dataclass
class Config:
    """Options of the benchmark."""

    data: Path | None = option(None, "data set; null: two episodes of rearrange_easy are exported")
    frames: int = option(200, "to read", min=1)
    json: Path | None = option(None, "report to write")


def load(data: Path, frames: int) -> dict[str, Any]:
    """Load a data set in LeRobot's environment.

    Raises:
        RuntimeError: it cannot be loaded; with the end of what was written.
    """
    with tempfile.TemporaryDirectory() as cache:
        offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": cache, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [python_of("lerobot"), "-m", "benchmarks.lerobot_load", str(data), str(frames)],
            capture_output=True, text=True, cwd=ROOT, env={**os.environ, **offline},
        )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"lerobot cannot load {data}: {done.stderr.strip()[-800:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(words: Sequence[str]) -> int:
    """Load, print and write.

    Raises:
        UserError: there is no data set.
    """
    config = parse_or_help(Config, words, __doc__)
    if config.data is not None and not (config.data / "meta" / "info.json").is_file():
        raise UserError(f"data={config.data} is no data set: it has no meta/info.json")
    with tempfile.TemporaryDirectory() as folder:
        data = config.data or Path(folder) / "set"
        if config.data is None:
            code = dataset.run(["export", "scenario=rearrange_easy", "split=val", "episodes=2",
                                "pixels=128", f"out={data}"])  # fmt: skip
            if code:
                return code
        report = load(data, config.frames)
    for name, value in report.items():
        print(f"{name}: {value}")
    if config.json is not None:
        write_json(config.json, {"machine": describe_machine(), **report})
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))

"""Whether a change of the code changed what it does: ``python -m benchmarks.unchanged out=FILE``.

Writes digests of what must stay bit-equal while code only moves, and with ``against=FILE`` compares
them with those of another tree on the same machine. It uses nothing but the command line,
Gymnasium ids and result files, so that it runs in any version of the tree::

    python -m benchmarks.unchanged out=before.json        # in the tree before
    python -m benchmarks.unchanged against=before.json    # in the tree after

The chains of learned and of scripted skills run whole episodes: physics is chaotic, so one action
that differs in its last bit changes steps, distances and forces.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
CHAINS = {"tpsrl": 20, "scripted": 10}
"""Agent -> val episodes of each scenario."""
IDS = (
    *("Navigate", "Pick", "Place", "OpenCabinet", "CloseCabinet", "OpenFridge", "CloseFridge"),
    *("RearrangeEasy", "PointNav", "Flee", "Explore"),
)
STEPS = 40
FREE = ("seconds", "attempts", "extra", "states")
"""Keys of an episode's record that may differ between two runs."""
CARTPOLE = (
    *("train", "env=CartPole-v1", "scheme=ver", "collector=inline", "total_steps=8192", "seed=3"),
    *("collect.num_envs=8", "collect.steps=128", "log.tensorboard=false", "log.progress=false"),
)
LEARNED = ("learner/policy_loss", "learner/value_loss", "learner/entropy", "episode/return")


def tpsrl(*words: str) -> None:
    """Run a command of this tree.

    Raises:
        CalledProcessError: it failed.
    """
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", "tpsrl", *words], check=True, env=environment)


def digest(*values: Any) -> str:
    """Return a hash of arrays and plain values, to the last bit."""
    found = hashlib.sha256()
    for value in values:
        if isinstance(value, np.ndarray):
            found.update(np.ascontiguousarray(value).tobytes())
        else:
            found.update(json.dumps(value, sort_keys=True).encode())
    return found.hexdigest()[:16]


def chain(agent: str, scenario: str, episodes: int, folder: Path) -> dict[str, str]:
    """Return a digest of every episode's record."""
    out = folder / f"{agent}_{scenario}"
    words = (f"agent={agent}", "executor=hab", f"episodes={episodes}", "workers=2", f"out={out}")
    tpsrl("eval", f"scenario={scenario}", *words)
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    return {
        f"{agent} {scenario} {line['index']}": digest({k: line[k] for k in line if k not in FREE})
        for line in lines
    }


def environment(name: str) -> dict[str, str]:
    """Return digests of observations, rewards and ends under random actions."""
    env = gymnasium.make(f"skills.envs:tpsrl/{name}-v0", depth=64, split="val")
    found = {}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        observation, info = env.reset(seed=seed)
        parts: list[Any] = [*observation.values(), info["episode_id"]]
        for _ in range(STEPS):
            action = rng.uniform(-1.0, 1.0, env.action_space.shape).astype(np.float32)
            observation, reward, terminated, truncated, info = env.step(action)
            parts += [*observation.values(), float(reward), terminated, truncated, info["cause"]]
            if terminated or truncated:
                break
        found[f"{name} {seed}"] = digest(*parts)
    env.close()
    return found


def cartpole(folder: Path) -> dict[str, str]:
    """Return a digest of every update of a short training."""
    out = folder / "cartpole"
    tpsrl(*CARTPOLE, f"out={out}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k in LEARNED} for line in lines]
    assert kept and all(kept), f"metrics.jsonl has none of {LEARNED}"
    return {f"CartPole update {k}": digest(line) for k, line in enumerate(kept)}


def main(words: list[str]) -> int:
    """Make the digests; write or compare them."""
    if not all("=" in word for word in words):
        print(__doc__)
        return 0 if words in (["--help"], ["-h"]) else 2
    options = dict(word.split("=", 1) for word in words)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = cartpole(folder)
        for identifier in IDS:
            found |= environment(identifier)
        for agent, episodes in CHAINS.items():
            for scenario in SCENARIOS:
                found |= chain(agent, scenario, episodes, folder)
    if "out" in options:
        Path(options["out"]).write_text(json.dumps(found, indent=2) + "\n")
    if "against" not in options:
        return 0
    before = json.loads(Path(options["against"]).read_text())
    changed = [key for key in sorted({*before, *found}) if before.get(key) != found.get(key)]
    print(f"{len(found) - len(changed)} of {len(before)} equal")
    for key in changed:
        print(f"  changed: {key}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

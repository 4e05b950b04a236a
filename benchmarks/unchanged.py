"""Whether a change of the code changed what it does: ``python -m benchmarks.unchanged out=FILE``.

Writes digests of what must stay bit-equal while code only moves, and with ``against=FILE`` compares
them with those of another tree on the same machine. It uses nothing of ours but the command line,
Gymnasium ids and result files, so that it runs in any version of the tree::

    python -m benchmarks.unchanged out=before.json        # in the tree before
    python -m benchmarks.unchanged against=before.json    # in the tree after

The chains of learned and of scripted skills run whole episodes: physics is chaotic, so one action
that differs in its last bit changes steps, distances and forces. The digest of all states of an
episode is compared where both trees write one.
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
"""Keys of an episode's record that may differ between two runs; states are compared apart."""
STATES = " states"
"""End of the names of digests that may be missing on one side."""
CARTPOLE = (
    *("train", "env=CartPole-v1", "scheme=ver", "collector=inline", "total_steps=8192", "seed=3"),
    *("collect.num_envs=8", "collect.steps=128", "log.tensorboard=false", "log.progress=false"),
)
LEARNED = ("learner/action_loss", "learner/value_loss", "learner/entropy", "episode/return")


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
    found = {}
    for text in (out / "episodes.jsonl").read_text().splitlines():
        line = json.loads(text)
        name = f"{agent} {scenario} {line['index']}"
        found[name] = digest({k: line[k] for k in line if k not in FREE})
        if line.get("states"):
            found[name + STATES] = line["states"]
    return found


def environment(name: str) -> dict[str, str]:
    """Return digests of observations, rewards and ends under random actions, over several ends."""
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
            if terminated or truncated:  # most actions of a skill that may stop do
                observation, info = env.reset()
                parts += [*observation.values(), info["episode_id"]]
        found[f"{name} {seed}"] = digest(*parts)
    env.close()
    return found


def cartpole(folder: Path) -> dict[str, str]:
    """Return a digest of every update of a short training."""
    out = folder / "cartpole"
    tpsrl(*CARTPOLE, f"out={out}")
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    missing = {key for key in LEARNED if not all(key in line for line in lines)}
    assert lines and not missing, f"metrics.jsonl lacks {missing}"
    kept = [{key: line[key] for key in LEARNED} for line in lines]
    return {f"CartPole update {k}": digest(line) for k, line in enumerate(kept)}


def digests() -> dict[str, str]:
    """Return all digests by name."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = cartpole(folder)
        for identifier in IDS:
            found |= environment(identifier)
        for agent, episodes in CHAINS.items():
            for scenario in SCENARIOS:
                found |= chain(agent, scenario, episodes, folder)
    return found


def compare(before: dict[str, str], found: dict[str, str]) -> tuple[list[str], list[str]]:
    """Return the names whose digests are equal, and those that changed or are on one side only."""
    both = before.keys() & found.keys()
    names = [k for k in before.keys() | found.keys() if k in both or not k.endswith(STATES)]
    equal = {k for k in both if before[k] == found[k]}
    return sorted(equal), sorted(set(names) - equal)


def options_of(words: list[str]) -> dict[str, str]:
    """Return what the command line says.

    Raises:
        ValueError: with one sentence, if it cannot be meant.
    """
    options = dict(word.split("=", 1) for word in words if "=" in word)
    unknown = [w for w in words if w.split("=", 1)[0] not in ("out", "against") or "=" not in w]
    if unknown:
        raise ValueError(f"unknown word '{unknown[0]}'; give out=FILE, against=FILE or both")
    if not any(options.values()):
        raise ValueError("nothing to do; give out=FILE, against=FILE or both")
    return options


def main(words: list[str]) -> int:
    """Make the digests; write or compare them."""
    if words in (["--help"], ["-h"], ["help"]):
        print(__doc__)
        return 0
    try:
        options = options_of(words)
        against = options.get("against")
        before = dict(json.loads(Path(against).read_text())) if against else {}
    except (OSError, ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    found = digests()
    if options.get("out"):
        out = Path(options["out"])
        half = out.with_name(f"{out.name}.{os.getpid()}.tmp")
        half.write_text(json.dumps(found, indent=2) + "\n")
        half.replace(out)
    if not against:
        return 0
    equal, changed = compare(before, found)
    print(f"{len(equal)} of {len(equal) + len(changed)} equal")
    for key in changed:
        print(f"  changed: {key}")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

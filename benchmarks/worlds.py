"""What an experience costs in a batch of worlds: ``python -m benchmarks.worlds json=FILE``.

One process, processor time: other programs do not count, though they take the caches. Steps are
those of ``BatchSkillEnv``, random actions, no depth, resets apart; beside them stands MuJoCo
alone, four physics steps of the same worlds with the same arm targets. A reset is one of
``BatchSkillEnv``, of one world among the others, after every layout has been seen.
"""

from __future__ import annotations

import pickle
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.names import chosen, run_main
from skills.book import BOOK
from skills.envs.batch import BatchSkillEnv
from skills.tasks.scan import FAR_SCAN, SCAN
from skills.tasks.sensors import DEPTH
from tpsrl.files import write_json
from ver_trainer.options import option, parse_or_help

PLAIN = ("obj_start_in_base", "ee_pos")
"""Observations beside those of the contract, which are cheap to make."""


@dataclass
class Config:
    """Options of the benchmark."""

    json: str = option("", "write the numbers to this file")
    worlds: int = option(64, "in the process", min=1)
    steps: int = option(150, "of every world", min=1)
    resets: int = option(60, "of every skill", min=1)
    skills: str = option("all", "comma-separated skills whose resets are measured, or all")
    split: str = option("val", "which episodes")


def make(skill: str, worlds: int, split: str) -> BatchSkillEnv:
    """Return a skill's worlds with vectors alone: no picture, no range scan."""
    contract = BatchSkillEnv(skill, 1, depth=None, split=split)
    sensors = contract.worlds.task.sensors
    contract.close()
    more = PLAIN if skill == "pick" else ()
    kept = [name for name in sensors if name not in (DEPTH, SCAN, FAR_SCAN)]
    names = tuple(dict.fromkeys([*kept, *more]))
    return BatchSkillEnv(skill, worlds, depth=None, split=split, sensors=names)


def steps_a_second(env: BatchSkillEnv, steps: int) -> tuple[float, float]:
    """Return steps a processor second of the environment, and of MuJoCo alone."""
    rng, spent = np.random.default_rng(0), 0.0
    shape = (steps + 20, env.num_envs, env.single_action_space.shape[0])  # type: ignore[index]
    actions = rng.uniform(-1.0, 1.0, shape).astype(np.float32)
    env.reset(seed=0)
    start_worlds = env.worlds.start

    def start(*args: Any) -> None:
        nonlocal spent
        begin = time.process_time()
        start_worlds(*args)
        spent += time.process_time() - begin

    env.worlds.start = start  # type: ignore[method-assign, assignment]
    for action in actions[:20]:  # until what fell into place sleeps
        env.step(action)
    spent, begin = 0.0, time.process_time()
    for action in actions[20:]:
        env.step(action)
    whole = env.num_envs * steps / (time.process_time() - begin - spent)
    worlds, begin = env.sim._worlds, time.process_time()  # type: ignore[attr-defined]
    for action in actions[20:]:
        for world, row in zip(worlds, action, strict=True):
            world.data.ctrl[:] += 0.0125 * row[:7]
            mujoco.mj_step(world.model, world.data, nstep=4)
    return whole, env.num_envs * steps / (time.process_time() - begin)


def reset_ms(env: BatchSkillEnv, resets: int) -> float:
    """Return milliseconds of processor time a reset, the mean."""
    n = env.num_envs
    masks = np.eye(n, dtype=bool)
    env.reset(seed=0)
    for _ in range(max(1, 200 // n)):
        env.reset()
    begin = time.process_time()
    for k in range(resets):
        env.reset(options={"reset_mask": masks[k % n]})
    return 1e3 * (time.process_time() - begin) / resets


def main(overrides: list[str]) -> int:
    """Measure, print the table and write the file."""
    config = parse_or_help(Config, overrides, __doc__)
    names = chosen(config.skills, BOOK, "skills")
    warnings.simplefilter("ignore")
    table, results = Table("what", "value"), {}

    def note(key: str, value: float, unit: str) -> None:
        results[key] = value
        table.add_row(key, f"{value:,.1f} {unit}")

    env = make("pick", config.worlds, config.split)
    whole, bare = steps_a_second(env, config.steps)
    note("pick_steps", whole, "steps / processor second")
    note("mujoco_steps", bare, "steps / processor second")
    snapshot = env.sim.capture(0)
    arrays = sum(v.nbytes for v in snapshot.data.values() if isinstance(v, np.ndarray))
    note("snapshot_bytes", arrays, "bytes")
    note("state_bytes", len(pickle.dumps(env.get_state())) / config.worlds, "bytes a world")
    env.close()
    for name in names:
        print(f"measuring resets of {name} ...", file=sys.stderr)
        env = make(name, config.worlds, config.split)
        note(f"{name}_reset_ms", reset_ms(env, config.resets), "ms")
        env.close()
    Console().print(table)
    if config.json:
        write_json(Path(config.json), results)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))

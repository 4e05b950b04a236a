"""One scene, several engines: ``python -m benchmarks.engines json=FILE``.

The same exported apartment, episodes, joint positions and actions on every engine: poses, the
base's motion and depth are compared with MuJoCo on our own files; then the steps a second of each.
``mujoco in a server`` is MuJoCo behind the transport that Habitat's server uses, so the difference
to ``mujoco, imported scene`` is what the boundary between two processes costs. Runs of both
alternate, and the cost is the median over the rounds, in wall-clock time and in processor time of
both processes together: on a busy machine only the second says what the boundary itself takes.
Habitat takes part where ``habitat.python`` is given.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from rich.progress import Progress

from benchmarks.names import run_main
from eval.episode import EpisodeRecord, run_episode
from planner.chain.make import make_agent, make_task
from tpsrl.engines import make_simulator
from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import Episode, EpisodeSet
from tpsrl.files import write_json
from tpsrl.generation.rules import load_scenario
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.habitat.scenes import HabitatConfig, Scenes, habitat_options
from tpsrl.robot import fetch
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.door import Simulator
from ver_trainer.options import option, parse_or_help, to_dict

REFERENCE = "mujoco"
_NEAR = 0.05
"""Depth that differs by less agrees, m."""


@dataclass
class Config:
    """Options of the benchmark."""

    json: str = option("", "write the numbers to this file")
    scenario: str = option("tidy_house", "whose val episodes")
    episodes: int = option(3, "episodes that are compared", min=1)
    depth: int = option(128, "pixels of the head depth picture")
    steps: int = option(150, "control steps of a timed run", min=10)
    rounds: int = option(5, "timed runs of each engine", min=1)
    agent: int = option(0, "episodes that the scripted agent plays on each", min=0)
    gpu: int = option(-1, "Habitat: which GPU renders, -1 for none")
    habitat: HabitatConfig = field(default_factory=HabitatConfig)


def main(words: list[str]) -> None:
    """Compare, measure, print."""
    config = parse_or_help(Config, words, __doc__)
    with contextlib.ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        chosen = _episodes(config)
        _export(root, config.scenario, chosen)
        scenes = Scenes(str(root), config.scenario, "val", count=config.episodes)
        engines = _engines(config, scenes)
        sims: dict[str, Simulator] = {}
        for name, make in engines.items():
            print(f"starting {name}", flush=True)
            sims[name] = stack.enter_context(make())
        played = {name: scenes.read()[1] if name != REFERENCE else chosen for name in sims}
        rows = _compare(sims, played)
        rates, work = _measure(sims, played, config)
        answer = _answer(sims["mujoco in a server"])
        played_by = _play(sims, played, config)
    _report(rows, rates, work, config)
    _print_agent(played_by)
    print(f"state and depth from the server without a step: {answer:.3f} ms (best of 5 x 200)")
    if config.habitat.python is None:
        print("habitat: not measured; give habitat.python=PATH")
    if config.json:
        content = {
            "agreement": rows,
            "steps_per_second": rates,
            "cpu_ms": work,
            "read_ms": answer,
            "load_average": os.getloadavg()[0],
            "config": to_dict(config),
        }
        write_json(Path(config.json), content)


def _episodes(config: Config) -> tuple[Episode, ...]:
    """Return the first episodes, each with a fixed start so that all engines begin alike."""
    found = load_shipped(config.scenario).episodes[: config.episodes]
    with make_simulator() as sim:
        out = []
        for seed, episode in enumerate(found):
            sim.reset([episode], [seed])
            out.append(dataclasses.replace(episode, start=sim.state().base_pose[0].copy()))
    return tuple(out)


def _export(root: Path, scenario: str, episodes: tuple[Episode, ...]) -> None:
    chosen = {f"{scenario}_val": EpisodeSet(episodes)}
    export_dataset(root, load_apartment(), object_types(), chosen)


def _engines(config: Config, scenes: Scenes) -> dict[str, Callable[[], Simulator]]:
    options = dataclasses.asdict(scenes)
    engines: dict[str, Callable[[], Simulator]] = {
        REFERENCE: lambda: make_simulator(depth=config.depth),
        "mujoco, imported scene": lambda: make_simulator(depth=config.depth, scenes=options),
        "mujoco in a server": lambda: make_simulator("mujoco_server", config.depth, options),
    }
    if config.habitat.python is not None:
        habitat = habitat_options(config.habitat, config.gpu)
        engines["habitat"] = lambda: make_simulator("habitat", config.depth, options, habitat)
    return engines


def _compare(
    sims: dict[str, Simulator], played: dict[str, tuple[Episode, ...]]
) -> dict[str, dict[str, float]]:
    """Return the largest differences from the reference over all episodes."""
    rows: dict[str, dict[str, float]] = {}
    count = len(played[REFERENCE])
    for name in sims:
        if name == REFERENCE:
            continue
        worst: dict[str, float] = {}
        for index in range(count):
            pair = [(sims[k], played[k][index]) for k in (REFERENCE, name)]
            for key, value in _differences(*pair[0], *pair[1]).items():
                smallest = key.startswith("depth")
                keep = min if smallest else max
                worst[key] = keep(worst.get(key, value), value)
        rows[name] = worst
    return rows


def _differences(a: Simulator, first: Episode, b: Simulator, second: Episode) -> dict[str, float]:
    a.reset([first], [0])
    b.reset([second], [0])
    x, y = a.state(), b.state()
    order = [b.joint_names.index(n) for n in a.joint_names]
    marks = [b.marker_names.index(n) for n in a.marker_names]
    out = {
        "objects at reset, m": _gap(x.object_pos, y.object_pos),
        "furniture links at reset, m": _gap(x.link_pos, y.link_pos[:, order]),
        "handles at reset, m": _gap(x.marker_pos, y.marker_pos[:, marks]),
        "end effector at reset, m": _gap(x.ee_pos, y.ee_pos),
    }
    for joints in np.random.default_rng(0).uniform(-0.4, 0.4, (5, 7)):
        for sim in (a, b):
            sim.set_arm((fetch.ARM_INIT + joints)[None])
        gap = _gap(a.state().ee_pos, b.state().ee_pos)
        out["end effector at equal joints, m"] = max(
            out.get("end effector at equal joints, m", 0.0), gap
        )
    for sim in (a, b):
        sim.set_arm(fetch.ARM_INIT[None])
    near = np.abs(np.asarray(a.depth()) - np.asarray(b.depth())) * fetch.DEPTH_RANGE[1] < _NEAR
    out["depth within 5 cm, share of pixels"] = float(near.mean())
    out |= _drive(a, b)
    return out


def _drive(a: Simulator, b: Simulator) -> dict[str, float]:
    """Return the largest difference of one step in which nothing blocked either, and in the end."""
    rng = np.random.default_rng(1)
    step = end = 0.0
    for _ in range(20):
        action = np.zeros((1, 10))
        action[0, 7], action[0, 8:] = -1.0, rng.uniform(-1.0, 1.0, 2)
        moves = []
        for sim in (a, b):
            before = np.array(sim.state().base_pose[0])
            sim.step(action)
            moves.append(_turned(np.asarray(sim.state().base_pose[0]) - before))
        wanted = abs(action[0, 8]) * fetch.BASE_DELTA_LINEAR - 1e-4
        if min(np.linalg.norm(move[:2]) for move in moves) >= wanted:
            step = max(step, float(np.abs(_turned(moves[0] - moves[1])).max()))
        off = _turned(np.asarray(a.state().base_pose[0]) - np.asarray(b.state().base_pose[0]))
        end = max(end, float(np.abs(off).max()))
    return {"base, a free step, m and rad": step, "base within 20 steps, m and rad": end}


def _turned(off: np.ndarray) -> np.ndarray:
    return np.array([off[0], off[1], np.arctan2(np.sin(off[2]), np.cos(off[2]))])


def _gap(a: Any, b: Any) -> float:
    return float(np.nanmax(np.linalg.norm(np.asarray(a) - np.asarray(b), axis=-1)))


def _measure(
    sims: dict[str, Simulator], played: dict[str, tuple[Episode, ...]], config: Config
) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """Return steps/s and processor ms a step of every round.

    Engines take turns, so that a busy machine slows all.
    """
    rates: dict[str, list[float]] = {name: [] for name in sims}
    work: dict[str, list[float]] = {name: [] for name in sims}
    with Progress(transient=True) as progress:
        task = progress.add_task("steps/s of each engine", total=config.rounds * len(sims))
        for number in range(config.rounds):
            for name, sim in _rotated(sims, number):
                sim.reset([played[name][0]], [0])
                rate, busy = _rate(sim, config.steps)
                rates[name].append(rate)
                work[name].append(busy)
                progress.advance(task)
    return rates, work


def _rotated(sims: dict[str, Simulator], by: int) -> Iterator[tuple[str, Simulator]]:
    items = list(sims.items())
    yield from items[by % len(items) :] + items[: by % len(items)]


def _rate(sim: Simulator, steps: int) -> tuple[float, float]:
    rng = np.random.default_rng(2)
    actions = rng.uniform(-1.0, 1.0, (steps + 10, 1, 10))
    for action in actions[:10]:
        sim.step(action)
    start, busy = time.perf_counter(), _processor_seconds(sim)
    for action in actions[10:]:
        sim.step(action)
        sim.state()
        sim.depth()
    seconds, busy = time.perf_counter() - start, _processor_seconds(sim) - busy
    return steps / seconds, 1e3 * busy / steps


def _play(
    sims: dict[str, Simulator], played: dict[str, tuple[Episode, ...]], config: Config
) -> dict[str, list[dict[str, Any]]]:
    """Let the scripted agent play the same episodes, each on one engine after the other.

    On MuJoCo and Habitat; without Habitat, on every engine. Each episode is printed when it ends.
    """
    max_steps = load_scenario(config.scenario).max_steps
    names = [REFERENCE, "habitat"] if "habitat" in sims else list(sims)
    out: dict[str, list[dict[str, Any]]] = {name: [] for name in names if config.agent}
    count = min(config.agent, len(played[REFERENCE]))
    with Progress(transient=True) as progress:
        task = progress.add_task("scripted agent", total=count * len(out))
        for index, name in itertools.product(range(count), out):
            episode = played[name][index]
            record = run_episode(
                sims[name],
                make_agent("scripted", "replan", config.scenario),
                make_task(episode, config.scenario),
                EpisodeRecord(
                    index, episode.episode_id, "", config.scenario, episode.layout, index
                ),
                episode,
                max_steps,
            )
            out[name].append({"success": record.success, "steps": record.steps})
            failed = [f"{s['skill']}: {s['cause']}" for s in record.skills if s["cause"]]
            progress.console.print(
                f"episode {index} on {name}: {'success' if record.success else record.end} after"
                f" {record.steps} steps; failed skills: {', '.join(failed) or 'none'}"
            )
            progress.advance(task)
    return out


def _print_agent(played_by: dict[str, list[dict[str, Any]]]) -> None:
    for name, rows in played_by.items():
        steps = ", ".join(str(row["steps"]) for row in rows)
        won = sum(row["success"] for row in rows)
        print(f"scripted agent, {name:<26} {won} of {len(rows)} episodes; steps {steps}")


def _answer(sim: Any) -> float:
    """Return ms of a request that only reads: the transport and nothing but it."""
    best = np.inf
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(200):
            sim._link.call("read")
        best = min(best, 1e3 * (time.perf_counter() - start) / 200)
    return float(best)


def _processor_seconds(sim: Simulator) -> float:
    """Return processor time of this process, and of the server if the simulator has one."""
    total = time.process_time()
    server = getattr(getattr(sim, "_link", None), "process", None)
    if server is not None:
        spent = psutil.Process(server.pid).cpu_times()
        total += spent.user + spent.system
    return total


def _report(
    rows: dict[str, dict[str, float]],
    rates: dict[str, list[float]],
    work: dict[str, list[float]],
    config: Config,
) -> None:
    names = list(rows)
    print(f"\nworst of {config.episodes} episodes, against MuJoCo on our own files")
    print(f"{'':<36}" + "".join(f"{name:>26}" for name in names))
    for key in rows[names[0]]:
        print(f"{key:<36}" + "".join(f"{rows[name][key]:>26.3g}" for name in names))
    print(f"\nwith state and {config.depth} px depth, median of {config.rounds} rounds (range)")
    for name, found in rates.items():
        span = f"({min(found):.0f} to {max(found):.0f})"
        busy = float(np.median(work[name]))
        print(f"  {name:<26}{np.median(found):>7.0f} steps/s {span:<16}{busy:>7.2f} ms CPU a step")
    alone, served = "mujoco, imported scene", "mujoco in a server"
    spans = [1e3 / np.array(rates[name]) for name in (alone, served)]
    busies = [np.array(work[name]) for name in (alone, served)]
    for what, (one, two) in {"wall-clock": spans, "processor": busies}.items():
        cost, whole = float(np.median(two - one)), float(np.median(one))
        share = 100 * cost / whole
        print(f"the process boundary: {cost:.3f} ms {what} time, {share:.1f}% of {whole:.2f} ms")
        if "habitat" in rates:
            walls = 1e3 / np.array(rates["habitat"])
            step = float(np.median(walls if what == "wall-clock" else work["habitat"]))
            print(f"  of Habitat's step, {step - cost:.2f} ms: {100 * cost / (step - cost):.1f}%")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    sys.exit(run_main(main))

"""Scaling to many GPUs: a discrete-event simulation, checked against published figures first.

``python -m benchmarks.scaling [json=FILE step_ms=6.6 inference_ms=0.5 learn_ms=15 real=20]``

Model. Every environment step takes ``tau`` x episode factor x step factor seconds, both factors
log-normal; an episode lasts 64 steps on average. A rank collects T x N steps (lock step, quota per
environment, or VER), all ranks learn together for LT seconds, and AllReduce adds ``c log2(ranks)``
of the rollout time. DD-PPO ends rollouts when 60% of the ranks are done, VER by
``ver_trainer.distributed.preemption``.

Fitted on: the single-GPU speeds of VER's Table 1 (DD-PPO 174, NoVER 327, VER 428 steps/s, N = 16,
T = 128, about 1.5 s of learning), and DD-PPO's 7.3x on 8 and 196x on 256 GPUs (N = 4, T = 128).
Held out: VER's 6.7x on 8 GPUs. Then the same simulation is fed with step, inference and learning
times measured on this machine, given as options.
Last, inference takes time that matters: one server a rank answers batches as the collector makes
them, and the decider plans with the environments' own step times or with the times between their
steps; both are compared with rollouts that are always full, and VER's speed-up over one GPU is
simulated so for up to 256.
``real=SECONDS`` also measures two real Gloo ranks beside one.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.names import run_main
from tpsrl.files import write_json
from ver_trainer.config import load_config
from ver_trainer.distributed.preemption import TimePreemption, best_duration
from ver_trainer.options import option, parse_or_help
from ver_trainer.schemes import collect_rules

EPISODE = 64
PUBLISHED_SPEED = {"ddppo": 174.0, "nover": 327.0, "ver": 428.0}


@dataclass(frozen=True)
class Model:
    """Times in seconds; sigmas of the log-normal factors."""

    tau: float
    sigma_episode: float
    sigma_step: float
    learn: float
    communication: float  # share of (collection + learning) per doubling of the ranks
    envs: int = 16
    steps: int = 128


def step_times(model: Model, ranks: int, count: int, rng: np.random.Generator) -> np.ndarray:
    """Durations ``[ranks, envs, count]`` of consecutive steps."""
    shape = (ranks, model.envs)
    episodes = count // EPISODE + 2
    factor = rng.lognormal(0, model.sigma_episode, (*shape, episodes))
    offset = rng.integers(0, EPISODE, shape)
    index = (offset[..., None] + np.arange(count)) // EPISODE
    factors = np.take_along_axis(factor, index, axis=-1)
    return model.tau * factors * rng.lognormal(0, model.sigma_step, (*shape, count))


def arrivals(model: Model, scheme: str, ranks: int, rng: np.random.Generator) -> list[np.ndarray]:
    """For every rank the times at which its T x N steps arrive, in order."""
    quota = model.steps * model.envs
    if scheme == "ddppo":
        slowest = step_times(model, ranks, model.steps, rng).max(axis=1)
        return [np.repeat(np.cumsum(row), model.envs) for row in slowest]
    if scheme == "nover":
        times = np.cumsum(step_times(model, ranks, model.steps, rng), axis=-1)
        return [np.sort(rank.reshape(-1)) for rank in times]
    times = np.cumsum(step_times(model, ranks, 6 * model.steps, rng), axis=-1)
    return [np.sort(rank.reshape(-1))[:quota] for rank in times]


def one_iteration(
    model: Model, scheme: str, ranks: int, rng: np.random.Generator
) -> tuple[int, float]:
    """Steps and seconds of one rollout and update over all ranks."""
    state = rng.bit_generator.state
    arrived = arrivals(model, scheme, ranks, rng)
    ends = np.array([times[-1] for times in arrived])
    end = float(ends.max())
    if ranks > 1 and scheme == "ddppo":
        end = float(np.sort(ends)[int(np.ceil(0.6 * ranks)) - 1])
        quarter = max(float(t[len(t) // 4 - 1]) for t in arrived)
        end = max(end, quarter)
    elif ranks > 1 and scheme == "ver":
        # The same durations again: the decider knows each environment's mean in this very rollout,
        # more than it could measure, but not when single steps arrive.
        rng.bit_generator.state = state
        means = step_times(model, ranks, 6 * model.steps, rng)[..., : model.steps].mean(axis=-1)
        end = planned_end(arrived, means, model)
    steps = sum(int(np.searchsorted(times, end, side="right")) for times in arrived)
    seconds = end + model.learn
    return steps, seconds * (1 + model.communication * np.log2(ranks))


def planned_end(arrived: list[np.ndarray], step_seconds: np.ndarray, model: Model) -> float:
    """When VER's decider ends rollouts whose steps arrive at ``arrived``.

    Args:
        arrived: for every rank the times of its steps, in order.
        step_seconds: what it believes about the environments ``[ranks, envs]``.
        model: sizes and learning time.
    """
    rule, quota = TimePreemption, model.steps * model.envs
    seconds, steps = best_duration(step_seconds, quota, model.learn, rule.LEAST_GAIN)
    enough = int(np.ceil(rule.SHARE * steps)) - 1
    end = min(max(seconds, np.sort(np.concatenate(arrived))[enough]), rule.PATIENCE * seconds)
    return float(min(end, max(times[-1] for times in arrived)))


def served_arrivals(durations: np.ndarray, quota: int, inference: float) -> np.ndarray:
    """Steps of one rank whose environments wait for batched inference.

    Args:
        durations: seconds of consecutive environment steps ``[envs, count]``.
        quota: steps to collect.
        inference: seconds of one inference, whatever its size.

    Returns:
        Times and environments of the first ``quota`` steps ``[2, quota]``.
    """
    rules = collect_rules(load_config([f"collect.num_envs={len(durations)}"]))
    waiting = [(0.0, env) for env in range(len(durations))]  # since when, in order of arrival
    stepping: list[tuple[float, int]] = []
    served = np.zeros(len(durations), int)
    steps: list[tuple[float, int]] = []
    free = 0.0
    while len(steps) < quota:
        start = np.inf
        if len(waiting) >= rules.min_batch:
            start = max(free, waiting[rules.min_batch - 1][0])
        elif waiting:
            start = max(free, waiting[0][0] + inference / 2)
        if stepping and stepping[0][0] <= start:
            waiting.append(heapq.heappop(stepping))
            continue
        order = sorted(waiting, key=lambda item: (served[item[1]], item[1]))
        batch = order[: rules.max_batch]
        waiting = [item for item in waiting if item not in batch]
        free = start + inference
        for _, env in batch:
            if served[env]:
                steps.append((start, env))
            heapq.heappush(stepping, (free + durations[env, served[env]], env))
            served[env] += 1
    return np.array(steps[:quota]).T


def served(
    model: Model, inference: float, ranks: int, rollouts: int
) -> tuple[dict[str, int], dict[str, float]]:
    """Steps and seconds of rollouts whose environments wait for batched inference.

    Args:
        model: its step times are the environments' own.
        inference: seconds of one inference.
        ranks: number of ranks.
        rollouts: number of rollouts, each planned with what was measured in the one before.

    Returns:
        Two dictionaries by what the decider plans with: ``own`` (the environments' step times),
        ``between`` (times between their steps), ``full`` (no plan, rollouts are always full).
    """
    rng = np.random.default_rng(0)
    quota = model.steps * model.envs
    collected = dict.fromkeys(("own", "between", "full"), 0)
    seconds = dict.fromkeys(collected, 0.0)
    known: dict[str, np.ndarray] = {}
    for _ in range(rollouts + 1):
        durations = step_times(model, ranks, 4 * model.steps, rng)
        steps = [served_arrivals(rank, quota, inference) for rank in durations]
        arrived = [times for times, _ in steps]
        ends = {"full": max(float(times[-1]) for times in arrived)}
        if known:  # from the rollout before
            ends["own"] = best_duration(known["own"], quota, model.learn)[0]
            ends["between"] = planned_end(arrived, known["between"], model)
            for name, end in ends.items():
                collected[name] += sum(int(np.searchsorted(t, end, "right")) for t in arrived)
                seconds[name] += end + model.learn
        counts = np.array([np.bincount(e.astype(int), minlength=model.envs) for _, e in steps])
        known["between"] = np.array([t[-1] for t in arrived])[:, None] / np.maximum(counts, 1)
        known["own"] = durations.mean(axis=-1)
    return collected, seconds


def inference_matters(
    model: Model, inference: float, ranks: int, rollouts: int = 5
) -> dict[str, tuple[float, float]]:
    """Fill of a rollout and throughput over that of full rollouts, by what the decider measures.

    Returns:
        ``own`` and ``between``, see :func:`served`, to ``(fill, throughput)``.
    """
    collected, seconds = served(model, inference, ranks, rollouts)
    rates = {name: collected[name] / seconds[name] for name in collected}
    return {
        name: (collected[name] / collected["full"], rates[name] / rates["full"])
        for name in ("own", "between")
    }


def served_scaling(model: Model, inference: float, counts: Sequence[int]) -> dict[int, float]:
    """Speed-up of VER over one GPU where environments wait for batched inference."""
    rates = {}
    for ranks in (1, *counts):
        collected, seconds = served(model, inference, ranks, max(2, 16 // ranks))
        slower = 1 + model.communication * np.log2(ranks)
        rates[ranks] = collected["between"] / (seconds["between"] * slower)
    return {ranks: float(rates[ranks] / rates[1]) for ranks in counts}


def speed(model: Model, scheme: str, ranks: int, iterations: int = 12, seed: int = 0) -> float:
    """Steps per second over all ranks."""
    rng = np.random.default_rng(seed)
    results = [one_iteration(model, scheme, ranks, rng) for _ in range(iterations)]
    return sum(s for s, _ in results) / sum(t for _, t in results)


def with_speed(model: Model, scheme: str, target: float) -> Model:
    """Chooses ``tau`` so that one GPU collects ``target`` steps per second."""
    quota = model.steps * model.envs
    collect = quota / speed(replace(model, tau=1.0, learn=0.0), scheme, 1, 24)
    return replace(model, tau=(quota / target - model.learn) / collect)


def fit_variation() -> Model:
    """Fits the two sigmas to the ratios of VER's Table 1 on one GPU."""
    best: tuple[float, Model] | None = None
    for episode, step in itertools.product(np.arange(0.0, 1.25, 0.1), np.arange(0.2, 1.5, 0.1)):
        model = Model(1.0, float(episode), float(step), 1.5, 0.0)
        model = with_speed(model, "ver", PUBLISHED_SPEED["ver"])
        error = sum(
            np.log(speed(model, scheme, 1, 24) / PUBLISHED_SPEED[scheme]) ** 2
            for scheme in ("nover", "ddppo")
        )
        if best is None or error < best[0]:
            best = (float(error), model)
    assert best is not None
    return best[1]


def fit_communication() -> Model:
    """Fits DD-PPO's scaling on homogeneous GPUs: variation of episodes and cost of AllReduce."""
    best: tuple[float, Model] | None = None
    for episode, share in itertools.product(np.arange(0.0, 0.7, 0.1), np.arange(0.0, 0.05, 0.004)):
        model = Model(0.01, float(episode), 0.3, 1.0, float(share), envs=4)
        single = speed(model, "ddppo", 1, 40)
        error = np.log(speed(model, "ddppo", 8, 20) / single / 7.3) ** 2
        error += np.log(speed(model, "ddppo", 256, 3) / single / 196) ** 2
        if best is None or error < best[0]:
            best = (float(error), model)
    assert best is not None
    return best[1]


def scaling(model: Model, scheme: str, counts: tuple[int, ...]) -> dict[int, float]:
    """Speed-up over one GPU."""
    single = speed(model, scheme, 1, 40)
    return {n: speed(model, scheme, n, max(3, 48 // n)) / single for n in counts}


def real_ranks(size: int, scheme: str, seconds: float) -> float:
    """Measured steps per second of ``size`` Gloo ranks on the waiting workload."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as out:
        arguments = [scheme, "waiting", "10", str(seconds), f"out={out}"]
        processes = []
        for rank in range(size):
            group = {"WORLD_SIZE": size, "RANK": rank, "LOCAL_RANK": rank, "MASTER_PORT": port}
            environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}
            environment |= {key: str(value) for key, value in group.items()}
            command = [sys.executable, "-m", "benchmarks.trainer_ours", *arguments]
            processes.append(
                subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            )
        outputs = [process.communicate()[0] for process in processes]
    return float(json.loads(outputs[0].splitlines()[-1])["steps_per_second"])


def measure_ranks(seconds: float) -> dict[str, float]:
    """Speed-up of two real ranks over one, for VER and DD-PPO."""
    found = {}
    for scheme in ("ver", "ddppo"):
        one, two = (real_ranks(size, scheme, seconds) for size in (1, 2))
        found[scheme] = two / one
        print(f"measured, {scheme}: 1 rank {one:.0f}, 2 ranks {two:.0f} steps/s, {two / one:.2f}x")
    return found


INFERENCE = ((0.010, 0.010, 1.5), (0.0004, 0.002, 0.3))
"""Seconds of a step, an inference and of learning where inference is not short."""


def scale_with_inference(
    communication: float, counts: Sequence[int]
) -> dict[str, dict[int, float]]:
    """Prints VER's speed-up where inference is not short beside simulation, uneven steps."""
    found = {}
    for simulation, inference, learn in INFERENCE:
        model = Model(simulation / np.exp(0.5), 0.6, 0.8, learn, communication)
        name = f"{simulation * 1e3:g} + {inference * 1e3:g} ms"
        row = found[name] = served_scaling(model, inference, counts)
        shown = ", ".join(f"{ranks}: {value:.1f}x" for ranks, value in row.items())
        print(f"ver, {name} of simulation and inference: {shown}", flush=True)
    return found


def compare_inference() -> dict[str, dict[str, tuple[float, float]]]:
    """Prints what the decider does where inference is not short beside simulation."""
    found = {}
    for simulation, inference, learn in INFERENCE:
        for sigmas, ranks in itertools.product(((0.0, 0.0), (0.6, 0.8)), (2, 8)):
            tau = simulation / np.exp(0.5 * (sigmas[0] ** 2 + sigmas[1] ** 2))
            row = inference_matters(Model(tau, *sigmas, learn, 0.0), inference, ranks)
            steps = "uneven" if any(sigmas) else "equal"
            name = f"{simulation * 1e3:g} + {inference * 1e3:g} ms, {steps} steps, {ranks} ranks"
            found[name] = row
            print(f"{name}: " + ", ".join(
                f"planned by {key} times: {fill:.0%} full, throughput {rate:.2f}"
                for key, (fill, rate) in row.items()))  # fmt: skip
    return found


@dataclass
class Config:
    """Options of the benchmark."""

    json: Path | None = option(None, "report to write")
    step_ms: float = option(6.6, "measured time of an environment step", above=0)
    inference_ms: float = option(0.5, "measured time of an inference", min=0)
    learn_ms: float = option(15.0, "measured time of an update", min=0)
    real: float = option(0.0, "s of measuring two real Gloo ranks beside one; 0: not", min=0)


def main(words: Sequence[str]) -> None:
    """Fit, check and print."""
    config = parse_or_help(Config, words, __doc__)
    variation, homogeneous = fit_variation(), fit_communication()
    paper = replace(variation, communication=homogeneous.communication)
    single = {s: speed(paper, s, 1, 40) for s in PUBLISHED_SPEED}
    print(f"fitted: {paper}")
    print("one GPU, steps/s (published): " + ", ".join(
        f"{s} {single[s]:.0f} ({PUBLISHED_SPEED[s]:.0f})" for s in single))  # fmt: skip
    ddppo = scaling(homogeneous, "ddppo", (8, 256))
    print(f"DD-PPO, homogeneous: 8 GPUs {ddppo[8]:.1f}x (7.3x), 256 GPUs {ddppo[256]:.0f}x (196x)")
    held_out = scaling(paper, "ver", (8,))
    print(f"held out: VER on 8 GPUs {held_out[8]:.1f}x (6.7x)")
    ours = Model(
        (config.step_ms + config.inference_ms) / 1000 / np.exp(0.5),
        0.6, 0.8, config.learn_ms / 1000, paper.communication,
    )  # fmt: skip
    counts = (1, 2, 4, 8, 16, 32, 64, 128, 256)
    table: dict[str, Any] = {s: scaling(ours, s, counts) for s in ("ver", "nover", "ddppo")}
    print("ours, measured times: speed-up over one GPU")
    print("GPUs   " + "".join(f"{n:>8}" for n in counts))
    for scheme, row in table.items():
        print(f"{scheme:7}" + "".join(f"{row[n]:8.1f}" for n in counts))
    matters = compare_inference()
    waited = scale_with_inference(paper.communication, (2, 8, 32, 128, 256))
    measured = measure_ranks(config.real) if config.real else {}
    if config.json is not None:
        report: dict[str, Any] = {
            "single": single,
            "ddppo": ddppo,
            "ver": held_out,
            "ours": table,
            "inference": matters,
            "scaling_with_inference": waited,
            "measured": measured,
        }
        write_json(config.json, report)


if __name__ == "__main__":
    sys.exit(run_main(main))

"""Real runs of ``python -m tpsrl`` that are killed, stopped, starved, torn or doubled."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from benchmarks.faults.damage import BAD, Row

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 180.0
"""Seconds after which a run that takes ten hangs."""
_FREE = ("seconds", "attempts", "extra", "cpu_seconds")
"""Fields of a result that may differ between two runs."""


def members(group: int) -> list[int]:
    """Return the live processes of a process group."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


@dataclass(frozen=True)
class Job:
    """A command whose result does not depend on interruptions.

    Attributes:
        name: of the row.
        words: of the command; ``{out}`` is where it writes.
        out: name of the file or folder that it writes.
        result: returns what has to be equal, given ``out``.
        damaged: patterns of its files that are torn and flipped.
        workers: it has worker processes.
    """

    name: str
    words: tuple[str, ...]
    out: str
    result: Callable[[Path], Any]
    damaged: tuple[str, ...]
    workers: bool = True


def _records(out: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]
    kept = [{k: v for k, v in line.items() if k not in _FREE} for line in lines]
    assert json.loads((out / "summary.json").read_text())["episodes"] == len(lines)
    return sorted(kept, key=lambda line: line["index"])


def _arrays(out: Path) -> list[str]:
    with np.load(out) as file:
        return [hashlib.sha256(file[name].tobytes()).hexdigest() for name in sorted(file.files)]


def _weights(out: Path) -> tuple[str, str]:
    # Damaged ones stay beside the others, as update_N.damaged.
    last = max(path for path in out.glob("checkpoints/update_*") if not path.suffix)
    return last.name, hashlib.sha256((last / "weights.safetensors").read_bytes()).hexdigest()


JOBS = (
    Job("tpsrl eval", ("eval", "scenario=rearrange_easy", "executor=replan", "episodes=3",
                       "max_steps=60", "workers=2", "out={out}"), "run", _records,
        ("episodes.jsonl", "summary.json", "config.json")),
    Job("tpsrl episodes", ("episodes", "scenario=set_table", "n=3", "workers=2", "out={out}"),
        "e.json.gz", lambda out: out.read_bytes(),
        ("e.json.gz.partial/episodes.jsonl", "e.json.gz.partial/config.json")),
    Job("tpsrl handoff", ("handoff", "scenario=rearrange_easy", "split=val", "episodes=2",
                          "workers=2", "out={out}"), "h.npz", _arrays,
        ("h.npz.parts/*.npz", "h.npz.parts/config.json")),
    Job("tpsrl train", ("train", "env=CartPole-v1", "collector=inline", "total_steps=8192",
                        "collect.num_envs=4", "collect.steps=64", "log.tensorboard=false",
                        "log.progress=false", "seed=3", "log.checkpoint_interval=4",
                        "out={out}"), "run", _weights,
        ("checkpoints/*/weights.safetensors", "checkpoints/*/state.0.pt", "checkpoints/*/meta.json",
         "checkpoints/best.json", "metrics.jsonl"), workers=False),
)  # fmt: skip


class Run:
    """One process of a command, in a group of its own, which ends with the block.

    Args:
        job: what to run.
        folder: where it writes.
        file_limit: largest file that it may write, bytes: a full disk.
    """

    def __init__(self, job: Job, folder: Path, file_limit: int | None = None) -> None:
        folder.mkdir(exist_ok=True)
        words = [word.format(out=folder / job.out) for word in job.words]

        def starve() -> None:
            if file_limit is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
                resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))

        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tpsrl", *words],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=starve,
        )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        if members(self.process.pid):  # a terminal's Ctrl-C does not reach that group
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> tuple[int | None, str, list[int]]:
        """Wait; return exit code (``None``: it hangs), what it said, and processes left behind."""
        try:
            _, errors = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            return None, "", []
        limit = time.monotonic() + 15
        while members(self.process.pid) and time.monotonic() < limit:
            time.sleep(0.1)
        left = members(self.process.pid)
        return self.process.returncode, errors.decode("utf-8", "replace"), left


def _trackers() -> list[int]:
    """Return the processes that Python keeps to tidy up after the others."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if b"resource_tracker" in line.read_bytes():
                found.append(int(line.parent.name))
    return found


def _shared_memory() -> set[str]:
    """Return the shared memory that no process uses, as one that was forgotten."""
    mapped = ""
    names = set(os.listdir("/dev/shm"))
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            mapped += maps.read_text()
    return {name for name in names if name not in mapped}


def _begun(job: Job, folder: Path) -> bool:
    """Return whether a run has stored something that a fault can hit."""
    return any((folder / job.out).parent.glob(f"{job.out}*")) and any(_files(job, folder))


def _files(job: Job, folder: Path) -> list[Path]:
    base = folder / job.out if "." not in job.out else folder
    return [p for pattern in job.damaged for p in sorted(base.glob(pattern)) if p.is_file()]


def _wait(job: Job, run: Run, folder: Path, rng: Random, seconds: float) -> None:
    """Wait until a run has stored something, and a moment more."""
    end = time.monotonic() + 60
    while run.process.poll() is None and not _begun(job, folder) and time.monotonic() < end:
        time.sleep(0.02)
    time.sleep(rng.random() * seconds)


def _verdict(job: Job, run: Run, folder: Path, wanted: Any, must_end: bool) -> tuple[str, str]:
    """Return outcome and text of a finished run.

    Args:
        job: what ran.
        run: its process.
        folder: where it wrote.
        wanted: result without a fault.
        must_end: an exit code 0 is owed; a refusal is one that names what to do otherwise.
    """
    with run:
        code, errors, left = run.end()
    if code is None:
        return "hang", f"no end in {LIMIT:g} s"
    if "Traceback (most recent" in errors or "fault of tpsrl" in errors:
        return "traceback", errors[-1500:]
    if left:
        return "leak", f"processes {left} are left"
    if code == 0:
        try:
            good = job.result(folder / job.out) == wanted
        except (OSError, ValueError, KeyError, AssertionError) as error:
            return "wrong", f"its result cannot be read: {error!r}"
        return ("survived", "") if good else ("wrong", "another result than without the fault")
    sentence = errors.strip().splitlines()[-1] if errors.strip() else ""
    stopped = code in (128 + signal.SIGINT, 128 + signal.SIGTERM)
    if code > 0 and not stopped and not sentence.startswith("tpsrl: "):
        return "traceback", f"code {code} without a sentence: {errors[-300:]}"
    return ("wrong" if must_end and code > 0 else "refused"), f"code {code}: {sentence}"


Fault = Callable[[Job, Path, Random, Any], tuple[str, str]]


def _if_hit(hit: bool, verdict: tuple[str, str]) -> tuple[str, str]:
    """Return a verdict, unless it is that of a run that nothing happened to."""
    return verdict if hit or verdict[0] in BAD else ("untouched", "the fault hit nothing")


def _signalled(number: int) -> Fault:
    def fault(job: Job, folder: Path, rng: Random, wanted: Any) -> tuple[str, str]:
        with Run(job, folder) as run:
            _wait(job, run, folder, rng, 2.0)
            hit = run.process.poll() is None
            if hit:
                run.process.send_signal(number)
                if number == signal.SIGSTOP:
                    time.sleep(2.0)
                    run.process.send_signal(signal.SIGCONT)
            first = _if_hit(hit, _verdict(job, run, folder, wanted, False))
        if first[0] not in ("survived", "refused"):
            return first
        return _verdict(job, Run(job, folder), folder, wanted, True)

    return fault


def _worker_killed(job: Job, folder: Path, rng: Random, wanted: Any) -> tuple[str, str]:
    with Run(job, folder) as run:
        _wait(job, run, folder, rng, 1.0)
        children = sorted(set(members(run.process.pid)) - {run.process.pid} - set(_trackers()))
        hit = False
        if children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(children), signal.SIGKILL)
                hit = True
        first = _if_hit(hit, _verdict(job, run, folder, wanted, False))
    if first[0] != "refused":
        return first
    return _verdict(job, Run(job, folder), folder, wanted, True)


def _full_disk(job: Job, folder: Path, rng: Random, wanted: Any) -> tuple[str, str]:
    limit = rng.choice([0, 10, 300, 2000, 9000])
    first = _verdict(job, Run(job, folder, limit), folder, wanted, False)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    first = _if_hit(first[0] == "refused" or max(sizes, default=-1) >= limit, first)
    if first[0] not in ("survived", "refused"):
        return first
    return _verdict(job, Run(job, folder), folder, wanted, True)


def _half_done(job: Job, folder: Path, rng: Random) -> None:
    with Run(job, folder) as run:
        _wait(job, run, folder, rng, 2.0)
        if run.process.poll() is None:
            run.process.kill()
        run.end()


def _damaged(change: Callable[[bytes, Random], bytes | None]) -> Fault:
    def fault(job: Job, folder: Path, rng: Random, wanted: Any) -> tuple[str, str]:
        _half_done(job, folder, rng)
        files, hit = _files(job, folder), False
        if files:
            file = rng.choice(files)
            old = file.read_bytes()
            new = change(old, rng)
            hit = new != old
            if new is None:
                file.unlink()
            else:
                file.write_bytes(new)
        return _if_hit(hit, _verdict(job, Run(job, folder), folder, wanted, False))

    return fault


def _torn(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flipped(data: bytes, rng: Random) -> bytes:
    out = bytearray(data)
    if out:
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _two_at_once(job: Job, folder: Path, rng: Random, wanted: Any) -> tuple[str, str]:
    with Run(job, folder) as first:
        time.sleep(rng.choice([0.0, 0.3, 2.0]))
        with Run(job, folder) as second:
            together = first.process.poll() is None
            verdicts = [_verdict(job, run, folder, wanted, False) for run in (second, first)]
    bad = [v for v in verdicts if v[0] not in ("survived", "refused")]
    if bad:
        return bad[0]
    if not together:
        return _if_hit(False, verdicts[0])
    if [v[0] for v in verdicts] == ["survived", "survived"] and job.name == "tpsrl train":
        return "wrong", "both trained in one folder"
    return _verdict(job, Run(job, folder), folder, wanted, True)


FAULTS: dict[str, Fault] = {
    "killed": _signalled(signal.SIGKILL),
    "interrupted": _signalled(signal.SIGINT),
    "terminated": _signalled(signal.SIGTERM),
    "stopped": _signalled(signal.SIGSTOP),
    "worker killed": _worker_killed,
    "full disk": _full_disk,
    "torn file": _damaged(_torn),
    "flipped bit": _damaged(_flipped),
    "file gone": _damaged(lambda data, rng: None),
    "two at once": _two_at_once,
}


def faults(
    count: int, seed: int, names: list[str] | None = None, done: Callable[[], None] | None = None
) -> dict[str, Row]:
    """Run ``count`` faults over all commands, or those named, as evenly as it goes.

    Args:
        count: faults.
        seed: of all.
        names: of jobs, ``None`` for all.
        done: called after each.

    Returns:
        The rows by command.
    """
    jobs = [job for job in JOBS if names is None or job.name in names]
    rows = {job.name: Row() for job in jobs}
    with tempfile.TemporaryDirectory(prefix="tpsrl-faults-") as place:
        wanted: dict[str, Any] = {}
        for number in range(count):
            job = jobs[number % len(jobs)]
            if job.name not in wanted:
                folder = Path(place) / f"reference {len(wanted)}"
                with Run(job, folder) as run:
                    code, errors, _ = run.end()
                assert code == 0, errors
                wanted[job.name] = job.result(folder / job.out)
            kinds = [name for name in FAULTS if job.workers or name != "worker killed"]
            kind = kinds[number // len(jobs) % len(kinds)]
            shared = _shared_memory()
            folder = Path(place) / f"run {number}"
            found = FAULTS[kind](job, folder, Random(f"{seed} {number}"), wanted[job.name])
            left = _shared_memory() - shared
            if left and found[0] in ("survived", "refused"):
                found = ("leak", f"shared memory {sorted(left)}")
            rows[job.name].note(found[0], f"seed {seed}, fault {number} ({kind}): {found[1]}")
            shutil.rmtree(folder, ignore_errors=True)
            if done is not None:
                done()
    return rows

"""What a run answers when the disk is full, a file vanishes or its workers are killed."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests.ver_trainer.envs import Ragged, make
from tests.ver_trainer.test_distributed import run_ranks
from tests.ver_trainer.test_runner import assert_same, config, start_run, weights
from tpsrl.cli import main
from ver_trainer import export_policy, load_policy, train
from ver_trainer.envs.video import VideoRecorder
from ver_trainer.errors import StorageError, WorkerFailure
from ver_trainer.export import save_policy
from ver_trainer.logger import TensorBoard
from ver_trainer.runner import Runner

INLINE = {"collector": "inline", "optim.schedule": "constant"}


@contextmanager
def file_limit(size: int) -> Iterator[None]:
    """Lets no file of this process grow beyond ``size``: writing fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("size", "name"), [(4000, "state.0.pt"), (9, "metrics.jsonl")])
def test_disk_full_while_a_run_writes(size: int, name: str, tmp_path: Path) -> None:
    train(config(tmp_path / "whole", **INLINE))
    part = tmp_path / "part"
    train(config(part, **INLINE, total_steps=256))
    before = {p: p.read_bytes() for p in part.glob("checkpoints/update_*/*")}
    runner = Runner(config(part, **INLINE, **{"log.interval": 10 if name == "state.0.pt" else 1}))
    with ExitStack() as stack:
        at_update(runner, 5, lambda: stack.enter_context(file_limit(size)))
        with pytest.raises(StorageError, match=rf"{name}' cannot be written \("):
            runner.run()
    assert before == {p: p.read_bytes() for p in part.glob("checkpoints/update_*/*")}
    assert not list(part.glob("checkpoints/.tmp*")) and not (part / ".lock").exists()
    assert train(config(part, **INLINE)).finished
    assert_same(weights(part, 10), weights(tmp_path / "whole", 10))


def test_disk_full_while_metrics_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The device that is always full, behind the command line: one sentence and no zero."""
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    words = ["collector=inline", "total_steps=4096", "log.progress=false"]
    assert main(["train", f"out={tmp_path}", *words]) != 0
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"'{tmp_path / 'metrics.jsonl'}' cannot be written (No space left" in sentence
    (tmp_path / "metrics.jsonl").unlink()
    assert main(["train", f"out={tmp_path}", *words]) == 0


def test_disk_full_in_the_middle_of_a_record(tmp_path: Path) -> None:
    runner = Runner(config(tmp_path, **INLINE))
    with ExitStack() as stack:
        room = lambda: (tmp_path / "metrics.jsonl").stat().st_size + 50  # noqa: E731
        at_update(runner, 6, lambda: stack.enter_context(file_limit(room())))
        with pytest.raises(StorageError, match=r"metrics.jsonl' cannot be written"):
            runner.run()
    assert not (tmp_path / "metrics.jsonl").read_text().endswith("\n")
    assert train(config(tmp_path, **INLINE)).finished
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == list(range(1, 11))


def test_disk_full_while_tensorboard_is_written(tmp_path: Path) -> None:
    board = TensorBoard(tmp_path)
    board.write({"a": 1.0}, 1)
    size = board.path.stat().st_size
    with file_limit(size + 9), pytest.raises(StorageError, match=r"tfevents.*cannot be written"):
        board.write({"a": 2.0}, 2)
    reader = EventAccumulator(str(tmp_path)).Reload()
    assert [(x.step, x.value) for x in reader.Scalars("a")] == [(1, 1.0)]


def test_disk_full_while_a_policy_is_written(tmp_path: Path) -> None:
    train(config(tmp_path / "run", **INLINE, total_steps=64))
    policy = load_policy(tmp_path / "run")
    save_policy(policy, tmp_path / "policy.safetensors")
    with file_limit(100):
        for name, write in (("policy.safetensors", save_policy), ("policy.pt", export_policy)):
            with pytest.raises(StorageError, match=rf"{name}' cannot be written"):
                write(policy, tmp_path / name)
    load_policy(tmp_path / "policy.safetensors")  # as it was
    assert not (tmp_path / "policy.pt").exists()


class Noise(Ragged):
    def render(self) -> np.ndarray:
        return np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)


def test_disk_full_while_a_video_is_written(tmp_path: Path) -> None:
    """The encoder fails in silence: half a video must not pass for one."""
    pytest.importorskip("imageio")
    env = VideoRecorder(Noise(longest=9), str(tmp_path))
    env.reset(seed=0)
    env.step(0)
    with file_limit(2000), pytest.raises(StorageError, match=r"episode_0.mp4"):
        env.reset()
    assert not list(tmp_path.iterdir())
    env.reset()
    assert (tmp_path / "episode_0.mp4").stat().st_size > 2000


def test_what_no_new_worker_would_cure_ends_the_run_in_one_sentence(tmp_path: Path) -> None:
    pytest.importorskip("imageio")
    (tmp_path / "videos").write_text("in the way")
    values = {"log.eval_interval": 1, "log.eval_episodes": 2, "log.eval_video": True}
    with pytest.raises(WorkerFailure) as caught:
        train(config(tmp_path, **values, env_args={"longest": 5}), make)
    assert "videos" in str(caught.value) and len(str(caught.value).splitlines()) == 1


def test_one_rank_with_a_full_disk_stops_all_of_them(tmp_path: Path) -> None:
    run_ranks("full_disk", str(tmp_path))
    said = [(tmp_path / f"said{rank}").read_text() for rank in (0, 1)]
    assert "another rank could not" in said[0] and "state.1.pt' cannot be written" in said[1]
    (kept,) = (tmp_path / "checkpoints").iterdir()
    sums = (kept / "SHA256SUMS").read_text()
    assert kept.name == "update_000000001" and "state.0.pt" in sums and "state.1.pt" in sums


def at_update(runner: Runner, number: int, act) -> None:
    """Does something to the run's files as soon as an update is done."""
    original = runner.parts.storage.after_update

    def after_update() -> None:
        original()
        if runner.updates == number:
            act()

    runner.parts.storage.after_update = after_update


def test_metrics_that_vanish_are_begun_again(tmp_path: Path) -> None:
    runner = Runner(config(tmp_path, **INLINE))
    at_update(runner, 4, (tmp_path / "metrics.jsonl").unlink)
    assert runner.run().finished
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["update"] for line in lines] == list(range(4, 11))


def test_folder_that_vanishes_stops_the_run(tmp_path: Path) -> None:
    runner = Runner(config(tmp_path / "run", **INLINE))
    at_update(runner, 4, lambda: shutil.rmtree(tmp_path / "run"))
    with pytest.raises(StorageError, match=r"run' was removed while a training used it"):
        runner.run()
    assert not (tmp_path / "run").exists()
    assert train(config(tmp_path / "run", **INLINE)).finished


def test_checkpoints_that_vanish_are_written_again(tmp_path: Path) -> None:
    runner = Runner(config(tmp_path, **INLINE))
    at_update(runner, 4, lambda: shutil.rmtree(tmp_path / "checkpoints"))
    assert runner.run().finished
    load_policy(tmp_path)


def test_workers_killed_again_and_again(tmp_path: Path) -> None:
    """What was learned is kept, and the same command goes on from there."""
    values = {"env_args": {"kind": "Faulty", "fault": "die"}, "collect.max_faults": 2,
              "log.checkpoint_interval": 100}  # fmt: skip
    steps = []
    for _ in range(2):
        with pytest.raises(WorkerFailure, match=r"failed 3 times.*same command goes on") as caught:
            train(config(tmp_path, **values, total_steps=100000), make)
        assert len(str(caught.value).splitlines()) == 1
        newest = max(tmp_path.glob("checkpoints/update_*/meta.json"))
        steps.append(json.loads(newest.read_text())["steps"])
        lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
        assert json.loads(lines[-1])["step"] == steps[-1]
    assert 0 < steps[0] < steps[1]


def test_killed_nursery_is_one_sentence(tmp_path: Path) -> None:
    process = start_run(tmp_path)
    (nursery,) = psutil.Process(process.pid).children()
    workers = nursery.children()
    os.kill(nursery.pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=30)
    assert process.returncode != 0
    assert "the process that starts environment workers died" in errors
    assert not psutil.wait_procs(workers, timeout=5)[1]

"""What a run leaves on the disk: locks, digests, damaged checkpoints, and which is the best."""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_runner import ROOT, assert_same, config, start_run, weights
from tpsrl.cli import main
from ver_trainer import load_policy, train
from ver_trainer.checkpoint import CheckpointManager, pack_state, unpack_state
from ver_trainer.digests import SUMS
from ver_trainer.errors import CheckpointError, ConfigError, StorageError
from ver_trainer.files import locked, replacing
from ver_trainer.finding import Found, resolve_weights

FILES = ("weights.safetensors", "state.0.pt", "meta.json", SUMS)
INLINE = {"collector": "inline", "total_steps": 256, "optim.schedule": "constant"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four updates; the last three are kept, and the best."""
    folder = tmp_path_factory.mktemp("whole")
    train(config(folder, **INLINE))
    return folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def newest(run: Path) -> Path:
    return run / "checkpoints" / "update_000000004"


def find(run: Path) -> Found:
    found = CheckpointManager(run / "checkpoints", keep=3).newest_sound(
        [], lambda path: CheckpointManager.load(path, 0)
    )
    assert found is not None
    return found


def flip(file: Path, rng: random.Random) -> None:
    data = bytearray(file.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    file.write_bytes(data)


def make_old(checkpoint: Path) -> None:
    """As checkpoints were before they had digests."""
    (checkpoint / SUMS).unlink()
    meta = json.loads((checkpoint / "meta.json").read_text())
    del meta["score"], meta["best_by"]
    (checkpoint / "meta.json").write_text(json.dumps({**meta, "format": 1}))


def test_second_training_in_a_folder_is_refused_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"collector": "inline", "log.tensorboard": "false", "total_steps": "100000000"}
    first = start_run(tmp_path, **values)
    words = [f"{k}={v}" for k, v in values.items()]
    assert main(["train", f"out={tmp_path}", *words]) != 0 and first.poll() is None
    (sentence,) = capsys.readouterr().err.splitlines()
    assert f"is in use by a training, process {first.pid} on " in sentence
    first.kill()
    first.communicate()
    with locked(tmp_path, "a test"):  # a killed process leaves its file, but no lock
        pass
    assert not (tmp_path / ".lock").exists()


def test_folder_that_was_removed_is_not_made_again(tmp_path: Path) -> None:
    with locked(tmp_path / "run", "a test") as lock:
        shutil.rmtree(tmp_path / "run")
        with pytest.raises(StorageError, match=r"run' was removed while a test used it"):
            lock.check()
        with locked(tmp_path / "run", "another") as other:  # of a folder of the same name
            with pytest.raises(StorageError, match="was removed"):
                lock.check()
            other.check()


def test_what_was_refused_leaves_no_folder(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="Nowhere"):
        train(config(tmp_path / "never", env="Nowhere-v3"))
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_bit_is_noticed(name: str, run: Path) -> None:
    rng, sound = random.Random(name), (newest(run) / name).read_bytes()
    for _ in range(25):
        flip(newest(run) / name, rng)
        found = find(run)
        assert found.path.name == "update_000000003"
        (sentence,) = found.sentences()
        assert str(newest(run)) in sentence and sentence.endswith("is taken instead")
        (newest(run) / name).write_bytes(sound)
    assert find(run).path == newest(run) and not find(run).sentences()


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("fault", ["cut", "empty", "missing", "zeros"])
def test_torn_and_missing_files_are_named(name: str, fault: str, run: Path) -> None:
    file = newest(run) / name
    size = file.stat().st_size
    if fault == "missing":
        file.unlink()
    else:
        kept = file.read_bytes()[: size // 2 if fault == "cut" else 0]
        file.write_bytes(kept if fault != "zeros" else bytes(size))
    assert (
        find(run).path.name == "update_000000003" and str(newest(run)) in find(run).sentences()[0]
    )


def test_damaged_checkpoint_is_set_aside_and_the_run_ends_as_it_would_have(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = {**INLINE, "total_steps": 512}
    train(config(tmp_path / "other", **longer))
    flip(newest(run) / "weights.safetensors", random.Random(1))
    train(config(run, **longer))
    said = capsys.readouterr().err
    assert f"'{newest(run) / 'weights.safetensors'}' is damaged" in said
    assert newest(run).with_name("update_000000004.damaged").is_dir()  # nothing is thrown away
    assert_same(weights(run, 8), weights(tmp_path / "other", 8))


def test_without_a_sound_checkpoint_a_run_does_not_begin_again(run: Path) -> None:
    for checkpoint in run.glob("checkpoints/update_*"):
        (checkpoint / "state.0.pt").write_bytes(b"")
    before = (run / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=r"state.0.pt' is damaged.*no other.*another out="):
        train(config(run, **INLINE))
    assert (run / "metrics.jsonl").read_bytes() == before


def test_checkpoints_of_other_versions(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_old(newest(run))
    assert find(run).path == newest(run) and "before checkpoints had digests" in find(run).note
    train(config(run, **INLINE))
    assert "before checkpoints had digests" in capsys.readouterr().err
    torch.save({"steps": 3}, newest(run) / "state.0.pt")
    assert find(run).path.name == "update_000000003"
    assert "is of another version: it has no 'episodes'" in find(run).sentences()[0]
    meta = newest(run) / "meta.json"
    meta.write_text(meta.read_text().replace('"format": 1', '"format": 9'))
    assert find(run).path.name == "update_000000003"


class Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, ("/tmp/never_made_by_a_checkpoint",)


def test_pickled_state_is_refused_in_our_own_words(run: Path) -> None:
    make_old(newest(run))  # nothing but the reader itself stands in its way
    (newest(run) / "state.0.pt").write_bytes(pickle.dumps(Evil()))
    (sentence,) = find(run).sentences()
    assert "are never loaded" in sentence and "weights_only" not in sentence
    assert not Path("/tmp/never_made_by_a_checkpoint").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"name": "../..", "score": 1}', "\0"])
def test_damaged_best_is_found_again(
    text: str, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = run / "checkpoints" / "best.json"
    manager = CheckpointManager(file.parent, keep=3)
    best, score = manager.best(), manager.best_score("return")
    file.write_text(text)
    assert manager.best() == best and manager.best_score("return") == score
    load_policy(run)
    assert f"'{file}' is damaged" in capsys.readouterr().err
    assert train(config(run, **INLINE)).finished
    assert f"'{file}' is damaged" in capsys.readouterr().err


def test_policy_of_a_damaged_best_checkpoint(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = CheckpointManager(run / "checkpoints", keep=3).best()
    assert best is not None
    flip(best / "weights.safetensors", random.Random(2))
    load_policy(run)
    assert f"'{best / 'weights.safetensors'}' is damaged" in capsys.readouterr().err
    for path in (best, best / "weights.safetensors"):  # this one was asked for
        with pytest.raises(CheckpointError, match="damaged"):
            load_policy(path)


def test_best_is_by_evaluation_where_there_is_one(tmp_path: Path) -> None:
    values = {"log.eval_interval": 2, "log.eval_episodes": 4, "log.checkpoint_interval": 3}
    train(config(tmp_path, **values, collector="inline", env_args={"kind": "Ragged"}), make)
    records = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    scores = {r["update"]: r["eval/success"] for r in records if "eval/success" in r}
    best = json.loads((tmp_path / "checkpoints" / "best.json").read_text())
    assert best["by"] == "eval" and best["score"] == max(scores.values())
    # The weights that are kept are those that were measured.
    assert scores[int(best["name"].removeprefix("update_"))] == best["score"]


def test_best_is_by_success_where_episodes_tell_of_it(tmp_path: Path) -> None:
    """A reward may fall while success rises."""
    values = {"log.checkpoint_interval": 3, "log.interval": 1}
    train(config(tmp_path, **values, collector="inline", env_args={"kind": "Ragged"}), make)
    records = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    best = json.loads((tmp_path / "checkpoints" / "best.json").read_text())
    assert best["by"] == "success"
    rates = {r["update"]: r["episode/success"] for r in records}
    assert rates[int(best["name"].removeprefix("update_"))] == best["score"]


def test_the_newest_counts_where_none_is_best(tmp_path: Path) -> None:
    values = {"log.checkpoint_interval": 3, "log.best_by": "last"}
    train(config(tmp_path, **values, collector="inline", env_args={"kind": "Ragged"}), make)
    folder = tmp_path / "checkpoints"
    newest = sorted(folder.glob("update_*"))[-1]
    assert resolve_weights(tmp_path) == newest / "weights.safetensors"
    assert not (folder / "best.json").exists() and len(list(folder.glob("update_*"))) > 1


def test_scores_of_two_kinds_are_not_compared(run: Path) -> None:
    """A return of 20 must not stand for ever above a share of successes of at most 1."""
    values = {"log.eval_interval": 2, "log.eval_episodes": 2, "collector": "inline"}
    train(config(run, **{**INLINE, **values, "total_steps": 512}))
    assert json.loads((run / "checkpoints" / "best.json").read_text())["by"] == "eval"


def test_everything_is_on_the_disk_before_the_name(tmp_path: Path) -> None:
    calls: list[str] = []

    def watch(frame, event, function) -> None:
        if event == "c_call" and function is os.fsync:
            found = frame.f_locals
            number = found["descriptor"] if "descriptor" in found else found["file"].fileno()
            calls.append(Path(os.readlink(f"/proc/self/fd/{number}")).name)
        elif event == "c_call" and function in (os.rename, os.replace):
            calls.append("rename")

    sys.setprofile(watch)
    try:
        train(config(tmp_path, **{**INLINE, "total_steps": 64}))
    finally:
        sys.setprofile(None)
    first = calls.index("state.0.pt")
    files = ["state.0.pt", "weights.safetensors", "meta.json", SUMS, ".tmp_update_000000001"]
    assert calls[first : first + 7] == [*files, "rename", "checkpoints"]


def test_replaced_file_survives_its_writer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "file") as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert (tmp_path / "file").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def test_configuration_is_compared_with_the_checkpoints_own(run: Path) -> None:
    (run / "config.yaml").write_text("{")
    with pytest.raises(ConfigError, match=r"ppo.clip was 0.2, is 0.1"):
        train(config(run, **INLINE, **{"ppo.clip": 0.1}))
    assert train(config(run, **INLINE)).finished


def test_interrupt_while_the_environments_start_is_one_line(tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal's group, also one that still imports NumPy."""
    code = "import sys; from tpsrl.cli import main; sys.exit(main(sys.argv[1:]))"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "train", f"out={tmp_path / 'run'}"],
        cwd=ROOT, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    while not (children := psutil.Process(process.pid).children()):
        time.sleep(0.001)
    time.sleep(0.04)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert errors.strip() == "tpsrl: interrupted"
    assert not psutil.wait_procs(children, timeout=5)[1]
    assert not (tmp_path / "run").exists()


def test_state_that_could_not_be_read_again_is_refused_when_it_is_written(tmp_path: Path) -> None:
    values = {"collector": "inline", "total_steps": 64}
    train(config(tmp_path / "good", **values, env_args={"kind": "Stateful"}), make)
    with pytest.raises(ConfigError, match=r"get_state\(\) returns a numpy\S*Generator .*env\.rng"):
        train(config(tmp_path / "odd", **values, env_args={"kind": "Stateful", "odd": True}), make)
    assert not list((tmp_path / "odd" / "checkpoints").iterdir())


def test_states_come_back_as_they_were(tmp_path: Path) -> None:
    state = {
        "plain": [None, True, 2, 0.5, "a", b"b", (1, [2])],
        3: {"large": 2**90, "scalar": np.float32(0.25), "flag": np.bool_(True)},
        "arrays": [np.zeros((0, 3), np.uint8), np.array(7), torch.arange(3)],
    }
    torch.save(pack_state(state), tmp_path / "state")
    found = unpack_state(torch.load(tmp_path / "state", weights_only=True))
    assert found["plain"] == state["plain"] and found[3] == state[3]
    assert found["arrays"][0].shape == (0, 3) and found["arrays"][1].shape == ()
    for odd in (object(), {1}, np.array([None]), signal.SIGINT, np.datetime64("2020-01-01")):
        with pytest.raises(ConfigError, match="state_dict"):
            pack_state({"learner": [odd]})


def test_writers_of_one_file_do_not_share_a_name(tmp_path: Path) -> None:
    """Process numbers of two machines may be the same."""
    with replacing(tmp_path / "file") as first, replacing(tmp_path / "file") as second:
        first.write_text("first")
        second.write_text("second")
    assert (tmp_path / "file").read_text() == "first" and len(list(tmp_path.iterdir())) == 1


def test_the_newest_counts_also_where_older_ones_were_measured(tmp_path: Path) -> None:
    values = {"collector": "inline", "env_args": {"kind": "Ragged"}, "log.checkpoint_interval": 1}
    train(config(tmp_path, **values, total_steps=256), make)
    assert (tmp_path / "checkpoints" / "best.json").exists()
    train(config(tmp_path, **values, total_steps=512, **{"log.best_by": "last"}), make)
    folder = tmp_path / "checkpoints"
    newest = sorted(folder.glob("update_*"))[-1]
    assert resolve_weights(tmp_path) == newest / "weights.safetensors"
    (folder / "best.json").unlink(missing_ok=True)
    assert resolve_weights(tmp_path) == newest / "weights.safetensors"

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eval.runner import evaluate, read_run
from tests.eval.counting_world import episode, spec
from tpsrl.errors import UserError
from tpsrl.jobs.folder import ResultFolder, StorageError

ROOT = Path(__file__).resolve().parents[2]


def lines(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.05)


def test_records_and_summary_say_what_happened(tmp_path: Path) -> None:
    episodes = [
        episode(0),
        episode(1, goal_step=20, skill=("failure", "dropped")),
        episode(2, stop_step=99),
        episode(3, diverge_at=4),
        episode(4, goal_step=99),
        episode(5, **{"raise": 1}),
    ]
    summary = evaluate(spec(), episodes, tmp_path / "run", workers=2)
    rows = {row["index"]: row for row in lines(tmp_path / "run")}
    assert sorted(rows) == list(range(6))
    assert [rows[i]["success"] for i in range(6)] == [True] + [False] * 5
    assert [rows[i]["end"] for i in range(6)] == (
        ["stop", "stop", "max_steps", "diverged", "stop", "error"]
    )
    assert rows[1]["failure"] == {"skill": "pick", "cause": "dropped"}
    assert rows[2]["failure"] == {"skill": "pick", "cause": "no_stop"}
    assert rows[4]["failure"] == {"skill": "pick", "cause": "goal_not_reached"}
    assert "ZeroDivisionError: planned" in rows[5]["extra"]["traceback"]
    assert rows[0]["steps"] == 10 and rows[0]["distance"] == pytest.approx(1.0)
    assert rows[0]["stages"] == {"stage_0_5": 3, "stage_1": 5}
    assert rows[0]["force_max"] == 4.0 and rows[0]["force_sum"] == 10.0
    assert summary["success"]["mean"] == pytest.approx(1 / 6)
    assert summary["stages"]["stage_0_5"]["mean"] == pytest.approx(5 / 6)
    assert summary["diverged"] == [
        {"index": 3, "episode_id": "3", "seed": rows[3]["seed"], "end": "diverged"}
    ]
    assert sum(n for causes in summary["failures"].values() for n in causes.values()) == 5
    assert summary["complete"] and summary["engine"]["name"] == "counting"
    assert summary == json.loads((tmp_path / "run" / "summary.json").read_text())


def test_second_run_does_only_what_is_missing(tmp_path: Path) -> None:
    episodes = [episode(i) for i in range(4)]
    evaluate(spec(), episodes[:2], tmp_path, workers=1)
    before = (tmp_path / "episodes.jsonl").read_bytes()
    summary = evaluate(spec(), episodes, tmp_path, workers=2)
    assert (tmp_path / "episodes.jsonl").read_bytes().startswith(before)
    assert summary["session"]["episodes"] == 2 and summary["episodes"] == 4
    again = evaluate(spec(), episodes, tmp_path, workers=2)
    assert again["success"] == summary["success"]
    assert (tmp_path / "episodes.jsonl").read_bytes().count(b"\n") == 4


def test_same_seed_same_records_for_any_number_of_workers(tmp_path: Path) -> None:
    def run(name: str, workers: int, seed: int) -> list[dict]:
        evaluate(spec(seed=seed), [episode(i) for i in range(5)], tmp_path / name, workers)
        rows = sorted(lines(tmp_path / name), key=lambda row: row["index"])
        return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]

    assert run("a", 1, 0) == run("b", 2, 0)
    assert run("c", 1, 1)[0]["seed"] != run("d", 1, 0)[0]["seed"]


def test_truncated_last_line_is_repaired(tmp_path: Path) -> None:
    episodes = [episode(i) for i in range(3)]
    evaluate(spec(), episodes, tmp_path, workers=1)
    path = tmp_path / "episodes.jsonl"
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    summary = evaluate(spec(), episodes, tmp_path, workers=1)
    assert summary["session"]["episodes"] == 1
    assert sorted(row["index"] for row in lines(tmp_path)) == [0, 1, 2]


def test_damaged_line_in_the_middle_is_refused(tmp_path: Path) -> None:
    evaluate(spec(), [episode(i) for i in range(3)], tmp_path, workers=1)
    path = tmp_path / "episodes.jsonl"
    rows = path.read_text().splitlines()
    path.write_text("\n".join([rows[0], rows[1][:20], rows[2]]) + "\n")
    with pytest.raises(UserError, match=r"line 2 of .* is damaged"):
        evaluate(spec(), [episode(i) for i in range(3)], tmp_path, workers=1)


def test_other_config_or_other_episodes_are_refused(tmp_path: Path) -> None:
    evaluate(spec(agent="scripted"), [episode(0)], tmp_path, workers=1)
    with pytest.raises(UserError, match="agent=scripted, this one has agent=other"):
        evaluate(spec(agent="other"), [episode(0)], tmp_path, workers=1)
    with pytest.raises(UserError, match=r"episode 0 in .* is another one"):
        evaluate(spec(agent="scripted"), [episode(0, goal_step=6)], tmp_path, workers=1)


def test_dead_worker_is_replaced_and_its_episode_counted_once(tmp_path: Path) -> None:
    log, fatal_log = tmp_path / "log", tmp_path / "fatal"
    episodes = [
        episode(0),
        episode(1, log=str(log), die_until=1),
        episode(2, log=str(fatal_log), die_until=99),
        episode(3),
    ]
    out = tmp_path / "run"
    summary = evaluate(spec(), episodes, out, workers=2, attempts=3)
    rows = {row["index"]: row for row in lines(out)}
    assert len(lines(out)) == 4 and sorted(rows) == [0, 1, 2, 3]
    assert rows[1]["success"] and rows[1]["attempts"] == 2
    assert rows[2]["failure"] == {"skill": "(none)", "cause": "worker_died"}
    assert rows[2]["attempts"] == 3 and fatal_log.read_text() == "xxx"
    assert rows[0]["success"] and rows[3]["success"]
    assert summary["session"]["worker_restarts"] == 4


def test_hung_worker_is_replaced(tmp_path: Path) -> None:
    episodes = [episode(0), episode(1, wait_for=str(tmp_path / "never"))]
    evaluate(spec(), episodes, tmp_path / "run", workers=1, attempts=1, timeout=2.0)
    rows = {row["index"]: row for row in lines(tmp_path / "run")}
    assert rows[0]["success"] and rows[1]["end"] == "worker_died"


def test_faults_of_the_set_up_are_raised(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no OpenGL here"):
        evaluate(spec(broken="user"), [episode(0)], tmp_path / "a", workers=1)
    with pytest.raises(RuntimeError, match="die while they start"):
        evaluate(spec(broken="die"), [episode(0)], tmp_path / "b", workers=1, attempts=1)
    with pytest.raises(UserError, match=r"episode 1 \(1\): object '999_thing' is unknown"):
        evaluate(spec(), [episode(0), episode(1, unknown_object=1)], tmp_path / "c", workers=1)
    assert len(lines(tmp_path / "c")) == 1


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"file/run. cannot be written .Not a directory"):
        evaluate(spec(), [episode(0)], tmp_path / "file" / "run", workers=1)


def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    with (
        ResultFolder(tmp_path, spec().config),
        pytest.raises(
            StorageError,
            match=rf"in use by another run, process {os.getpid()} on \S+ since 20\d\d-.*T",
        ),
    ):
        evaluate(spec(), [episode(0)], tmp_path, workers=1)


def run_script(body: str, *arguments: str, **options) -> subprocess.Popen:
    script = f"import sys\nsys.path.insert(0, {str(ROOT)!r})\n" + body
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


FULL_DISK = """
import resource, signal
from pathlib import Path
from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
from tpsrl.jobs.folder import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (3000, 3000))
try:
    evaluate(spec(), [episode(i) for i in range(30)], Path(sys.argv[1]), workers=1)
except StorageError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""


def test_full_disk_keeps_earlier_results(tmp_path: Path) -> None:
    # A limit on file size makes real writes fail half-way, as a full disk does.
    process = run_script(FULL_DISK, str(tmp_path))
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2, errors
    assert "cannot write" in errors and "are kept" in errors and "Traceback" not in errors
    kept = lines(tmp_path)
    assert 0 < len(kept) < 30
    summary = evaluate(spec(), [episode(i) for i in range(30)], tmp_path, workers=1)
    assert summary["complete"] and summary["session"]["episodes"] == 30 - len(kept)


INTERRUPTED = """
from pathlib import Path
from eval.runner import evaluate
from tests.eval.counting_world import episode, spec
out = Path(sys.argv[1])
episodes = [episode(0), episode(1)] + [
    episode(i, pid_file=str(out.parent / f"pid{i}"), wait_for=str(out.parent / "go"))
    for i in (2, 3)
]
try:
    evaluate(spec(), episodes, out, workers=2)
except KeyboardInterrupt:
    sys.exit(130)
"""


@pytest.mark.parametrize("how", ["ctrl-c", "kill", "terminate"])
def test_interrupted_run_leaves_no_process_and_resumes(tmp_path: Path, how: str) -> None:
    out = tmp_path / "run"
    process = run_script(INTERRUPTED, str(out))
    pid_files = [tmp_path / "pid2", tmp_path / "pid3"]
    wait_until(lambda: all(f.exists() and f.read_text() for f in pid_files))
    pids = [int(f.read_text()) for f in pid_files]
    assert all(alive(pid) for pid in pids)
    if how == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGKILL if how == "kill" else signal.SIGTERM)
    process.communicate(timeout=20)
    wait_until(lambda: not any(alive(pid) for pid in pids), 10.0)
    if how == "ctrl-c":
        assert process.returncode == 130
        assert json.loads((out / "summary.json").read_text())["complete"] is False
    assert sorted(read_run(out)[1]) == [0, 1]
    (tmp_path / "go").write_text("")
    episodes = [episode(0), episode(1)] + [
        episode(i, pid_file=str(tmp_path / f"pid{i}"), wait_for=str(tmp_path / "go"))
        for i in (2, 3)
    ]
    summary = evaluate(spec(), episodes, out, workers=2)
    assert summary["complete"] and summary["session"]["episodes"] == 2

"""Worker processes: what they build once, how they die, and what is said about it."""

import contextlib
import os
import time
from functools import partial

import pytest

from tpsrl.errors import UserError
from tpsrl.jobs.pool import JobPool


@contextlib.contextmanager
def counting(log):
    """Build once; a job is a number, or a word that says how to misbehave."""
    with open(log, "a") as file:
        file.write(f"{os.getpid()} {os.environ['OMP_NUM_THREADS']}\n")

    def run(job):
        if job == "die":
            os._exit(7)
        if job == "hang":
            time.sleep(600)
        if job == "end of file":
            raise EOFError("planned")
        if job == "bad":
            raise UserError("the number is bad; give another")
        return job, os.getpid()

    yield run
    with open(log, "a") as file:
        file.write("closed\n")


def test_workers_build_once_use_one_thread_and_close(tmp_path, monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with JobPool(partial(counting, tmp_path / "log"), workers=2) as pool:
        done = list(pool.run(range(20)))
    assert sorted(d.result[0] for d in done) == list(range(20))
    assert all(d.job == d.result[0] and d.attempts == 1 and not d.lost for d in done)
    lines = (tmp_path / "log").read_text().split("\n")
    built = {line for line in lines if line.endswith(" 1")}
    assert len(built) == 2 and {d.result[1] for d in done} <= {int(b.split()[0]) for b in built}
    assert lines.count("closed") == 2 and "OMP_NUM_THREADS" not in os.environ


def test_jobs_that_kill_or_hang_their_workers_are_lost(tmp_path):
    with JobPool(partial(counting, tmp_path / "log"), 1, attempts=2, timeout=3.0) as pool:
        done = {d.job: d for d in pool.run([1, "die", "hang", 2])}
        assert pool.restarts == 4
    assert done["die"].lost and (done["die"].attempts, done["die"].exit_code) == (2, 7)
    assert done["hang"].lost and done["hang"].result is None
    assert [done[k].result[0] for k in (1, 2)] == [1, 2]
    with (
        JobPool(partial(counting, tmp_path / "log"), attempts=2) as pool,
        pytest.raises(UserError, match=r"2 worker processes died .*exit code 7.* run the same"),
    ):
        list(pool.results(["die"]))


def test_errors_of_jobs_reach_the_caller(tmp_path):
    work = partial(counting, tmp_path / "log")
    with JobPool(work) as pool, pytest.raises(UserError, match="the number is bad; give another"):
        list(pool.run([1, "bad"]))
    with JobPool(work) as pool, pytest.raises(RuntimeError, match="EOFError: planned"):
        list(pool.run(["end of file"]))


def test_a_job_that_hung_is_not_told_as_memory(tmp_path):
    with (
        JobPool(partial(counting, tmp_path / "log"), attempts=1, timeout=1.5) as pool,
        pytest.raises(UserError, match=r"1 worker .* hung over .* longer than timeout=1.5 s; run"),
    ):
        list(pool.results(["hang"]))

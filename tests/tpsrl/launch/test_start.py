"""``launch=``: what is refused, what a dry run prints, and ranks that find each other."""

from __future__ import annotations

import json
import os
import pickle
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tpsrl.cli import main
from tpsrl.launch.start import SlurmJob
from ver_trainer.distributed.ranks import first_node, of_slurm_step

ROOT = Path(__file__).resolve().parents[3]
CARTPOLE = (
    *("env=CartPole-v1", "collector=inline", "log.tensorboard=false", "log.progress=false"),
    *("collect.num_envs=4", "collect.steps=32"),
)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def weights_of(run: Path) -> list[str]:
    """Digest lines of the newest checkpoint's weights."""
    newest = sorted((run / "checkpoints").glob("update_*"))[-1]
    return [x for x in (newest / "SHA256SUMS").read_text().splitlines() if "weights" in x]


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["train", "launch=spark"], ["'spark'", "launch", "torchrun"]),
        (["train", "launch.node=2"], ["launch.node", "did you mean 'launch.nodes'"]),
        (["train", "launch=torchrun", "launch.nodes=2"], ["launch.address=HOST:PORT"]),
    ],
)
def test_bad_words_get_one_sentence(words, parts, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and all(part in error for part in parts), error


def test_a_dry_run_prints_what_torchrun_would_be(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["launch=torchrun", "launch.nodes=2", "launch.address=first:29500", "launch.ranks=8"]
    assert main(["train", "env=CartPole-v1", *words, "launch.dry_run=true"]) == 0
    line = capsys.readouterr().out.split()
    expected = ["--nnodes=2", "--rdzv-endpoint=first:29500", "--nproc-per-node=8", "launch=local"]
    assert all(word in line for word in expected) and line[-1] == "launch=local"


def test_a_dry_run_prints_the_script_for_slurm(capsys, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    words = ["launch=slurm", "launch.nodes=2", "launch.ranks=4", "launch.partition=gpu"]
    words += ["launch.sbatch.account=robots", f"launch.folder={tmp_path}", "launch.dry_run=true"]
    assert main(["train", "env=CartPole-v1", *words]) == 0
    script = capsys.readouterr().out
    for flag in ("nodes=2", "ntasks-per-node=4", "partition=gpu", "account=robots", "requeue"):
        assert f"#SBATCH --{flag}" in script
    assert "--signal=USR2@90" in script and "srun" in script
    assert main(["eval", "workers=6", *words[:1], words[-2], words[-1]]) == 0
    assert "#SBATCH --cpus-per-task=6" in capsys.readouterr().out
    assert main(["eval", "launch=slurm", "launch.nodes=2"]) == 2
    assert "launch=ray" in capsys.readouterr().err


def stopped_by_the_signal(words: list[str]) -> int:
    """A command that ends as a training does after submitit's signal."""
    assert words[-1] == "launch=local"
    return 128 + signal.SIGUSR2


def failing(words: list[str]) -> int:
    """A command that fails."""
    return 3


def test_a_slurm_job_ends_after_its_checkpoint_and_goes_on() -> None:
    submitit = pytest.importorskip("submitit")
    job, seen = SlurmJob(stopped_by_the_signal, ["total_steps=9"]), []
    before = signal.signal(signal.SIGUSR2, lambda number, frame: seen.append(number))
    try:
        again = pickle.loads(pickle.dumps(job)).checkpoint()
        assert isinstance(again, submitit.helpers.DelayedSubmission)
        assert job() == again.function() == 128 + signal.SIGUSR2
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert seen == [signal.SIGUSR2] * 2  # submitit's own handler, which puts the job back
    with pytest.raises(SystemExit, match="3"):
        SlurmJob(failing, [])()


@pytest.mark.parametrize(
    ("words", "where"),
    [
        (["eval", "launch=ray", "launch.address=head:6379"], "the Ray cluster head:6379"),
        (["episodes", "scenario=tidy_house", "workers=3"], "3 processes of this machine"),
        (["sweep", "over.seed=[1,2]", *CARTPOLE, "launch=ray"], "the Ray cluster that starts"),
        (["sweep", "over.seed=[1,2]", *CARTPOLE, "launch=slurm"], "--cpus-per-task=1"),
    ],
)
def test_dry_runs_of_many_small_jobs_start_nothing(words, where, capsys, tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    own = ["launch.dry_run=true", f"out={tmp_path / 'out.json'}", f"launch.folder={tmp_path}"]
    assert main([*words, *own]) == 0
    assert where in capsys.readouterr().out
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize("module", ["submitit", "ray"])
def test_a_missing_engine_is_refused_with_the_remedy(module: str, tmp_path: Path) -> None:
    engine = {"submitit": "slurm"}.get(module, module)
    words = ["train", f"launch={engine}", f"out={tmp_path}", *CARTPOLE]
    code = f"import sys; sys.modules[{module!r}] = None\nfrom tpsrl.cli import main\n"
    code += f"sys.exit(main({words}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and f"pip install 'tpsrl[{engine}]'" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr


def test_slurm_tells_ranks_what_torchrun_would() -> None:
    step = {
        **{"SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_PROCID": "3", "SLURM_LOCALID": "1"},
        **{"SLURM_STEP_NUM_TASKS": "4", "SLURM_STEP_NODELIST": "gpu[03-05,9],login1"},
    }
    found = of_slurm_step(step)
    assert (found["WORLD_SIZE"], found["RANK"], found["LOCAL_RANK"]) == ("4", "3", "1")
    assert found["MASTER_ADDR"] == "gpu03" and 20_000 <= int(found["MASTER_PORT"]) < 32_000
    assert of_slurm_step(step | {"MASTER_ADDR": "here"})["MASTER_ADDR"] == "here"
    again = of_slurm_step(step | {"SLURM_RESTART_COUNT": "1"})
    assert again["MASTER_PORT"] != found["MASTER_PORT"]
    # A batch script knows how many tasks there will be, and is one process.
    assert of_slurm_step({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_JOB_ID": "17"}) == {}
    assert [first_node(x) for x in ("a", "a,b", "n[1-2]-ib", "x[10,12]")] == (
        ["a", "a", "n1-ib", "x10"]
    )


def start_ranks(commands: list[list[str]], extra: list[dict[str, str]]) -> list[str]:
    """Run commands beside each other; return what they wrote to stderr."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", *command],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", **more},
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        for command, more in zip(commands, extra, strict=True)
    ]
    try:
        errors = [process.communicate(timeout=120)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert all(process.returncode == 0 for process in processes), "\n".join(errors)
    return errors


def test_torchrun_agents_and_slurm_tasks_train_the_same_two_ranks(tmp_path: Path) -> None:
    """Two agents, as on two nodes, then two tasks with the variables that srun sets."""
    common = ["tpsrl", "train", *CARTPOLE, "total_steps=1024", "collect.preempt=false"]
    address = f"launch.address=127.0.0.1:{free_port()}"
    agents = [*common, f"out={tmp_path / 'agents'}", "launch=torchrun", "launch.nodes=2", address]
    start_ranks([agents, agents], [{}, {}])
    step = {
        **{"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"},
        **{"SLURM_STEP_NODELIST": "localhost", "SLURM_LOCALID": "0"},
    }
    tasks = [*common, f"out={tmp_path / 'tasks'}"]
    start_ranks([tasks, tasks], [{**step, "SLURM_PROCID": str(rank)} for rank in (0, 1)])
    for run in ("agents", "tasks"):
        newest = sorted((tmp_path / run / "checkpoints").glob("update_*"))[-1]
        assert json.loads((newest / "meta.json").read_text())["ranks"] == 2
    assert weights_of(tmp_path / "agents") == weights_of(tmp_path / "tasks")

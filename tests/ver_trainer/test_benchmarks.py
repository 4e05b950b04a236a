"""The benchmarks' environments and simulation are what their descriptions say."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import benchmarks
from benchmarks import cluster, learning, scaling, trainer, trainer_ours
from benchmarks.learning import Recall, interquartile_mean, make
from benchmarks.names import run_main
from benchmarks.trainer_envs import DepthNav, Waiting

FOLDER = Path(next(iter(benchmarks.__path__)))


@pytest.mark.filterwarnings("ignore")
def test_environments_pass_gymnasiums_checker() -> None:
    for env in (DepthNav(), Recall()):
        check_env(env, skip_render_check=True)


def test_waiting_times_have_the_stated_mean_and_tail() -> None:
    env = Waiting(scale=1e-4)  # a busy machine takes 0.1 ms to come back from any wait
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    times = []
    for _ in range(2000):
        begin = time.perf_counter()
        if env.step(int(rng.integers(4)))[2]:
            env.reset()
        times.append(time.perf_counter() - begin)
    assert np.percentile(times, 99) > 3 * np.median(times)


def test_memory_task_needs_memory() -> None:
    env = make("memory")
    first, _ = env.reset(seed=1)
    later = [env.step(0)[0] for _ in range(6)]
    assert first[:4].sum() == 1 and all(obs[:4].sum() == 0 for obs in later)
    assert later[-1][4] == 1


def test_interquartile_mean() -> None:
    assert interquartile_mean(np.array([0.0, 1, 2, 3, 4, 5, 6, 100])) == pytest.approx(3.5)


def test_learning_goes_on_after_an_interruption(tmp_path, monkeypatch, capsys) -> None:
    done: list[tuple[str, int]] = []
    limit = 3

    def one_run(task: str, scheme: str, seed: int, steps: int) -> tuple[float, float | None]:
        if len(done) == limit:
            raise KeyboardInterrupt
        done.append((scheme, seed))
        return -100.0 - seed, None if seed == 2 else 1000.0 * seed

    monkeypatch.setattr(learning, "one_run", one_run)
    arguments = [f"json={tmp_path / 'l.json'}", "tasks=pendulum", "seeds=2"]
    with pytest.raises(KeyboardInterrupt):
        learning.main(arguments)
    limit = 4
    learning.main(arguments)
    assert done == [("ver", 1), ("ver", 2), ("ddppo", 1), ("ddppo", 2)]
    report = json.loads((tmp_path / "l.json").read_text())
    assert report["pendulum/ver"]["runs"] == [[-101.0, 1000.0], [-102.0, None]]
    assert report["pendulum/ddppo"]["reached"] == 1
    assert "pendulum  ddppo  IQM  -101.50" in capsys.readouterr().out


def test_simulation_limits() -> None:
    """Equal step times: no scheme waits, and without communication scaling is linear."""
    model = scaling.Model(0.01, 0.0, 0.0, 0.1, 0.0, envs=4, steps=16)
    for scheme in ("ver", "nover", "ddppo"):
        assert scaling.speed(model, scheme, 1) == pytest.approx(64 / 0.26, rel=0.01)
        assert scaling.scaling(model, scheme, (8,))[8] == pytest.approx(8, rel=0.02)
    uneven = replace(model, sigma_step=1.0)
    speeds = [scaling.speed(uneven, s, 1) for s in ("ver", "nover", "ddppo")]
    assert speeds[0] > speeds[1] > speeds[2]


@pytest.mark.parametrize(("simulation", "inference"), [(0.010, 0.010), (0.0004, 0.002)])
def test_simulated_rollouts_are_full_where_inference_matters(simulation, inference) -> None:
    for sigmas in ((0.0, 0.0), (0.6, 0.8)):
        model = scaling.Model(simulation, *sigmas, 0.3, 0.0, steps=32)
        found = scaling.inference_matters(model, inference, 2)
        assert found["own"][0] < 0.6
        assert found["between"][0] >= 0.9 and found["between"][1] >= 0.99


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_help_and_mistakes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = import_module(f"benchmarks.{name}")
    if not hasattr(module, "parse_or_help"):
        return
    for words, code in ((["--help"], 0), (["no_such_key=1"], 2)):
        if (name, code) == ("trainer_ours", 2):  # its first words have no key
            continue
        with pytest.raises(SystemExit) as caught:
            module.main(words)
        assert caught.value.code == code
        printed = capsys.readouterr()
        assert ("(with their defaults):" in printed.out) == (code == 0)
        assert ("unknown key 'no_such_key'" in printed.err) == (code == 2)


@pytest.mark.parametrize(
    ("name", "word"),
    [
        *(("clients", "clients=ours,sb"), ("cluster", "only=evil"), ("faults.__main__", "only=x")),
        *(("hab", "agents=scriptet"), ("learning", "tasks=cartpol"), ("learning", "schemes=sb3")),
        *(("lerobot", "data=/no/such/folder"), ("skill_envs", "skills=pik")),
        *(("skill_learning", "schemes=vers"), ("skill_training", "only=stat")),
        *(("skill_training", "device=cuda"), ("trainer", "only=ver,foo"), ("worlds", "skills=x")),
    ],
)
def test_a_wrong_name_is_told_before_anything_runs(
    name: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = import_module(f"benchmarks.{name}")
    assert run_main(module.main, [word]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and printed.err.count("\n") == 1
    assert not printed.out


def test_more_seeds_than_are_asked_for_stay_in_the_report(tmp_path, capsys) -> None:
    file = tmp_path / "l.json"
    runs = [[-100.0, 10.0], [-200.0, None], [-300.0, None]]
    file.write_text(json.dumps({"pendulum/ver": {"runs": runs}}))
    learning.main([f"json={file}", "tasks=pendulum", "schemes=ver", "seeds=1"])
    assert "IQM  -100.00" in capsys.readouterr().out
    assert json.loads(file.read_text())["pendulum/ver"]["runs"] == runs


def test_what_fails_is_null_and_no_number(capsys) -> None:
    found = {"ver": [(10.0, 5.0), (30.0, 15.0)], "ddppo": [None, (6.0, 3.0)], "sb3": [None, None]}
    report = json.loads(json.dumps(trainer.summarise("waiting", found), allow_nan=False))
    assert report["rounds"] == {"ver": [10.0, 30.0], "ddppo": [None, 6.0], "sb3": [None, None]}
    assert report["steps_per_second"] == {"ver": 20.0, "ddppo": 6.0, "sb3": None}
    assert report["ratios"] == {"ver/ddppo": 20 / 6, "ver/sb3": None}
    trainer.show(report)
    assert "failed" in capsys.readouterr().out


def test_ours_have_the_processor_and_the_threads_of_their_peers(tmp_path) -> None:
    for workload, threads in (("waiting", 1), ("compute", 2)):
        config = trainer_ours.configuration("ver", workload, str(tmp_path), [])
        assert (config.device, config.threads) == ("cpu", threads)


def test_a_cluster_that_loses_anything_is_told_from_one_that_does_not() -> None:
    good = {"records": 24, "missing": [], "different": [], "given to a second worker": 1}
    assert cluster.wrong(good) == []
    assert cluster.wrong({**good, "different": [3]}) == ["different"]
    assert cluster.wrong({"records": 8, "same file": False}) == ["same file"]
    assert cluster.wrong({"eval, SIGINT": {"code": 130, "left": ["ray"]}}) == ["eval, SIGINT"]
    stopped = {"code": 1, "code as it must be": False, "left": []}
    assert cluster.wrong({"eval, SIGINT": stopped}) == ["eval, SIGINT"]
    assert cluster.wrong({"eval, SIGINT": {**stopped, "code as it must be": True}}) == []

"""``tpsrl sweep``: a training for every combination, one table, and what is there is kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from skills.sweep import table
from tpsrl.cli import main

CARTPOLE = (
    *("env=CartPole-v1", "collector=inline", "log.tensorboard=false", "total_steps=256"),
    *("collect.num_envs=4", "collect.steps=32", "net.mlp=[8]"),
)


def records(out: Path) -> list[dict]:
    return [json.loads(line) for line in (out / "episodes.jsonl").read_text().splitlines()]


def test_combinations_are_trained_once_each(tmp_path: Path, capsys) -> None:
    words = ["sweep", *CARTPOLE, "over.seed=[1,2]", "over.optim.lr=[1e-4,1e-2]", f"out={tmp_path}"]
    assert main(words) == 0
    first = {row["index"]: row for row in records(tmp_path)}
    assert sorted(first) == [0, 1, 2, 3] and all(row["finished"] for row in first.values())
    assert len({row["weights"] for row in first.values()}) == 4
    shown = capsys.readouterr().out
    assert shown.count("2, 2 to the end") == 2 and "optim.lr" in shown
    lines = (tmp_path / "episodes.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "episodes.jsonl").write_text("".join(lines[:3]))  # as if it had been broken off
    assert main(words) == 0
    assert {row["index"]: row for row in records(tmp_path)} == first
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["metric"] == "episode/return" and len(summary["rows"]) == 2
    assert {row["setting"]["optim.lr"] for row in summary["rows"]} == {1e-4, 1e-2}


def test_a_table_takes_seeds_together_and_has_the_best_first() -> None:
    rows = [
        {"setting": {"seed": seed, "lr": lr}, "score": score, "finished": seed == 1, "steps": 10}
        for seed, lr, score in ((1, 1, 2.0), (2, 1, 4.0), (1, 2, 7.0), (1, 3, None))
    ]
    best, second, last = table(rows)
    assert (best["setting"], best["mean"], best["deviation"]) == ({"lr": 2}, 7.0, None)
    assert (second["mean"], second["best"], second["finished"]) == (3.0, 4.0, 1)
    assert second["deviation"] == pytest.approx(2**0.5) and last["mean"] is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["scheduler=asha", "over.seed=[1]"], "scheduler=asha is Ray Tune's: give launch=ray"),
        (["scheduler=median", "launch=slurm", "over.seed=[1]"], "give launch=ray"),
        ([], "nothing to vary"),
        (["over.optim.rate=[1]"], "optim.rate"),
    ],
)
def test_bad_words_get_one_sentence(words, sentence, capsys, tmp_path: Path) -> None:
    assert main(["sweep", *CARTPOLE, *words, f"out={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1

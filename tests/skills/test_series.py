"""Several teachers of a skill, and one that learns from all of them, by one command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from skills import series
from skills.book import row_of
from tests.skills.envs.test_environments import shipped
from tpsrl.cli import main
from tpsrl.errors import UserError

SMALL = (
    *("total_steps=32", "collect.num_envs=2", "collect.worlds=1", "collect.steps=16"),
    *("chain_starts=0", "env_args.depth=36", f"env_args.episodes={shipped('in_fridge')}"),
    *("ppo.mini_batches=1", "log.tensorboard=false"),
)


def config_of(run: Path) -> dict:
    return yaml.safe_load((run / "config.yaml").read_text())


def test_one_learns_from_several_and_a_student_from_that_one(tmp_path: Path, capsys) -> None:
    words = ["train", "skills=[open_fridge]", "teachers=2", "seed=5", *SMALL, f"out={tmp_path}"]
    assert main(words) == 0
    teachers = tmp_path / "teachers"
    own = [teachers / "open_fridge_1", teachers / "open_fridge_2"]
    assert [config_of(run)["seed"] for run in own] == [5, 6]
    merged, student = config_of(teachers / "open_fridge"), config_of(tmp_path / "open_fridge")
    assert Path(merged["distill"]["teacher"]).is_relative_to(own[0])
    assert [Path(other) for other in merged["distill"]["others"]] == own[1:]
    assert merged["net"]["mlp"] == [512, 512] and merged["seed"] == 5
    assert Path(student["distill"]["teacher"]).is_relative_to(teachers / "open_fridge")
    assert student["net"]["core"] == "lstm" and not student["distill"]["others"]
    said = (teachers / "open_fridge_2" / "origin.json").read_text()
    assert "seed=6" in json.loads(said)["command"]
    capsys.readouterr()
    (own[1] / "done.json").unlink()
    assert main(words) == 0  # goes on with what is not done
    assert capsys.readouterr().out.count("done before, 32 steps") == 3


def test_skills_have_as_many_teachers_as_their_rows_say() -> None:
    folders = [folder for folder, _ in series._jobs(("pick", "open_cab"), ["out=a"])]
    many = row_of("pick").teachers
    assert many > 1 and row_of("open_cab").teachers == 1
    members = [Path(f"a/teachers/pick_{k}") for k in range(1, many + 1)]
    after = ("teachers/pick", "teachers/open_cab", "pick", "open_cab")
    assert folders == [*members, *(Path("a") / name for name in after)]
    one = [folder for folder, _ in series._jobs(("pick",), ["out=a", "teachers=1"])]
    assert one == [Path("a/teachers/pick"), Path("a/pick")]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["teachers=0"], "teachers=0: give how many each skill has, 1 to 16"),
        (["teachers=two"], "teachers=two: give how many"),
        (["teachers=17"], "teachers=17: give how many"),
        (["teachers=2", "config=teacher"], "leave config= and teacher= out"),
        (["teachers=2", "teacher=shipped"], "leave config= and teacher= out"),
        (["seed=x"], "seed"),
    ],
)
def test_teachers_that_cannot_be_made_are_refused(words, sentence, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=sentence):
        series.run(("open_fridge",), [*words, *SMALL, f"out={tmp_path}"])
    assert not any(tmp_path.iterdir())


def test_a_run_that_was_killed_before_its_first_checkpoint_goes_on(tmp_path: Path) -> None:
    words = ["skills=[open_fridge]", *SMALL, f"out={tmp_path}"]
    begun = tmp_path / "teachers" / "open_fridge"
    begun.mkdir(parents=True)
    (begun / "origin.json").write_text("{}")
    assert main(["train", *words]) == 0
    assert (tmp_path / "open_fridge" / "done.json").exists()


def test_a_teacher_that_is_not_there_is_said_before_hours_have_passed(tmp_path: Path) -> None:
    gone, out = tmp_path / "gone", tmp_path / "out"
    with pytest.raises(UserError, match=f"{gone}: no such"):
        series.run(("open_cab", "open_fridge"), [f"teacher={gone}", *SMALL, f"out={out}"])
    assert not out.exists()


def test_teachers_of_one_skill_are_asked_for_by_skills(tmp_path: Path, capsys) -> None:
    assert main(["train", "skill=open_fridge", "teachers=2", *SMALL, f"out={tmp_path}"]) == 2
    assert "teachers" in capsys.readouterr().err

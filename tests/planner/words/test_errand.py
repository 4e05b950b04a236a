"""Errands are carried out and measured: goal after goal, with both executors."""

from __future__ import annotations

import json

import pytest

from eval.again import failed, read_evaluation
from planner import Atom
from planner.chain.errand import Errand
from planner.chain.predicates import HabTask
from planner.chain.tpsrl import TpsrlAgent
from tests.planner.chain.toy import FRIDGE, ToySim, ToySkill, set_table
from tpsrl.cli import main

A = Atom.parse
HAND = A("not_holding()")
FRUIT = A("object_at(fruit_target|1, TARGET_fruit_target|1)")
OPENED, CLOSED = (A(f"{word}_fridge(fridge_push_point)") for word in ("opened", "closed"))


def errand(*goals):
    stages = {f"goal {k}": goal for k, goal in enumerate(goals)}
    return Errand.of(set_table(), goals=goals, stages=stages, words="test")


def run(episode, executor, fate=None):
    sim, task = ToySim(episode), HabTask()
    agent = TpsrlAgent(lambda name: ToySkill(name, fate or (lambda *_: "ok"), []), executor)
    agent.reset(sim, 0, episode, seed=3)
    stages = dict.fromkeys(task.stages(sim, 0), False)
    for _ in range(2000):
        action = agent.act(sim, 0)
        if action is None:
            return sim, agent.report(), task.success(sim, 0), stages
        sim.step(action[None])
        stages = {k: stages[k] or v for k, v in task.stages(sim, 0).items()}
    raise AssertionError("the agent did not stop")


def done(report):
    return [r.skill for r in report.skills if r.skill not in ("reset_arm", "wait")]


@pytest.mark.parametrize("executor", ["hab", "replan"])
def test_goals_are_reached_one_after_the_other(executor):
    episode = errand((OPENED, HAND), (CLOSED, HAND))
    sim, report, success, stages = run(episode, executor)
    assert success and all(stages.values()) and report.replans == 0
    assert [s for s in done(report) if s != "navigate"] == ["open_fridge", "close_fridge"]
    assert sim.joints[1] < 0.1


def test_an_errand_whose_end_holds_already_is_not_done_before_the_way_was_gone():
    episode = errand((OPENED, HAND), (CLOSED, HAND))
    sim, task = ToySim(episode), HabTask()
    assert task.stages(sim, 0) == {"goal 0": False, "goal 1": True}
    assert not task.success(sim, 0)
    sim.move_joint(FRIDGE, 1.5)
    task.stages(sim, 0)
    assert not task.success(sim, 0)
    sim.move_joint(FRIDGE, 0.0)
    assert task.success(sim, 0)


@pytest.mark.parametrize("executor", ["hab", "replan"])
def test_what_is_held_stays_held_between_goals(executor):
    holding = A("holding(fruit_target|1)")
    sim, report, success, _ = run(
        errand((holding,), (FRUIT, HAND), (FRUIT, CLOSED, HAND)), executor
    )
    assert success and sim.held == -1
    assert done(report)[-4:] == ["navigate", "place", "navigate", "close_fridge"]
    assert done(report).count("pick") == 1
    sim, _, success, _ = run(errand((holding,)), executor)
    assert success and sim.held == 1


def test_the_benchmarks_executor_ends_with_the_first_goal_that_fails():
    episode = errand((OPENED, HAND), (FRUIT, HAND))
    fate = lambda name, call, uses: "hang" if name == "open_fridge" else "ok"  # noqa: E731
    _, report, success, _ = run(episode, "hab", fate)
    assert not success and done(report) == ["navigate", "open_fridge"]


def test_replan_tries_again_within_a_goal():
    episode = errand((OPENED, HAND), (FRUIT, HAND))
    fate = lambda name, call, uses: "miss" if name == "pick" and uses == 0 else "ok"  # noqa: E731
    _, report, success, _ = run(episode, "replan", fate)
    assert success and done(report).count("pick") == 2 and report.replans == 1


def test_the_next_goals_plan_is_not_told_by_what_failed_before():
    episode = errand((FRUIT, HAND), (FRUIT, OPENED, HAND))
    fate = lambda name, call, uses: "miss" if name == "pick" and uses == 0 else "ok"  # noqa: E731
    _, report, success, _ = run(episode, "replan", fate)
    assert success and report.replans == 1 and report.why == "there is another goal"


def test_objects_that_a_goal_does_not_name_are_left_alone():
    _, report, success, _ = run(errand((FRUIT, HAND)), "replan")
    assert success and not any("bowl" in r.action for r in report.skills)


def test_eval_measures_the_goal_in_words(tmp_path, capsys):
    words = ["eval", "scenario=tidy_house", "goal=take a can and go to the sofa", "executor=replan"]
    assert main([*words, "episodes=1", "workers=1", f"out={tmp_path / 'run'}"]) == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary["success"]["mean"] == 1.0
    assert list(summary["stages"]) == ["take a can", "go to the sofa"]
    assert summary["config"]["goal"] == "take a can and go to the sofa"
    record = json.loads((tmp_path / "run" / "episodes.jsonl").read_text())
    assert record["extra"]["goal"] == summary["config"]["goal"]
    assert record["extra"]["notes"][0].startswith("'a can': master chef can on 'sink', of 5 x")
    assert {s["action"].partition("(")[0] for s in record["skills"]} >= {"nav", "pick"}
    capsys.readouterr()
    other = [w.replace("take a can and ", "") for w in words]
    assert main([*other, "episodes=1", "workers=1", f"out={tmp_path / 'run'}"]) == 2
    assert "holds a run with goal=take a can" in capsys.readouterr().err


def test_an_episode_that_lacks_the_thing_is_a_failure_of_its_own(tmp_path, capsys):
    words = ["eval", "scenario=rearrange_easy", "goal=take the bowl", "max_steps=5"]
    assert main([*words, "episodes=2", "workers=1", f"out={tmp_path}"]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 episodes cannot have this goal and count as failures (1): episode" in text
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["ends"] == {"max_steps": 1, "goal_refused": 1} and not summary["errors"]
    assert summary["stages"]["take the bowl"]["count"] == 2
    assert "goal_refused" in (tmp_path / "report.html").read_text()
    assert failed(read_evaluation(tmp_path).records) == [0], "there is nothing to see of the other"


def test_a_goal_that_no_episode_can_have_is_one_sentence_before_any_work(tmp_path, capsys):
    words = ["eval", "scenario=tidy_house", "goal=take the banana", "episodes=9"]
    assert main([*words, f"out={tmp_path / 'run'}"]) == 2
    error = capsys.readouterr().err
    assert "has no 'the banana'" in error and "(nor can any other of the 9)" in error
    assert error.count("\n") == 1 and not (tmp_path / "run").exists()


@pytest.mark.parametrize("command", ["eval", "record", "plan"])
def test_bad_words_are_one_sentence_before_any_work(command, capsys):
    assert main([command, "scenario=set_table", "goal=bring the aple to the tabel"]) == 2
    error = capsys.readouterr().err
    assert "'aple' (did you mean 'apple'?), 'tabel' (did you mean 'table'?)" in error
    assert error.count("\n") == 1


def test_plan_shows_every_part(tmp_path, capsys):
    out = tmp_path / "plan.png"
    goal = "goal=open the fridge, then close it"
    assert main(["plan", "scenario=set_table", goal, f"out={out}", f"pddl={tmp_path / 'p'}"]) == 0
    text = capsys.readouterr().out
    assert "open_fridge_by_name(fridge_pu" in text and "close_fridge_by_name(fridge_p" in text
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["p_1", "p_2", "plan_1.png", "plan_2.png"]

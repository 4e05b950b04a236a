"""The agents that the VER paper compares: what they need, what they refuse, how they act."""

import json

import pytest

from eval.spec import evaluation_spec
from planner.chain.catalog import AGENTS, KINDS, fingerprints, policies_of, skill_lines, skills_of
from planner.chain.make import make_agent
from skills.learned.cards import Card, write_card
from tests.skills.nets import saved_policy
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError
from tpsrl.sim.mujoco.engine import MujocoSimulator


def folder_of(tmp_path, skills, actions="full", stop=None):
    folder = tmp_path / f"skills_{actions}"
    folder.mkdir(exist_ok=True)
    for name in skills:
        saved_policy(folder / f"{name}.safetensors", name, stop)
        write_card(folder / f"{name}.json", Card(name, None, actions))
    return folder


@pytest.fixture(scope="module")
def sim():
    with MujocoSimulator(depth=None) as simulator:
        yield simulator


def run(sim, agent, episode, steps):
    sim.reset([episode], [1])
    agent.reset(sim, 0, episode, seed=1)
    for step in range(steps):
        action = agent.act(sim, 0)
        if action is None:
            return step
        sim.step(action[None])
    return steps


def test_names_agree():
    assert tuple(KINDS) == AGENTS


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("tpsrl-restricted", ["pick, place", "env_args.actions=restricted", "tpsrl export"]),
        ("tpsrl-nonav", ["no weights of place", "tpsrl train skill=place out="]),
        ("monolithic", ["rearrange_easy", "tpsrl train skill=rearrange_easy"]),
    ],
)
def test_missing_weights_are_named_with_their_training(tmp_path, agent, words, capsys):
    folder = folder_of(tmp_path, ["navigate"] + ["pick"] * (agent == "tpsrl-nonav"))
    code = main(["eval", f"agent={agent}", f"weights={folder}", f"out={tmp_path / 'o'}"])
    text = capsys.readouterr().err
    assert code == 2 and all(word in text for word in words), text
    assert not (tmp_path / "o").exists()


def test_restricted_refuses_weights_of_another_action_space(tmp_path):
    folder = folder_of(tmp_path, ["navigate", "pick", "place"])
    with pytest.raises(UserError, match="trained with actions=full"):
        policies_of("tpsrl-restricted", "tidy_house", folder)
    assert sorted(policies_of("tpsrl-nonav", "tidy_house", folder)) == ["pick", "place"]
    with pytest.raises(UserError, match="unknown agent 'tpsrl-nonaf'"):
        policies_of("tpsrl-nonaf")


def test_skills_of_a_scenario():
    assert skills_of("tidy_house") == ("navigate", "pick", "place")
    assert skills_of("set_table", False) == ("pick", "place", "open_cab", "open_fridge")


@pytest.mark.parametrize("executor", ["hab", "replan"])
def test_nonav_plans_without_navigation(sim, tmp_path, executor):
    folder = folder_of(tmp_path, ["pick", "place"])
    agent = make_agent("tpsrl-nonav", executor, "rearrange_easy", str(folder))
    run(sim, agent, load_shipped("rearrange_easy").episodes[2], 520)
    report = agent.report()
    assert [text.partition("(")[0] for text in report.plan] == ["pick", "place"]
    ran = [record.skill for record in report.skills]
    assert ran[0] == "pick" and "navigate" not in ran
    assert max(r.steps for r in report.skills) == 500  # the navigation's time is the skill's


def test_reports_say_whose_policy_acts(sim, tmp_path):
    folder = folder_of(tmp_path, ["pick"])
    agent = make_agent("tpsrl", "hab", "rearrange_easy", str(folder))
    run(sim, agent, load_shipped("rearrange_easy").episodes[2], 400)
    acted = {record.skill: record.policy for record in agent.report().skills}
    assert acted == {"navigate": "scripted", "reset_arm": "", "pick": "learned"}
    facts = {"success": {"success": 0.5, "low": 0.4, "high": 0.6, "episodes": 100}}
    write_card(folder / "pick.json", Card("pick", None, facts=facts))
    lines = skill_lines("tpsrl", policies_of("tpsrl", weights=folder))
    assert "pick: learned, 50.0% (40.0 to 60.0) of 100 val episodes on its card" in lines
    assert "place: scripted, reads privileged state" in lines


def test_monolithic_serves_one_object_after_another(sim, tmp_path):
    episode = load_shipped("tidy_house").episodes[0]
    agent = make_agent("monolithic", weights=str(folder_of(tmp_path, ["rearrange_easy"], stop=1.0)))
    assert run(sim, agent, episode, 50) == 5  # it stops at once, five times
    report = agent.report()
    labels = [target.label for target in episode.targets]
    assert report.plan == [f"rearrange({label})" for label in labels]
    assert [r.action for r in report.skills] == report.plan
    assert {(r.outcome, r.cause) for r in report.skills} == {("failure", "not at goal")}
    assert agent._skill.task.layout.size == 11
    busy = make_agent("monolithic", weights=str(folder_of(tmp_path, ["rearrange_easy"], stop=-1.0)))
    assert run(sim, busy, episode, 40) == 40
    assert len(busy.report().skills) == 1


def test_weights_are_part_of_the_result(tmp_path):
    folder = folder_of(tmp_path, ["navigate", "pick", "place"])
    first = evaluation_spec(
        scenario="tidy_house", agent="tpsrl-nonav", executor="hab", weights=folder
    )
    assert first.config["policies"] == fingerprints(
        policies_of("tpsrl-nonav", "tidy_house", folder)
    )
    saved_policy(folder / "pick.safetensors", "pick", 0.5)
    again = evaluation_spec(
        scenario="tidy_house", agent="tpsrl-nonav", executor="hab", weights=folder
    )
    assert again.config["policies"] != first.config["policies"]
    assert json.dumps(again.config)

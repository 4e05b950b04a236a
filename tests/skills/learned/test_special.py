"""Beside a general policy of Pick or Place, one for a kind of place."""

import dataclasses
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

import tpsrl.episodes
from eval.trials import SkillStudy, TrialJob
from planner.chain.catalog import describe, fingerprints, policies_of, skill_lines
from skills.envs.single import SkillEnv
from skills.learned.cards import (
    Card,
    PolicyFiles,
    digests,
    identity,
    policies_in,
    read_card,
    write_card,
)
from skills.learned.factory import skill_factory
from skills.learned.find import find_policy
from skills.learned.inference import NumpyPolicy
from skills.tasks.places import kind_of
from tests.skills.nets import small_policy
from tpsrl.cli import main
from tpsrl.errors import UserError
from ver_trainer.export import save_policy

GROCERIES = Path(tpsrl.episodes.__file__).parent / "data" / "prepare_groceries_val.json.gz"
GENERAL = {
    skill: (f"obj_{end}_sensor", "joint", "is_holding", "relative_resting_position")
    for skill, end in (("pick", "start"), ("place", "goal"))
}
SPECIAL = {
    skill: (f"obj_{end}_place", f"obj_{end}_sensor", "base_scan_far", "joint", "is_holding")
    for skill, end in (("pick", "start"), ("place", "goal"))
}


def special_folder(folder, skill="pick", kind="cabinet"):
    """Write a general policy and one for a kind of place, which senses other things."""
    folder.mkdir(exist_ok=True)
    save_policy(small_policy(skill, 0, GENERAL[skill]), folder / f"{skill}.safetensors")
    write_card(folder / f"{skill}.json", Card(skill, None))
    save_policy(small_policy(skill, 1, SPECIAL[skill]), folder / f"{skill}_{kind}.safetensors")
    write_card(folder / f"{skill}_{kind}.json", Card(skill, None, place=kind))
    return folder


def sha(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _path(env, policy, steps=5):
    """Return where the arm is while a policy acts in its environment."""
    policy.reset()
    observation, arms = env.worlds.observe(), []
    observation = {name: values[0] for name, values in observation.items()}
    for _ in range(steps):
        observation, *_ = env.step(policy.step(observation))
        arms.append(np.array(env.sim.state().arm_qpos[0]))
    return arms


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_the_kind_of_place_chooses_the_policy_of_the_chain(tmp_path, skill):
    folder = special_folder(tmp_path / "skills", skill)
    union = tuple(dict.fromkeys((*GENERAL[skill], *SPECIAL[skill])))
    env = SkillEnv(skill, depth=None, episodes=GROCERIES, sensors=union)
    learned = skill_factory(policies_in(folder))(skill)
    files = {"open": f"{skill}.safetensors", "cabinet": f"{skill}_cabinet.safetensors"}
    policies = {kind: NumpyPolicy.load(folder / name) for kind, name in files.items()}
    senses = {"open": GENERAL[skill], "cabinet": SPECIAL[skill]}
    kinds = []
    for seed in range(60):
        env.reset(seed=seed)
        goal = env.worlds.view.goal
        kind = kind_of(np.asarray(goal.start_place if skill == "pick" else goal.goal_place)[0])
        if len(kinds) < 3 and kind not in kinds[-1:]:  # one, the other, and the first again
            kinds.append(kind)
            snapshot, call = env.sim.capture(0), env.worlds.origins[0].call
            wanted = _path(env, policies[kind])
            env.sim.restore(snapshot, 0)
            learned.reset(env.sim, 0, call, 0)
            assert set(learned.task.sensors) == set(senses[kind])
            for arm in wanted:
                env.sim.step(learned.act(env.sim, 0)[None])
                np.testing.assert_array_equal(env.sim.state().arm_qpos[0], arm)
    assert sorted(set(kinds)) == ["cabinet", "open"] and len(kinds) == 3
    env.close()


def test_the_kind_of_place_chooses_the_policy_of_trials(tmp_path):
    folder = special_folder(tmp_path / "skills")
    both = find_policy(folder, "pick")
    assert sorted(both.files) == ["pick", "pick_cabinet"]
    paths = {"open": both.path, "cabinet": both.special["cabinet"].path}
    alone = {kind: find_policy(path, "pick") for kind, path in paths.items()}
    assert all(not policy.special for policy in alone.values())
    sensors = tuple(dict.fromkeys((*GENERAL["pick"], *SPECIAL["pick"])))
    env_args = {"depth": None, "episodes": str(GROCERIES), "options": {"horizon": 12}}

    def play(weights):
        study = SkillStudy({}, "pick", {**env_args, "sensors": sensors}, "tpsrl", weights)
        with study.player() as (run, _):
            return [run(TrialJob(k, k, "")) for k in range(6)]

    records, found = play(both), {kind: play(weights) for kind, weights in alone.items()}
    assert {record["place"] for record in records} == {"open", "cabinet"}
    for k, record in enumerate(records):
        other = "open" if record["place"] == "cabinet" else "cabinet"
        assert record == found[record["place"]][k] != found[other][k]


def test_results_and_cards_name_all_files_that_act(tmp_path, capsys):
    folder = special_folder(tmp_path / "skills")
    general, special = folder / "pick.safetensors", folder / "pick_cabinet.safetensors"
    words = ["eval", "skill=pick", f"data={GROCERIES}", "episodes=3", "workers=1"]

    def measure(weights, name):
        code = main([*words, f"weights={weights}", f"out={tmp_path / name}"])
        return code, json.loads((tmp_path / name / "config.json").read_text())

    code, config = measure(folder, "both")
    assert code == 0 and "pick_cabinet.safetensors acts" in capsys.readouterr().out
    assert config["weights_files"] == {"pick": sha(general), "pick_cabinet": sha(special)}
    assert config["weights_sha256"] not in config["weights_files"].values()
    code, alone = measure(general, "alone")
    assert code == 0 and alone["weights_sha256"] == sha(general) and "weights_files" not in alone

    out = tmp_path / "out"
    export = ["export", "skill=pick", f"out={out}"]
    to_cabinet = [*export, "place=cabinet", f"weights={special}", f"result={tmp_path / 'both'}"]
    assert main(to_cabinet) == 2
    assert "no general policy of 'pick'" in capsys.readouterr().err
    assert main([*export, f"weights={general}", f"result={tmp_path / 'both'}"]) == 0
    assert main(to_cabinet) == 0
    policy = policies_in(out)["pick"]
    assert {k: p.card.place for k, p in policy.special.items()} == {"cabinet": "cabinet"}
    assert policy.card.facts["evaluation"]["weights_files"] == config["weights_files"]
    assert policy.path.read_bytes() == general.read_bytes()
    assert policy.special["cabinet"].path.read_bytes() == special.read_bytes()

    for wrong in (
        [*export, f"weights={special}", f"result={tmp_path / 'both'}"],
        [*export, "place=cabinet", f"weights={general}", f"result={tmp_path / 'both'}"],
        [*export, "place=drawer", f"weights={special}", f"result={tmp_path / 'both'}"],
        [*export, "place=cabinet", f"weights={special}", f"result={tmp_path / 'alone'}"],
    ):
        capsys.readouterr()
        assert main(wrong) == 2
        assert "measured other weights" in capsys.readouterr().err

    save_policy(small_policy("pick", 2, SPECIAL["pick"]), special)
    assert main([*words, f"weights={folder}", f"out={tmp_path / 'both'}"]) == 2
    assert "weights_sha256" in capsys.readouterr().err


def test_lines_say_what_acts_where_and_how_it_was_measured(tmp_path):
    folder = special_folder(tmp_path / "skills")
    before = fingerprints(policies_of("tpsrl", weights=folder))
    rate = {"success": 0.5, "low": 0.4, "high": 0.6, "episodes": 100}
    there = {"success": 0.9, "low": 0.8, "high": 0.95, "episodes": 30}
    both = {"split": "val", "weights_files": digests(find_policy(folder, "pick").files)}
    general = Card("pick", None, facts={"success": rate, "evaluation": both})
    write_card(folder / "pick.json", general)
    facts = {"success": {**rate, "places": {"cabinet": there}}}
    write_card(folder / "pick_cabinet.json", Card("pick", None, facts=facts, place="cabinet"))
    policies = policies_of("tpsrl", weights=folder)
    assert "pick (kind of place cabinet: a policy of its own)" in describe("tpsrl", policies)
    lines = skill_lines("tpsrl", policies)
    assert (
        "pick: learned, 50.0% (40.0 to 60.0) of 100 val episodes on its card, measured together"
        " with pick_cabinet"
    ) in lines
    assert (
        "pick, kind of place 'cabinet': learned, a policy of its own, 90.0% (80.0 to 95.0) of 30"
        " val episodes on its card"
    ) in lines
    save_policy(small_policy("pick", 2, SPECIAL["pick"]), folder / "pick_cabinet.safetensors")
    policies = policies_of("tpsrl", weights=folder)
    assert any("measured with other weights" in line for line in skill_lines("tpsrl", policies))
    after = fingerprints(policies)
    assert sorted(after) == ["pick", "pick_cabinet"]
    assert after["pick"] == before["pick"] == sha(folder / "pick.safetensors")[:16]
    assert after["pick_cabinet"] != before["pick_cabinet"]


def test_identity_of_one_file_is_its_own():
    one = {"pick": "a" * 64}
    assert identity(one) == "a" * 64
    two = {**one, "pick_cabinet": "b" * 64}
    assert len({identity(one), identity(two), identity({**two, "pick_cabinet": "c" * 64})}) == 3
    assert identity(two) == identity(dict(reversed(two.items())))


def test_cards_of_general_policies_stay_as_they_were(tmp_path):
    write_card(tmp_path / "pick.json", Card("pick", None, facts={"command": "x"}))
    old = {"skill": "pick", "depth": None, "actions": "full", "contract": "fixed", "command": "x"}
    assert json.loads((tmp_path / "pick.json").read_text()) == old
    assert read_card(tmp_path / "pick.json").place is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"place": "drawer"}, "is of skill=pick place=drawer, its name says"),
        ({"place": None}, "place=null"),
        ({"skill": "place"}, "is of skill=place place=cabinet"),
        ({"actions": "restricted"}, "need the same actions"),
        ({"contract": "parity"}, "need the same contract"),
        ({"depth": 64}, "need the same depth"),
    ],
)
def test_policies_that_do_not_fit_together_are_refused(tmp_path, change, words):
    folder = special_folder(tmp_path / "skills")
    path = folder / "pick_cabinet.json"
    write_card(path, dataclasses.replace(read_card(path), **change))
    for read in (lambda: policies_in(folder), lambda: find_policy(folder, "pick")):
        with pytest.raises(UserError, match=words):
            read()


def test_a_policy_for_one_place_does_not_stand_alone(tmp_path, capsys):
    folder = special_folder(tmp_path / "skills")
    write_card(folder / "pick.json", Card("pick", None, place="cabinet"))
    with pytest.raises(UserError, match="no general policy"):
        policies_in(folder)
    (folder / "pick.safetensors").unlink()
    with pytest.raises(UserError, match=r"pick_cabinet\.safetensors acts .* is missing"):
        policies_in(folder)
    assert main(["eval", "agent=tpsrl", f"weights={folder}", f"out={tmp_path / 'o'}"]) == 2
    assert "is missing; export the general policy" in capsys.readouterr().err
    (folder / "pick_cabinet.safetensors").rename(folder / "pick_shelf.safetensors")
    with pytest.raises(UserError, match=r"pick\.safetensors: no such file"):
        policies_in(folder)
    (folder / "pick.json").unlink()
    assert policies_in(folder) == {}  # no kind of place: another file of somebody's


def test_files_of_a_policy(tmp_path):
    folder = special_folder(tmp_path / "skills", "place", "drawer")
    policy = policies_in(folder)["place"]
    assert isinstance(policy, PolicyFiles)
    assert policy.files == {
        name: folder / f"{name}.safetensors" for name in ("place", "place_drawer")
    }

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from skills.tasks.handoff import read_starts
from skills.training import parse
from tests.skills.nets import saved_policy, small_policy
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped
from ver_trainer.export import save_policy

SMALL = [
    "env_args.depth=null",
    "env_args.split=val",
    "net.encoder=auto",
    "net.mlp=[16]",
    "net.core_size=8",
    "collector=inline",
    "collect.num_envs=2",
    "collect.steps=16",
    "total_steps=64",
    "log.progress=false",
    "log.tensorboard=false",
]
IMITATE = [
    "imitate.episodes=3",
    "imitate.rounds=1",
    "imitate.round_episodes=2",
    "imitate.clone.epochs=2",
    "imitate.round_epochs=1",
]


def test_imitation_then_ver_then_export_then_evaluation(tmp_path, capsys):
    out = tmp_path / "run"
    words = ["train", "skill=navigate", "pretrain=scripted", f"out={out}", *SMALL, *IMITATE]
    assert main(words) == 0
    policy = out / "imitation" / "policy.safetensors"
    first = policy.read_bytes()
    assert "done: 64 steps" in capsys.readouterr().out
    assert f"pretrained: {policy}" in (out / "config.yaml").read_text()
    demos = sorted(p.parent.name for p in (out / "imitation").glob("demos/*/*.npz"))
    assert demos == ["round_00", "round_01"]
    assert main(words) == 0  # nothing is missing, nothing is done again
    assert policy.read_bytes() == first

    result, folder = tmp_path / "result", tmp_path / "skills"
    measure = ["eval", "skill=navigate", f"weights={policy}", f"out={result}", "workers=1"]
    assert main([*measure, "episodes=2"]) == 0
    old = (result / "episodes.jsonl").read_text().splitlines()
    assert main([*measure, "episodes=3"]) == 0
    assert (result / "episodes.jsonl").read_text().splitlines()[:2] == old
    summary = json.loads((result / "summary.json").read_text())
    assert summary["episodes"] == 3
    assert sum(summary["causes"].values()) == 3

    exported = ["export", "skill=navigate", f"out={folder}", f"result={result}"]
    assert main([*exported, f"weights={out / 'imitation'}"]) == 0
    card = json.loads((folder / "navigate.json").read_text())
    assert card["command"].startswith("tpsrl train skill=navigate pretrain=scripted")
    assert card["success"]["episodes"] == 3
    assert len(card["imitation_rounds"]) == 2
    # The run's own weights went on learning: they are not those that were measured.
    assert main([*exported, f"weights={out}"]) == 2
    assert "measured other weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "skill=pik"], "did you mean 'pick'"),
        (["train", "skill=flee", "pretrain=scripted"], "no scripted skill"),
        (
            ["train", "skill=pick", "config=lptop"],
            "did you mean 'laptop'",
        ),
        (["train", "skill=pick", "imitate.episodess=3"], "did you mean 'imitate.episodes'"),
        (["train", "skill=pick", "env_args.episodes=absent.json.gz"], "tpsrl episodes scenario="),
        (["eval", "skill=pick", "weights=absent"], "no such file or folder"),
        (["eval", "agent=tpsrl", "weights=absent"], "no such file or folder"),
    ],
)
def test_mistakes_are_named(words, text, capsys):
    assert main(words) == 2
    assert text in capsys.readouterr().err


def test_demonstrations_of_other_runs_are_cloned_together(tmp_path, capsys):
    demos = [str(tmp_path / name / "imitation" / "demos" / "round_00") for name in "ab"]
    words = ["train", "skill=open_cab", "pretrain=scripted", "finetune=false", *SMALL]
    words += ["imitate.rounds=0", "imitate.clone.epochs=1"]
    for name, seed in (("a", 0), ("b", 50)):
        alone = ["imitate.episodes=1", f"imitate.seed={seed}", f"out={tmp_path / name}"]
        assert main([*words, *alone]) == 0
    union = [*words, "imitate.episodes=0", f"imitate.union=[{','.join(demos)}]"]
    assert main([*union, f"out={tmp_path / 'both'}"]) == 0
    folder = tmp_path / "both" / "imitation"
    facts = json.loads((folder / "rounds" / "round_00.json").read_text())
    alone = json.loads((tmp_path / "a/imitation/rounds/round_00.json").read_text())
    assert facts["episodes"] == 2 and facts["steps"] > alone["steps"]
    assert json.loads((folder / "imitation.json").read_text())["imitate"]["union"] == demos
    other = ["env_args.sensors=[joint,marker_pose]", f"out={tmp_path / 'other'}"]
    assert main([*union, *other]) == 2
    assert "same env_args.sensors" in capsys.readouterr().err
    absent = [*words, "imitate.union=[nowhere]", f"out={tmp_path / 'absent'}"]
    assert main(absent) == 2
    assert "holds no demonstrations" in capsys.readouterr().err


def test_imitation_goes_on_from_weights(tmp_path):
    words = ["train", "skill=navigate", "pretrain=scripted", "finetune=false", *SMALL, *IMITATE]
    assert main([*words, "imitate.rounds=0", f"out={tmp_path / 'first'}"]) == 0
    start = tmp_path / "first" / "imitation" / "policy.safetensors"
    more = [*words, "imitate.rounds=0", "imitate.episodes=2", f"imitate.start={start}"]
    assert main([*more, "imitate.clone.lr=1e-12", f"out={tmp_path / 'second'}"]) == 0
    folder = tmp_path / "second" / "imitation"
    assert json.loads((folder / "rounds" / "round_00.json").read_text())["episodes"] == 2
    before, after = load_file(start), load_file(folder / "policy.safetensors")
    kept = [name for name in before if name.startswith("actor") and name in after]
    assert kept and all(np.allclose(before[name], after[name], atol=1e-6) for name in kept)


def test_other_settings_in_the_same_folder_are_refused(tmp_path, capsys):
    (tmp_path / "imitation").mkdir()
    (tmp_path / "imitation" / "imitation.json").write_text('{"skill": "pick"}')
    words = ["train", "skill=navigate", "pretrain=scripted", f"out={tmp_path}", *SMALL]
    assert main(words) == 2
    assert "other settings" in capsys.readouterr().err


def test_chain_says_where_its_skills_start(tmp_path, capsys):
    out = tmp_path / "starts.npz"
    words = ["handoff", "split=val", "episodes=1", "workers=1", f"out={out}"]
    assert main(words) == 0
    line = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("  pick (1)"))
    distance, _, arm = (float(part.split()[-1]) for part in line.split(":")[1].split(";"))
    assert 0.3 < distance < 1.5 and arm < 0.05
    starts = read_starts(out)
    assert [s.call.skill for s in starts][:2] == ["navigate", "pick"]
    episode = load_shipped("rearrange_easy").episodes[0]
    assert {s.episode.episode_id for s in starts} == {episode.episode_id}
    assert len({tuple(s.base_pose) for s in starts}) > 1
    assert main(words) == 0  # from the parts that are there
    assert len(read_starts(out)) == len(starts)


def test_agent_with_learned_skills_runs_a_chain(tmp_path, capsys):
    folder = tmp_path / "skills"
    folder.mkdir()
    saved_policy(folder / "pick.safetensors", "pick")
    card = {"skill": "pick", "depth": None, "actions": "full", "contract": "fixed"}
    (folder / "pick.json").write_text(json.dumps(card))
    words = ["eval", "scenario=rearrange_easy", "episodes=1", "workers=1", "max_steps=600"]
    assert main([*words, "agent=tpsrl", f"weights={folder}", f"out={tmp_path / 'e'}"]) == 0
    text = capsys.readouterr().out
    assert "learned skills: pick; scripted stand-ins" in text
    record = json.loads((tmp_path / "e" / "episodes.jsonl").read_text().splitlines()[0])
    ran = {item["skill"]: item["outcome"] for item in record["skills"]}
    assert ran["pick"] in ("timeout", "failure", "running")  # an untrained policy picks nothing


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_training_files_of_single_skills_are_read(skill):
    own, config = parse([f"skill={skill}", f"config={skill}", "pretrain=scripted"])
    assert own.imitate.clone.loss == "huber"
    assert config.net.binary_actions == [7]
    assert config.env_args["sensors"][-1] == "relative_resting_position"


def test_a_config_file_may_hold_words(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("net: {core: lstm}\nimitate: {clone: {precision: bf16, lr: 1.0e-3}}\n")
    own, config = parse(["skill=navigate", f"config={file}"])
    assert own.imitate.clone.precision == "bf16" and config.net.core == "lstm"


def test_average_of_policies(tmp_path, capsys):
    one, two, out = (tmp_path / f"{name}.safetensors" for name in ("one", "two", "mean"))
    save_policy(small_policy("pick", seed=1), one)
    saved_policy(two, "pick")
    assert main(["average", f"weights=[{one},{two}]", f"out={out}"]) == 0
    first, second, mean = (load_file(path) for path in (one, two, out))
    assert any((first[name] != second[name]).any() for name in mean)
    for name, value in mean.items():
        np.testing.assert_allclose(value, (first[name] + second[name]) / 2, atol=1e-6)
    other = saved_policy(tmp_path / "other.safetensors", "place")
    assert main(["average", f"weights=[{one},{other}]", f"out={out}"]) == 2
    assert "different networks" in capsys.readouterr().err
    assert main(["average", f"weights=[{one}]", f"out={out}"]) == 2
    assert "at least two" in capsys.readouterr().err

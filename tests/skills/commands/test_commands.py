import dataclasses
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


def test_training_then_evaluation_then_export(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", "skill=navigate", "config=laptop", f"out={out}", *SMALL]) == 0
    assert "done: 64 steps" in capsys.readouterr().out

    result, folder = tmp_path / "result", tmp_path / "skills"
    measure = ["eval", "skill=navigate", f"weights={out}", f"out={result}", "workers=1"]
    assert main([*measure, "episodes=1"]) == 0
    old = (result / "episodes.jsonl").read_text().splitlines()
    assert main([*measure, "episodes=2"]) == 0
    assert (result / "episodes.jsonl").read_text().splitlines()[:1] == old
    summary = json.loads((result / "summary.json").read_text())
    assert summary["episodes"] == 2
    assert sum(summary["causes"].values()) == 2

    exported = ["export", "skill=navigate", f"out={folder}", f"result={result}"]
    assert main([*exported, f"weights={out}"]) == 0
    card = json.loads((folder / "navigate.json").read_text())
    assert card["command"].startswith("tpsrl train skill=navigate")
    assert card["success"]["episodes"] == 2 and card["ver"]["steps"] == 64
    assert str(tmp_path) not in json.dumps(card["evaluation"])
    again = [*exported, f"weights={out}", f"repeats=[{folder / 'navigate.json'}]"]
    assert main(again) == 2
    assert "is of the same weights" in capsys.readouterr().err
    first = {**card, "evaluation": {**card["evaluation"], "weights_sha256": "0" * 64}}
    (tmp_path / "first.json").write_text(json.dumps(first))
    assert main([*again[:-1], f"repeats=[{tmp_path / 'first.json'}]"]) == 0
    (repeat,) = json.loads((folder / "navigate.json").read_text())["repeats"]
    assert repeat["success"] == card["success"] and repeat["steps"] == 64
    assert repeat["command"] == card["command"]
    del first["success"]
    (tmp_path / "first.json").write_text(json.dumps(first))
    assert main([*again[:-1], f"repeats=[{tmp_path / 'first.json'}]"]) == 2
    assert "is no measured card of 'navigate'" in capsys.readouterr().err
    other = saved_policy(tmp_path / "other.safetensors", "navigate")
    assert main([*exported, f"weights={other}"]) == 2
    assert "measured other weights" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["train", "skill=pik"], "did you mean 'pick'"),
        (
            ["train", "skill=pick", "config=lptop"],
            "did you mean 'laptop'",
        ),
        (["train", "skill=pick", "chain_start=3"], "did you mean 'chain_starts'"),
        (["train", "skill=pick", "env_args.episodes=absent.json.gz"], "tpsrl episodes scenario="),
        (["eval", "skill=pick", "weights=absent"], "no such file or folder"),
        (["eval", "agent=tpsrl", "weights=absent"], "no such file or folder"),
    ],
)
def test_mistakes_are_named(words, text, capsys):
    assert main(words) == 2
    assert text in capsys.readouterr().err


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


def test_a_config_file_may_hold_words(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("net: {core: lstm}\nlaunch: {engine: slurm, ranks: 3}\n")
    own, config = parse(["skill=navigate", f"config={file}"])
    assert own.launch.ranks == 3 and config.net.core == "lstm"


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


@pytest.mark.parametrize("said", [{"activation": "relu"}, {"binary_actions": [7]}])
def test_networks_of_one_shape_that_mean_other_things_are_not_averaged(said, tmp_path, capsys):
    one, other = small_policy("pick"), small_policy("pick")
    other.config = dataclasses.replace(other.config, **said)
    for name, policy in (("one", one), ("other", other)):
        save_policy(policy, tmp_path / f"{name}.safetensors")
    words = f"weights=[{tmp_path / 'one.safetensors'},{tmp_path / 'other.safetensors'}]"
    assert main(["average", words, f"out={tmp_path / 'mean.safetensors'}"]) == 2
    assert "different networks" in capsys.readouterr().err

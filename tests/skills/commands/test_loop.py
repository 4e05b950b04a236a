"""From a training to all that its result is good for, by the commands that it prints at its end."""

import json
import re
import shlex

import numpy as np
import pytest

from skills.learned.cards import SHIPPED
from skills.learned.find import find_file, find_policies, find_policy
from skills.learned.inference import NumpyPolicy
from tests.skills.nets import small_policy
from tpsrl.cli import commands, main
from tpsrl.errors import UserError
from ver_trainer.export import export_policy, load_policy, save_policy
from ver_trainer.finding import WEIGHTS

SMALL = [
    "env_args.depth=null",
    "env_args.split=val",
    "net.encoder=auto",
    "net.mlp=[16]",
    "net.core_size=8",
    "net.normalize_obs=true",
    "collector=inline",
    "collect.num_envs=2",
    "collect.steps=16",
    "total_steps=64",
    "log.progress=false",
    "log.tensorboard=false",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """The run folder of a short training of Pick."""
    out = tmp_path_factory.mktemp("loop") / "my runs" / "pick"
    assert main(["train", "skill=pick", "config=laptop", f"out={out}", *SMALL]) == 0
    return out


def after(out, capsys):
    """Return the commands that the training prints at its end."""
    capsys.readouterr()
    assert (
        main(["train", "skill=pick", "config=laptop", f"out={out}", *SMALL]) == 0
    )  # all steps are done
    lines = capsys.readouterr().out.split("next:\n")[1].splitlines()
    return [shlex.split(line)[1:] for line in lines]


def test_every_command_that_a_training_prints_works(trained, tmp_path, capsys):
    printed = {words[0]: words for words in after(trained, capsys)}
    assert set(printed) == {"eval", "record", "export", *({"view"} & set(commands()))}
    assert main([*printed["eval"], "episodes=1", "workers=1", f"out={tmp_path / 'e'}"]) == 0
    summary = json.loads((tmp_path / "e" / "summary.json").read_text())
    assert summary["episodes"] == 1 and "pick on val" in capsys.readouterr().out
    video = tmp_path / "x.mp4"
    assert main([*printed["record"], "speed=20", f"out={video}"]) == 0
    said, (row,) = capsys.readouterr().out, (tmp_path / "e" / "episodes.jsonl").open()
    assert video.exists() and json.loads(row)["states"] in said  # the episode that was measured
    failures = ["record", f"failures={tmp_path / 'e'}", "speed=50"]
    assert main(failures) == 0 and "1 of 1 episodes failed" in capsys.readouterr().out
    assert (tmp_path / "e" / "videos" / "failure_0000.mp4").exists()
    pytest.importorskip("onnx")
    assert main([*printed["export"], f"out={tmp_path}"]) == 0
    assert (tmp_path / "pick.onnx").exists()


def random_inputs(card, rng):
    rows = card["observations"]
    return {row["name"]: rng.normal(size=row["shape"]).astype(np.float32) for row in rows}


def test_onnx_and_torchscript_act_as_ours_do(trained, tmp_path, capsys):
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    torch = pytest.importorskip("torch")
    for kind in ("onnx", "torchscript"):
        assert main(["export", f"weights={trained}", f"format={kind}", f"out={tmp_path}"]) == 0
    card = json.loads((tmp_path / "pick.onnx.json").read_text())
    assert card == json.loads((tmp_path / "pick.pt.json").read_text())
    assert card["skill"] == "pick" and card["ver"]["steps"] == 64
    wiring = card["wiring"]
    assert wiring["control_hz"] == 30 and wiring["state"] == 16
    joint = next(row for row in wiring["observations"] if row["name"] == "joint")
    assert joint["shape"] == [7] and "rad" in joint["meaning"] and len(joint["deviation"]) == 7
    names = [row["name"] for row in wiring["action"]["entries"]]
    assert names[0] == "shoulder_pan_joint" and names[-2:] == ["base_forward", "base_turn"]

    session = runtime.InferenceSession(tmp_path / "pick.onnx", providers=["CPUExecutionProvider"])
    assert json.loads(session.get_modelmeta().custom_metadata_map["card"]) == card
    order = [row["name"] for row in wiring["observations"]]
    assert [i.name for i in session.get_inputs()] == [*order, "state"]
    extra = {"card": ""}
    script = torch.jit.load(tmp_path / "pick.pt", _extra_files=extra)
    assert json.loads(extra["card"]) == card
    ours, rng = NumpyPolicy.load(find_file(trained)), np.random.default_rng(0)
    states = [np.zeros((1, wiring["state"]), np.float32)] * 2
    for _ in range(5):
        seen = random_inputs(wiring, rng)
        rows = {name: value[None] for name, value in seen.items()}
        action, states[0] = session.run(None, {**rows, "state": states[0]})
        tensors = [torch.from_numpy(rows[name]) for name in order]
        with torch.no_grad():
            other, state = script(*tensors, torch.from_numpy(states[1]))
        states[1] = state.numpy()
        wanted = ours.step(seen)
        np.testing.assert_allclose(action[0], wanted, atol=2e-5)
        np.testing.assert_allclose(other[0], wanted, atol=2e-5)
    assert np.abs(states[0]).max() > 0.01


def test_whatever_names_weights_is_found(trained, tmp_path, capsys):
    checkpoint = max((trained / "checkpoints").glob("update_*"))
    file = checkpoint / "weights.safetensors"
    for named in (trained, checkpoint, file):
        assert find_policies(named)["pick"].path.parent.parent.name == "checkpoints"
        assert find_policy(named, "pick").card.skill == "pick"
        with pytest.raises(UserError, match="a policy of 'pick'; give skill=pick"):
            find_policy(named, "place")
    assert list(find_policies(trained.parent)) == ["pick"]  # a folder of runs
    copied = tmp_path / "copied.safetensors"
    copied.write_bytes(file.read_bytes())  # the file itself says what it is of
    assert find_policies(copied)["pick"].card.skill == "pick"
    mean = tmp_path / "mean.safetensors"
    assert main(["average", f"weights=[{trained},{checkpoint},{copied}]", f"out={mean}"]) == 0
    assert find_policies(mean)["pick"].card.depth is None
    stranger = tmp_path / "stranger.safetensors"
    save_policy(small_policy("pick"), stranger)
    assert find_policy(stranger, "pick").path == stranger
    with pytest.raises(UserError, match="does not say which skill"):
        find_policies(stranger)


def test_wrong_weights_are_one_sentence(trained, tmp_path, capsys):
    for words, text in (
        (["eval", f"weights={trained}"], "skills of agent=scripted are scripted"),
        (["record", f"weights={trained}"], "skills of agent=scripted are scripted"),
        (["eval", "skill=pick", "agent=random", f"weights={trained}"], "would not be used"),
        (["eval", "agent=tpsrl", f"weights={tmp_path}"], "holds no weights of"),
        (["eval", "agent=tpsrl-nonav", f"weights={trained}"], "has no weights of place"),
        (["demo", "weights=absent"], "no such file or folder"),
        (["export", "weights=absent"], "no such file or folder"),
        (["average", "weights=[absent,absent]"], "no such file or folder"),
        (["export", f"weights={trained}", "skill=place"], "give skill=pick"),
    ):
        assert main(words) == 2, words
        assert text in capsys.readouterr().err, words


def test_a_run_of_another_environment_leaves_too(tmp_path, capsys):
    pytest.importorskip("onnx")
    words = ["collector=inline", "total_steps=64", "collect.num_envs=2", "collect.steps=16"]
    quiet = ["log.progress=false", "log.tensorboard=false"]
    out = tmp_path / "cart"
    assert main(["train", "env=CartPole-v1", f"out={out}", *words, *quiet]) == 0
    text = capsys.readouterr().out
    assert f"tpsrl export weights={out} format=onnx" in text and "record" not in text
    assert main(["export", f"weights={out}", "format=onnx", f"out={tmp_path}"]) == 0
    card = json.loads((tmp_path / "cart.onnx.json").read_text())
    assert card["trained_in"]["env"] == "CartPole-v1"
    assert card["wiring"]["action"]["kind"] == "discrete"
    assert main(["export", f"weights={out}"]) == 2
    assert "does not say which skill" in capsys.readouterr().err


def test_policies_that_ship_can_be_loaded_and_exported(tmp_path):
    shipped = load_policy(find_policy(None, "pick").path)
    assert export_policy(shipped, tmp_path / "pick.pt").exists()


@pytest.mark.parametrize(
    ("given", "written"),
    [
        (
            str(SHIPPED / "teacher/pick.safetensors"),
            "skills/learned/weights/teacher/pick.safetensors",
        ),
        ("/home/someone/runs/pick", "pick"),
        ("runs/pick", "runs/pick"),
        ("", ""),
    ],
)
def test_a_card_says_what_was_learned_from_and_not_where_it_lay(given, written, tmp_path):
    folder = tmp_path / "run" / "checkpoints" / "update_000000001"
    folder.mkdir(parents=True)
    config = {"pretrained": given, "distill": {"teacher": given}, "env_args": {"skill": "pick"}}
    (folder / "meta.json").write_text(json.dumps({"config": config, "steps": 1}))
    save_policy(small_policy("pick"), folder / WEIGHTS)
    assert main(["export", f"weights={folder}", "skill=pick", f"out={tmp_path}"]) == 0
    found = json.loads((tmp_path / "pick.json").read_text())["ver"]["config"]
    assert found["pretrained"] == found["distill"]["teacher"] == written


def test_cards_that_ship_name_no_place_on_a_disk():
    cards = [*SHIPPED.rglob("*.json")]
    assert len(cards) > 10
    for card in cards:
        assert not re.search(r'"/|"[A-Z]:', card.read_text()), card

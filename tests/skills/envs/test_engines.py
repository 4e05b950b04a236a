"""Skill environments and their commands on another engine than MuJoCo in this process.

MuJoCo in a server's process stands where Habitat would: the same link, the same messages.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import sys
import time
import warnings

import numpy as np
import psutil
import pytest
from gymnasium.utils.env_checker import check_env

from eval.trials import scripted_agent
from skills.envs.batch import BatchSkillEnv
from skills.envs.single import SkillEnv
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError
from tpsrl.habitat.export.dataset import export_dataset
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types

SERVED = "mujoco_server"
WITHOUT_HABITAT = pytest.mark.skipif(
    importlib.util.find_spec("habitat") is not None, reason="Habitat is installed here"
)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Our apartment as a Habitat dataset, with two episodes a scenario."""
    root = tmp_path_factory.mktemp("scenes")
    names = ("rearrange_easy", "in_drawer")
    sets = {f"{name}_val": EpisodeSet(load_shipped(name).episodes[:2]) for name in names}
    export_dataset(root, load_apartment(), object_types(), sets)
    return root


@pytest.fixture(autouse=True)
def nothing_left():
    """No server's process outlives a test."""
    yield
    deadline = time.monotonic() + 30.0
    while (left := servers()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def servers():
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(word.endswith("serve.py") for word in process.cmdline()):
                found.append(process)
    return found


def test_gymnasium_checker_across_processes():
    with contextlib.closing(SkillEnv("pick", depth=32, split="val", sim=SERVED)) as env:
        assert len(servers()) == 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=".*m(in|ax)imum value is.*infinity")
            check_env(env, skip_render_check=True)


@pytest.mark.parametrize("skill", ["place", "open_fridge", "pointnav"])
def test_the_same_episode_in_both_processes(skill):
    trails = []
    for sim in ("mujoco", SERVED):
        with contextlib.closing(SkillEnv(skill, depth=32, split="val", sim=sim)) as env:
            observation, info = env.reset(seed=5)
            trail = [(observation, 0.0, info)]
            rng = np.random.default_rng(0)
            for _ in range(8):
                action = rng.uniform(-1.0, 1.0, env.action_space.shape)
                if env.worlds.task.layout.stop:
                    action[-1] = -1.0
                observation, reward, _, _, info = env.step(action)
                trail.append((observation, reward, info))
        trails.append(trail)
    for (a, r, i), (b, s, j) in zip(*trails, strict=True):
        assert r == s and i == j
        assert all(np.array_equal(a[key], b[key]) for key in a)


def test_a_scripted_skill_in_imported_scenes_across_processes(scenes):
    config = {"depth": None, "split": "val", "sim": SERVED, "path": scenes}
    with contextlib.closing(SkillEnv("pick", **config)) as env:
        assert len(env.worlds.starts.episodes) == 2
        agent = scripted_agent(env)
        env.reset(seed=1)
        agent.reset(1)
        for _ in range(300):
            _, _, terminated, truncated, info = env.step(agent.act())
            if terminated or truncated:
                break
        assert info["success"], info


def test_handles_of_imported_scenes_are_found(scenes):
    with contextlib.closing(SkillEnv("open_cab", depth=None, split="val", path=scenes)) as env:
        observation, _ = env.reset(seed=0)
        assert env.worlds.starts.episodes[0].scenario == "in_drawer"
        assert np.linalg.norm(observation["marker_rel_pos"]) < 2.0


def test_ver_trains_with_workers_that_have_servers(tmp_path, scenes):
    words = [
        "train", "skill=navigate", "config=laptop", "total_steps=256", f"out={tmp_path / 'run'}",
        "env_args.depth=40", f"env_args.sim={SERVED}", f"env_args.path={scenes}",
        "env_args.split=val", "collector=workers", "collect.num_envs=2", "collect.steps=32",
        "net.mlp=[16]", "net.core_size=8", "log.progress=false", "log.tensorboard=false",
    ]  # fmt: skip
    assert main(words) == 0
    assert any((tmp_path / "run").rglob("*.safetensors")) or any((tmp_path / "run").rglob("*.pt"))


def test_evaluation_of_a_skill(tmp_path, scenes, capsys):
    out = tmp_path / "out"
    words = ["eval", "skill=navigate", "agent=scripted", f"sim={SERVED}", "episodes=1"]
    assert main([*words, f"path={scenes}", "workers=1", f"out={out}"]) == 0
    described = json.loads((out / "config.json").read_text())
    assert described["sim"] == SERVED and described["path"] == str(scenes)
    assert json.loads((out / "summary.json").read_text())["successes"] == 1
    assert main([*words, "workers=1", f"out={out}"]) == 2
    assert "this one has path=None" in capsys.readouterr().err


@WITHOUT_HABITAT
@pytest.mark.parametrize(
    "words",
    [
        ["train", "skill=pick", "config=laptop", "env_args.sim=habitat", "env_args.split=val"],
        ["eval", "skill=pick", "agent=random", "sim=habitat", "episodes=1", "workers=1"],
    ],
)
def test_commands_ask_for_habitat(words, tmp_path, capsys):
    assert main([*words, f"out={tmp_path / 'out'}"]) == 2
    assert "habitat.python=PATH" in capsys.readouterr().err


@WITHOUT_HABITAT
def test_an_interpreter_without_habitat_is_told_through_the_environment():
    with pytest.raises(UserError, match=r"has no habitat-sim"):
        SkillEnv("pick", depth=None, split="val", sim="habitat", habitat={"python": sys.executable})


def test_mistakes_are_named(tmp_path):
    plain = {"depth": None, "split": "val"}
    with pytest.raises(UserError, match="did you mean 'mujoco'"):
        SkillEnv("pick", sim="mujco", **plain)
    with pytest.raises(UserError, match="did you mean 'python'"):
        SkillEnv("pick", sim="habitat", habitat={"pyton": "x"}, **plain)
    with pytest.raises(UserError, match="one world"):
        BatchSkillEnv("pick", 2, sim=SERVED, **plain)
    with pytest.raises(UserError, match="needs path=DIR"):
        SkillEnv("pick", episodes="replica_cad", **plain)
    with pytest.raises(UserError, match=str(tmp_path)):
        SkillEnv("pick", path=tmp_path, **plain)


def test_a_held_object_and_a_pool_go_across(scenes):
    """Place starts with the object in the hand; the server compiles what the episodes need."""
    config = {"depth": None, "split": "val", "sim": SERVED}
    with contextlib.closing(SkillEnv("place", **config)) as env:
        env.reset(seed=0)
        assert env.sim.state().held_object[0] >= 0
        assert dataclasses.asdict(env.sim.info)["name"] == "mujoco"

"""What other libraries want of the environments: no stop, uint8 pictures, every vector mode."""

from __future__ import annotations

import warnings

import gymnasium
import imageio_ffmpeg
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordVideo, vector

import skills.envs
from skills.book import BOOK, make_skill, make_task
from skills.envs.agents import SkillAgent
from tests.skills.envs.states import state
from tests.skills.envs.test_contract import judge
from tpsrl.errors import UserError

CLIENT = {"stop": "success", "depth": 48, "depth_dtype": "uint8", "split": "val"}


def make(skill, **config):
    return gymnasium.make(skills.envs.env_id(skill), **{**CLIENT, **config})


@pytest.mark.parametrize("skill", ["open_cab", "navigate"])
def test_gymnasium_checker_with_pictures_of_bytes(skill):
    env = make(skill, colour=32, sensors=("contract", "head_rgb", "third_rgb"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*m(in|ax)imum value is.*infinity")
        warnings.filterwarnings("ignore", message=".*different to the unwrapped version")
        check_env(env.unwrapped, skip_render_check=True)
    seen, _ = env.reset(seed=1)
    env.close()
    for name, channels in (("head_depth", 1), ("head_rgb", 3), ("third_rgb", 3)):
        box, side = env.observation_space[name], 48 if channels == 1 else 32
        # What Stable-Baselines3 takes for a picture: bytes from 0 to 255, channels last.
        assert box.dtype == np.uint8 and box.shape == (side, side, channels)
        assert box.low.min() == 0 and box.high.max() == 255 and seen[name].std() > 1
    assert not np.array_equal(seen["head_rgb"], seen["third_rgb"])


@pytest.mark.parametrize("colour", [(), ("contract", "head_rgb", "third_rgb")], ids=["no", "yes"])
def test_stable_baselines3_sees_pictures(colour):
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    from stable_baselines3 import PPO
    from stable_baselines3.common.preprocessing import is_image_space
    from stable_baselines3.common.torch_layers import NatureCNN

    # The arguments of docs/other_trainers.md; with a warning, a policy would miss the pictures.
    config = {"depth": 64, "reward": "teaching", **({"sensors": colour} if colour else {})}
    env = make("open_cab", **config)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        checker.check_env(env)
    pictures = {name for name, box in env.observation_space.items() if is_image_space(box)}
    assert pictures == {"head_depth", *colour[1:]} and len(env.observation_space) > len(pictures)
    parts = PPO("MultiInputPolicy", env, device="cpu").policy.features_extractor.extractors
    assert {name for name, part in parts.items() if isinstance(part, NatureCNN)} == pictures
    fine = make("open_cab", depth_dtype="float32")
    assert not is_image_space(fine.observation_space["head_depth"]), "why it has to be uint8"
    env.close()
    fine.close()


def test_depth_of_bytes_is_depth():
    fine, coarse = make("pick", depth_dtype="float32"), make("pick")
    a, b = (env.reset(seed=2)[0]["head_depth"] for env in (fine, coarse))
    fine.close()
    coarse.close()
    assert np.abs(a * 255 - b).max() <= 0.501 and a.std() > 0.01


def test_an_environment_that_stops_itself_ends_when_the_skill_is_done():
    env = make("open_cab", depth=None).unwrapped
    assert env.action_space.shape == (10,)
    agent = SkillAgent(env, make_skill)
    env.reset(seed=3)
    agent.reset(3)
    for _ in range(200):
        _, _, terminated, truncated, info = env.step(agent.act())
        if terminated or truncated:
            break
    env.close()
    assert terminated and info["success"] and info["cause"] == "success"


@pytest.mark.parametrize("skill", [name for name, row in BOOK.items() if row.task.layout.stop])
def test_a_step_that_is_no_success_ends_nothing_and_costs_nothing(skill):
    task = make_task(skill, stop="success", options={"slack_reward": 0.0})
    there = state(marker_pos=[2.0, 2.0, 1.0], base_pose=[-5.0, 0.0, 3.0])
    far = {"position": np.array([5.0, 0.0, 0.8]), "joint_goal": 0.45}
    if skill == "pointnav":  # measures its way, which is no part of a state
        assert task.stops_itself and not task.layout.stop
        return
    outcome = judge(task, there, there, **far)
    assert not outcome.terminated[0] and not outcome.success[0] and outcome.cause[0] == 0
    assert outcome.reward[0] == 0.0


@pytest.mark.parametrize("mode", ["sync", "async", "vector_entry_point"])
def test_every_mode_of_make_vec_shows_the_same_worlds(mode):
    pictures = {"sensors": ("contract", "head_rgb", "third_rgb"), "colour": 32}
    single = make("close_cab", **pictures).unwrapped
    first = [single.reset(seed=5 + i)[0] for i in range(2)]
    single.close()
    env = gymnasium.make_vec(
        "skills.envs:tpsrl/CloseCabinet-v0",
        num_envs=2,
        vectorization_mode=mode,
        **{**CLIENT, **pictures},
    )
    try:
        seen, _ = env.reset(seed=5)
        assert {"head_depth", "head_rgb", "third_rgb"} < set(seen)
        for name, values in seen.items():
            assert np.array_equal(values, np.stack([one[name] for one in first])), name
        seen, reward, *_ = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen) and reward.shape == (2,)
    finally:
        env.close()


def test_gymnasium_records_a_video(tmp_path):
    env = RecordVideo(
        make("open_cab", depth=None, render_mode="rgb_array", options={"horizon": 5}), tmp_path
    )
    env.reset(seed=0)
    while not any(env.step(env.action_space.sample())[2:4]):
        pass
    env.close()
    frames = imageio_ffmpeg.read_frames(str(next(tmp_path.glob("*.mp4"))))
    assert next(frames)["size"] == (640, 480)
    assert len(list(frames)) in (5, 6)  # moviepy may drop the last one


@pytest.mark.parametrize("mode", ["sync", "vector_entry_point"])
def test_gymnasium_records_a_video_of_all_worlds(mode, tmp_path):
    made = gymnasium.make_vec(
        "skills.envs:tpsrl/OpenCabinet-v0",
        num_envs=2,
        vectorization_mode=mode,
        render_mode="rgb_array",
        **{**CLIENT, "depth": None, "options": {"horizon": 5}},
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        env = vector.RecordVideo(made, str(tmp_path), episode_trigger=lambda episode: episode == 0)
    told = any("will not contain the last frame" in str(warning.message) for warning in caught)
    assert told == (mode == "vector_entry_point")
    env.reset(seed=0)
    for _ in range(8):
        env.step(env.action_space.sample())
    env.close()
    frames = imageio_ffmpeg.read_frames(str(next(tmp_path.glob("*.mp4"))))
    assert next(frames)["size"] == (2 * 640, 480)
    assert len(list(frames)) in (5, 6)  # moviepy may drop the last one


def test_arguments_are_checked():
    for config, word in (
        ({"stop": "never"}, "'action' or 'success'"),
        ({"depth_dtype": "uint16"}, "'float32' or 'uint8'"),
        ({"colour": 0}, "1 to 960"),
        ({"sensors": ("contract", "head_rbg")}, "head_rgb"),
    ):
        with pytest.raises(UserError, match=word):
            make("pick", **{"depth": None, **config})

"""``benchmarks.skill_learning``: both sides observe the same, and a run goes on where it was."""

from __future__ import annotations

import json
from functools import partial

import gymnasium
import numpy as np
import pytest

from benchmarks import skill_learning_run as run
from skills.training import parse
from tpsrl.episodes.shipped import shipped_file
from ver_trainer.errors import StorageError
from ver_trainer.files import locked


def test_both_sides_observe_and_are_paid_the_same(tmp_path):
    _, config = parse(run.words_of("pick", 1, 1000, tmp_path / "run"))
    assert config.device == "cpu" and config.net.actor_obs == config.net.critic_obs
    env = run.worlds_of("pick", str(shipped_file("rearrange_easy", "val")), 2)
    assert set(env.single_observation_space) == set(config.net.actor_obs)
    assert config.env_args["options"] == env.unwrapped.config.options == run.ALIKE
    env.close()


def test_a_checkpoint_is_whole_and_its_records_end_with_it(tmp_path):
    pytest.importorskip("stable_baselines3")
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    plain = DummyVecEnv([lambda: gymnasium.make("CartPole-v1")])
    env = VecNormalize(plain)
    model = PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu")
    for steps in (8, 16):
        model.learn(8, reset_num_timesteps=False)
        run.save(model, env, tmp_path)
        assert model.num_timesteps == steps
    (tmp_path / "saved_3.tmp").mkdir()  # killed while it was written
    assert [path.name for path in run.saved(tmp_path)] == ["saved_2"]
    again, _ = run.learner(plain, 1, 1, tmp_path)
    assert again.num_timesteps == 16

    metrics = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step}) + "\n" for step in (8, 16, 24)]
    metrics.write_text("".join(lines) + '{"step": 3')
    run.forget(metrics, again.num_timesteps)
    assert metrics.read_text() == "".join(lines[:2])


def test_batches_of_two_processes_are_one_vector_of_worlds():
    pytest.importorskip("stable_baselines3")
    from benchmarks.skill_learning_envs import Batches

    episodes = str(shipped_file("rearrange_easy", "val"))
    make = partial(run.worlds_of, "pick", episodes, 2)
    both, alone = Batches(make, 2, 2), run.worlds_of("pick", episodes, 4)
    try:
        both.seed(5)
        seen, expected = both.reset(), alone.reset(seed=5)[0]
        for name, values in expected.items():
            np.testing.assert_array_equal(seen[name], values, name)
        actions = np.zeros((4, *both.action_space.shape), np.float32)
        actions[:, -1] = -1.0
        ended = 0
        for _ in range(400):
            seen, reward, done, infos = both.step(actions)
            for i in np.flatnonzero(done):
                assert infos[i].keys() == {
                    "is_success",
                    "TimeLimit.truncated",
                    "terminal_observation",
                }
                assert infos[i]["terminal_observation"].keys() == seen.keys()
            ended += int(done.sum())
            if ended:
                break
        assert ended and reward.shape == (4,) and reward.dtype == np.float32
    finally:
        both.close()
        alone.close()
    assert not any(process.is_alive() for process in both.processes)


def test_a_second_run_in_a_folder_is_refused(tmp_path):
    with locked(tmp_path, "a test"), pytest.raises(StorageError, match="in use by a test"):
        run.main(["pick", "sb3", "1", "1000", str(tmp_path)])

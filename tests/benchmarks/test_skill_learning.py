"""``benchmarks.skill_learning``: both sides observe the same, and a run goes on where it was."""

from __future__ import annotations

import json

import gymnasium
import pytest

from benchmarks import skill_learning_run as run
from skills.training import parse
from tpsrl.episodes.shipped import shipped_file


def test_both_sides_observe_and_are_paid_the_same(tmp_path):
    _, config = parse(run.words_of("pick", 1, 1000, tmp_path / "run"))
    assert config.device == "cpu" and config.net.actor_obs == config.net.critic_obs
    env = run.single("pick", str(shipped_file("rearrange_easy", "val")))
    assert set(env.observation_space) == set(config.net.actor_obs)
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

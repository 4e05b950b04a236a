"""The batched environment: the same episodes as single ones, automatic reset, torch engines."""

from __future__ import annotations

import dataclasses
import hashlib
import io

import numpy as np
import pytest
import torch

from eval.trace import Trace
from skills.book import BOOK
from skills.envs.batch import BatchSkillEnv
from skills.envs.single import SkillEnv
from skills.tasks.state import CAUSE
from tests.skills.envs.states import to_torch
from tests.tpsrl.sim.small import episode, simulator
from tpsrl.episodes.habitat_json import save_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError
from tpsrl.sim.mujoco.engine import MujocoSimulator
from ver_trainer.checkpoint import pack_state, unpack_state


class TorchSimulator:
    """MuJoCo's worlds handed over as torch tensors, as an engine on the GPU would."""

    def __init__(self, sim: MujocoSimulator) -> None:
        self._sim = sim

    def __getattr__(self, name):
        return getattr(self._sim, name)

    def step(self, actions):
        assert isinstance(actions, torch.Tensor)
        self._sim.step(actions.numpy())

    def state(self):
        return to_torch(self._sim.state())

    def depth(self):
        return to_torch(self._sim.depth())


@pytest.fixture
def episodes(tmp_path):
    path = tmp_path / "small.json.gz"
    save_episodes(
        path, EpisodeSet((episode("a"), dataclasses.replace(episode("b"), episode_id="e1")))
    )
    return path


def _actions(env, steps, size):
    return np.random.default_rng(0).uniform(-1, 1, (steps, env, size))


def test_worlds_are_those_of_single_environments(episodes):
    with simulator(3) as many, simulator(1) as one:
        batch = BatchSkillEnv("pick", simulator=many, depth=None, episodes=episodes)
        single = SkillEnv("pick", simulator=one, depth=None, episodes=episodes)
        actions = _actions(3, 15, 10)
        seen = [batch.reset(seed=7)[0]]
        rewards = []
        for action in actions:
            observation, reward, *_ = batch.step(action)
            seen.append(observation)
            rewards.append(reward)
        for i in range(3):
            observation, _ = single.reset(seed=7 + i)
            for k in range(16):
                assert all(np.array_equal(seen[k][s][i], observation[s]) for s in observation)
                if k < 15:
                    observation, reward, terminated, truncated, _ = single.step(actions[k, i])
                    assert reward == rewards[k][i]
                    if terminated or truncated:
                        observation, _ = single.reset()


@pytest.fixture(scope="module")
def flat():
    """A simulator of three worlds and one of one, with all that the real apartment has."""
    with MujocoSimulator(3, depth=64) as many, MujocoSimulator(1, depth=64) as one:
        yield many, one


@pytest.mark.parametrize("skill", sorted(BOOK))
def test_every_skill_is_the_same_to_the_bit_alone_and_in_a_batch(skill, flat):
    many, one = flat
    batch = BatchSkillEnv(skill, simulator=many, depth=64, split="val")
    single = SkillEnv(skill, simulator=one, depth=64, split="val")
    actions = _actions(3, 15, batch.single_action_space.shape[0])
    layout = batch.worlds.task.layout
    actions[..., ~layout.moving] = 1.0  # hold on
    if layout.stop:
        actions[..., -1] = -1.0
    traces, digests = [Trace(i) for i in range(3)], []
    seen, ends = [batch.reset(seed=5)[0]], np.full(3, 15)
    for k, action in enumerate(actions):
        observation, _, terminated, truncated, _ = batch.step(action)
        ends[terminated | truncated] = np.minimum(ends, k)[terminated | truncated]
        seen.append(observation)
        for trace in traces:
            trace.add(many.state())
        digests.append([trace.digest for trace in traces])
    assert ends.max() > 7
    for i, end in enumerate(ends):
        trace, (observation, _) = Trace(), single.reset(seed=5 + i)
        for k in range(end):
            assert all(np.array_equal(seen[k][name][i], observation[name]) for name in observation)
            observation, *_ = single.step(actions[k, i])
            trace.add(one.state())
            assert trace.digest == digests[k][i]


def test_automatic_reset_keeps_the_last_observation(episodes):
    with simulator(2) as sim:
        env = BatchSkillEnv("pointnav", simulator=sim, depth=None, episodes=episodes)
        env.reset(seed=1)
        progress = env.worlds.progress.path
        action = np.array([[1.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
        observation, reward, terminated, truncated, info = env.step(action)
        assert terminated.tolist() == [False, True] and not truncated.any()
        assert info["_final_obs"].tolist() == [False, True]
        assert info["cause"].tolist() == [0, CAUSE["stop"]] and len(reward) == 2
        last = info["final_obs"]["pointgoal_with_gps_compass"]
        now = observation["pointgoal_with_gps_compass"]
        assert np.array_equal(last[0], now[0]) and not np.array_equal(last[1], now[1])
        assert env.worlds.progress.steps.tolist() == [1, 0]
        assert env.worlds.progress.path[1] == 0.0 and progress.tolist() == [0.0, 0.0]
        assert env.observation_space.contains(observation)


@pytest.mark.parametrize("skill", ["pick", "place", "navigate", "open_cab", "pointnav", "explore"])
def test_a_torch_engine_gives_the_same_numbers(skill, episodes):
    options = {}
    if skill == "open_cab":
        options = {"joint_name": "cabinet/drawer", "marker_name": "pull"}
    if skill == "navigate":
        options = {"min_start_distance": 1.5, "holding_probability": 0.5}
    config = {"depth": None, "episodes": episodes, "options": options}
    with simulator(2) as a, simulator(2) as b:
        ours = BatchSkillEnv(skill, simulator=a, **config)
        theirs = BatchSkillEnv(skill, simulator=TorchSimulator(b), **config)
        x, _ = ours.reset(seed=3)
        y, _ = theirs.reset(seed=3)
        for action in _actions(2, 12, ours.single_action_space.shape[0]):
            for key in x:
                assert isinstance(y[key], torch.Tensor)
                np.testing.assert_allclose(x[key], y[key].numpy(), atol=1e-5)
            x, r, te, tr, _ = ours.step(action)
            y, s, ue, ur, _ = theirs.step(torch.as_tensor(action))
            np.testing.assert_allclose(r, s.numpy(), atol=1e-5)
            assert te.tolist() == ue.tolist() and tr.tolist() == ur.tolist()


@pytest.mark.parametrize("what", ["everything", "arm"])
def test_a_diverged_world_ends_as_in_the_single_environment(episodes, what):
    with simulator(2) as many, simulator(1) as one:
        batch = BatchSkillEnv("pick", simulator=many, depth=None, episodes=episodes)
        single = SkillEnv("pick", simulator=one, depth=None, episodes=episodes)
        batch.reset(seed=1)
        single.reset(seed=2)
        for world in (many._worlds[1], one._worlds[0]):
            if what == "everything":
                world.data.qvel[:] = 1e6
            else:
                world.data.qpos[world.index.arm_qpos] = np.nan
        _, reward, terminated, truncated, info = batch.step(np.zeros((2, 10)))
        last, alone, *ends, told = single.step(np.zeros(10))
        assert truncated.tolist() == [False, True] and not terminated.any()
        assert [terminated[1], truncated[1]] == ends and told["cause"] == "diverged"
        assert info["cause"][1] == CAUSE["diverged"] and reward[1] == alone == 0.0
        for name, values in info["final_obs"].items():
            assert np.isfinite(values).all() and np.array_equal(values[1], last[name])
        assert batch.worlds.progress.steps.tolist() == [1, 0]
        batch.step(np.zeros((2, 10)))


@pytest.mark.parametrize("skill", ["navigate", "pick", "place", "pointnav", "explore"])
def test_a_state_put_back_goes_on_to_the_bit(skill, episodes):
    def future(env):
        rng = np.random.default_rng(4)
        digest = hashlib.sha256()
        for _ in range(40):
            seen = env.step(rng.uniform(-1, 1, env.action_space.shape))
            for values in (*seen[0].values(), *seen[1:4], *seen[4].values()):
                if not isinstance(values, dict):
                    digest.update(np.ascontiguousarray(values).tobytes())
        return digest.hexdigest()

    config = {"depth": None, "episodes": episodes, "options": {"horizon": 17}}
    if skill == "navigate":
        config["sensors"] = ("contract", "fine")
    with simulator(2) as sim, simulator(2) as other:
        env = BatchSkillEnv(skill, simulator=sim, **config)
        with pytest.raises(UserError, match="call reset first"):
            env.get_state()
        env.reset(seed=3)
        for action in _actions(2, 8, env.single_action_space.shape[0]):
            env.step(action)
        kept = io.BytesIO()
        torch.save(pack_state(env.get_state()), kept)  # as the trainer keeps it

        def state():
            kept.seek(0)
            return unpack_state(torch.load(kept, weights_only=True))

        first = future(env)
        env.set_state(state())
        assert future(env) == first
        fresh = BatchSkillEnv(skill, simulator=other, **config)
        fresh.set_state(state())
        assert future(fresh) == first


def test_some_worlds_can_be_begun_anew(episodes):
    with simulator(3) as sim:
        env = BatchSkillEnv("pick", simulator=sim, depth=None, episodes=episodes)
        env.reset(seed=1)
        env.step(np.zeros((3, 10)))
        before = sim.capture(0).data["state"]
        env.reset(options={"reset_mask": np.array([False, True, False])})
        assert env.worlds.progress.steps.tolist() == [1, 0, 1]
        assert np.array_equal(sim.capture(0).data["state"], before)
        with pytest.raises(UserError, match="reset_mask"):
            env.reset(options={"reset_mask": [True]})


def test_seeds_are_one_number_or_one_a_world():
    env = BatchSkillEnv("navigate", 2, depth=None, split="val")
    env.reset(seed=np.int64(3))
    first = env.worlds.origins[:]
    env.reset(seed=[3, 4])
    assert env.worlds.origins == first
    env.reset(seed=np.array([3, 4]))
    assert env.worlds.origins == first
    for wrong in ([3], [3, 4, 5], [3, -1], -1, 3.0, ["3", 4]):
        with pytest.raises(UserError, match=r"is no number from 0, nor a list of 2, one a world"):
            env.reset(seed=wrong)
    after = env._draw([0, 1])
    env.reset(seed=[3, 4])
    env._draw([0])
    env.reset(seed=[None, 4])  # the first draws on
    assert env.worlds.origins[1] == first[1] and env.worlds.origins[0] != first[0]
    env.reset(seed=3)
    assert env._draw([0, 1]) == after  # nothing was seeded by what was refused
    env.close()

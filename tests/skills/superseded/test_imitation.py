import contextlib
import dataclasses

import numpy as np
import pytest
import torch

from skills.envs.single import SkillEnv
from skills.learned.inference import NumpyPolicy
from skills.superseded.imitation.batches import Rows, label_weights, make_batch
from skills.superseded.imitation.cloning import CloneOptions, clone, losses
from skills.superseded.imitation.collect import CollectOptions, record_episode
from skills.superseded.imitation.demonstrations import (
    Demonstration,
    read_folder,
    shard_path,
    write_shard,
)
from skills.superseded.imitation.keep import keep_own
from skills.superseded.imitation.rounds import _new_policy
from skills.tasks.base import ARM_GRIP_BASE, BASE_STOP
from tests.skills.nets import STATE, saved_policy, small_policy
from tpsrl.errors import UserError
from ver_trainer.config import NetConfig
from ver_trainer.export import save_policy


@pytest.fixture(scope="module")
def navigation():
    env = SkillEnv("navigate", **STATE)
    yield env
    env.close()


@pytest.fixture(scope="module")
def demonstrations(navigation):
    return [record_episode(navigation, seed, CollectOptions()) for seed in range(4)]


def test_expert_shows_whole_episodes(demonstrations):
    assert sum(d.success for d in demonstrations) >= 3
    for d in demonstrations:
        assert d.weights.all()
        assert d.actions.shape == (len(d), 3)
        assert {len(v) for v in d.observations.values()} == {len(d)}
        # Navigation's stop is shown for some steps, near the end alone; it follows from the state,
        # so a robot that turns on the edge of the goal region may show it in two parts.
        stops = d.actions[:, -1] == 1
        assert stops[-1] and 5 <= stops.sum() <= 7
        assert not stops[:-30].any()


def test_same_seed_same_demonstration(navigation, demonstrations):
    again = record_episode(navigation, 1, CollectOptions())
    np.testing.assert_array_equal(again.actions, demonstrations[1].actions)


@pytest.mark.parametrize("restart", [False, True])
def test_learner_acts_first_and_the_expert_goes_on_from_there(navigation, tmp_path, restart):
    learner = NumpyPolicy.load(saved_policy(tmp_path / "p.safetensors", "navigate", stop=1.0))
    plain, options = CollectOptions(noise=0.0), CollectOptions(0.0, roll_in=40, restart=restart)
    found = [record_episode(navigation, seed, options, learner) for seed in range(4)]
    for seed, d in enumerate(found):
        observed = record_episode(navigation, seed, plain).observations["joint"]
        same = min(len(observed), len(d))
        assert restart or d.weights.all()
        if restart:  # the learner's steps are not labelled, the expert's after them are
            first = int(np.argmax(d.weights))
            assert d.weights[first:].all()
            assert not d.weights[:first].any()
        assert d.success
        assert not np.array_equal(
            d.observations["goal_to_agent_gps_compass"][:same],
            record_episode(navigation, seed, plain).observations["goal_to_agent_gps_compass"][
                :same
            ],
        )


def test_shards_come_back_as_they_were(demonstrations, tmp_path):
    write_shard(shard_path(tmp_path, 0), demonstrations[:2])
    write_shard(shard_path(tmp_path, 2), demonstrations[2:])
    for before, after in zip(demonstrations, read_folder(tmp_path), strict=True):
        for item in dataclasses.fields(Demonstration):
            a, b = getattr(before, item.name), getattr(after, item.name)
            if item.name == "observations":
                assert a.keys() == b.keys()
                assert all(np.array_equal(a[k], b[k]) for k in a)
            else:
                assert np.array_equal(a, b)
    shard_path(tmp_path, 0).write_bytes(b"half a file")
    with pytest.raises(UserError, match="episodes_000000"):
        read_folder(tmp_path)


def test_packed_loss_is_the_loss_of_single_steps(demonstrations):
    policy, options = small_policy("navigate"), CloneOptions(stop_weight=3.0)
    batch = make_batch(policy, demonstrations[:3], options, BASE_STOP)
    found, value_loss = losses(policy, batch, options)
    error, weight, value_error, steps = 0.0, 0.0, 0.0, 0
    for d in demonstrations[:3]:
        state, returns = policy.initial_state(1), d.returns(options.gamma)
        for k in range(len(d)):
            seen = {n: torch.from_numpy(v[k : k + 1]) for n, v in d.observations.items()}
            with torch.no_grad():
                step = policy.act(seen, state, deterministic=True)
            state = step.state
            w = np.array([1.0, 1.0, 3.0 if d.actions[k, 2] > 0 else 1.0])
            error += float((w * (step.action[0].numpy() - d.actions[k]) ** 2).sum())
            weight += float(w.sum())
            value_error += (float(step.value[0]) - returns[k]) ** 2
            steps += 1
    assert found.item() == pytest.approx(error / weight, rel=1e-4)
    assert value_loss.item() == pytest.approx(value_error / steps, rel=1e-4)


def test_cloning_learns_and_goes_on_where_it_stopped(demonstrations, tmp_path, monkeypatch):
    options = CloneOptions(epochs=8, batch=1, lr=1e-2)
    whole, halved = small_policy("navigate"), small_policy("navigate")
    with torch.no_grad():
        before = float(
            losses(whole, make_batch(whole, demonstrations, options, BASE_STOP), options)[0]
        )
    clone(whole, demonstrations, options, tmp_path / "a.pt", BASE_STOP)
    with torch.no_grad():
        after = float(
            losses(whole, make_batch(whole, demonstrations, options, BASE_STOP), options)[0]
        )
    assert after < 0.8 * before

    import skills.superseded.imitation.cloning as module

    real, calls = module._save, []

    def interrupted(*args):
        real(*args)
        calls.append(args)
        if len(calls) == 5:
            raise KeyboardInterrupt

    monkeypatch.setattr(module, "_save", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clone(halved, demonstrations, options, tmp_path / "b.pt", BASE_STOP)
    monkeypatch.setattr(module, "_save", real)
    resumed = small_policy("navigate", seed=9)
    clone(resumed, demonstrations, options, tmp_path / "b.pt", BASE_STOP)
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name


def test_nothing_to_imitate_is_said(demonstrations, tmp_path):
    failed = [dataclasses.replace(demonstrations[0], success=False)]
    with pytest.raises(UserError, match="none of 1 demonstrations"):
        clone(small_policy("navigate"), failed, CloneOptions(), tmp_path / "x.pt", BASE_STOP)


def memoryless(binary=()):
    torch.manual_seed(1)
    net = NetConfig(encoder="auto", mlp=[16], core="none", binary_actions=list(binary))
    return _new_policy("pick", STATE, net)


def invented(steps=6, length=10):
    """An episode that waits in its first two steps, grips in the third and lets go in the last."""
    rng = np.random.default_rng(0)
    actions = rng.uniform(0.2, 1.0, (steps, length)).astype(np.float32)
    actions[:2, [k for k in range(length) if k != 7]] = 0.01
    actions[:, 7] = [-1, -1, 1, 1, 1, -1]
    observations = {
        "joint": rng.normal(size=(steps, 7)).astype(np.float32),
        "is_holding": np.array([0, 0, 0, 1, 1, 1], np.float32)[:, None],
        "obj_start_sensor": rng.normal(size=(steps, 3)).astype(np.float32),
        "relative_resting_position": rng.normal(size=(steps, 3)).astype(np.float32),
    }
    one = np.ones(steps, np.float32)
    return Demonstration(observations, actions, one, one, True, "success", 0, "0")


def test_waiting_is_not_learned_and_rare_grips_count_more():
    episode = invented()
    plain = label_weights(episode, CloneOptions(), ARM_GRIP_BASE)
    assert (plain == 1).all()
    weights = label_weights(episode, CloneOptions(grip_weight=4.0, idle=0.05), ARM_GRIP_BASE)
    others = [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert (weights[:2, others] == 0).all()
    assert (weights[2:, others] == 1).all()
    assert weights[:, 7].tolist() == [1, 1, 4, 1, 1, 4]


def test_steps_without_memory_have_the_loss_of_whole_episodes():
    episodes, policy = [invented(), dataclasses.replace(invented(), seed=1)], memoryless()
    options = CloneOptions(grip_weight=4.0, idle=0.05, loss="huber", precision="float32")
    rows = Rows(episodes, options, ARM_GRIP_BASE)
    assert len(rows) == 12
    shuffled = rows.batch(policy, np.random.default_rng(0).permutation(12))
    whole = make_batch(policy, episodes, options, ARM_GRIP_BASE)
    for a, b in zip(losses(policy, shuffled, options), losses(policy, whole, options), strict=True):
        assert a.item() == pytest.approx(b.item(), rel=1e-5)


def test_unlabelled_steps_are_no_rows():
    episode = invented()
    half = dataclasses.replace(episode, weights=np.array([0, 0, 0, 1, 1, 1], np.float32))
    rows = Rows([half], CloneOptions(), ARM_GRIP_BASE)
    batch = rows.batch(memoryless(), np.arange(3))
    np.testing.assert_array_equal(batch.actions.numpy(), episode.actions[3:])


def test_grip_is_learned_as_a_choice(tmp_path):
    policy = memoryless(binary=[7])
    options = CloneOptions(epochs=200, rows=3, lr=1e-2, loss="huber", grip_weight=3.0)
    clone(policy, [invented()], options, tmp_path / "a.pt", ARM_GRIP_BASE)
    batch = make_batch(policy, [invented()], options, ARM_GRIP_BASE)
    with torch.no_grad():
        distribution, _ = policy.distribution(batch.observations, batch.packing)
    assert distribution.mode()[:, 7].tolist() == [-1, -1, 1, 1, 1, -1]


def test_a_release_is_shown_before_it_is_carried_out():
    with contextlib.closing(SkillEnv("place", **STATE)) as env:
        found = [record_episode(env, seed, CollectOptions(noise=0.0)) for seed in range(3)]
    assert any(d.success for d in found)
    for d in found:
        held = d.observations["is_holding"][:, 0] > 0.5
        if d.success:
            assert (d.actions[held, 7] < 0).sum() >= 5


def test_own_actions_are_kept_where_the_policy_is_not_to_learn_anew(tmp_path):
    sensors = ("joint", "obj_start_in_base", "obj_start_place")
    args = {"depth": None, "sensors": ["joint", "obj_start_in_base"]}
    policy = _new_policy("pick", args, NetConfig(mlp=[16], core="none"))
    rng = np.random.default_rng(0)

    def episode(kind):
        flags = {"open": [0, 0], "cabinet": [1, 0], "drawer": [0, 1]}[kind]
        place = np.tile(np.array([1.0, 0.0, *flags], np.float32), (5, 1))
        seen = [rng.normal(size=(5, n)).astype(np.float32) for n in (7, 3)]
        zeros = np.zeros(5, np.float32)
        observations = dict(zip(sensors, [*seen, place], strict=True))
        labels = np.full((5, 10), 0.5, np.float32)
        return Demonstration(observations, labels, zeros + 1, zeros, True, "", 0, "")

    before = [episode(kind) for kind in ("open", "cabinet", "drawer")]
    after = keep_own(before, policy, ["open", "drawer"])
    assert np.array_equal(after[1].actions, before[1].actions)
    save_policy(policy, tmp_path / "p.safetensors")
    acting = NumpyPolicy.load(tmp_path / "p.safetensors")
    for old, new in ((before[0], after[0]), (before[2], after[2])):
        wanted = [
            acting.step({k: old.observations[k][t] for k in sensors[:2]}) for t in range(len(old))
        ]
        np.testing.assert_allclose(new.actions, wanted, atol=1e-5)
    with pytest.raises(UserError, match="did you mean 'drawer'"):
        keep_own(before, policy, ["drawers"])


def _led(skill, folder):
    """Return three episodes of a learner that lets go and never moves, and of its expert."""
    policy = small_policy(skill)
    with torch.no_grad():
        policy.actor.linear.weight.zero_()
        policy.actor.linear.bias.zero_()
        policy.actor.linear.bias[7] = -1.0
    save_policy(policy, folder / "p.safetensors")
    learner = NumpyPolicy.load(folder / "p.safetensors")
    options = CollectOptions(0.0, roll_in=90, stall=20)
    env = SkillEnv(skill, **STATE)
    found = [record_episode(env, seed, options, learner) for seed in range(3)]
    env.close()
    return found


def test_expert_takes_over_where_the_learner_would_let_go_elsewhere(tmp_path):
    found = _led("place", tmp_path)
    for d in found:
        assert d.weights.all() and d.actions[0, 7] > 0
    assert sum(d.success for d in found) >= 2


def test_expert_takes_over_where_the_learner_stands_still(tmp_path):
    found = _led("pick", tmp_path)
    for d in found:
        assert not d.weights[:20].any() and d.weights[20:].all()
    assert sum(d.success for d in found) >= 2

"""Mini-batches, packing and recurrent states."""

from __future__ import annotations

import time

import numpy as np
import pytest
import torch

from ver_trainer.config import NetConfig, PPOConfig
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.nets.core import LSTMCore, Packing
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout, importance_weights
from ver_trainer.rollout.sequences import find_sequences, mini_batches, pack, split_long
from ver_trainer.rollout.storage import RolloutStorage

SPEC = EnvSpec({"obs": ArraySpec((3,), "float32")}, ActionSpec("discrete", 3, ()))


def ragged_storage(seed: int, num_envs: int = 4, steps: int = 16, state_size: int = 1):
    """A storage filled in random order: environments differ in speed, episodes in length."""
    rng = np.random.default_rng(seed)
    storage = RolloutStorage(SPEC, num_envs, steps, state_size)
    speed = rng.random(num_envs) + 0.05
    step = np.zeros(num_envs, np.int64)
    episode = np.zeros(num_envs, np.int64)
    while storage.num_complete < storage.size:
        env = np.array([rng.choice(num_envs, p=speed / speed.sum())])
        if storage.open_row[env[0]] >= 0:
            ended = rng.random(1) < 0.15
            storage.finish_step(env, rng.random(1), ended, np.zeros(1))
            step[env] += 1
            if ended[0]:
                episode[env] += 1
                step[env] = 0
        else:
            storage.append(env, episode[env], step[env], 0)
    return storage


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("count", [1, 2, 5])
def test_every_step_is_in_exactly_one_mini_batch(seed: int, count: int) -> None:
    storage = ragged_storage(seed)
    rows = storage.fresh_rows()
    assert len(rows) == storage.size
    batches = list(mini_batches(storage.sequences(rows), count, np.random.default_rng(seed)))
    sizes = [len(b.rows) for b in batches]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate([b.rows for b in batches])) == sorted(rows)


@pytest.mark.parametrize("seed", range(8))
def test_packed_rows_are_consecutive_steps_of_one_episode(seed: int) -> None:
    storage = ragged_storage(seed)
    sequences = storage.sequences(storage.fresh_rows())
    for batch in mini_batches(sequences, 3, np.random.default_rng(seed)):
        current = batch.rows[: batch.batch_sizes[0]]
        assert (current == batch.first_rows).all()
        begin = batch.batch_sizes[0]
        for size in batch.batch_sizes[1:]:
            following = batch.rows[begin : begin + size]
            before = current[:size]
            assert (storage.env[following] == storage.env[before]).all()
            assert (storage.episode[following] == storage.episode[before]).all()
            assert (storage.step[following] == storage.step[before] + 1).all()
            current, begin = following, begin + size
        assert begin == len(batch.rows)


def test_gap_in_steps_starts_a_new_sequence() -> None:
    env, episode = np.zeros(5, np.int64), np.zeros(5, np.int64)
    found = find_sequences(np.arange(5), env, episode, np.array([0, 1, 3, 4, 5]))
    assert found.lengths.tolist() == [2, 3]


def test_long_sequences_are_split() -> None:
    rows = np.arange(11)
    whole = find_sequences(rows, np.repeat([0, 1], [7, 4]), rows * 0, np.r_[0:7, 0:4])
    pieces = split_long(whole, 3)
    assert pieces.lengths.tolist() == [3, 3, 1, 3, 1]
    assert pieces.starts.tolist() == [0, 3, 6, 7, 10]


@pytest.mark.parametrize("seed", range(20))
def test_packed_forward_equals_step_by_step(seed: int) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    core = LSTMCore(5, 7, 2)
    lengths = rng.integers(1, 12, rng.integers(1, 9))
    starts = np.cumsum(lengths) - lengths
    x = torch.randn(int(lengths.sum()), 5)
    first = torch.randn(len(lengths), core.state_size)
    packed = pack(np.arange(len(x)), starts, lengths)
    order = np.argsort(-lengths, kind="stable")
    packing = Packing(torch.from_numpy(packed.batch_sizes), first[order])
    together = torch.empty(len(x), 7)
    together[torch.from_numpy(packed.rows)] = core.sequence(x[packed.rows], packing)
    for i, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        state = first[i : i + 1]
        for t in range(start, start + length):
            output, state = core.step(x[t : t + 1], state)
            torch.testing.assert_close(output[0], together[t], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_through_packed_sequences_is_torchs_own(seed: int, layers: int) -> None:
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    core = LSTMCore(5, 7, layers).double()  # of this type torch's own is run
    ours = LSTMCore(5, 7, layers)
    ours.load_state_dict(core.state_dict())
    lengths = -np.sort(-rng.integers(1, 12, rng.integers(1, 9)))
    packed = pack(np.arange(lengths.sum()), np.cumsum(lengths) - lengths, lengths)
    sizes = torch.from_numpy(packed.batch_sizes)
    x = torch.randn(int(lengths.sum()), 5, dtype=torch.double)
    state = torch.randn(len(lengths), core.state_size, dtype=torch.double)
    weights = torch.randn(len(x), 7, dtype=torch.double)
    found = []
    for net in (core, ours):
        like = next(net.parameters()).dtype
        inputs = [t.to(like, copy=True).requires_grad_() for t in (x, state)]
        output, last = net.unroll(inputs[0], Packing(sizes, inputs[1]))
        ((output * weights.to(like)).sum() + (last**2).sum()).backward()
        grads = [t.grad for t in (*inputs, *net.parameters())]
        found.append([output.detach(), last.detach(), *grads])
    for theirs, own in zip(*found, strict=True):
        torch.testing.assert_close(own, theirs.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("limit", [0, 4])
def test_state_at_every_sequence_start_is_the_one_of_collection(seed: int, limit: int) -> None:
    """The defect of the public code: starts in the middle of an episode after a cut."""
    storage = ragged_storage(seed)
    storage.tensors["state"][:, 0] = torch.arange(storage.capacity) + 0.5
    rollout = Rollout(storage, PPOConfig(max_sequence=limit), recurrent=True)
    mid_episode = 0
    for batch in rollout.mini_batches(4, np.random.default_rng(seed)):
        firsts = batch.rows[: len(batch.packing.state)]
        assert torch.equal(batch.packing.state[:, 0], torch.from_numpy(firsts) + 0.5)
        mid_episode += int((storage.step[firsts] > 0).sum())
    assert mid_episode > 0


def test_replayed_mini_batches_reproduce_log_probs_of_collection() -> None:
    """Packed evaluation with the stored states gives back what inference computed step by step."""
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[8], core="lstm", core_size=6, core_layers=2))
    storage = ragged_storage(3, state_size=policy.state_size)
    rows = storage.sequences(storage.fresh_rows())
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    with torch.no_grad():
        for start, length in zip(rows.starts, rows.lengths, strict=True):
            state = torch.randn(1, policy.state_size)
            for row in rows.rows[start : start + length]:
                step = policy.act({"obs": storage.obs["obs"][row : row + 1]}, state)
                storage.tensors["state"][row] = state[0]
                storage.tensors["action"][row] = step.action[0]
                storage.tensors["log_prob"][row] = step.log_prob[0]
                state = step.state
        rollout = Rollout(storage, PPOConfig(), recurrent=True)
        for batch in rollout.mini_batches(3, np.random.default_rng(0)):
            out = policy.evaluate(batch.obs, batch.action, batch.packing)
            torch.testing.assert_close(out.log_prob, batch.log_prob, rtol=1e-4, atol=1e-5)


def test_importance_weights() -> None:
    env = np.repeat([0, 1, 2, 3], [10, 4, 1, 1])
    weights = importance_weights(env, 4, 1.0)
    assert weights[env == 0] == pytest.approx(0.4)  # 16 / 4 rows is the fair share
    assert (weights[env != 0] == 1.0).all()
    assert importance_weights(env, 4, 2.0)[env == 2] == pytest.approx(2.0)


def test_arrangement_is_quick() -> None:
    """128 x 16 steps in 2 mini-batches: 10 ms are allowed; medians keep CI noise out."""
    storage = ragged_storage(0, 16, 128)
    times = []
    for seed in range(15):
        begin = time.perf_counter()
        sequences = storage.sequences(storage.fresh_rows())
        list(mini_batches(sequences, 2, np.random.default_rng(seed)))
        times.append(time.perf_counter() - begin)
    assert np.median(times) < 0.010


def test_a_core_of_size_one_leaves_its_weights_as_they_are() -> None:
    core = LSTMCore(2, 1, 1)
    before = {name: value.clone() for name, value in core.state_dict().items()}
    packing = Packing(torch.tensor([2, 1]), torch.zeros(2, core.state_size))
    core.sequence(torch.randn(3, 2), packing)
    for name, value in core.state_dict().items():
        assert torch.equal(value, before[name]), name

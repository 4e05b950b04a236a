"""Optimisers, schedules, entropy coefficient, losses and guards."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_sequences import SPEC, ragged_storage
from ver_trainer import load_config, train
from ver_trainer.config import NetConfig, OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.errors import ConfigError, NonFiniteError
from ver_trainer.learner.entropy import EntropyCoefficient
from ver_trainer.learner.lamb import Lamb, parameter_groups, trust_ratio
from ver_trainer.learner.off_policy import correct_off_policy
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.schedule import discount, learning_rate
from ver_trainer.memory import keep_freed_memory
from ver_trainer.nets.core import Packing
from ver_trainer.nets.normalization import RunningNorm
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.storage import RolloutStorage


def make_learner(
    seed: int = 0, core: str = "lstm", separate_critic: bool = False, **ppo
) -> tuple[PPOLearner, object]:
    torch.manual_seed(seed)
    net = NetConfig(mlp=[8], core=core, core_size=6, core_layers=1, separate_critic=separate_critic)
    policy = make_policy(SPEC, net)
    storage = ragged_storage(seed, state_size=policy.state_size)
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    storage.tensors["action"][:] = torch.randint(0, 3, (storage.capacity,))
    storage.tensors["log_prob"][:] = -1.1
    config = PPOConfig(**{"max_grad_norm": 1e9, **ppo})
    optim = OptimConfig(lr=1e-2)
    return PPOLearner(policy, config, optim, Group(), np.random.default_rng(0)), storage


def test_mini_batches_add_up_to_the_gradient_of_the_whole_rollout() -> None:
    """Without a core, cutting changes nothing: the mean of part gradients is the full gradient."""
    learner, storage = make_learner(core="none")
    rollout = Rollout(storage, learner.ppo, learner.recurrent)
    rollout.compute_gae()

    def gradient(count: int) -> torch.Tensor:
        total = torch.zeros(())
        for batch in rollout.mini_batches(count, np.random.default_rng(1)):
            learner.modules.zero_grad()
            loss = learner.losses(batch).total
            loss.backward()
            flat = torch.cat([p.grad.reshape(-1) for p in learner.policy.parameters()])
            total = total + flat / count
        return total

    torch.testing.assert_close(gradient(1), gradient(4), rtol=1e-4, atol=1e-5)


def test_losses_against_formulas() -> None:
    learner, storage = make_learner(clip=0.2, entropy_coef=0.3, value_coef=0.7)
    rollout = Rollout(storage, learner.ppo, learner.recurrent)
    rollout.compute_gae()
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    losses = learner.losses(batch)
    out = learner.policy.evaluate(batch.obs, batch.action, batch.packing)
    ratio = (out.log_prob - batch.log_prob).exp().detach().numpy()
    advantage, weight = batch.advantage.numpy(), batch.weight.numpy()
    gain = np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage)
    error = (out.value.detach().numpy() - batch.returns.numpy()) ** 2
    entropy = out.entropy.detach().numpy()
    expected = -(gain * weight).mean() + 0.7 * 0.5 * (error * weight).mean()
    expected -= 0.3 * (entropy * weight).mean()
    assert weight.min() < 1
    assert losses.total.item() == pytest.approx(expected, rel=1e-4)


def test_learning_reduces_the_value_error() -> None:
    learner, storage = make_learner(epochs=1, mini_batches=1)
    first = learner.update(storage, 0.0)["value_loss"]
    for _ in range(30):
        last = learner.update(storage, 0.0)["value_loss"]
    assert last < 0.5 * first
    assert learner.updates == 31


@pytest.mark.parametrize("target", [0.3, 0.9])
def test_entropy_coefficient_reaches_its_target(target: float) -> None:
    """A policy that would become deterministic is held at the target entropy."""
    torch.manual_seed(0)
    logits = nn.Parameter(torch.zeros(3))
    coefficient = EntropyCoefficient(0.01, True, target)
    optimizer = torch.optim.Adam([logits, *coefficient.parameters()], lr=0.02)
    reward = torch.tensor([1.0, 0.0, 0.0])
    history = []
    for _ in range(4000):
        log_probs = torch.log_softmax(logits, 0)
        entropy = -(log_probs.exp() * log_probs).sum()
        loss = -(log_probs.exp() * reward).sum() - coefficient.value() * entropy
        optimizer.zero_grad()
        (loss + coefficient.loss(entropy)).backward()
        optimizer.step()
        coefficient.project()
        history.append(entropy.item())
    # The multiplier and the policy circle around the saddle point: look at the mean.
    assert np.mean(history[2000:]) == pytest.approx(target, abs=0.05)
    assert 1e-4 < coefficient.value().item() < 1


def test_the_entropy_of_a_run_reaches_its_target(tmp_path: Path) -> None:
    """The third action pays a little more; a coefficient at the policy's rate came far too late."""
    learner = {"ppo.epochs": 6, "ppo.gamma": 0.0, "optim.lr": 2e-3, "ppo.normalize_advantage": True}
    entropy = {"ppo.learned_entropy": True, "ppo.entropy_coef": 0.001, "ppo.entropy_target": 0.8}
    size = {"collect.num_envs": 8, "collect.steps": 16, "net.mlp": [16], "total_steps": 30_000}
    quiet = {"log.progress": False, "log.tensorboard": False, "log.checkpoint_interval": 1000}
    values = {"out": str(tmp_path), "collector": "inline", **learner, **entropy, **size, **quiet}
    train(load_config(**values), make)
    lines = [json.loads(x) for x in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    last_third = [x["learner/entropy"] for x in lines[-len(lines) // 3 :]]
    assert np.mean(last_third) == pytest.approx(0.8, abs=0.08)
    assert lines[-1]["learner/lr"] < 1e-4


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_the_entropy_coefficient_has_a_rate_of_its_own(name: str) -> None:
    policy = make_policy(SPEC, NetConfig(mlp=[8]))
    storage = ragged_storage(0, state_size=0)
    storage.tensors["log_prob"][:] = -1.1
    ppo = PPOConfig(learned_entropy=True, entropy_coef=0.1, epochs=1, mini_batches=1)
    optim = OptimConfig(name=name, entropy_lr=0.03, weight_decay=0.1)
    learner = PPOLearner(policy, ppo, optim, Group(), np.random.default_rng(0))
    learner.update(storage, progress=1.0)  # where the policy's rate is 0
    change = learner.coefficient.log_value.item() - np.log(0.1)
    assert change == pytest.approx(-0.03, rel=1e-3)


def test_entropy_coefficient_keeps_its_bounds() -> None:
    for entropy, bound in ((10.0, 1e-4), (-10.0, 1.0)):
        coefficient = EntropyCoefficient(0.01, True, 0.0)
        optimizer = torch.optim.Adam(coefficient.parameters(), lr=0.5)
        for _ in range(100):
            optimizer.zero_grad()
            coefficient.loss(torch.tensor(entropy)).backward()
            optimizer.step()
            coefficient.project()
        assert coefficient.value().item() == pytest.approx(bound, rel=1e-4)


def test_learned_coefficient_changes_and_is_saved() -> None:
    learner, storage = make_learner(learned_entropy=True, entropy_target=0.1)
    before = learner.coefficient.value().item()
    learner.update(storage, 0.0)
    after = learner.coefficient.value().item()
    assert after < before  # the entropy is about log 3, above the target
    other, _ = make_learner(learned_entropy=True, entropy_target=0.1)
    other.load_state_dict(learner.state_dict())
    assert other.coefficient.value().item() == after


def test_lamb_with_rho_one_is_adamw() -> None:
    torch.manual_seed(0)
    a, b = nn.Parameter(torch.randn(4, 3)), nn.Parameter(torch.empty(4, 3))
    b.data.copy_(a.data)
    lamb = Lamb([a], lr=1e-2, eps=1e-5, weight_decay=0.1, rho=1.0)
    adamw = torch.optim.AdamW([b], lr=1e-2, eps=1e-5, weight_decay=0.1)
    for _ in range(5):
        gradient = torch.randn(4, 3)
        a.grad, b.grad = gradient, gradient.clone()
        lamb.step()
        adamw.step()
    torch.testing.assert_close(a.data, b.data, rtol=1e-5, atol=1e-6)


def test_lamb_trust_ratio() -> None:
    assert trust_ratio(torch.full((4,), 2.0), torch.full((4,), 1.0), 0.01) == pytest.approx(2.0)
    assert trust_ratio(torch.full((4,), 1e9), torch.full((4,), 1.0), 0.01) == pytest.approx(5.0)
    assert trust_ratio(torch.full((4,), 1e-9), torch.ones(4), 0.01) == pytest.approx(0.01)
    assert trust_ratio(torch.zeros(4), torch.ones(4), 0.01) == pytest.approx(1.0)


def test_lamb_groups_separate_norms_and_biases() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4))
    scaled, plain = parameter_groups(module, 0.01, 0.1)
    assert [p.shape for p in scaled["params"]] == [(4, 3)] and scaled["rho"] == 0.01
    assert len(plain["params"]) == 3 and plain["rho"] == 1.0 and plain["weight_decay"] == 0.0


def test_schedules() -> None:
    config = OptimConfig(lr=1.0)
    assert learning_rate(config, 0.0, 1) == pytest.approx(1.0)
    assert learning_rate(config, 0.5, 1) == pytest.approx(0.5)
    assert learning_rate(config, 1.0, 1) == pytest.approx(0.0)
    config = OptimConfig(lr=1.0, schedule="linear", final_lr=0.1, batch_scaling=256)
    assert learning_rate(config, 0.5, 1024) == pytest.approx(2 * 0.55)
    config = OptimConfig(lr=1.0, schedule="constant", warmup=0.2)
    assert learning_rate(config, 0.1, 1) == pytest.approx(0.75)


def test_the_horizon_grows_by_the_same_factor_in_equal_shares() -> None:
    assert discount(PPOConfig(gamma=0.9), 0.7) == 0.9
    config = PPOConfig(gamma=0.9, final_gamma=0.99)
    horizons = [1 / (1 - discount(config, share)) for share in (0.0, 0.5, 1.0)]
    assert horizons == pytest.approx([10.0, 10.0 * 10**0.5, 100.0])
    returns = {}
    for progress in (0.0, 1.0):
        learner, storage = make_learner(gamma=0.9, final_gamma=0.99)
        learner.update(storage, progress)
        returns[progress] = storage.returns[storage.fresh_rows()].copy()
    assert not np.allclose(returns[0.0], returns[1.0])
    with pytest.raises(ConfigError, match="stays below 1"):
        load_config(**{"ppo.gamma": 1.0, "ppo.final_gamma": 0.9})


def test_rate_of_large_batch_simulation() -> None:
    """From the scaled rate to the base rate over the first half of the training."""
    path = Path(__file__).parents[2] / "configs" / "train" / "bps.yaml"
    config = load_config([f"config={path}"]).optim
    batch = 1024 * 32 // 2  # rows of a mini-batch: 64 times the base
    rates = [learning_rate(config, p, batch) / config.lr for p in (0, 0.125, 0.25, 0.5, 0.75, 1)]
    halves = [8, 1 + 7 * (2 + 2**0.5) / 4, 4.5, 1, 1, 1]
    assert rates == pytest.approx(halves)


def test_observation_statistics_keep_their_precision() -> None:
    """Mean 1,000 and deviation 1: the squares of float32 would cancel."""
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[8], normalize_obs=True))
    storage = ragged_storage(0, state_size=0)
    storage.tensors["log_prob"][:] = -1.1
    learner = PPOLearner(policy, PPOConfig(), OptimConfig(), Group(), np.random.default_rng(0))
    seen = []
    for _ in range(3):
        storage.obs["obs"][:] = 1000 + torch.randn(storage.capacity, 3)
        seen.append(storage.obs["obs"][storage.fresh_rows()].double())
        learner.update(storage, 0.0)
    ((_, norm),) = policy.normalizers()
    everything = torch.cat(seen)
    torch.testing.assert_close(norm.mean.double(), everything.mean(0), rtol=0, atol=2e-4)
    expected = everything.var(0, unbiased=False)
    torch.testing.assert_close(norm.var.double(), expected, rtol=1e-3, atol=0)


def test_running_norm_merges_batches() -> None:
    rng = np.random.default_rng(0)
    parts = [torch.from_numpy(rng.normal(3, 2, (n, 2))).float() for n in (5, 50, 500)]
    norm = RunningNorm(2)
    for part in parts:
        norm.update(part.mean(0), part.var(0, unbiased=False), len(part))
    everything = torch.cat(parts)
    torch.testing.assert_close(norm.mean, everything.mean(0), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(norm.var, everything.var(0, unbiased=False), rtol=1e-2, atol=1e-2)


def test_advantages_are_normalised() -> None:
    learner, storage = make_learner(normalize_advantage=True)
    rollout = Rollout(storage, learner.ppo, learner.recurrent)
    rollout.compute_gae()
    learner._normalize(rollout)
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    assert batch.advantage.mean().item() == pytest.approx(0, abs=1e-5)
    assert batch.advantage.std(correction=0).item() == pytest.approx(1, abs=1e-4)


def test_stale_rows_are_normalised_with_the_fresh_ones_and_only_once() -> None:
    """Rollouts that end early train on rows of earlier ones, on the scale of the rewards."""
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[8]))
    storage = RolloutStorage(SPEC, 4, 16, 0, keep_stale=True)
    config = PPOConfig(normalize_advantage=True)
    learner = PPOLearner(policy, config, OptimConfig(), Group(), np.random.default_rng(0))
    for steps in (16, 6, 6):
        fill(storage, steps, scale=100.0)
        rows = (storage.fresh_rows(), storage.fill_rows())
        learner.update(storage, 0.0)
        fresh, stale = (storage.advantage[part] for part in rows)
        assert len(stale) == 4 * (16 - steps)
        assert steps == 16 or 0.5 < stale.std() / fresh.std() < 2
        storage.after_update()


def fill(storage: RolloutStorage, steps: int, scale: float) -> None:
    """Ends a rollout after ``steps`` steps of every environment, with rewards of this size."""
    envs = np.arange(storage.num_envs)
    rng = np.random.default_rng(steps)
    for step in range(steps):
        rows = storage.append(envs, np.zeros(len(envs)), np.full(len(envs), step), 0)
        storage.obs["obs"][rows] = torch.randn(len(envs), 3)
        storage.tensors["log_prob"][rows] = -1.1
        ended, last = np.zeros(len(envs), bool), np.zeros(len(envs))
        storage.finish_step(envs, rng.normal(0, scale, len(envs)), ended, last)


def test_nan_in_a_loss_names_the_culprit_and_keeps_the_weights() -> None:
    learner, storage = make_learner(epochs=1, mini_batches=1)
    before = [p.clone() for p in learner.policy.parameters()]
    storage.reward[3] = np.nan
    with pytest.raises(NonFiniteError, match=r"action and value loss"):
        learner.update(storage, 0.0)
    assert all(torch.equal(a, b) for a, b in zip(before, learner.policy.parameters(), strict=True))


def test_delayed_gradient_is_the_one_at_the_behaviour_weights() -> None:
    plain, storage = make_learner(epochs=1, mini_batches=1)
    behaviour = {n: p.detach().clone() for n, p in plain.policy.named_parameters()}
    delayed, _ = make_learner(epochs=1, mini_batches=1)
    delayed.delayed = True
    with torch.no_grad():
        for parameter in delayed.policy.parameters():
            parameter.add_(0.05)
    moved = [p.detach().clone() for p in delayed.policy.parameters()]
    plain.update(storage, 0.0)
    gradients = [p.grad.clone() for p in plain.policy.parameters()]
    result = delayed.update(storage, 0.0, behaviour)
    assert result["gradient_asynchrony"] == 1.0
    for a, b in zip(gradients, delayed.policy.parameters(), strict=True):
        torch.testing.assert_close(a, b.grad, rtol=1e-4, atol=1e-5)
    change = [b - a for a, b in zip(moved, delayed.policy.parameters(), strict=True)]
    largest = max(c.detach().abs().max().item() for c in change)
    assert 0 < largest < 0.011  # one Adam step with a learning rate of 0.01


def test_vtrace_learner_uses_current_values() -> None:
    learner, storage = make_learner(epochs=1, mini_batches=1)
    learner.vtrace_correction = True
    storage.tensors["value"][:] = 1000.0  # stale predictions must not matter
    learner.update(storage, 0.0)
    assert np.abs(storage.returns[storage.fresh_rows()]).max() < 100


def test_off_policy_rows_are_weighted_by_their_ratio_once() -> None:
    """Half as probable as when they were collected: half of the gain, not a quarter."""
    learner, storage = make_learner(core="none", clip=10.0)
    learner.vtrace_correction = True
    rows = torch.from_numpy(storage.fresh_rows())
    with torch.no_grad():
        distribution, _ = learner.policy.distribution(
            {"obs": storage.obs["obs"][rows]},
            Packing(torch.tensor([len(rows)]), learner.policy.initial_state(len(rows))),
        )
        log_prob = distribution.log_prob(storage.tensors["action"][rows])
    storage.tensors["log_prob"][rows] = log_prob + np.log(2.0)
    storage.reward[:], storage.next_value[:] = 0.0, 0.0
    storage.reward[rows.numpy()] = 3.0
    rollout = Rollout(storage, PPOConfig(gamma=0.0), recurrent=False)
    learner.ppo = rollout.config
    correct_off_policy(learner.policy, rollout)
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    gain = -learner.losses(batch).action
    values = learner.policy.evaluate(batch.obs, batch.action, batch.packing).value
    expected = (0.5 * (3.0 - values) * batch.weight).mean()
    assert gain.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("name", ["adam", "lamb"])
@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_optimisers_and_precisions_learn(name: str, precision: str) -> None:
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[16]), precision)
    storage = ragged_storage(0, state_size=0)
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    storage.tensors["log_prob"][:] = -1.1
    optim = OptimConfig(name=name, lr=1e-2, weight_decay=0.01)
    learner = PPOLearner(policy, PPOConfig(), optim, Group(), np.random.default_rng(0))
    losses = [learner.update(storage, 0.0)["value_loss"] for _ in range(25)]
    assert losses[-1] < losses[0]


def test_freed_memory_is_kept_where_the_c_library_can() -> None:
    """After a few large allocations, further ones touch no new pages."""
    if not keep_freed_memory():
        pytest.skip("not glibc")
    faults = []
    for _ in range(10):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        torch.ones(8_000_000)
        faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
    assert faults[-1] < 500  # 32 MB are 7812 pages

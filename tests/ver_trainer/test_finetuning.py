"""What keeps a pretrained policy safe: warm-up, KL limit, separate critic, anchor, choices."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from skills.learned.inference import NumpyPolicy
from tests.ver_trainer.envs import make
from tests.ver_trainer.test_collector import build as make_collector
from tests.ver_trainer.test_learner import make_learner
from tests.ver_trainer.test_runner import assert_same, config, stop_after, weights
from tests.ver_trainer.test_sequences import ragged_storage
from ver_trainer import train
from ver_trainer.config import NetConfig, OptimConfig, PPOConfig, load_config
from ver_trainer.distributed.group import Group
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.export import export_policy, load_policy, save_policy
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.teacher import make_anchor
from ver_trainer.nets.core import Packing
from ver_trainer.nets.heads import Categorical, DiagonalGaussian, MixedActions
from ver_trainer.nets.policy import Policy, make_policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.sequences import pack
from ver_trainer.runner import Runner

BOX = EnvSpec(
    {"obs": ArraySpec((3,), "float32")},
    ActionSpec("continuous", 3, (3,), (-1.0,) * 3, (1.0,) * 3),
)
LSTM = {"mlp": [8], "core": "lstm", "core_size": 6, "core_layers": 2}


def state_of(policy: Policy) -> dict[str, torch.Tensor]:
    return {k: v.clone() for k, v in policy.state_dict().items()}


@pytest.mark.parametrize("separate", [False, True])
@pytest.mark.parametrize("core", ["none", "lstm"])
def test_critic_warmup_leaves_the_policy_alone(core: str, separate: bool) -> None:
    torch.manual_seed(0)
    net = NetConfig(**{**LSTM, "core": core}, separate_critic=separate, normalize_obs=True)
    policy = make_policy(BOX, net)
    storage = continuous_storage(policy)
    ppo = PPOConfig(critic_warmup=2, learned_entropy=True)
    optim = OptimConfig(name="adam", lr=1e-2, weight_decay=0.1)
    learner = PPOLearner(policy, ppo, optim, Group(), np.random.default_rng(0))
    before, entropy = state_of(policy), learner.coefficient.value().item()
    first = learner.update(storage, 0.0)
    last = learner.update(storage, 0.0)
    assert last["value_loss"] < first["value_loss"] and last["approx_kl"] == pytest.approx(
        first["approx_kl"]
    )
    assert learner.coefficient.value().item() == entropy
    for name, value in policy.state_dict().items():
        assert name.startswith("critic") or torch.equal(value, before[name]), name
    assert not torch.equal(policy.critic.weight, before["critic.weight"])
    learner.update(storage, 0.0)
    assert not torch.equal(policy.actor.linear.weight, before["actor.linear.weight"])
    # Adam's first steps are of the size of the learning rate: it starts afresh for the actor.
    moved = (policy.actor.linear.weight - before["actor.linear.weight"]).abs().max()
    assert moved < 1.3 * ppo.epochs * ppo.mini_batches * 1e-2


def continuous_storage(policy: Policy, seed: int = 0):
    """A ragged storage with the policy's own actions and log probabilities."""
    spec = policy.spec
    storage = ragged_storage(seed, state_size=policy.state_size)
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    row = spec.action.row
    shape = (storage.capacity, *row.shape)
    storage.tensors["action"] = torch.zeros(shape)
    with torch.no_grad():
        step = policy.act(storage.obs, policy.initial_state(storage.capacity))
    storage.tensors["action"][:] = step.action
    storage.tensors["log_prob"][:] = step.log_prob
    return storage


def test_target_kl_ends_an_update_early() -> None:
    free, storage = make_learner(epochs=8, mini_batches=2)
    assert free.update(storage, 0.0)["gradient_steps"] == 16
    bound, storage = make_learner(epochs=8, mini_batches=2, target_kl=0.02)
    rollout = Rollout(storage, bound.ppo, bound.recurrent)
    rollout.compute_gae()
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    with torch.no_grad():
        out = bound.policy.evaluate(batch.obs, batch.action, batch.packing)
    storage.tensors["log_prob"][torch.from_numpy(batch.rows)] = out.log_prob
    result = bound.update(storage, 0.0)
    assert 1 < result["gradient_steps"] < 16
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    assert 0.005 < bound.losses(batch).stats["approx_kl"] < 0.1


def test_deviation_falls_under_its_bound_along_the_training() -> None:
    policy = make_policy(BOX, NetConfig(initial_std=1.0))
    learner = PPOLearner(
        policy, PPOConfig(max_std=[0.8, 0.2]), OptimConfig(), Group(), np.random.default_rng(0)
    )
    storage = continuous_storage(policy)
    for progress, most in ((0.0, 0.8), (0.5, 0.5), (1.0, 0.2)):
        learner.update(storage, progress)
        assert policy.actor.log_std.max().exp().item() == pytest.approx(most, abs=1e-5)
    with torch.no_grad():
        policy.actor.log_std.fill_(-3.0)
    learner.update(storage, 0.0)
    assert policy.actor.log_std.max().exp().item() < 0.1  # the bound does not raise it
    values = {"ppo.max_std": [0.5], "net.std": "state", "env": "Pendulum-v1"}
    with pytest.raises(ConfigError, match=r"ppo\.max_std bounds a parameter"):
        load_config(**values)


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_separate_critic_cannot_disturb_the_policy(core: str) -> None:
    torch.manual_seed(0)
    policy = make_policy(BOX, NetConfig(**{**LSTM, "core": core}, separate_critic=True))
    storage = continuous_storage(policy)
    learner = PPOLearner(policy, PPOConfig(), OptimConfig(), Group(), np.random.default_rng(0))
    rollout = Rollout(storage, learner.ppo, learner.recurrent)
    rollout.compute_gae()
    (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
    losses = learner.losses(batch)
    losses.value.backward(retain_graph=True)
    touched = {n for n, p in policy.named_parameters() if p.grad is not None and p.grad.any()}
    assert touched and touched <= policy.critic_names()
    assert {n.split(".")[0] for n in touched} >= {"critic", "critic_encoder"}
    policy.zero_grad()
    losses.action.backward()
    touched = {n for n, p in policy.named_parameters() if p.grad is not None and p.grad.any()}
    assert touched and not touched & policy.critic_names()


def test_packed_pass_of_a_separate_critic_equals_its_steps() -> None:
    torch.manual_seed(0)
    policy = make_policy(BOX, NetConfig(**LSTM, separate_critic=True, noise_correlation=0.5))
    assert policy.state_size == 2 * (2 * 2 * 6) + 3 and policy.actor_state_size == 24
    lengths = np.array([5, 3, 1])
    packed = pack(np.arange(9), np.cumsum(lengths) - lengths, lengths)
    obs = torch.randn(9, 3)
    first = torch.randn(3, policy.state_size)
    action = torch.randn(9, 3)
    log_prob, value = torch.zeros(9), torch.zeros(9)
    with torch.no_grad():
        packing = Packing(torch.from_numpy(packed.batch_sizes), first)
        out = policy.evaluate({"obs": obs[packed.rows]}, action[packed.rows], packing)
        log_prob[packed.rows], value[packed.rows] = out.log_prob, out.value
        for sequence, (start, length) in enumerate(zip((0, 5, 8), lengths, strict=True)):
            state = first[sequence : sequence + 1]
            for row in range(start, start + length):
                seen = {"obs": obs[row : row + 1]}
                features, _ = policy.core.step(policy.encoder(seen), state[:, :24])
                expected = policy.actor(features).log_prob(action[row : row + 1])
                torch.testing.assert_close(log_prob[row : row + 1], expected)
                torch.testing.assert_close(value[row : row + 1], policy.value(seen, state))
                state = policy.act(seen, state, torch.Generator().manual_seed(row)).state
        _, last = policy.actor_pass(
            {"obs": obs[packed.rows]}, Packing(packing.batch_sizes, first[:, :24])
        )
    torch.testing.assert_close(last[2:], state[:, :24])


def test_frozen_statistics_stay_and_a_critics_do_not() -> None:
    for frozen in (True, False):
        net = NetConfig(mlp=[8], normalize_obs=True, freeze_norm=frozen, separate_critic=True)
        policy = make_policy(BOX, net)
        storage = continuous_storage(policy)
        learner = PPOLearner(policy, PPOConfig(), OptimConfig(), Group(), np.random.default_rng(0))
        learner.update(storage, 0.0)
        assert (policy.encoder.norm.mean.abs().max() == 0) == frozen
        assert policy.critic_encoder.norm.mean.abs().max() > 0


@pytest.mark.parametrize("name", ["adam", "lamb"])
def test_critic_has_its_own_learning_rate(name: str) -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], separate_critic=True))
    storage = continuous_storage(policy)
    optim = OptimConfig(name=name, lr=1e-5, critic_lr=1e-2)
    learner = PPOLearner(policy, PPOConfig(), optim, Group(), np.random.default_rng(0))
    sizes = {id(p) for g in learner.optimizer.param_groups for p in g["params"]}
    assert len(sizes) == len(learner.parameters)
    before = state_of(policy)
    learner.update(storage, 0.0)
    moved = {n: (p - before[n]).abs().max().item() for n, p in policy.named_parameters()}
    slow = max(v for n, v in moved.items() if n not in policy.critic_names())
    fast = min(v for n, v in moved.items() if n in policy.critic_names())
    assert 0 < slow < 1e-4 < fast


def test_divergences_against_samples_and_formulas() -> None:
    torch.manual_seed(0)
    logits, others = torch.randn(5, 4), torch.randn(5, 4)
    a, b = (torch.distributions.Categorical(logits=x) for x in (logits, others))
    kl = torch.distributions.kl_divergence(a, b)
    torch.testing.assert_close(Categorical(others).divergence(Categorical(logits).flat()), kl)
    mean, log_std = torch.randn(2, 5, 3), torch.randn(2, 3)
    a, b = (torch.distributions.Normal(mean[i], log_std[i].exp()) for i in (0, 1))
    kl = torch.distributions.kl_divergence(a, b)
    ours = [DiagonalGaussian(mean[i], log_std[i]) for i in (0, 1)]
    torch.testing.assert_close(ours[1].divergence(ours[0].flat()), kl.sum(-1))
    binary = torch.tensor([False, True, False])
    mixed = [MixedActions(mean[i], log_std[i], binary) for i in (0, 1)]
    a, b = (torch.distributions.Bernoulli(logits=mean[i][:, 1]) for i in (0, 1))
    expected = kl[:, [0, 2]].sum(-1) + torch.distributions.kl_divergence(a, b)
    torch.testing.assert_close(mixed[1].divergence(mixed[0].flat()), expected)
    normal = torch.distributions.Normal(mean[0][:, [0, 2]], log_std[0][[0, 2]].exp())
    torch.testing.assert_close(mixed[0].entropy(), normal.entropy().sum(-1) + a.entropy())
    action = mixed[0].sample(torch.Generator().manual_seed(0))
    expected = normal.log_prob(action[:, [0, 2]]).sum(-1) + a.log_prob((action[:, 1] > 0).float())
    torch.testing.assert_close(mixed[0].log_prob(action), expected)


def test_binary_actions_are_sampled_with_their_probability() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], binary_actions=[-1], binary_initial=[0.2]))
    obs = {"obs": torch.zeros(20000, 3)}
    with torch.no_grad():
        step = policy.act(obs, policy.initial_state(20000), torch.Generator().manual_seed(0))
        mode = policy.act(obs, policy.initial_state(20000), deterministic=True)
    assert set(step.action[:, -1].tolist()) == {-1.0, 1.0}
    assert (step.action[:, -1] > 0).float().mean().item() == pytest.approx(0.2, abs=0.01)
    assert len(step.action[:, 0].unique()) > 1000 and (mode.action[:, -1] == -1).all()
    with pytest.raises(ConfigError, match="3 dimensions"):
        make_policy(BOX, NetConfig(binary_actions=[3]))
    discrete = EnvSpec(BOX.observations, ActionSpec("discrete", 3, ()))
    for net in (NetConfig(binary_actions=[0]), NetConfig(noise_correlation=0.5)):
        with pytest.raises(ConfigError, match="for Box actions"):
            make_policy(discrete, net)


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_binary_actions_and_separate_critic_leave_the_trainer(core: str, tmp_path: Path) -> None:
    """The policy, TorchScript, ONNX and NumPy act alike."""
    torch.manual_seed(0)
    net = NetConfig(**{**LSTM, "core": core}, separate_critic=True, binary_actions=[0, -1],
                    binary_initial=[0.5], noise_correlation=0.3)  # fmt: skip
    policy = make_policy(BOX, net)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        policy.actor.linear.bias[:] = torch.tensor([0.3, 0.3, -0.3])
    save_policy(policy, tmp_path / "p.safetensors")
    policy = load_policy(tmp_path / "p.safetensors")
    script = torch.jit.load(export_policy(policy, tmp_path / "p.pt"))
    numpy_policy = NumpyPolicy.load(tmp_path / "p.safetensors")
    state = policy.initial_state(1)
    exported = torch.zeros(1, policy.actor_state_size)
    seen = set()
    for _ in range(6):
        obs = torch.randn(1, 3)
        with torch.no_grad():
            step = policy.act({"obs": obs}, state, deterministic=True)
            action, exported = script(obs, exported)
        state = step.state
        expected = step.action.clamp(-1, 1)
        torch.testing.assert_close(action, expected)
        ours = numpy_policy.step({"obs": obs[0].numpy()})
        np.testing.assert_allclose(ours, expected[0].numpy(), atol=1e-5)
        seen |= set(expected[0, [0, 2]].tolist())
    assert seen == {-1.0, 1.0}


def test_noise_is_correlated_within_an_episode_and_normal_at_each_step() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], noise_correlation=0.8))
    generator = torch.Generator().manual_seed(0)
    obs, state = {"obs": torch.zeros(4000, 3)}, policy.initial_state(4000)
    assert not policy.recurrent
    drawn = []
    with torch.no_grad():
        mean, _ = policy.act_mode(obs, policy.initial_state(4000)[:, :0])
        for _ in range(4):
            step = policy.act(obs, state, generator)
            state = step.state
            drawn.append((step.action - mean).flatten())
    noise = torch.stack(drawn)
    torch.testing.assert_close(noise.std(1), torch.ones(4), atol=0.03, rtol=0)
    correlation = torch.corrcoef(noise)
    assert correlation[0, 1].item() == pytest.approx(0.8, abs=0.03)
    assert correlation[0, 3].item() == pytest.approx(0.8**3, abs=0.03)


@pytest.mark.parametrize("seed", range(3))
def test_anchor_follows_the_pretrained_policy_through_rollouts(seed: int) -> None:
    """Its distributions equal those of a pretrained policy that saw every episode from its start.

    Environments are ragged, rows stay in flight between rollouts, and the trained policy changes.
    """
    collector = make_collector(seed)
    policy, storage = collector.policy, collector.storage
    ppo = PPOConfig(anchor_coef=1.0, anchor_steps=1000)
    anchor = make_anchor(policy, ppo, storage.num_envs)
    states: dict[tuple[int, int], torch.Tensor] = {}
    checked = 0
    for rollout_number in range(4):
        collector.collect()
        rollout = Rollout(storage, ppo, recurrent=True)
        anchor.prepare(rollout, 0.0, 100 * rollout_number)
        assert anchor.coefficient == pytest.approx(1 - 0.1 * rollout_number)
        rows = storage.fresh_rows()
        for row in rows[np.lexsort((storage.step[rows], storage.episode[rows]))].tolist():
            key = (int(storage.env[row]), int(storage.episode[row]))
            fresh = torch.zeros(1, policy.actor_state_size)
            state = fresh if storage.step[row] == 0 else states[key]
            obs = {"obs": storage.obs["obs"][row : row + 1]}
            with torch.no_grad():
                features, states[key] = anchor.policy.core.step(anchor.policy.encoder(obs), state)
                expected = anchor.policy.actor(features).flat()
            torch.testing.assert_close(anchor._targets[row : row + 1], expected)
            checked += 1
        storage.after_update()
        with torch.no_grad():
            for parameter in policy.parameters():
                parameter.add_(0.3)
    assert checked == 4 * storage.size


def test_anchor_holds_the_policy() -> None:
    distance = {}
    for coefficient in (1e-9, 10.0):
        learner, storage = make_learner(epochs=5, anchor_coef=coefficient)
        learner.extras = [make_anchor(learner.policy, learner.ppo, storage.num_envs)]
        for _ in range(10):
            result = learner.update(storage, 0.0)
        distance[coefficient] = result["anchor_kl"]
    assert 0 < distance[10.0] < 0.3 * distance[1e-9]
    assert "anchor_kl" not in learner.update(storage, 1.0)  # its time is over


def test_fine_tuning_run_resumes_bit_for_bit(tmp_path: Path) -> None:
    """All options together, interrupted while the anchor is at work."""
    net = {"net.core": "lstm", "net.core_size": 8, "net.core_layers": 1, "net.normalize_obs": True,
           "env": "Pendulum-v1", "collector": "inline"}  # fmt: skip
    train(config(tmp_path / "first", **net, total_steps=128))
    values = {
        **net, "pretrained": str(tmp_path / "first"), "net.separate_critic": True,
        "net.freeze_norm": True, "net.binary_actions": [0], "net.binary_initial": [0.3],
        "net.noise_correlation": 0.5, "ppo.critic_warmup": 2, "ppo.target_kl": 0.05,
        "ppo.anchor_coef": 0.5, "ppo.anchor_steps": 512, "optim.critic_lr": 1e-3,
    }  # fmt: skip
    train(config(tmp_path / "whole", **values))
    for update in (1, 5):
        part = tmp_path / f"part{update}"
        runner = Runner(config(part, **values))
        stop_after(runner, update)
        assert not runner.run().finished
        train(config(part, **values))
        assert_same(weights(part, 10), weights(tmp_path / "whole", 10))


@pytest.mark.parametrize("scheme", ["ddppo", "htsrl", "async"])
def test_fine_tuning_options_work_in_other_schemes(scheme: str, tmp_path: Path) -> None:
    net = {"net.image_features": 8, "net.core": "lstm", "net.core_size": 8, "total_steps": 128,
           "env_args": {"kind": "DictEnv"}, "net.separate_critic": True}  # fmt: skip
    spec = probe(EnvFactory(make, {"kind": "DictEnv"}))
    bare = NetConfig(image_features=8, core="lstm", core_size=8)
    save_policy(make_policy(spec, bare), tmp_path / "bc.safetensors")
    values = {**net, "scheme": scheme, "pretrained": str(tmp_path / "bc.safetensors"),
              "ppo.critic_warmup": 1, "ppo.anchor_coef": 0.1, "net.binary_actions": [1],
              "net.noise_correlation": 0.5}  # fmt: skip
    result = train(config(tmp_path / "run", **values), make)
    assert result.finished and math.isfinite(result.mean_return)

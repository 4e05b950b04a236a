"""A critic that sees more than the actor, returns in their own unit, a rate that holds the KL."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from skills.learned.inference import NumpyPolicy
from tests.ver_trainer.envs import make
from tests.ver_trainer.test_finetuning import BOX, continuous_storage
from tests.ver_trainer.test_learner import make_learner
from tests.ver_trainer.test_runner import config
from tests.ver_trainer.test_sequences import SPEC, ragged_storage
from ver_trainer import evaluate, load_config, load_policy, train
from ver_trainer.checkpoint import read_weights
from ver_trainer.config import NetConfig, OptimConfig, PPOConfig
from ver_trainer.distributed.group import Group
from ver_trainer.envs.slot import EnvFactory
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.export import export_policy, save_policy
from ver_trainer.learner.ppo import PPOLearner
from ver_trainer.learner.schedule import AdaptiveRate, divergence
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import make_policy
from ver_trainer.rollout.batch import Rollout

SEEN = EnvSpec(
    {
        "eye": ArraySpec((2,), "float32"),
        "truth.pose": ArraySpec((3,), "float32"),
        "truth.mass": ArraySpec((1,), "float32"),
    },
    ActionSpec("continuous", 2, (2,), (-1.0,) * 2, (1.0,) * 2),
)
PRIVILEGED = {"actor_obs": ["eye"], "critic_obs": ["truth.*"], "separate_critic": True}


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_the_actor_runs_without_what_only_the_critic_sees(core: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    net = NetConfig(**PRIVILEGED, mlp=[8], core=core, core_size=6, normalize_obs=True)
    policy = make_policy(SEEN, net)
    assert policy.actor_obs == ("eye",) and policy.critic_obs == ("truth.pose", "truth.mass")
    obs = {name: torch.randn(5, *spec.shape) for name, spec in SEEN.observations.items()}
    state = torch.randn(5, policy.state_size)
    full = policy.act(obs, state, deterministic=True)
    alone = policy.act({"eye": obs["eye"]}, state, deterministic=True)
    assert torch.equal(full.action, alone.action)
    assert full.value.isfinite().all() and alone.value.isnan().all()
    other = obs | {"truth.mass": obs["truth.mass"] + 1}
    assert not torch.equal(policy.value(other, state), policy.value(obs, state))
    save_policy(policy, tmp_path / "p.safetensors")
    assert read_weights(tmp_path / "p.safetensors")[1]["actor_obs"] == ["eye"]
    script = torch.jit.load(export_policy(tmp_path / "p.safetensors", tmp_path / "p.pt"))
    with torch.no_grad():
        action, _ = script(obs["eye"], state[:, : policy.actor_state_size])
    torch.testing.assert_close(action, full.action.clamp(-1, 1))
    worker = NumpyPolicy.load(tmp_path / "p.safetensors")
    assert list(worker.observations) == ["eye"]
    first = policy.act({"eye": obs["eye"]}, policy.initial_state(5), deterministic=True).action[0]
    torch.testing.assert_close(
        torch.from_numpy(worker.step({"eye": obs["eye"][0].numpy()})), first.detach().clamp(-1, 1)
    )


def test_a_privileged_critic_trains_and_is_absent_from_evaluation(tmp_path: Path) -> None:
    seen = {"net.actor_obs": ["depth", "robot.*"], "net.critic_obs": ["robot.joints", "goal"]}
    net = {"net.separate_critic": True, "net.core": "lstm", "net.core_size": 8}
    values = {"env_args": {"kind": "DictEnv"}, "total_steps": 128, "net.image_features": 8}
    train(config(tmp_path, **values, **seen, **net), make)
    (meta, *_) = tmp_path.glob("checkpoints/*/meta.json")
    card = json.loads(meta.read_text())
    assert card["actor_obs"] == ["depth", "robot.joints"]
    assert card["critic_obs"] == ["goal", "robot.joints"]
    policy = load_policy(tmp_path)
    assert not policy.critic_encoder.images
    factory = EnvFactory(make, {"kind": "DictEnv"})
    assert evaluate(policy, factory, 2, workers=False).summary()["length"] == 7


def test_observations_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"net\.actor_obs has 'truht\.\*'.*eye, truth\.pose"):
        make_policy(SEEN, NetConfig(actor_obs=["truht.*"]))
    with pytest.raises(ConfigError, match=r"set net\.separate_critic=true"):
        make_policy(SEEN, NetConfig(actor_obs=["eye"]))


def returns_learner(scale: float, **net) -> tuple[PPOLearner, object]:
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[8], normalize_returns=True, **net))
    storage = ragged_storage(0, state_size=policy.state_size)
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    storage.tensors["log_prob"][:] = -1.1
    storage.reward *= scale
    optim = OptimConfig(lr=1e-2, schedule="constant")
    return PPOLearner(policy, PPOConfig(), optim, Group(), np.random.default_rng(0)), storage


def test_the_unit_of_rewards_does_not_matter() -> None:
    small, large = returns_learner(1.0), returns_learner(1000.0)
    for _ in range(3):
        results = [learner.update(storage, 0.0) for learner, storage in (small, large)]
    assert results[1]["return_scale"] == pytest.approx(1000 * results[0]["return_scale"], rel=1e-4)
    assert results[1]["value_loss"] == pytest.approx(results[0]["value_loss"], rel=1e-3)
    pairs = zip(small[0].policy.parameters(), large[0].policy.parameters(), strict=True)
    for a, b in pairs:
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
    learner, storage = large  # values are in the unit of the rewards, for GAE
    rows = torch.from_numpy(storage.fresh_rows())
    packing = Packing(torch.tensor([len(rows)]), learner.policy.initial_state(len(rows)))
    with torch.no_grad():
        _, value = learner.policy.distribution({"obs": storage.obs["obs"][rows]}, packing)
    returns = storage.returns[rows.numpy()]
    assert abs(value.mean().item() - returns.mean()) < 0.5 * returns.std()


def test_returns_and_reward_scale_contradict() -> None:
    with pytest.raises(ConfigError, match="leave one of them out"):
        load_config(["net.normalize_returns=true", "ppo.reward_scale=0.1"])


@pytest.mark.parametrize("every", ["mini_batch", "update"])
@pytest.mark.parametrize("first", [2e-4, 3e-2])
def test_the_rate_holds_the_divergence(first: float, every: str) -> None:
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(mlp=[8]))
    optim = OptimConfig(lr=first, schedule="kl", kl_target=0.01, kl_every=every, max_lr=1.0)
    group, rng = Group(), np.random.default_rng(0)
    ppo = PPOConfig(epochs=2, mini_batches=4, entropy_coef=0.1)
    learner = PPOLearner(policy, ppo, optim, group, rng)
    storage = ragged_storage(0, steps=64, state_size=0)
    storage.obs["obs"][:] = torch.randn(storage.capacity, 3)
    found = []
    for _ in range(30):
        with torch.no_grad():  # the rollout of the policy as it is now
            step = policy.act(dict(storage.obs), policy.initial_state(storage.capacity))
        storage.tensors["action"][:] = step.action
        storage.tensors["log_prob"][:] = step.log_prob
        found.append(learner.update(storage, 0.0)["approx_kl"])
    assert 0.002 < np.mean(found[-15:]) < 0.03
    saved = learner.state_dict()
    again = PPOLearner(policy, learner.ppo, optim, group, rng)
    again.load_state_dict(saved)
    assert again.rate.value == learner.rate.value != first


def test_the_rate_stays_within_bounds_and_waits_for_the_end_of_an_update() -> None:
    rate = AdaptiveRate(OptimConfig(schedule="kl", kl_every="update", min_lr=1e-4, max_lr=1e-3))
    assert rate.begin(5e-4) == 5e-4
    assert rate.observe(0.0) == 5e-4
    for _ in range(9):
        rate.end()
    assert rate.begin(5e-4) == 1e-3
    rate.observe(1.0)
    for _ in range(9):
        rate.end()
    assert rate.value == 1e-4


def test_the_divergence_aimed_at_moves_by_the_same_factor_in_equal_shares() -> None:
    optim = OptimConfig(schedule="kl", kl_target=0.04, final_kl=0.01, kl_every="update")
    assert [divergence(optim, p) for p in (0.0, 0.5, 1.0)] == pytest.approx([0.04, 0.02, 0.01])
    rate = AdaptiveRate(optim)
    for progress, moves in ((0.0, False), (1.0, True)):  # 0.03 is near the first aim alone
        first = rate.begin(1e-3, progress)
        rate.observe(0.03)
        rate.end()
        assert (rate.value < first) == moves


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["ppo.epochs=1", "ppo.mini_batches=1"], "use two of ppo.epochs"),
        (["ppo.target_kl=0.01"], "higher ppo.target_kl"),
        (["optim.warmup=0.1"], "leave one out"),
        (["optim.min_lr=0.1"], "swap them"),
    ],
)
def test_what_a_rate_by_divergence_contradicts(words: list[str], remedy: str) -> None:
    with pytest.raises(ConfigError, match=remedy):
        load_config(["optim.schedule=kl", *words])


@pytest.mark.parametrize("core", ["none", "lstm"])
def test_a_separate_critic_learns_on_where_the_policy_has_moved_far_enough(core: str) -> None:
    """Its gradient steps are as many as without the bound; the policy's are fewer."""
    found = {}
    for bound in (0.0, 1e-9):
        learner, storage = make_learner(
            core=core, separate_critic=True, epochs=8, mini_batches=2, target_kl=bound
        )
        names = learner.policy.critic_names()
        first = {n: p.detach().clone() for n, p in learner.policy.named_parameters()}
        assert learner.update(storage, 0.0)["gradient_steps"] == (1 if bound else 16)
        steps = {
            ("critic" if n in names else "actor"): learner.optimizer.state[p]["step"].item()
            for n, p in learner.policy.named_parameters()
        }
        assert steps == {"critic": 16, "actor": 1 if bound else 16}
        found[bound] = {"actor": 0.0, "critic": 0.0}
        for n, p in learner.policy.named_parameters():
            part = "critic" if n in names else "actor"
            found[bound][part] += float((p.detach() - first[n]).square().sum())
    assert found[1e-9]["actor"] < 0.3 * found[0.0]["actor"]
    assert 0.3 < found[1e-9]["critic"] / found[0.0]["critic"] < 3.0


def test_neither_of_actor_and_separate_critic_shrinks_the_gradient_of_the_other() -> None:
    """A value loss of any weight leaves the policy's gradient as it is."""
    steps = {}
    for coefficient in (1e-3, 1e3):
        learner, storage = make_learner(
            core="none", separate_critic=True, max_grad_norm=0.5, value_coef=coefficient
        )
        rollout = Rollout(storage, learner.ppo, learner.recurrent)
        rollout.compute_gae()
        (batch,) = rollout.mini_batches(1, np.random.default_rng(0))
        found = learner._step(batch, [], first=True)
        assert found is not None
        parts = (learner._actor, learner._critic)
        actor, critic = (torch.cat([p.grad.flatten() for p in part]) for part in parts)
        steps[coefficient] = actor
        assert actor.norm() == pytest.approx(min(float(found["grad_norm"]), 0.5), rel=1e-3)
        assert critic.norm() == pytest.approx(min(float(found["critic_grad_norm"]), 0.5), rel=1e-3)
        assert (found["critic_grad_norm"] > 0.5) == (coefficient > 1)
    assert torch.equal(*steps.values())


def test_a_rate_by_divergence_is_the_policys_and_not_its_critics() -> None:
    policy = make_policy(BOX, NetConfig(mlp=[8], separate_critic=True))
    storage = continuous_storage(policy)
    optim = OptimConfig(lr=1e-3, critic_lr=2e-3, schedule="kl", kl_target=1e-9)
    learner = PPOLearner(policy, PPOConfig(), optim, Group(), np.random.default_rng(0))
    learner.update(storage, 0.0)
    rates = {id(p): g["lr"] for g in learner.optimizer.param_groups for p in g["params"]}
    names = policy.critic_names()
    found = {n in names: rates[id(p)] for n, p in policy.named_parameters()}
    assert found[True] == 2e-3 and found[False] < 1e-3

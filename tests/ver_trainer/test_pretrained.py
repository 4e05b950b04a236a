"""What becomes of pretrained weights: where they go, what may differ, what they are needed for."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.ver_trainer.envs import make
from tests.ver_trainer.test_finetuning import BOX, LSTM
from tests.ver_trainer.test_runner import config
from ver_trainer import train
from ver_trainer.config import NetConfig, load_config
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.errors import ConfigError
from ver_trainer.export import load_policy, load_pretrained, save_policy
from ver_trainer.nets.policy import make_policy


def test_pretrained_weights_without_a_critic_encoder_copy_the_actors(tmp_path: Path) -> None:
    save_policy(make_policy(BOX, NetConfig(**LSTM)), tmp_path / "bc.safetensors")
    source = load_policy(tmp_path / "bc.safetensors")
    target = make_policy(BOX, NetConfig(**LSTM, separate_critic=True))
    load_pretrained(target, tmp_path / "bc.safetensors", [])
    obs = {"obs": torch.randn(4, 3)}
    with torch.no_grad():
        old = source.act(obs, source.initial_state(4), deterministic=True)
        new = target.act(obs, target.initial_state(4), deterministic=True)
    assert torch.equal(old.action, new.action) and torch.equal(old.value, new.value)
    other = make_policy(BOX, NetConfig(**LSTM, separate_critic=True))
    head = other.critic.weight.clone()
    load_pretrained(other, tmp_path / "bc.safetensors", ["encoder", "core", "actor"])
    assert torch.equal(other.critic.weight, head)
    assert torch.equal(other.critic_core.lstm.weight_hh_l1, source.core.lstm.weight_hh_l1)


def test_critic_without_memory_beside_a_policy_with_it(tmp_path: Path) -> None:
    first = make_policy(BOX, NetConfig(**LSTM, separate_critic=True, normalize_obs=True))
    with torch.no_grad():
        first.encoder.norm.mean.fill_(3.0)
    save_policy(first, tmp_path / "bc.safetensors")
    net = NetConfig(**LSTM, separate_critic=True, critic_mlp=[16, 16], normalize_obs=True)
    policy = make_policy(BOX, net)
    load_pretrained(policy, tmp_path / "bc.safetensors", ["encoder", "core", "actor"])
    assert policy.state_size == policy.actor_state_size
    assert (policy.critic_encoder.norm.mean == 3.0).all()
    obs = {"obs": torch.randn(4, 3)}
    with torch.no_grad():
        step = policy.act(obs, policy.initial_state(4), deterministic=True)
        action, _ = first.act_mode(obs, torch.zeros(4, first.actor_state_size))
        torch.testing.assert_close(step.action, action)
        torch.testing.assert_close(policy.value(obs, step.state), step.value)
    with pytest.raises(ConfigError, match=r"net.separate_critic=true"):
        make_policy(BOX, NetConfig(**LSTM, critic_mlp=[16]))


def test_normal_head_becomes_binary(tmp_path: Path) -> None:
    """A cloned mean of -1 starts as the given probability; deterministic actions stay."""
    torch.manual_seed(0)
    source = make_policy(BOX, NetConfig(mlp=[8]))
    with torch.no_grad():
        source.actor.linear.weight.normal_()
        source.actor.linear.bias[-1] = -1.0
    save_policy(source, tmp_path / "bc.safetensors")
    net = NetConfig(mlp=[8], binary_actions=[2], binary_initial=[0.01])
    target = make_policy(BOX, net)
    load_pretrained(target, tmp_path / "bc.safetensors", [])
    assert torch.sigmoid(target.actor.linear.bias[-1]).item() == pytest.approx(0.01)
    obs = {"obs": torch.randn(50, 3)}
    state = source.initial_state(50)
    with torch.no_grad():
        old, _ = source.act_mode(obs, state)
        new, _ = target.act_mode(obs, state)
    assert torch.equal(old[:, :2], new[:, :2]) and torch.equal(old[:, 2].sign(), new[:, 2])
    save_policy(target, tmp_path / "binary.safetensors")
    again = make_policy(BOX, net)
    load_pretrained(again, tmp_path / "binary.safetensors", [])
    assert torch.equal(again.actor.linear.weight, target.actor.linear.weight)


def test_pretrained_policy_begins_with_another_deviation(tmp_path: Path) -> None:
    values = {"env_args": {"kind": "DictEnv"}, "net.image_features": 8, "total_steps": 32,
              "optim.lr": 1e-9}  # fmt: skip
    spec = probe(EnvFactory(make, {"kind": "DictEnv"}))
    save_policy(make_policy(spec, NetConfig(image_features=8)), tmp_path / "bc.safetensors")
    run = config(tmp_path / "run", **values, pretrained=str(tmp_path / "bc.safetensors"),
                 pretrained_std=0.2)  # fmt: skip
    train(run, make)
    std = load_policy(tmp_path / "run").actor.log_std.exp()
    assert torch.allclose(std, torch.full_like(std, 0.2), rtol=1e-3)


def test_deviation_of_a_state_dependent_head_is_not_overwritten() -> None:
    with pytest.raises(ConfigError, match=r"net\.std=state does not have: use net\.std=parameter"):
        load_config(["pretrained=x", "pretrained_std=0.2", "net.std=state"])


@pytest.mark.parametrize(
    "option", ["ppo.anchor_coef=0.1", "net.freeze_norm=true", "pretrained_std=0.2"]
)
def test_options_that_need_a_pretrained_policy_say_so(option: str, tmp_path: Path) -> None:
    key, _, value = option.partition("=")
    values = {key: value == "true" or float(value)}
    with pytest.raises(ConfigError, match=f"'{key}' needs.*give pretrained=PATH"):
        train(config(tmp_path / "run", **values))
    assert not (tmp_path / "run").exists()  # the command with the remedy is not refused


def test_statistics_that_do_not_come_along_cannot_be_kept(tmp_path: Path) -> None:
    values = {"net.freeze_norm": True, "pretrained": "x", "pretrained_parts": ["core", "actor"]}
    with pytest.raises(ConfigError, match=r"net\.normalize_obs=false does not take"):
        train(config(tmp_path / "run", **values))
    values["net.normalize_obs"] = True
    with pytest.raises(ConfigError, match="pretrained_parts has none: add encoder to it"):
        train(config(tmp_path / "run", **values))

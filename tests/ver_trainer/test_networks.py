"""Encoders, cores and heads combine; shapes, determinism, export and pretrained weights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.ver_trainer.envs import make
from ver_trainer.config import NetConfig, load_config
from ver_trainer.envs.slot import EnvFactory, probe
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec, rescale_action
from ver_trainer.errors import CheckpointError, ConfigError
from ver_trainer.export import (
    export_policy,
    load_policy,
    load_pretrained,
    save_policy,
)
from ver_trainer.nets.heads import Categorical, DiagonalGaussian, GaussianHead
from ver_trainer.nets.images import ResNet18, SEResNet9
from ver_trainer.nets.policy import make_policy

SPEC = probe(EnvFactory(make, {"kind": "DictEnv"}))


def random_obs(spec: EnvSpec, n: int) -> dict[str, torch.Tensor]:
    made = {}
    for name, array in spec.observations.items():
        if array.dtype == "uint8":
            made[name] = torch.randint(0, 255, (n, *array.shape), dtype=torch.uint8)
        else:
            made[name] = torch.rand(n, *array.shape)
    return made


@pytest.mark.parametrize("encoder", ["cnn", "resnet18", "se_resnet9"])
@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("std", ["parameter", "state"])
def test_parts_combine(encoder: str, core: str, std: str) -> None:
    net = NetConfig(
        encoder=encoder, core=core, core_size=8, image_features=16, std=std, width=16,
        normalize_obs=True,
    )  # fmt: skip
    policy = make_policy(SPEC, net)
    obs = random_obs(SPEC, 3)
    step = policy.act(obs, policy.initial_state(3), torch.Generator().manual_seed(0))
    assert step.action.shape == (3, 4) and step.log_prob.shape == step.value.shape == (3,)
    assert step.state.shape == (3, policy.state_size)
    again = policy.act(obs, policy.initial_state(3), torch.Generator().manual_seed(0))
    assert torch.equal(step.action, again.action)
    (step.log_prob.sum() + step.value.sum()).backward()
    dead = [n for n, p in policy.named_parameters() if p.grad is None]
    # The Fixup branch starts at zero, so its first convolution has no gradient yet, but exists.
    assert not dead


def test_dict_observations_are_flattened_and_grouped() -> None:
    assert set(SPEC.observations) == {"depth", "rgb", "robot.joints", "goal"}
    assert SPEC.observations["goal"] == ArraySpec((4,), "float32")
    assert SPEC.observations["rgb"].dtype == "uint8"
    policy = make_policy(SPEC, NetConfig(image_features=16))
    assert list(policy.encoder.images) == ["36x36"]
    assert policy.encoder.images["36x36"][0].in_channels == 4
    assert policy.encoder.out_features == 16 + 5 + 4


def test_paper_networks_have_their_sizes() -> None:
    resnet = ResNet18(1, 128, 128, 512)
    body = sum(p.numel() for p in resnet.body.parameters())
    assert 2.0e6 < body < 3.5e6  # half width: about a quarter of ResNet18's 11.2 million
    assert resnet(torch.rand(2, 1, 128, 128)).shape == (2, 512)
    se = SEResNet9(11, 64, 64, 512)
    assert se.body[:-3](torch.rand(1, 11, 64, 64)).shape == (1, 512, 2, 2)
    backbone = sum(p.numel() for p in se.body[:-3].parameters())
    assert backbone == pytest.approx(4.95e6, rel=0.02)


def test_images_that_cannot_be_read_are_refused() -> None:
    small = EnvSpec({"rgb": ArraySpec((20, 20, 3), "uint8")}, ActionSpec("discrete", 2, ()))
    with pytest.raises(ConfigError, match="20x20"):
        make_policy(small, NetConfig())
    with pytest.raises(ConfigError, match="mlp"):
        make_policy(SPEC, NetConfig(encoder="mlp"))


def test_distributions_agree_with_torch() -> None:
    torch.manual_seed(0)
    logits, action = torch.randn(6, 4), torch.randint(0, 4, (6,))
    ours, theirs = Categorical(logits), torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(ours.log_prob(action), theirs.log_prob(action))
    torch.testing.assert_close(ours.entropy(), theirs.entropy())
    drawn = Categorical(logits[:1].expand(40000, 4)).sample(torch.Generator().manual_seed(0))
    shares = torch.bincount(drawn, minlength=4) / 40000
    torch.testing.assert_close(shares, torch.softmax(logits[0], 0), atol=0.01, rtol=0)
    mean, log_std, x = torch.randn(6, 3), torch.randn(3), torch.randn(6, 3)
    normal = DiagonalGaussian(mean, log_std)
    reference = torch.distributions.Normal(mean, log_std.exp())
    torch.testing.assert_close(normal.log_prob(x), reference.log_prob(x).sum(-1))
    torch.testing.assert_close(normal.entropy(), reference.entropy().sum(-1))
    samples = DiagonalGaussian(torch.full((20000, 1), 2.0), torch.tensor([math.log(0.5)]))
    drawn = samples.sample(torch.Generator().manual_seed(0))
    assert drawn.mean().item() == pytest.approx(2.0, abs=0.02)
    assert drawn.std().item() == pytest.approx(0.5, abs=0.02)


def test_actions_are_mapped_to_bounds() -> None:
    spec = ActionSpec("continuous", 2, (2,), (-2.0, -math.inf), (4.0, math.inf))
    mapped = rescale_action(spec, np.array([[-1.0, -7.0], [1.0, 9.0], [3.0, 0.0]], np.float32))
    np.testing.assert_allclose(mapped, [[-2, -7], [4, 9], [4, 0]])


@pytest.mark.parametrize("kind", ["Ragged", "DictEnv"])
def test_exported_policies_act_alike(kind: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    spec = probe(EnvFactory(make, {"kind": kind}))
    net = NetConfig(mlp=[8], core="lstm", core_size=8, image_features=16)
    policy = make_policy(spec, net)
    save_policy(policy, tmp_path / "policy.safetensors")
    loaded = load_policy(tmp_path / "policy.safetensors")
    obs, state = random_obs(spec, 5), torch.randn(5, policy.state_size)
    with torch.no_grad():
        expected = loaded.act(obs, state, deterministic=True)
        script = torch.jit.load(export_policy(loaded, tmp_path / "policy.pt"))
        action, after = script(*obs.values(), state)
    torch.testing.assert_close(after, expected.state)
    if kind == "DictEnv":
        torch.testing.assert_close(action, (expected.action * 2).clamp(-2, 2))
    else:
        assert torch.equal(action, expected.action)


def test_onnx_export(tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    runtime = pytest.importorskip("onnxruntime")
    torch.manual_seed(0)
    policy = make_policy(SPEC, NetConfig(image_features=16, core="lstm", core_size=8))
    path = export_policy(policy, tmp_path / "policy.onnx")
    session = runtime.InferenceSession(str(path))
    obs, state = random_obs(SPEC, 3), torch.randn(3, policy.state_size)
    with torch.no_grad():
        expected = policy.act(obs, state, deterministic=True)
    feed = {name: value.numpy() for name, value in obs.items()} | {"state": state.numpy()}
    action, after = session.run(None, feed)
    np.testing.assert_allclose(after, expected.state, atol=1e-4)
    np.testing.assert_allclose(action, (expected.action * 2).clamp(-2, 2), atol=1e-4)


def test_unknown_export_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"\.pt or \.onnx"):
        export_policy(make_policy(SPEC, NetConfig(image_features=16)), tmp_path / "policy.tflite")


def test_pretrained_parts(tmp_path: Path) -> None:
    net = NetConfig(image_features=16, core="lstm", core_size=8)
    torch.manual_seed(0)
    source = make_policy(SPEC, net)
    save_policy(source, tmp_path / "bc.safetensors")
    torch.manual_seed(1)
    target = make_policy(SPEC, net)
    critic = target.critic.weight.clone()
    copied = load_pretrained(target, tmp_path / "bc.safetensors", ["encoder", "core", "actor"])
    assert copied == ["actor", "core", "encoder"]
    assert torch.equal(target.critic.weight, critic)
    assert torch.equal(target.core.lstm.weight_hh_l0, source.core.lstm.weight_hh_l0)
    other = make_policy(SPEC, NetConfig(image_features=16, core="lstm", core_size=9))
    with pytest.raises(ConfigError, match=r"actor\.linear\.weight.*net\.\*"):
        load_pretrained(other, tmp_path / "bc.safetensors", [])
    with pytest.raises(ConfigError, match="heads"):
        load_pretrained(target, tmp_path / "bc.safetensors", ["heads"])
    with pytest.raises(CheckpointError, match="no weights"):
        load_policy(tmp_path)


def test_a_number_without_an_axis_is_a_vector_of_one() -> None:
    array = ArraySpec((), "float32")
    spec = EnvSpec({"t": array, "x": ArraySpec((2,), "float32")}, ActionSpec("discrete", 2, ()))
    policy = make_policy(spec, NetConfig(mlp=[4]))
    obs = {"t": torch.tensor([1.0, 2.0, 3.0]), "x": torch.zeros(3, 2)}
    step = policy.act(obs, policy.initial_state(3))
    assert step.action.shape[0] == 3 and step.value.unique().numel() == 3


def test_a_deviation_that_would_be_cut_is_refused() -> None:
    for words in (["net.initial_std=5"], ["pretrained_std=3", "pretrained=x"]):
        with pytest.raises(ConfigError, match=r"2\.7"):
            load_config(words)


@pytest.mark.parametrize("std", ["parameter", "state"])
def test_a_deviation_at_its_bound_comes_down_again(std: str) -> None:
    """The gradient of a clamp is zero outside: a deviation that got there would stay."""
    torch.manual_seed(0)
    head = GaussianHead(2, 3, std, 2.7)
    adam, features = torch.optim.Adam(head.parameters(), lr=0.01), torch.ones(4, 2)
    for sign, rows in ((-1.0, 50), (1.0, 100)):
        for _ in range(rows):
            adam.zero_grad()
            (sign * head(features).entropy().mean()).backward()
            adam.step()
        if sign < 0:  # as far as an entropy bonus leads, and momentum a little further
            assert head(features).log_std.max().item() == 1.0
            assert head.log_std.max().item() < 1.1
    assert head(features).log_std.max().item() < 0.9

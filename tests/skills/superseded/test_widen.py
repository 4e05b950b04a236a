import numpy as np
import pytest
import torch

from skills.envs.config import EnvConfig, action_space, observation_space
from skills.superseded.imitation.augment import mirrored
from skills.superseded.imitation.demonstrations import Demonstration
from skills.superseded.imitation.widen import widened
from tpsrl.errors import UserError
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import describe
from ver_trainer.nets.core import Packing
from ver_trainer.nets.policy import make_policy

NARROW = ("head_depth", "goal_to_agent_gps_compass", "joint")
WIDE = ("head_depth", "base_scan", "goal_to_agent_gps_compass", "joint")
NETS = [
    NetConfig(encoder="cnn", image_features=8, fusion=[16], normalize_obs=True, core="lstm"),
    NetConfig(encoder="mlp", mlp=[16], normalize_obs=True),
]


def policy(sensors, net):
    depth = 64 if net.encoder == "cnn" else None
    task = EnvConfig(depth=depth, sensors=sensors).task("navigate")
    return make_policy(describe(observation_space(task, depth), action_space(task)), net)


def act(learned, observations):
    packing = Packing(torch.tensor([5]), learned.initial_state(5, torch.device("cpu")))
    with torch.no_grad():
        distribution, value = learned.distribution(observations, packing)
    return distribution.mode(), value


@pytest.mark.parametrize("net", NETS, ids=["cnn", "mlp"])
def test_a_new_sense_changes_nothing_until_it_is_learned(net):
    torch.manual_seed(0)
    old = policy(NARROW, net)
    for _, norm in old.normalizers():
        norm.update(torch.rand(9), torch.rand(9) + 0.5, 100.0)
    spec = policy(WIDE, net).spec.observations
    seen = {name: torch.rand(5, *item.shape) for name, item in spec.items()}
    new = widened(old, policy(WIDE, net))
    for before, after in zip(act(old, seen), act(new, seen), strict=True):
        assert torch.allclose(before, after, atol=1e-6)
    ends = ("fusion.0.weight", "mlp.0.weight")
    first = next(p for name, p in new.named_parameters() if name.endswith(ends))
    assert int((first == 0).all(dim=0).sum()) == 23


def test_other_networks_and_lost_senses_are_refused():
    old = policy(WIDE, NETS[1])
    with pytest.raises(UserError, match="sees 'base_scan'"):
        widened(old, policy(NARROW, NETS[1]))
    with pytest.raises(UserError, match="differs from net"):
        widened(
            policy(NARROW, NETS[1]),
            policy(WIDE, NetConfig(encoder="mlp", mlp=[8], normalize_obs=True)),
        )


def test_a_mirrored_scan_sees_left_what_was_right():
    scan = np.random.default_rng(0).random((4, 23), dtype=np.float32)
    none = np.zeros(4, np.float32)
    episode = Demonstration(
        {"base_scan": scan, "goal_to_agent_gps_compass": np.ones((4, 2), np.float32)},
        np.ones((4, 3), np.float32),
        none,
        none,
        True,
        "success",
        0,
        "a",
    )
    twice = mirrored(mirrored(episode))
    assert np.array_equal(mirrored(episode).observations["base_scan"], scan[:, ::-1])
    assert np.array_equal(twice.observations["base_scan"], scan)

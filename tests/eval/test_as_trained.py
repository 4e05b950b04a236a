"""A policy is measured in the environment that what it sees and does depends on."""

import numpy as np
import pytest
import torch

from eval.skills import SkillEvalConfig, parts_of
from skills.envs.config import EnvConfig, action_space
from skills.envs.single import SkillEnv
from skills.learned.find import find_policy
from skills.learned.inference import NumpyPolicy
from skills.learned.skill import LearnedSkill
from tpsrl.errors import UserError
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import describe
from ver_trainer.export import save_policy
from ver_trainer.nets.policy import make_policy

COLOURED = ("joint", "head_rgb")
NET = NetConfig(encoder="cnn", image_features=16, core="none")


def trained(tmp_path, skill, environment, net=None, **env_args):
    """Save an untrained policy of such an environment, as its training would; return its file."""
    config = EnvConfig(depth=None, **env_args)
    task = config.task(skill)
    net = net or NetConfig(mlp=[8], core="none")
    file = tmp_path / "policy.safetensors"
    args = {"depth": None, **env_args}
    policy = make_policy(describe(config.space(task), action_space(task)), net)
    save_policy(policy, file, {"env": f"skills.envs:tpsrl/{environment}-v0", "env_args": args})
    return file


def asked(skill, file, **more):
    return parts_of(SkillEvalConfig(skill=skill, weights=file, **more))[1]


def test_a_policy_without_a_stop_is_measured_without(tmp_path):
    args = asked("open_cab", trained(tmp_path, "open_cab", "OpenCabinet", stop="success"))
    assert args["stop"] == "success"
    env = SkillEnv("open_cab", **args)
    policy = NumpyPolicy.load(tmp_path / "policy.safetensors")
    action = policy.step(env.reset(seed=0)[0])
    assert action.shape == env.action_space.shape
    env.step(action)
    env.close()


def test_a_policy_that_grasps_is_measured_with_a_grip(tmp_path):
    file = trained(tmp_path, "close_cab", "CloseCabinet", options={"suction": True, "horizon": 9})
    assert asked("close_cab", file)["options"] == {"suction": True}  # the horizon is the contract's


def test_a_policy_of_another_contract_is_refused(tmp_path):
    file = trained(tmp_path, "pick", "Pick", contract="parity")
    with pytest.raises(UserError, match="trained with contract=parity; give contract=parity"):
        asked("pick", file)
    assert asked("pick", file, contract="parity")["contract"] == "parity"


def test_pictures_in_colour_are_measured_as_they_were_learned_from(tmp_path):
    torch.manual_seed(0)
    file = trained(tmp_path, "pick", "Pick", NET, sensors=COLOURED, colour=48)
    args = asked("pick", file)
    assert args["colour"] == 48 and set(args["sensors"]) == set(COLOURED)
    env = SkillEnv("pick", depth=None, split="val", sensors=COLOURED, colour=48)
    seen = env.reset(seed=0)[0]
    env.close()
    assert seen["head_rgb"].dtype == np.uint8 and seen["head_rgb"].max() > 100
    policy = make_policy(describe(env.observation_space, env.action_space), NET).eval()
    save_policy(policy, file)
    batch = {name: torch.as_tensor(value)[None] for name, value in seen.items()}
    with torch.no_grad():
        wanted = policy.act(batch, policy.initial_state(1), deterministic=True)
    found = NumpyPolicy.load(file).step(seen)
    assert found == pytest.approx(np.clip(wanted.action[0].numpy(), -1, 1), abs=1e-4)


def test_a_chain_refuses_what_it_does_not_render(tmp_path):
    file = trained(tmp_path, "pick", "Pick", NET, sensors=COLOURED, colour=48)
    with pytest.raises(UserError, match="looks at head_rgb, and a chain renders depth"):
        LearnedSkill.load(find_policy(file, "pick"))

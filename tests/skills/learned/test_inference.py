import subprocess
import sys

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController, threadpool_limits

from skills.learned.cards import SHIPPED
from skills.learned.inference import NumpyPolicy
from tpsrl.errors import UserError
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ActionSpec, ArraySpec, EnvSpec
from ver_trainer.export import save_policy
from ver_trainer.nets.policy import make_policy

ACTION = ActionSpec("continuous", 4, (4,), (-1.0,) * 4, (1.0,) * 4)
VECTOR = {"joint": ArraySpec((7,), "float32"), "ee_pos": ArraySpec((3,), "float32")}
DEPTH = {"head_depth": ArraySpec((64, 64, 1), "float32")}


@pytest.mark.parametrize(
    ("observations", "net"),
    [
        (VECTOR, NetConfig(mlp=[16, 8], activation="tanh")),
        (VECTOR, NetConfig(mlp=[16], activation="elu", normalize_obs=True, std="state")),
        (DEPTH | VECTOR, NetConfig(encoder="cnn", image_features=32, core="lstm", core_size=16)),
        (
            DEPTH | VECTOR,
            NetConfig(encoder="cnn", image_features=32, fusion=[16, 8], normalize_obs=True),
        ),
        (DEPTH, NetConfig(encoder="cnn", image_features=32, core="none")),
        (
            DEPTH | VECTOR,
            NetConfig(encoder="resnet18", image_features=32, core="lstm", core_size=16),
        ),
        ({"head_depth": ArraySpec((128, 128, 1), "float32")}, NetConfig(encoder="resnet18")),
    ],
)
def test_numpy_policy_computes_what_torch_computes(tmp_path, observations, net):
    torch.manual_seed(0)
    policy = make_policy(EnvSpec(observations, ACTION), net).eval()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        for _, norm in policy.normalizers():
            norm.update(torch.randn(10), torch.rand(10) + 0.5, 100.0)
    save_policy(policy, tmp_path / "p.safetensors")
    ours = NumpyPolicy.load(tmp_path / "p.safetensors")
    rng = np.random.default_rng(0)
    for _ in range(2):  # the second time after a reset
        ours.reset()
        state = policy.initial_state(1)
        for _ in range(4):
            seen = {k: rng.random(s.shape, np.float32) for k, s in observations.items()}
            tensors = {k: torch.from_numpy(v)[None] for k, v in seen.items()}
            with torch.no_grad():
                step = policy.act(tensors, state, deterministic=True)
            state = step.state
            wanted = step.action[0].clamp(-1, 1).numpy()
            assert np.abs(wanted).max() > 0.01
            np.testing.assert_allclose(ours.step(seen), wanted, atol=2e-5)


@pytest.mark.parametrize("std", ["parameter", "state"])
def test_drawn_actions_have_the_distribution_that_torch_has(tmp_path, std):
    torch.manual_seed(0)
    net = NetConfig(mlp=[16], std=std, initial_std=0.2, binary_actions=[-1], binary_initial=[0.3])
    policy = make_policy(EnvSpec(VECTOR, ACTION), net).eval()
    save_policy(policy, tmp_path / "p.safetensors")
    ours, rng = NumpyPolicy.load(tmp_path / "p.safetensors"), np.random.default_rng(0)
    seen = {k: rng.random(s.shape, np.float32) for k, s in VECTOR.items()}
    drawn = np.array([ours.step(seen, rng) for _ in range(4000)])
    tensors = {k: torch.from_numpy(v).expand(4000, *v.shape) for k, v in seen.items()}
    with torch.no_grad():
        theirs = policy.act(tensors, policy.initial_state(4000)).action.clamp(-1, 1).numpy()
    np.testing.assert_allclose(drawn.mean(axis=0), theirs.mean(axis=0), atol=0.05)
    np.testing.assert_allclose(drawn.std(axis=0), theirs.std(axis=0), rtol=0.07)
    assert set(np.unique(drawn[:, -1])) == {-1.0, 1.0}


def test_networks_it_cannot_compute_are_refused(tmp_path):
    policy = make_policy(EnvSpec(DEPTH, ACTION), NetConfig(encoder="se_resnet9"))
    save_policy(policy, tmp_path / "p.safetensors")
    with pytest.raises(UserError, match="se_resnet9"):
        NumpyPolicy.load(tmp_path / "p.safetensors")
    with pytest.raises(UserError, match="no such file"):
        NumpyPolicy.load(tmp_path / "absent.safetensors")


@pytest.mark.parametrize("name", ["navigate", "pick"])
def test_actions_do_not_depend_on_the_number_of_threads(name):
    policy = NumpyPolicy.load(SHIPPED / f"{name}.safetensors")
    rng = np.random.default_rng(0)
    seen = [
        {k: rng.random(shape, np.float32) for k, shape in policy.observations.items()}
        for _ in range(5)
    ]

    def actions(threads: int) -> list[list[float]]:
        policy.reset()
        with threadpool_limits(limits=threads, user_api="blas"):
            found = [policy.step(one).tolist() for one in seen]
            assert {lib["num_threads"] for lib in blas.info()} == {threads}, "not put back"
        return found

    blas = ThreadpoolController().select(user_api="blas")
    assert actions(1) == actions(2)


def test_processes_that_step_a_simulator_import_no_torch():
    modules = "skills.learned.factory, eval.trials"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

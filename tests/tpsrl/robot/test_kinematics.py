"""The arm's kinematics agree with the engine's robot; inverse undoes forward."""

import mujoco
import numpy as np
import pytest

from tpsrl.robot import fetch
from tpsrl.robot.kinematics import arm_kinematics
from tpsrl.robot.mjcf import add_fetch

DOWN = np.array([0.0, 0.0, -1.0])


def random_posture(rng):
    noise = rng.normal(0.0, 0.5, fetch.ARM_DOF)
    return np.clip(fetch.ARM_INIT + noise, fetch.ARM_LOWER, fetch.ARM_UPPER)


def test_forward_agrees_with_the_engine_robot():
    spec = mujoco.MjSpec()
    add_fetch(spec)
    model = spec.compile()
    data = mujoco.MjData(model)
    for seed in range(5):
        qpos = random_posture(np.random.default_rng(seed))
        for name, value in zip(fetch.ARM_JOINTS, qpos, strict=True):
            data.joint(name).qpos[0] = value
        mujoco.mj_kinematics(model, data)
        tip = arm_kinematics().forward(qpos)
        assert tip.pos == pytest.approx(data.site("ee").xpos, abs=1e-9)
        assert tip.approach == pytest.approx(data.site("ee").xmat.reshape(3, 3)[:, 0], abs=1e-9)


def test_jacobian_matches_differences():
    kinematics = arm_kinematics()
    qpos = random_posture(np.random.default_rng(0))
    linear, _ = kinematics.jacobian(qpos)
    for j in range(fetch.ARM_DOF):
        step = np.zeros(fetch.ARM_DOF)
        step[j] = 1e-6
        change = kinematics.forward(qpos + step).pos - kinematics.forward(qpos - step).pos
        assert linear[:, j] == pytest.approx(change / 2e-6, abs=1e-6)


@pytest.mark.parametrize("pitch", [0.3, 0.8, np.pi / 2])
def test_planar_closed_form(pitch):
    kinematics, found = arm_kinematics(), 0
    for radius in np.arange(0.4, 1.1, 0.1):
        for height in (0.5, 0.8, 1.0):
            qpos = kinematics.planar(-0.3, radius, height, pitch)
            if qpos is None:
                continue
            found += 1
            tip = kinematics.forward(qpos)
            wanted = kinematics.pan_axis + radius * np.array([np.cos(-0.3), np.sin(-0.3)])
            assert tip.pos == pytest.approx([*wanted, height], abs=1e-9)
            assert tip.approach[2] == pytest.approx(-np.sin(pitch), abs=1e-9)
    assert found > 3


def test_damped_steps_track_a_moving_point():
    kinematics = arm_kinematics()
    qpos = kinematics.planar(0.0, 0.65, 0.9, np.pi / 2)
    for k in range(100):
        goal = kinematics.pan_axis.tolist()
        goal = np.array([goal[0] + 0.65, 0.001 * k, 0.9 - 0.001 * k])
        after = kinematics.step(qpos, goal, DOWN)
        assert np.abs(after - qpos).max() <= fetch.ARM_DELTA + 1e-12
        qpos = after
    assert np.linalg.norm(kinematics.forward(qpos).pos - goal) < 0.01

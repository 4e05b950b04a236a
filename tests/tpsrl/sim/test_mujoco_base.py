"""The base gives way to what it meets, and its own arm."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tpsrl.sim import small
from tpsrl.geometry.rotations import wrap
from tpsrl.robot import fetch
from tpsrl.sim.mujoco.engine import MujocoSimulator

HOLD = 1.0


@pytest.fixture
def sim():
    with small.simulator() as engine:
        engine.reset([small.episode()], [0])
        yield engine


def test_free_driving_is_exact_while_the_arm_swings(sim):
    rng = np.random.default_rng(1)
    expected = sim.state().base_pose[0].copy()
    for _ in range(60):
        action = rng.uniform(-1.0, 1.0, (1, 10))
        action[0, :7] = np.sign(action[0, :7])
        action[0, 8] = -0.3 * np.sign(expected[0] * np.cos(expected[2]))
        sim.step(action)
        drive = action[0, 8] * fetch.BASE_DELTA_LINEAR
        expected[:2] += drive * np.array([np.cos(expected[2]), np.sin(expected[2])])
        expected[2] += action[0, 9] * fetch.BASE_DELTA_ANGULAR
        assert sim.state().force[0] == 0.0
        gap = sim.state().base_pose[0] - expected
        assert np.abs([*gap[:2], wrap(gap[2])]).max() < 1e-9


def press_on_the_wall(engine: MujocoSimulator, steps: int, **parts: float) -> float:
    """Drive the stretched arm against the east wall; return the largest force, N."""
    engine.set_base([[1.75, -2.0, 0.0]], [0])
    engine.set_arm([[0.0, 0.3, 0.0, -0.2, 0.0, -0.1, 0.0]], [0])
    largest = 0.0
    for _ in range(steps):
        small.run(engine, 1, forward=1.0, **parts)
        largest = max(largest, float(engine.state().force[0]))
    return largest


@pytest.mark.parametrize("parts", [{}, {"turn": 0.5}, {"turn": -0.5}, {"arm": 1.0}])
def test_driving_into_a_wall_stays_below_500_newtons(sim, parts):
    largest = press_on_the_wall(sim, 40, **parts)
    assert 20.0 < largest < 500.0
    if not parts:
        assert sim.state().ee_pos[0, 0] < 3.02, "the arm does not go into the wall"
        assert sim.state().base_pose[0, 0] < 2.4
        before = sim.state().base_pose[0].copy()
        small.run(sim, 5, forward=-0.5)
        small.run(sim, 5, forward=-0.5)
        assert before[0] - sim.state().base_pose[0, 0] == pytest.approx(10 / 24, abs=0.02)


def test_an_arm_deep_in_a_wall_backs_out(sim):
    press_on_the_wall(sim, 0)
    start = 1.75 + 3.0 - sim.state().ee_pos[0, 0] + 0.1
    sim.set_base([[start, -2.0, 0.0]])
    small.run(sim, 5, forward=-0.5)
    assert start - sim.state().base_pose[0, 0] > 0.1
    assert sim.state().force[0] == 0.0


def test_the_base_gives_way_to_its_own_arm(sim):
    bent = np.array([0.0, -0.9, 0.0, 1.8, 0.0, -0.9, 0.0])
    sim.set_base([[1.9, -2.0, 0.0]])
    sim.set_arm([bent])
    reach = 3.0 - sim.state().ee_pos[0, 0]
    sim.set_base([[1.9 + reach - 0.005, -2.0, 0.0]])
    before = sim.state().base_pose[0, 0]
    stretch = np.zeros((1, 10))
    stretch[0, [1, 3, 5, 7]] = 0.5, -1.0, 0.5, -1.0
    forces = []
    for _ in range(100):
        sim.step(stretch)
        forces.append(sim.state().force[0])
    assert 20.0 < max(forces) < 500.0
    assert before - sim.state().base_pose[0, 0] > 0.05
    assert sim.scene().navigation.is_navigable(sim.state().base_pose[0, :2])


def test_what_gives_way_repeats_bit_for_bit():
    with small.simulator(num_envs=2) as engine:
        engine.reset([small.episode("a"), small.episode("b")], [0, 1])
        engine.snap_object(0, 0)
        press_on_the_wall(engine, 12, grip=HOLD)
        saved = engine.capture(0)
        assert engine.state().force[0] > 0.0

        def future(env_id: int) -> np.ndarray:
            rng = np.random.default_rng(5)
            rows = []
            for _ in range(40):
                action = rng.uniform(-1, 1, (2, 10))
                action[:] = [*action[0, :7], HOLD, 1.0, action[0, 9]]
                engine.step(action)
                state = engine.state()
                parts = (
                    state.base_pose,
                    state.arm_qpos,
                    state.object_pos[:, 0],
                    state.force[:, None],
                )
                rows.append(np.concatenate([part[env_id] for part in parts]))
            return np.array(rows)

        first = future(0)
        engine.restore(saved, 1)
        assert np.array_equal(first, future(1))


def test_force_is_reported_when_the_arm_is_pushed_into_furniture(sim):
    small.run(sim, 10)
    assert sim.state().force[0] == 0.0
    sim.set_base([[0.4, 0.0, 0.0]])
    down = np.zeros((1, 10))
    down[0, 1], down[0, 7] = 1.0, -1.0
    forces = []
    for _ in range(100):
        sim.step(down)
        forces.append(sim.state().force[0])
    assert max(forces) > 20.0
    assert sim.state().force_sum[0] > 0.0

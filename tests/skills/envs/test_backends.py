"""The same functions on NumPy arrays and on torch tensors, and sensors against plain geometry."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation

from skills.book import BOOK, make_task
from skills.tasks.sensors import DEPTH, SENSORS, observe
from tests.skills.envs.states import goals, state, to_torch, view

N = 64


def _run(task, convert):
    """Three steps through random states: every number that comes out."""
    rows, out = goals(N, seed=5), []
    rng = np.random.default_rng(0)
    progress = None
    for seed in (1, 2, 3, 4):
        geodesic = convert(np.abs(rng.normal(size=N)))
        sees = view(convert(state(N, seed=seed)), rows, geodesic)
        action = convert(rng.uniform(-1, 1, (N, task.layout.size)))
        robot, stop = task.robot_action(sees, action)
        if progress is None:
            progress = task.begin(sees)
        else:
            progress, outcome = task.step(sees, progress, stop)
            out += [getattr(outcome, f.name) for f in dataclasses.fields(outcome)][:5]
            out += list(outcome.metrics.values())
        out += [robot, stop, *observe(sees, list(SENSORS)).values()]
        out += [getattr(progress, f.name) for f in dataclasses.fields(progress)]
    return out


@pytest.mark.parametrize("contract", ["fixed", "parity"])
@pytest.mark.parametrize("skill", list(BOOK))
def test_torch_agrees_with_numpy(skill, contract):
    task = make_task(skill, contract=contract)
    ours, theirs = _run(task, lambda a: a), _run(task, to_torch)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert isinstance(b, torch.Tensor)
        assert str(b.dtype).removeprefix("torch.") == str(a.dtype)
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-6, atol=1e-9)


def test_outcomes_are_varied_enough_to_mean_something():
    task = make_task("pick")
    rows = goals(N, seed=5)
    progress = task.begin(view(state(N, seed=1), rows))
    never = np.zeros(N, dtype=bool)
    _, outcome = task.step(view(state(N, seed=2), rows), progress, never)
    assert len(np.unique(outcome.cause)) >= 4 and len(np.unique(outcome.reward)) > 10


def test_sensors_against_scipy():
    s, rows = state(N, seed=7), goals(N, seed=8)
    seen = observe(view(s, rows), [*SENSORS, DEPTH])
    assert DEPTH not in seen
    for name, values in seen.items():
        assert values.dtype == np.float32 and values.shape == (N, SENSORS[name].size)
    base = Rotation.from_euler("z", s.base_pose[:, 2:])
    floor = np.column_stack([s.base_pose[:, :2], np.zeros(N)])
    ee = base.inv().apply(s.ee_pos - floor)
    np.testing.assert_allclose(seen["ee_pos"], ee, atol=1e-6)
    np.testing.assert_allclose(seen["relative_resting_position"], [0.5, 0, 1.0] - ee, atol=1e-6)
    gripper = Rotation.from_quat(s.ee_quat, scalar_first=True).inv()
    start = np.array([r.object_start for r in rows])
    np.testing.assert_allclose(seen["obj_start_sensor"], gripper.apply(start - s.ee_pos), atol=1e-5)
    goal = base.inv().apply(np.array([r.position for r in rows]) - floor)
    np.testing.assert_allclose(seen["obj_goal_in_base"], goal, atol=1e-5)
    origin = base.inv().apply(start - floor)
    np.testing.assert_allclose(seen["obj_start_in_base"], origin, atol=1e-5)
    facing = base.inv().apply([[*r.start_place[:2], 0.0] for r in rows])[:, :2]
    kinds = np.array([r.start_place[2:] for r in rows])
    np.testing.assert_allclose(seen["obj_start_place"], np.hstack([facing, kinds]), atol=1e-6)
    polar = np.column_stack([np.hypot(*goal[:, :2].T), -np.arctan2(goal[:, 1], goal[:, 0])])
    np.testing.assert_allclose(seen["goal_to_agent_gps_compass"], polar, atol=1e-5)

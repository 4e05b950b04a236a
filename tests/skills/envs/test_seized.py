"""Place may begin with what it holds as a chain's Pick brings it."""

from __future__ import annotations

import numpy as np

from skills.envs.single import SkillEnv
from skills.tasks.around import half_size
from tpsrl.geometry.rotations import rotate_inverse


def hanging(seized: float, count: int = 30) -> tuple[np.ndarray, np.ndarray]:
    """Return (count, 3) from the cup to the object's centre, and that in shares of its box."""
    gaps, shares = [], []
    with SkillEnv("place", depth=None, split="val", options={"seized": seized}) as env:
        for seed in range(count):
            env.reset(seed=seed)
            sim = env.sim
            state, held = sim.state(), int(sim.state().held_object[0])
            gap = np.asarray(state.object_pos[0, held] - state.ee_pos[0])
            half = half_size(sim.episode(0).objects[held].type)
            gaps.append(gap)
            shares.append(np.abs(rotate_inverse(np.asarray(state.object_quat[0, held]), gap)) / half)
    return np.array(gaps), np.array(shares)


def test_what_is_seized_is_held_by_its_sides() -> None:
    above, beside = hanging(0.0)[0][:, 2], hanging(1.0)
    assert (above < 0.0).all()  # Habitat's starts hold the middle of the top
    gaps, shares = beside
    assert 5 <= (gaps[:, 2] > 0.0).sum() <= 25
    # The cup is where a side of the box is.
    np.testing.assert_allclose(shares.max(axis=1), 1.0, atol=1e-4)


def test_a_share_of_the_episodes_begins_so() -> None:
    hung, some = hanging(0.0)[0], hanging(0.5)[0]
    same = np.isclose(hung, some, atol=1e-9).all(axis=1).sum()
    assert 5 <= same <= 25

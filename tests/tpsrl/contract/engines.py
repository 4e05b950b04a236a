"""The engines that the contract is checked on, and how far each may be from the ideal."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import Episode
from tpsrl.sim.door import Simulator

DEPTH = 64
"""Pixels of the head depth picture."""
HABITAT_PYTHON = "TPSRL_HABITAT_PYTHON"
"""Environment variable with the interpreter that habitat-lab is installed in."""
START = np.array([0.0, 0.0, 2.5])
"""A free spot in the layout of :func:`episode`, facing an open room."""
UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


@dataclass(frozen=True)
class Engine:
    """One way to make a simulator.

    Attributes:
        make: number of worlds -> simulator.
        exact: the same seed and a restored state repeat bit for bit.
        many: more than one world fits in a simulator.
        gives_way: a drive of limited force; otherwise the base moves whatever resists.
    """

    make: Callable[[int], Simulator]
    exact: bool = True
    many: bool = True
    gives_way: bool = True


def _mujoco(num_envs: int) -> Simulator:
    from tpsrl.sim.mujoco.engine import MujocoSimulator

    return MujocoSimulator(num_envs, depth=DEPTH)


def _served(num_envs: int) -> Simulator:
    """MuJoCo in another process, behind the transport that Habitat's server uses."""
    from tpsrl.engines import make_simulator

    return make_simulator("mujoco_server", DEPTH, num_envs=num_envs)


def _habitat(num_envs: int) -> Simulator:
    from tpsrl.engines import make_simulator

    return make_simulator("habitat", DEPTH, habitat={"python": os.environ.get(HABITAT_PYTHON)})


ENGINES = {
    "mujoco": Engine(_mujoco),
    "mujoco in a server": Engine(_served, many=False),
    "habitat": Engine(_habitat, exact=False, many=False, gives_way=False),
}


def engine(name: str) -> Engine:
    """Return an engine, or skip the test with the reason where it is not installed."""
    if name == "habitat" and not (
        os.environ.get(HABITAT_PYTHON) or importlib.util.find_spec("habitat")
    ):
        pytest.skip(f"habitat: not installed here and {HABITAT_PYTHON} names no interpreter")
    return ENGINES[name]


def episode(start: np.ndarray | None = START) -> Episode:
    """A set_table episode: closed drawers and fridge, 29 objects, two targets."""
    return dataclasses.replace(load_shipped("set_table").episodes[0], start=start)


def object_index(kind: str) -> int:
    """Index of the first object of a type in :func:`episode`."""
    return next(i for i, o in enumerate(episode().objects) if o.type == kind)

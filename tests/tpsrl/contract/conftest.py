"""Every test of this folder runs on every engine; an engine that is not there says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.tpsrl.contract import engines
from tpsrl.sim.door import Simulator


@pytest.fixture(scope="module", params=engines.ENGINES)
def kind(request: pytest.FixtureRequest) -> engines.Engine:
    """How to make the engine under test."""
    return engines.engine(request.param)


@pytest.fixture(scope="module")
def opened(kind: engines.Engine) -> Iterator[Simulator]:
    """One simulator for the tests of a module: making it is the slow part."""
    with kind.make(1) as sim:
        yield sim


@pytest.fixture
def sim(opened: Simulator) -> Simulator:
    """The simulator, reset to the episode with the robot at its fixed start."""
    opened.reset([engines.episode()], [0])
    return opened

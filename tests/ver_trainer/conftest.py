"""Ends runs that a failed test has left behind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ver_trainer import test_runner


@pytest.fixture(autouse=True)
def no_run_survives_its_test() -> Iterator[None]:
    yield
    while test_runner.STARTED:
        process = test_runner.STARTED.pop()
        if process.poll() is None:
            process.kill()
            process.communicate()

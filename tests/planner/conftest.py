from pathlib import Path

import pytest

from planner import load_domain, load_problem

CONFIGS = Path(__file__).parents[2] / "configs" / "planner"


@pytest.fixture(scope="session")
def domain():
    return load_domain(CONFIGS / "domain.yaml")


@pytest.fixture(scope="session")
def problem(domain):
    return lambda name: load_problem(CONFIGS / f"{name}.yaml", domain)

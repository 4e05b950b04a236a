import pytest

from planner.chain.problems import hab_domain, hab_problem


@pytest.fixture(scope="session")
def domain():
    return hab_domain()


@pytest.fixture(scope="session")
def problem():
    return hab_problem

"""The monitor says what a plan relies on and does not hold."""

import pytest

from planner import Atom, find_plan
from planner.monitor import Monitor

A = Atom.parse


class World:
    """A set of atoms that the tests carry actions out on."""

    def __init__(self, plan):
        self.plan, self.atoms = plan, set(plan.problem.init)

    def holds(self, atom):
        return atom in self.atoms

    def run(self, *indices):
        for index in indices:
            self.atoms = set(self.plan.actions[index].apply(frozenset(self.atoms)))


@pytest.fixture
def table(problem):
    plan = find_plan(problem("set_table"))
    world = World(plan)
    return plan, world, Monitor(plan, world.holds)


def test_every_step_in_order(table):
    plan, world, monitor = table
    assert len(plan) == 11
    for index in range(len(plan)):
        assert monitor.threatened(index) == ()
        world.run(index)
    assert monitor.threatened(len(plan)) == ()


def test_an_object_dropped_on_the_way(table):
    _, world, monitor = table
    world.run(0, 1, 2)
    world.atoms -= {A("holding(bowl_target|0)")}
    world.atoms |= {A("not_holding()")}
    assert monitor.threatened(4) == (
        A("holding(bowl_target|0)"),
        A("robot_at(TARGET_bowl_target|0)"),
    )


def test_a_goal_undone_later_is_seen(table):
    plan, world, monitor = table
    world.run(*range(10))
    world.atoms -= {A("object_at(bowl_target|0, TARGET_bowl_target|0)")}
    world.run(10)
    assert monitor.threatened(len(plan)) == (A("object_at(bowl_target|0, TARGET_bowl_target|0)"),)

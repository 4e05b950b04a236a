"""An independent planner finds plans of the same length from the exported PDDL."""

import pytest
from pyperplan.planner import HEURISTICS, SEARCHES, search_plan

from planner import PlannerError, find_plan
from planner.pddl import domain_text, to_pddl


def solve(problem, folder):
    domain, text = to_pddl(problem)
    paths = folder / "domain.pddl", folder / "problem.pddl"
    paths[0].write_text(domain)
    paths[1].write_text(text)
    return search_plan(str(paths[0]), str(paths[1]), SEARCHES["astar"], HEURISTICS["lmcut"])


@pytest.mark.parametrize(
    ("name", "length"),
    [("tidy_house", 20), ("prepare_groceries", 12), ("set_table", 11), ("rearrange_easy", 4)],
)
def test_pyperplan_agrees(problem, tmp_path, name, length):
    found = solve(problem(name), tmp_path)
    assert len(found) == length == len(find_plan(problem(name)))


def test_names_that_clash_are_refused(problem):
    easy = problem("rearrange_easy")
    twice = easy.replace(objects={**easy.objects, "goal0_0": "movable_entity_type"})
    with pytest.raises(PlannerError, match=r"'goal0\|0' and 'goal0_0' would both"):
        domain_text(twice)

"""The picture shows every action and every explored state."""

from matplotlib.patches import FancyBboxPatch

from planner import Atom, find_plan
from planner.draw import draw_plan, layout


def test_every_action_and_state_is_drawn(problem, tmp_path):
    plan = find_plan(problem("set_table"))
    figure = draw_plan(plan)
    left, right = figure.axes
    assert sum(isinstance(p, FancyBboxPatch) for p in left.patches) == 11
    drawn = sum(len(c.get_offsets()) for c in right.collections)
    assert drawn == plan.graph.number_of_nodes()
    assert figure.get_suptitle() == "set_table: 11 actions"
    figure.savefig(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")


def test_states_do_not_cover_each_other(problem):
    plan = find_plan(problem("tidy_house"))
    places = layout(plan)
    assert len(set(places.values())) == len(places) == plan.graph.number_of_nodes()
    assert [places[s] for s in plan.states] == [(float(i), 0.0) for i in range(21)]


def test_an_empty_plan_can_be_drawn(problem):
    easy = problem("rearrange_easy")
    done = Atom.parse("object_at(goal0|0, TARGET_goal0|0)")
    figure = draw_plan(find_plan(easy.replace(init={*easy.init, done})))
    assert "Nothing to do" in figure.axes[0].texts[0].get_text()

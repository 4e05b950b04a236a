"""Plans: the benchmark's own, from other start states, and against independent searches."""

import random

import networkx as nx
import pytest

from planner import Atom, PlannerError, find_plan
from planner.ground import ground

A = Atom.parse
CAB, FRIDGE = "cab_push_point_5", "fridge_push_point"


def steps(label, goal="TARGET_{}"):
    target = goal.format(label)
    return [f"nav({label})", f"pick({label})", f"nav({target})", f"place({label}, {target})"]


def edit(problem, remove=(), add=()):
    gone = [A(t) for t in remove]
    for atom in gone:
        assert atom in problem.init, f"the test removes {atom}, which does not hold"
    init = {a for a in problem.init if a not in gone} | {A(t) for t in add}
    return problem.replace(init=init)


def test_tidy_house_is_the_benchmarks_solution(problem):
    plan = find_plan(problem("tidy_house"))
    assert plan.text() == [s for i in range(5) for s in steps(f"any_targets|{i}")]
    assert plan.seconds < 1.0


def test_prepare_groceries_is_the_benchmarks_solution(problem):
    plan = find_plan(problem("prepare_groceries"))
    assert plan.text() == [s for i in range(3) for s in steps(f"obj{i}_target|{i}")]


def test_set_table_is_the_benchmarks_solution(problem):
    plan = find_plan(problem("set_table"))
    bowl, fruit = "bowl_target|0", "fruit_target|1"
    assert plan.text() == [
        f"nav_to_receptacle({CAB}, {bowl})",
        f"open_cab({CAB}, {bowl})",
        *steps(bowl)[1:],
        f"nav_to_receptacle({FRIDGE}, {fruit})",
        f"open_fridge({FRIDGE}, {fruit})",
        *steps(fruit),
    ]


def test_rearrange_easy_is_nav_pick_nav_place(problem):
    assert find_plan(problem("rearrange_easy")).text() == steps("goal0|0")


def test_states_and_graph_agree_with_the_actions(problem):
    plan = find_plan(problem("set_table"))
    state = plan.problem.init
    for action, following in zip(plan.actions, plan.states[1:], strict=True):
        assert action.pre <= state
        assert plan.graph.edges[state, following]["action"] == action
        state = action.apply(state)
        assert state == following
    assert set(plan.problem.goal) <= state
    assert nx.shortest_path_length(plan.graph, plan.states[0], plan.states[-1]) == len(plan)


def test_nothing_to_do(problem):
    tidy = problem("rearrange_easy")
    done = edit(tidy, add=["object_at(goal0|0, TARGET_goal0|0)"])
    assert find_plan(done).actions == ()


def test_an_object_already_placed_is_left_alone(problem):
    tidy = edit(problem("tidy_house"), add=["object_at(any_targets|2, TARGET_any_targets|2)"])
    assert find_plan(tidy).text() == [s for i in (0, 1, 3, 4) for s in steps(f"any_targets|{i}")]


def test_a_drawer_already_open_is_not_opened(problem):
    table = edit(problem("set_table"), remove=[f"closed_cab({CAB})"], add=[f"opened_cab({CAB})"])
    assert find_plan(table).text()[:4] == steps("bowl_target|0")


def test_a_fridge_fallen_shut_is_opened_again(problem):
    table = edit(
        problem("set_table"),
        remove=["in(bowl_target|0, cab_push_point_5)"],
        add=["object_at(bowl_target|0, TARGET_bowl_target|0)"],
    )
    assert find_plan(table).text() == [
        f"nav_to_receptacle({FRIDGE}, fruit_target|1)",
        f"open_fridge({FRIDGE}, fruit_target|1)",
        *steps("fruit_target|1"),
    ]


def test_a_held_object_is_placed_first(problem):
    tidy = edit(problem("tidy_house"), remove=["not_holding()"], add=["holding(any_targets|3)"])
    plan = find_plan(tidy).text()
    assert plan[:2] == steps("any_targets|3")[2:]
    assert plan[2:6] == steps("any_targets|0")
    assert len(plan) == 18


def test_an_object_out_of_its_closed_container_needs_no_opening(problem):
    table = edit(problem("set_table"), remove=["in(fruit_target|1, fridge_push_point)"])
    assert find_plan(table).text()[-4:] == steps("fruit_target|1")


def test_pick_is_not_applicable_in_a_closed_container(problem):
    table = problem("set_table")
    state = table.init | {A("robot_at(bowl_target|0)")}
    picks = [a for a in ground(table) if a.label == "pick" and a.args[0] == "bowl_target|0"]
    assert picks
    assert not any(a.pre <= state for a in picks)
    opened = (state - {A(f"closed_cab({CAB})")}) | {A(f"opened_cab({CAB})")}
    assert [str(a) for a in picks if a.pre <= opened] == ["pick(bowl_target|0)"]


@pytest.mark.parametrize(
    ("container", "opening", "after"),
    [(CAB, "open_cab", 0), (FRIDGE, "open_fridge", 0)],
)
def test_a_closed_goal_container_is_opened_before_picking(problem, container, opening, after):
    easy, goal = problem("rearrange_easy"), "TARGET_goal0|0"
    plan = find_plan(edit(easy, add=[f"in({goal}, {container})"])).text()
    assert plan == [
        f"nav_to_receptacle({container}, {goal})",
        f"{opening}({container}, {goal})",
        *steps("goal0|0"),
    ]


def test_holding_before_a_closed_goal_puts_the_object_down_first(problem):
    easy, goal, spot = problem("rearrange_easy"), "TARGET_goal0|0", "START_goal0|0"
    stuck = edit(
        easy,
        remove=["not_holding()"],
        add=[f"in({goal}, {FRIDGE})", "holding(goal0|0)"],
    )
    assert find_plan(stuck) is None
    freed = stuck.replace(
        objects={**stuck.objects, spot: "goal_entity_type"},
        init={*stuck.init, A(f"belongs(goal0|0, {spot})")},
    )
    assert find_plan(freed).text() == [
        f"nav({spot})",
        f"place(goal0|0, {spot})",
        f"nav_to_receptacle({FRIDGE}, {goal})",
        f"open_fridge({FRIDGE}, {goal})",
        *steps("goal0|0"),
    ]


def test_no_object_is_put_down_where_another_belongs(problem):
    groceries = edit(
        problem("prepare_groceries"),
        remove=["not_holding()", f"opened_fridge({FRIDGE})"],
        add=["holding(obj2_target|2)", f"closed_fridge({FRIDGE})"],
    )
    assert find_plan(groceries) is None


def test_goal_order_decides_which_object_comes_first(problem):
    tidy = problem("tidy_house")
    turned = tidy.replace(goal=[*tidy.goal[2:5], *tidy.goal[:2], tidy.goal[5]])
    assert find_plan(turned).text() == [
        s for i in (2, 3, 4, 0, 1) for s in steps(f"any_targets|{i}")
    ]


def test_closing_can_be_a_goal(problem):
    table = problem("set_table")
    tidied = table.replace(goal=[*table.goal, A(f"closed_cab({CAB})")])
    assert find_plan(tidied).text()[-2:] == [
        f"nav_to_receptacle_by_name({CAB})",
        f"close_cab_by_name({CAB})",
    ]


def brute_force(problem, actions):
    """Length of the shortest plan and the first such plan in rank order, by plain BFS."""
    goal, layer, seen = frozenset(problem.goal), {problem.init: ()}, {problem.init}
    while layer:
        done = [path for state, path in layer.items() if goal <= state]
        if done:
            return min(done)
        following = {}
        for state, path in layer.items():
            for index, action in enumerate(actions):
                if action.pre <= state:
                    new = action.apply(state)
                    if new not in seen:
                        following[new] = min(following.get(new, (10**9,)), (*path, index))
        seen |= set(following)
        layer = following
    return None


@pytest.mark.parametrize("seed", range(12))
def test_length_and_order_equal_those_of_exhaustive_search(problem, seed):
    rng = random.Random(seed)
    base = problem(rng.choice(["set_table", "prepare_groceries"]))
    init = set(base.init)
    for atom in sorted(base.init):
        if atom.name == "in" and rng.random() < 0.4:
            init.discard(atom)
        if atom.name.startswith(("closed", "opened")) and rng.random() < 0.4:
            init.discard(atom)
            kind = atom.name.split("_")[1]
            init.add(Atom(f"{rng.choice(['opened', 'closed'])}_{kind}", atom.args))
    if rng.random() < 0.5:
        init.add(rng.choice([g for g in base.goal if g.args]))
    start = base.replace(init=init)
    actions = ground(start)
    expected = brute_force(start, actions)
    plan = find_plan(start)
    assert plan.text() == [str(actions[i]) for i in expected]


def test_no_plan(problem):
    table = edit(problem("set_table"), remove=[f"closed_cab({CAB})"])
    assert find_plan(table) is None  # neither open nor closed: cannot be opened


def test_too_many_states_are_refused(problem, monkeypatch):
    tidy = problem("tidy_house")
    monkeypatch.setattr("planner.search.MAX_STATES", 3)
    with pytest.raises(PlannerError, match="No plan for tidy_house within 3 states"):
        find_plan(tidy)

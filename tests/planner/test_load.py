"""Bad domains and problems are refused in one sentence that names the thing."""

import pytest

from planner import Atom, PlannerError, load_domain, load_problem

EASY = {
    "name": "easy",
    "objects": {"cup": "movable_entity_type", "spot": "goal_entity_type"},
    "init": ["not_holding()"],
    "goal": ["object_at(cup, spot)"],
}


def test_a_problem_may_be_a_mapping(domain):
    problem = load_problem(EASY, domain)
    assert problem.goal == (Atom("object_at", ("cup", "spot")),)
    assert Atom("outside", ("cup",)) in problem.init


def test_complements_follow_the_start_state(domain):
    problem = load_problem({**EASY, "init": ["in(cup, fridge_push_point)"]}, domain)
    assert Atom("outside", ("cup",)) not in problem.init
    assert Atom("outside", ("spot",)) in problem.init


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"goals": []}, "Unknown key 'goals' in the mapping 'easy'; did you mean 'goal'?"),
        ({"goal": ["object_at(cup)"]}, "'object_at(cup)' in the goal of easy must have 2 arg"),
        ({"goal": ["objectat(cup, spot)"]}, "Unknown predicate 'objectat'.*mean 'object_at'"),
        ({"goal": ["object_at(cap, spot)"]}, "Unknown entity 'cap' in the goal.*mean 'cup'"),
        ({"goal": ["object_at(spot, cup)"]}, "'spot' in .* is of type goal_entity_type, not mov"),
        ({"objects": {"cup": "movable"}}, "Unknown type 'movable' of 'cup'"),
        ({"init": ["not_holding"]}, "'not_holding' is no atom; write it as name"),
    ],
)
def test_bad_problems(domain, change, message):
    with pytest.raises(PlannerError, match=message.replace("(", r"\(").replace(")", r"\)")):
        load_problem({**EASY, **change}, domain)


def test_a_missing_key(domain):
    with pytest.raises(PlannerError, match="lacks the key 'goal'"):
        load_problem({k: v for k, v in EASY.items() if k != "goal"}, domain)


def test_a_missing_and_a_broken_file(domain, tmp_path):
    with pytest.raises(PlannerError, match=r"Cannot read .*none.yaml: .*; give a planner YAML"):
        load_problem(tmp_path / "none.yaml", domain)
    (tmp_path / "bad.yaml").write_text("a: [1\n")
    with pytest.raises(PlannerError, match=r"Cannot read .*bad.yaml"):
        load_problem(tmp_path / "bad.yaml", domain)


def test_bad_domains(domain):
    text = {
        "name": "d",
        "types": {"thing": "object"},
        "predicates": {"on": ["thing"]},
        "actions": {"put": {"params": {"x": "thing"}, "pre": [], "add": ["on(y)"]}},
    }
    with pytest.raises(PlannerError, match="Unknown entity 'y' in action 'put'"):
        load_domain(text)
    with pytest.raises(PlannerError, match="unknown parent 'objekt'"):
        load_domain({**text, "types": {"thing": "objekt"}})
    with pytest.raises(PlannerError, match="did you mean 'pre'"):
        load_domain({**text, "actions": {"put": {"params": {}, "prec": [], "add": []}}})


def test_subtypes(domain):
    assert domain.is_a("cab_type", "static_obj_type")
    assert not domain.is_a("cab_type", "obj_type")

"""A scenario that cannot be meant is refused in one sentence that names its file and the key."""

import pytest

from tpsrl.errors import UserError
from tpsrl.generation.rules import find_scenario, load_scenario, scenario_names

GOOD = """
samplers:
  can:
    objects: [005_tomato_soup_can]
    receptacles: [counter_left, drawer_right_top]
    count: 2
goals:
  can: {sampler: can, receptacles: [table_01]}
joints: {fridge/top_door: 1.5}
"""
OPENED = "open_if_used: {kitchen_counter/drawer3: 0.5}\n"


def write(folder, text):
    path = folder / "mine.yaml"
    path.write_text(text)
    return path


def test_a_file_is_a_scenario_named_after_it(tmp_path, monkeypatch):
    path = write(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    mine = load_scenario("mine.yaml")
    assert (mine.name, mine.file) == ("mine", str(path))
    assert [label for label, _ in mine.targets()] == ["can|0"]
    before = mine.digest()
    write(tmp_path, GOOD + "# other\n")
    assert load_scenario(str(path)).digest() != before
    assert load_scenario("set_table").origin() == {}
    assert load_scenario(str(find_scenario("set_table"))) == load_scenario("set_table")
    assert set(scenario_names()) >= {"set_table", "in_fridge"}


def test_a_goal_in_a_drawer_that_starts_open_is_fine(tmp_path):
    load_scenario(str(write(tmp_path, GOOD.replace("table_01", "drawer_right_top") + OPENED)))
    load_scenario(str(write(tmp_path, GOOD.replace("table_01", "fridge_middle"))))
    shut = GOOD.replace("table_01", "fridge_middle").replace("joints", "max_per_receptacle")
    load_scenario(str(write(tmp_path, shut.replace("fridge/top_door: 1.5", "chair: 2"))))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("samplers:", "sampler:", "unknown key 'sampler'; did you mean 'samplers'?"),
        ("samplers:", "name: x\nsamplers:", "key 'name' is not for the file"),
        ("count: 2", "cuont: 2", "unknown key 'cuont' in 'samplers.can'; did you mean 'count'?"),
        ("count: 2", "count: two", "key 'samplers.can.count': Value 'two'"),
        ("count: 2", "count: -1", "samplers.can.count=-1 must be at least 0"),
        ("{sampler: can,", "{sampler: can, count: 0,", "goals.can.count=0 must be at least 1"),
        (GOOD, GOOD + "max_steps: 0", "max_steps=0 must be at least 1"),
        ("[table_01]", "[tabel_01]", "goals.can.receptacles: unknown receptacle 'tabel_01'; did"),
        ("[table_01]", "[]", "goals.can.receptacles is empty; name at least one receptacle"),
        ("005_tomato_soup_can", "tomato", "samplers.can.objects: unknown object 'tomato'"),
        ("sampler: can", "sampler: cans", "goals.can.sampler: unknown sampler 'cans'; did you"),
        ("{sampler: can,", "{sampler: can, count: 3,", "samplers.can.count=2 is too few"),
        ("fridge/top_door", "fridge/door", "joints: unknown joint 'fridge/door'; did you mean"),
        ("1.5", "9", "joints.fridge/top_door=9 is outside the joint's range 0 to 2.1"),
        ("[table_01]", "[drawer_right_top]", "'drawer_right_top' is in a drawer that starts clo"),
        ("drawer_right_top", "drawer_left_bottom", "closed and has no handle, so no step of a"),
        (GOOD, "[1, 2]", "must hold a mapping"),
        (GOOD, "a: [1\n", "is not valid YAML at line 2"),
        (GOOD, "goals: {}\n", "key 'samplers' is missing"),
        ("sampler: can, ", "", "key 'goals.can.sampler' is missing"),
        ("1.5", "[1]", "joints.fridge/top_door=[1] must be a number"),
        ("{fridge/top_door: 1.5}", "[5]", "key 'joints': a list stands where names with values"),
        ("count: 2", "region_ratio: {counter_left: {a: 1}}", "counter_left={'a': 1} must be a num"),
        ("count: 2", "region_ratio: {counter_left: .nan}", "counter_left=nan must be above 0 and"),
        ("count: 2", "region_ratio: {counter_left: 0}", "region_ratio.counter_left=0 must be abo"),
        ("count: 2", "region_ratio: {counter_left: 1.1}", "counter_left=1.1 must be above 0 and"),
        (GOOD, GOOD + "max_per_receptacle: {chair: -1}", "max_per_receptacle.chair=-1 must be at"),
        (GOOD, GOOD + "max_per_receptacle: {chair: [1]}", "max_per_receptacle.chair=[1] must be"),
        ("{sampler: can,", "{sampler: can, count: 999999999999,", "make 999999999999 targets of"),
        ("count: 2", "count: 999999999999", "samplers: 999999999999 objects in all, more than 500"),
        ("[005_tomato_soup_can]", "[[5]]", "samplers.can.objects holds [5], which is no name"),
        (GOOD, GOOD + "problem: {goal: [[5]]}", "problem.goal holds [5], which is no name"),
        (GOOD, "samplers: [1]\n", "key 'samplers': Invalid type assigned"),
        (GOOD, "samplers: {a: [1]}\n", "key 'samplers': a list stands where names with values"),
        (GOOD, GOOD + "problem: null", "key 'problem': field 'problem' is not Optional"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, old, new, message):
    path = write(tmp_path, GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as caught:
        load_scenario(str(path))
    text = str(caught.value)
    assert message in text and text.startswith(str(path)) and "\n" not in text


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        UserError, match=r"unknown scenario .*no YAML file either; did you mean 'se"
    ):
        load_scenario(str(tmp_path / "settable.yaml"))

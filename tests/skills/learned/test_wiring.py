"""The card of a policy says by which rules it was trained."""

from __future__ import annotations

import json

import numpy as np
import pytest

from skills.book import make_task
from skills.learned.cards import SHIPPED
from skills.learned.wiring import wiring
from tests.eval.test_as_trained import trained
from tpsrl.cli import main


def plain(task, dtype="float32"):
    """Return the wiring of a network that reads a depth picture."""
    observations = {"head_depth": {"shape": [8, 8, 1], "dtype": dtype}}
    spec = {"observations": observations, "action": {"kind": "continuous", "size": 2}}
    return wiring({"x": np.zeros(1)}, {"spec": spec, "net": {"core": "none"}}, task)


def grip_on(card):
    rows = card["wiring"]["action"]["entries"]
    return next((row["meaning"] for row in rows if row["name"] == "grip"), None)


@pytest.mark.parametrize(
    ("skill", "environment", "options", "said"),
    [
        ("pick", "Pick", {}, "while something is held it is kept, whatever this says"),
        ("place", "Place", {}, "once nothing is held nothing is grasped, whatever this says"),
        ("close_cab", "CloseCabinet", {}, "nothing is ever grasped, whatever this says"),
        ("close_cab", "CloseCabinet", {"suction": True}, "0 or more grasps on contact, less lets"),
        ("open_cab", "OpenCabinet", {}, "0 or more grasps on contact, less lets go"),
    ],
)
def test_an_exported_card_says_what_becomes_of_the_grip(
    skill, environment, options, said, tmp_path
):
    file = trained(tmp_path, skill, environment, options=options)
    assert main(["export", f"weights={file}", f"out={tmp_path / 'out'}"]) == 0
    assert said in grip_on(json.loads((tmp_path / "out" / f"{skill}.json").read_text()))


def test_cards_that_ship_say_it_too():
    for path in SHIPPED.rglob("*.json"):
        card = json.loads(path.read_text())
        if "wiring" in card and (said := grip_on(card)) is not None:
            assert said == make_task(card["skill"]).grip_rule, path


@pytest.mark.parametrize(("dtype", "most"), [("float32", "1 is 10 m"), ("uint8", "255 is 10 m")])
def test_depth_is_told_in_the_values_that_go_in(dtype, most):
    (row,) = plain(make_task("pick"), dtype)["observations"]
    assert most in row["meaning"]

"""A policy acts in a chain as it was trained to."""

from __future__ import annotations

import json

import pytest

from skills.learned.find import find_policy
from skills.learned.skill import LearnedSkill
from tests.eval.test_as_trained import trained
from tpsrl.cli import main
from tpsrl.errors import UserError


def test_one_without_a_stop_is_loaded_and_its_card_has_none(tmp_path) -> None:
    file = trained(tmp_path, "open_cab", "OpenCabinet", stop="success")
    task = LearnedSkill.load(find_policy(file, "open_cab")).task
    assert task.stops_itself and not task.layout.stop
    assert main(["export", f"weights={file}", f"out={tmp_path / 'out'}"]) == 0
    action = json.loads((tmp_path / "out" / "open_cab.json").read_text())["wiring"]["action"]
    assert len(action["entries"]) == action["size"] == task.layout.size
    assert LearnedSkill.load(find_policy(tmp_path / "out", "open_cab")).task.stops_itself


def test_navigation_without_a_stop_would_never_end(tmp_path) -> None:
    file = trained(tmp_path, "navigate", "Navigate", stop="success")
    with pytest.raises(UserError, match="'navigate' was trained with stop=success"):
        LearnedSkill.load(find_policy(file, "navigate"))


@pytest.mark.parametrize("suction", [True, False])
def test_one_that_grasps_to_close_is_let(suction: bool, tmp_path) -> None:
    file = trained(tmp_path, "close_cab", "CloseCabinet", options={"suction": suction})
    task = LearnedSkill.load(find_policy(file, "close_cab")).task
    assert task.suction == suction

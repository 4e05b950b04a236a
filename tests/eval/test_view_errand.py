"""A goal is sent while another one, in words, is pursued."""

from __future__ import annotations

import pytest

from eval.view.desk import Desk, ViewConfig
from planner.chain.errand import Errand

pytest.importorskip("viser", reason="the extra 'view' is not installed")


def test_the_new_goal_takes_the_place_of_the_words() -> None:
    words = {"scenario": "tidy_house", "agent": "scripted", "port": 18092}
    goal = "open the fridge, then tidy up"
    desk = Desk(ViewConfig(**words, goal=goal, paused=True))  # type: ignore[arg-type]
    try:
        player = desk.player
        player.open(0)
        assert player.advance() and isinstance(player.source.recording.episode, Errand)
        desk.add(desk.things[20], "dining table")
        desk.send()
        for _ in range(5):
            assert player.advance()
        episode = player.source.sim.episode(0)
        assert not isinstance(episode, Errand) and len(episode.targets) == 1
        assert not player.source.remark and player.source.recording.plans[-1]["actions"]
    finally:
        desk.close()

"""``tpsrl view results=DIR``, 'Start': another agent tries the episode that is shown."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from eval.view.desk import WHOLE, Desk, ViewConfig
from tpsrl.cli import main
from tpsrl.errors import UserError

viser = pytest.importorskip("viser", reason="the extra 'view' is not installed")

PICK = ["eval", "skill=pick", "agent=random", "episodes=1", "workers=1", "record=all"]


def measured(folder: Path, *words: str) -> Path:
    assert main([*words, f"out={folder}"]) == 0
    return folder


def test_another_agent_begins_where_the_recorded_skill_began(tmp_path: Path) -> None:
    keys = {"seed": 4, "places": ["open"], "contract": "parity", "sample": True}
    words = ["seed=4", "places=[open]", "contract=parity", "sample=true"]
    desk = Desk(ViewConfig(results=measured(tmp_path, *PICK, *words), port=18094, paused=True))
    try:
        desk.player.open(0)
        kept = desk.player.source.recording
        for agent in ("scripted", "tpsrl"):
            desk.start("pick", agent)
            live = desk.player.source.recording
            assert live.episode.episode_id == kept.episode.episode_id
            assert np.array_equal(live.poses(0).base, kept.poses(0).base)
            assert np.array_equal(live.poses(0).objects, kept.poses(0).objects)
            ran = live.about["config"]
            assert {**kept.about["config"], "agent": agent}.items() <= ran.items()
            assert keys.items() <= ran.items()
    finally:
        desk.close()


def test_an_agent_that_cannot_play_as_recorded_is_refused(tmp_path: Path) -> None:
    folder = measured(tmp_path, *PICK, "places=[open]", "actions=restricted")
    desk = Desk(ViewConfig(results=folder, port=18095, paused=True))
    try:
        desk.player.open(0)
        with pytest.raises(UserError, match="the scripted pick moves the base"):
            desk.start("pick", "scripted")
        assert not desk.player.source.live, "a mistake changes nothing"
    finally:
        desk.close()


def test_another_agent_has_the_steps_and_the_engine_of_the_recorded_chain(tmp_path: Path) -> None:
    words = ["eval", "scenario=rearrange_easy", "goal=open the fridge", "agent=scripted"]
    few = ["sim=mujoco_server", "max_steps=20", "episodes=1", "workers=1"]
    folder = measured(tmp_path, *words, *few)
    desk = Desk(ViewConfig(results=folder, port=18096, paused=True))
    try:
        desk.player.open(0)
        kept = desk.player.source.recording
        desk.start(WHOLE, "tpsrl")
        while desk.player.advance():
            pass
        live = desk.player.source.recording
        assert live.about["config"]["agent"] == "tpsrl" and len(live) == len(kept) == 21
        assert live.about["config"]["max_steps"] == kept.about["config"]["max_steps"] == 20
        assert live.about["simulator"]["engine"] == "mujoco_server"
        assert np.array_equal(live.poses(0).base, kept.poses(0).base)
    finally:
        desk.close()


def test_every_episode_that_was_kept_can_be_shown(tmp_path: Path) -> None:
    """Also one that succeeded beside others that failed, and one that the list leaves out."""
    folder = measured(tmp_path, *PICK)
    (record,) = (json.loads(line) for line in (folder / "episodes.jsonl").open())
    assert not record["success"]
    rows = [{**record, "index": k, "success": k == 0} for k in range(70)]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for k in range(1, 70):
        shutil.copy(folder / "states/episode_000000.npz", folder / f"states/episode_{k:06d}.npz")
    for asked, shown in ((0, 0), (69, 69), (None, 1)):
        desk = Desk(ViewConfig(results=folder, episode=asked, port=18097, paused=True))
        try:
            desk.start_showing()
            assert desk.player.source.index == shown
            assert [entry.index for entry in desk.listed] == list(range(1, 61))
        finally:
            desk.close()
    with pytest.raises(UserError, match=r"has states of 70 episodes .* such as 65, 66, 67, 68, 69"):
        Desk(ViewConfig(results=folder, episode=80, port=18097, paused=True))

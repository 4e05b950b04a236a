"""What the buttons of ``tpsrl view`` do, without a browser; the page itself: test_view_page.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from eval.episode import run_episode
from eval.recording import Recording
from eval.spec import evaluation_spec
from eval.view.desk import Desk, ViewConfig
from eval.view.words import plan_html
from eval.words import spoken
from tests.planner.words.server import Server
from tpsrl.cli import main
from tpsrl.episodes.shipped import load_shipped
from tpsrl.errors import UserError
from ver_trainer.options import load

viser = pytest.importorskip("viser", reason="the extra 'view' is not installed")


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """A desk whose player is moved by the test, not by a thread."""
    config = ViewConfig(scenario="tidy_house", agent="scripted", port=18080, paused=True)
    shown = Desk(config)
    yield shown
    shown.close()


def ahead(desk: Desk, steps: int) -> None:
    for _ in range(steps):
        assert desk.player.advance()


def test_a_live_episode_is_the_one_that_eval_runs(desk: Desk) -> None:
    player, steps = desk.player, 60
    player.open(1)
    ahead(desk, steps)
    same = evaluation_spec(
        scenario="tidy_house", agent="scripted", executor="replan", max_steps=steps
    )
    episode = load_shipped("tidy_house", "val").episodes[1]
    kept = Recording(episode, same.about)
    with same.simulator.build() as sim:
        record = same.job(1, episode).empty_record()
        run_episode(
            sim, same.agent.build(), same.task.build(episode), record, episode, steps,
            lambda sim, agent, step: kept.add(sim.state(), agent.report()),
        )  # fmt: skip
    live = player.source.recording
    for step in range(steps + 1):
        assert np.array_equal(kept.poses(step).objects, live.poses(step).objects)
        assert np.array_equal(kept.poses(step).arm, live.poses(step).arm)
    looks = player.source.looks
    assert len(looks) == len(live) == steps + 1 and all(looks[1:]), "every skill step is sensed"
    assert np.isfinite(live.signals(1)[:, 2]).all(), "and rewarded"


def test_time_goes_both_ways(desk: Desk) -> None:
    player = desk.player
    player.open(0)
    ahead(desk, 30)
    there = player.source.recording.poses(30).base.copy()
    player.seek(5)
    ahead(desk, 25)
    assert player.steps == 30 and player.cursor == 30, "what was is shown, not run, again"
    ahead(desk, 1)
    assert player.steps == 31
    player.stage.place(player.source.recording.poses(30))
    assert np.array_equal(player.stage.state().base_pose[0], there)
    desk.next()
    assert player.source.index == 1 and player.steps == 0


def test_an_object_is_dragged_and_the_planner_copes(desk: Desk) -> None:
    player = desk.player
    player.open(0)
    ahead(desk, 5)
    episode = player.source.recording.episode
    target = episode.targets[0]
    plan = player.report().plan
    desk.drag(target.object_index, np.array(target.goal_pos))
    now = player.source.recording.poses(player.steps).objects[target.object_index, :3]
    assert np.linalg.norm(now[:2] - target.goal_pos[:2]) < 0.05
    for _ in range(400):
        player.advance()
        if player.report().plan != plan:
            break
    report = player.report()
    assert report.replans == 1 and report.why and target.label not in " ".join(report.plan)
    assert "because" in plan_html(report, episode)


def test_what_is_let_go_inside_something_is_raised_or_stays(desk: Desk) -> None:
    player = desk.player
    player.open(0)
    ahead(desk, 2)
    index = player.source.recording.episode.targets[0].object_index
    start = player.source.recording.poses(player.steps).objects[index, :3].copy()
    desk.drag(index, start - [0.0, 0.0, 0.1])
    raised = player.source.recording.poses(player.steps).objects[index, :3]
    assert np.linalg.norm(raised - start) < 0.03, "it stands on the counter again"
    with pytest.raises(UserError, match="there is no room"):
        desk.drag(index, start + [0.0, 0.5, 0.0])  # in the wall behind
    ahead(desk, 30)
    after = player.source.recording.poses(player.steps).objects[index, :3]
    assert np.linalg.norm(after - start) < 0.03


def test_a_goal_is_sent_and_planned_for(desk: Desk) -> None:
    player = desk.player
    player.open(0)
    ahead(desk, 3)
    with pytest.raises(UserError, match="the goal is empty"):
        desk.send()
    thing, place = desk.things[20], "dining table"
    desk.add(thing, place)
    desk.send()
    ahead(desk, 20)
    report, recording = player.report(), player.source.recording
    assert len(recording.episode.targets) == 1 and len(recording.plans) == 2
    words = [spoken(action, recording.episode) for action in report.plan]
    name = thing.partition(" (")[0]
    assert words[-1] == f"place {name} on {place}" and words[0] == f"go to {name}"
    desk.add(thing, "sofa")
    with pytest.raises(UserError, match="one place only"):
        desk.send()
    desk.clear()


def test_a_goal_is_sent_while_a_handle_is_held() -> None:
    words = {"scenario": "set_table", "agent": "scripted", "executor": "hab", "port": 18091}
    desk = Desk(ViewConfig(**words, paused=True))  # type: ignore[arg-type]
    try:
        player = desk.player
        player.open(0)
        while player.source.recording.marks(player.steps).handle < 0:
            ahead(desk, 1)
        desk.add(desk.things[0], "chair")
        desk.send()
        ahead(desk, 2)
        assert player.source.recording.marks(player.steps).handle < 0
        assert len(player.source.recording.plans) == 2
    finally:
        desk.close()


def test_one_skill_alone_and_back(desk: Desk) -> None:
    player = desk.player
    desk.start("pick", "tpsrl")
    ahead(desk, 10)
    assert player.report().skills[0].skill == "pick" and player.steps == 10
    assert np.isfinite(player.source.recording.signals(1)[:, 2]).all()
    assert "joint" in player.source.looks[-1]
    with pytest.raises(UserError, match="nobody plans here"):
        player.source.send([])
    with pytest.raises(UserError, match="plays no skill alone"):
        desk.start("pick", "monolithic")
    assert player.report().skills[0].skill == "pick", "a mistake changes nothing"
    desk.start("whole task", "scripted")
    ahead(desk, 1)
    assert player.report().plan


def test_the_senses_of_learned_skills_are_shown_with_the_map_that_they_keep() -> None:
    shown = Desk(ViewConfig(scenario="tidy_house", agent="tpsrl", port=18093, paused=True))
    try:
        shown.player.open(0)
        ahead(shown, 3)
        looks = shown.player.source.looks
        assert len(looks) == 4 and np.isfinite(looks[-1]["seen_way"]).all()
    finally:
        shown.close()


def test_a_recorded_episode_runs_again_live(tmp_path: Path) -> None:
    words = ["scenario=rearrange_easy", "goal=I want fresh air", "seed=3", "max_steps=40"]
    common = ["episodes=2", "workers=1", f"out={tmp_path}"]
    with Server('{"goal": "open the fridge"}') as server:
        model = [f"planner.llm={server.url}", "planner.model=small"]
        assert main(["eval", *words, *model, *common]) == 0
        _compare_with_live(tmp_path)
        assert [request["model"] for request in server.asked] == ["small"] * 3


def _compare_with_live(folder: Path) -> None:
    desk = Desk(ViewConfig(results=folder, port=18090, paused=True))
    try:
        desk.player.open(1)
        kept = desk.player.source.recording
        assert "not recorded" in desk.player.source.remark
        desk.start(desk.what, desk.agent)
        ahead(desk, 40)
        again = desk.player.source.recording
        assert again is not kept and "not recorded" not in desk.player.source.remark
        assert np.array_equal(again.poses(40).base, kept.poses(40).base)
        assert again.plans == kept.plans
    finally:
        desk.close()


def test_a_model_proposes_the_goal_of_a_live_episode() -> None:
    with Server('{"goal": "open the fridge"}', "lorem ipsum") as server:
        words = ["scenario=set_table", "goal=I want fresh air", "agent=scripted", "paused=true"]
        asked = [f"planner.llm={server.url}", "planner.retries=0", "port=18092"]
        desk = Desk(load(ViewConfig, [*words, *asked]))
        try:
            desk.player.open(0)
            ahead(desk, 1)
            assert desk.player.report().plan[-1].startswith("open_fridge")
            assert desk.player.source.remark == "planner.llm proposed 'open the fridge'"
            with pytest.raises(UserError, match=r"planner\.llm helped not"):
                desk.next()
        finally:
            desk.close()


def test_folders_without_states_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "episodes.jsonl").write_text('{"index": 0, "success": false}\n')
    assert main(["view", f"results={tmp_path}"]) == 2
    error = capsys.readouterr().err
    assert "has no states of episodes" in error and "record=failures" in error
    assert main(["view", f"results={tmp_path / 'none'}"]) == 2
    assert "holds no evaluation" in capsys.readouterr().err

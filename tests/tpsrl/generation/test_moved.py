"""Episodes in other layouts."""

from dataclasses import replace

import numpy as np
import pytest

from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.shipped import load_shipped
from tpsrl.episodes.types import EpisodeSet
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError
from tpsrl.generation.moved import moved_episode, moved_episodes
from tpsrl.geometry.rotations import planar_frame
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.geometry import find_receptacle
from tpsrl.scenes.objects import object_types
from tpsrl.sim.mujoco.engine import MujocoSimulator


@pytest.fixture(scope="module")
def apartment():
    return load_apartment()


@pytest.fixture(scope="module")
def episodes():
    return list(load_shipped("rearrange_easy"))[:6]


def test_objects_keep_their_place_on_the_furniture(apartment, episodes):
    layout = apartment.layouts["wide_0005"]
    for episode in episodes:
        moved = moved_episode(episode, apartment, layout, "a")
        validate(moved, apartment, object_types())
        assert (moved.layout, moved.episode_id) == ("wide_0005", "a")
        for before, after in zip(episode.objects, moved.objects, strict=True):
            piece = find_receptacle(apartment, before.receptacle)[0].name
            old = planar_frame(apartment.layouts[episode.layout].poses[piece])
            new = planar_frame(layout.poses[piece])
            local = np.linalg.inv(old) @ np.append(before.pos, 1.0)
            assert np.allclose(np.linalg.inv(new) @ np.append(after.pos, 1.0), local)


def test_nothing_falls_in_the_engine(apartment, episodes):
    sim = MujocoSimulator(1, depth=None)
    for episode in moved_episodes(episodes, apartment, "widedev", 3, 0):
        sim.reset([episode], [0])
        before = np.array(sim.state().object_pos)[0, : len(episode.objects)]
        sim.settle(0.5)
        after = np.array(sim.state().object_pos)[0, : len(episode.objects)]
        assert np.linalg.norm(after - before, axis=1).max() < 0.01
    sim.close()


def test_layouts_take_turns(apartment, episodes):
    found = moved_episodes(episodes, apartment, "wide", 8, 1)
    assert [e.layout for e in found] == [f"wide_{k:04d}" for k in range(8)]
    assert len({e.episode_id for e in found}) == 8


def test_an_object_in_the_air_is_refused(apartment, episodes):
    flying = replace(episodes[0].objects[0], receptacle="")
    episode = replace(episodes[0], objects=(flying, *episodes[0].objects[1:]))
    with pytest.raises(UserError, match="cannot be moved"):
        moved_episode(episode, apartment, apartment.layouts["wide_0000"], "a")


def test_a_fixed_start_does_not_move_along(apartment, episodes, tmp_path):
    fixed = replace(episodes[0], start=np.array([1.0, 2.0, 0.3]))
    save_episodes(tmp_path / "fixed.json", EpisodeSet((fixed,)))
    (read,) = load_episodes(tmp_path / "fixed.json")
    assert read.start is not None
    moved = moved_episode(read, apartment, apartment.layouts["wide_0005"], "a")
    save_episodes(tmp_path / "moved.json", EpisodeSet((moved,)))
    (again,) = load_episodes(tmp_path / "moved.json")
    assert moved.start is None and again.start is None

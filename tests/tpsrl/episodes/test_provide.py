"""Episodes that are made once on a machine, and found again."""

from __future__ import annotations

import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import gymnasium
import pytest

import skills.envs
from tpsrl.episodes.habitat_json import load_episodes, save_episodes
from tpsrl.episodes.shipped import shipped_file
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError
from tpsrl.generation.parallel import fingerprint
from tpsrl.generation.rules import load_scenario
from tpsrl.provide import find_episodes, load_scenario_episodes, make_episodes

RULES = load_scenario("rearrange_easy")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "tpsrl" / "episodes"


def test_a_train_set_is_made_once_and_then_used(cache: Path) -> None:
    with pytest.warns(UserWarning, match="no train episodes of 'rearrange_easy' are on this"):
        assert find_episodes("rearrange_easy", "train") == shipped_file("rearrange_easy")
    # the ranks of one training all ask
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        first, second = pool.map(make_episodes, [RULES] * 2, ["train"] * 2, [1] * 2)
    assert first == second and first.parent == cache
    made = first.stat().st_mtime_ns
    assert make_episodes(RULES, "train", 1) == first
    assert first.stat().st_mtime_ns == made
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert find_episodes("rearrange_easy", "train") == first
    env = gymnasium.make(skills.envs.env_id("pick"), depth=None).unwrapped
    assert [e.episode_id for e in env.worlds.starts.episodes] == [
        e.episode_id for e in load_episodes(first).episodes
    ]
    env.close()


def test_a_set_of_other_rules_is_not_used(cache: Path) -> None:
    cache.mkdir(parents=True)
    (cache / "rearrange_easy_train_9_0123456789abcdef.json.gz").write_bytes(b"")
    with pytest.warns(UserWarning, match="its val episodes are used"):
        find_episodes("rearrange_easy", "train")


def test_what_is_not_there_can_be_made(cache: Path) -> None:
    path = find_episodes("rearrange_easy", "train", make=1)
    assert path.parent == cache and load_episodes(path).episodes[0].episode_id.startswith("train")


def test_what_neither_ships_nor_was_made() -> None:
    with pytest.raises(UserError, match="'tpsrl episodes scenario=tidy_house split=wide' makes"):
        find_episodes("tidy_house", "wide")


def test_what_ships_comes_first_and_what_is_made_follows(cache: Path) -> None:
    ships = load_episodes(shipped_file("rearrange_easy")).episodes
    cache.mkdir(parents=True)
    code = fingerprint(RULES, "val", 0)
    made = tuple(replace(ships[0], episode_id=f"made_{k}") for k in range(104))
    save_episodes(cache / f"rearrange_easy_val_104_{code}.json.gz", EpisodeSet(made))

    def names(**how: int) -> list[str]:
        return [e.episode_id for e in load_scenario_episodes("rearrange_easy", **how)]

    kept = [e.episode_id for e in ships]
    assert names(count=103) == [*kept, "made_100", "made_101", "made_102"]
    assert names(least=103) == names(count=103)
    for least in (1, 100, 9999):  # a number too high makes none
        assert names(least=least) == kept


def test_a_scenario_may_be_called_what_it_wants(cache: Path) -> None:
    cache.mkdir(parents=True)
    mine = replace(RULES, name="mine[1]*")
    ships = load_episodes(shipped_file("rearrange_easy")).episodes
    path = cache / f"mine[1]*_val_2_{fingerprint(mine, 'val', 0)}.json.gz"
    save_episodes(path, EpisodeSet(ships[:2]))
    assert make_episodes(mine, "val", 1) == path


def test_a_cache_that_cannot_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(UserError, match=r"cannot be made .*; let XDG_CACHE_HOME name a folder"):
        make_episodes(RULES, "train", 1)

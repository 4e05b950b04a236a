import hashlib
import json

import numpy as np
import pytest

from tpsrl.scenes import geometry
from tpsrl.scenes.apartment import DOORWAY_Y, DOORWAYS_X
from tpsrl.scenes.checks import LayoutCheck
from tpsrl.scenes.description import Apartment, Layout
from tpsrl.scenes.layouts import MACROS, all_layouts, make_layout


@pytest.mark.parametrize("macro", range(MACROS))
def test_every_layout_can_be_lived_in(apartment: Apartment, macro: int) -> None:
    layouts = [la for n, la in apartment.layouts.items() if n.startswith(f"sc{macro}_")]
    assert len(layouts) == 21
    problems = {la.name: LayoutCheck(apartment, la).problems() for la in layouts}
    assert {name: found for name, found in problems.items() if found} == {}


def test_names_and_splits() -> None:
    layouts = all_layouts()
    expected = {f"sc{m}_staging_{v:02d}" for m in range(5) for v in range(21)}
    assert set(layouts) == expected
    counts = {s: sum(la.split == s for la in layouts.values()) for s in ("train", "val", "test")}
    assert counts == {"train": 63, "val": 21, "test": 21}
    assert layouts["sc3_staging_20"].split == "val"


def test_layouts_place_all_furniture(apartment: Apartment) -> None:
    names = {piece.name for piece in apartment.furniture}
    assert all(set(la.poses) == names for la in apartment.layouts.values())


def test_layouts_are_deterministic_and_differ() -> None:
    first, second = all_layouts(), all_layouts()
    assert first == second
    assert len({tuple(la.poses.items()) for la in first.values()}) == 105


def test_layouts_do_not_change_between_versions() -> None:
    # Episode files name layouts: whoever moves furniture must know that old episodes break.
    text = json.dumps({name: dict(la.poses) for name, la in all_layouts().items()}, sort_keys=True)
    assert hashlib.sha256(text.encode()).hexdigest()[:12] == "f854924e581b"


def test_macro_layouts_put_pieces_elsewhere() -> None:
    macros = [make_layout(m, 0).poses for m in range(MACROS)]
    for name in ("kitchen_counter", "fridge", "table_01", "sofa"):
        places = np.array([poses[name] for poses in macros])
        gaps = np.abs(places[:, None] - places[None]).max(axis=-1) + 9 * np.eye(MACROS)
        assert gaps.min() > 0.3, name


def test_kitchen_and_fridge_stay_flush_to_their_walls(apartment: Apartment) -> None:
    for layout in apartment.benchmark.values():
        for name in ("kitchen_counter", "fridge"):
            yaw = layout.poses[name][2]
            assert abs(yaw / (np.pi / 2) - round(yaw / (np.pi / 2))) < 1e-3
            outline = np.concatenate(geometry.furniture_footprints(apartment, layout)[name])
            low, high = geometry.inner_bounds(apartment)
            assert min((outline - low).min(), (high - outline).min()) < 0.03


def test_doorways_are_wide() -> None:
    assert all(b - a >= 1.3 for a, b in (*DOORWAYS_X, DOORWAY_Y))


@pytest.mark.parametrize(("macro", "variation"), [(5, 0), (-1, 0), (0, 21), (0, -1)])
def test_a_layout_that_does_not_exist_is_refused(macro: int, variation: int) -> None:
    with pytest.raises(ValueError, match="no layout"):
        make_layout(macro, variation)


def test_the_check_finds_a_chair_in_the_way(apartment: Apartment) -> None:
    good = apartment.layouts["sc0_staging_00"]
    x, y, _ = good.poses["kitchen_counter"]
    moved = Layout("bad", "train", {**good.poses, "chair": (x - 0.9, y + 1.1, 0.0)})
    assert any("before drawer1_top" in p for p in LayoutCheck(apartment, moved).problems())
    fx, fy, _ = good.poses["fridge"]
    moved = Layout("bad", "train", {**good.poses, "table_02": (fx + 0.6, fy - 0.9, 0.0)})
    assert any("fridge's door" in p for p in LayoutCheck(apartment, moved).problems())
    moved = Layout("bad", "train", {**good.poses, "sofa": (0.9, 1.7, 0.0)})
    assert LayoutCheck(apartment, moved).problems() != []

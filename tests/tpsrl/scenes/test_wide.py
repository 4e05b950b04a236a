import pytest

from tpsrl.scenes.checks import LayoutCheck
from tpsrl.scenes.description import Apartment
from tpsrl.scenes.draw_wide import WideDrawer, resembles_held_out
from tpsrl.scenes.layouts import make_layout
from tpsrl.scenes.wide import COUNTS, layout_name, wide_layouts


def test_they_are_apart_from_the_benchmark(apartment: Apartment) -> None:
    names = [layout_name(split, n) for split, count in COUNTS.items() for n in range(count)]
    assert list(wide_layouts()) == names
    assert len(apartment.benchmark) == 105 and not set(names) & set(apartment.benchmark)
    assert set(apartment.layouts) == {*names, *apartment.benchmark}
    assert all(la.split == n.split("_")[0] for n, la in wide_layouts().items())


def test_none_is_like_a_val_or_test_layout() -> None:
    assert resembles_held_out(make_layout(3, 7).poses)
    assert resembles_held_out(make_layout(4, 20).poses)
    assert not resembles_held_out(make_layout(0, 3).poses)
    assert not any(resembles_held_out(layout.poses) for layout in wide_layouts().values())


@pytest.mark.parametrize("name", ["wide_0000", "wide_0123", "wide_0239", "widedev_0039"])
def test_they_can_be_lived_in(apartment: Apartment, name: str) -> None:
    assert LayoutCheck(apartment, apartment.layouts[name]).problems() == []


@pytest.mark.parametrize(("split", "number"), [("wide", 3), ("widedev", 0)])
def test_the_file_is_what_the_generator_draws(
    apartment: Apartment, split: str, number: int
) -> None:
    name = layout_name(split, number)
    assert WideDrawer(apartment).layout(split, number) == wide_layouts()[name]


def test_all_differ_widely(apartment: Apartment) -> None:
    places = {tuple(la.poses["kitchen_counter"]) for la in wide_layouts().values()}
    assert len(places) > 0.95 * sum(COUNTS.values())
    sides = {round(la.poses["fridge"][2], 1) for la in wide_layouts().values()}
    assert len(sides) >= 4

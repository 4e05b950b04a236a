"""Features of Habitat's formats that our own export never writes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tests.tpsrl.habitat.data import handmade
from tpsrl.episodes.types import Episode, RigidObject
from tpsrl.errors import UserError
from tpsrl.habitat.load.dataset import Dataset, load_dataset, split_of
from tpsrl.habitat.load.episodes import adopt, with_markers
from tpsrl.scenes.description import Furniture, Link
from tpsrl.scenes.geometry import shape_points
from tpsrl.sim.mujoco.engine import MujocoSimulator

VAL, TRAIN = "v3_sc3_staging_00", "v3_sc0_staging_00"
FLOOR = -0.3


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return load_dataset(handmade.dataset(tmp_path_factory.mktemp("room"), floor=FLOOR))


def piece(dataset: Dataset, name: str) -> Furniture:
    return next(p for p in dataset.apartment.furniture if p.name == name)


def link(item: Furniture, name: str) -> Link:
    return next(k for k in item.links if k.name == name)


def box_of(item: Link, collide: bool = True) -> np.ndarray:
    points = np.concatenate([shape_points(s) for s in item.shapes if s.collide is collide])
    return np.array([points.min(axis=0), points.max(axis=0)])


def episode(layout: str = VAL, **fields: object) -> Episode:
    marker = {"pull": ("cabinet/grip", np.array([0.01, 0.0, 0.0]))}
    base = Episode("e", "", layout, (), (), markers=marker, start=np.array([0.0, 0.0, 0.0]))
    return dataclasses.replace(base, **fields)  # type: ignore[arg-type]


def test_splits_are_those_of_the_benchmark(dataset: Dataset) -> None:
    assert {n: k.split for n, k in dataset.apartment.layouts.items()} == {
        VAL: "val",
        TRAIN: "train",
    }
    assert split_of("v3_sc4_staging_20") == "test" and split_of("apt_0") == "train"


def test_the_floor_becomes_height_zero(dataset: Dataset) -> None:
    assert dataset.floor == pytest.approx(FLOOR, abs=1e-3)
    assert dataset.apartment.bounds == pytest.approx(np.array([[-3, -2], [3, 2]]), abs=0.11)
    solids = [s for s in dataset.apartment.walls if s.collide]
    assert min(shape_points(s)[:, 2].min() for s in solids) > -0.06
    low, high = box_of(piece(dataset, "table").links[0])
    assert (low[2], high[2]) == pytest.approx((0.0, 0.8), abs=1e-6)


def test_a_wall_that_is_not_convex_is_filled_with_boxes(dataset: Dataset) -> None:
    walls = [shape_points(s) for s in dataset.apartment.walls if s.collide]

    def inside(x: float, y: float) -> bool:
        hits = [(p.min(axis=0), p.max(axis=0)) for p in walls]
        point = np.array([x, y, 1.0])
        return any(((low <= point) & (point <= high)).all() for low, high in hits)

    # The L stands at x -2 ... -1, y -1 ... -0.2; its surface is what touches.
    assert inside(-1.5, -0.995) and inside(-1.995, -0.5) and inside(-1.3, -0.805)
    assert not inside(-1.4, -0.5), "the inner corner of an L stays free"
    assert inside(0.0, 1.95) and inside(2.95, 0.0), "connected walls, too"
    assert not inside(0.0, 0.0)


def test_compound_objects_keep_their_parts_turn_and_unit(dataset: Dataset) -> None:
    bowl = dataset.types["bowl"]
    solid = [s for s in bowl.shapes if s.collide]
    assert len(solid) == 5, "four sides and a bottom, so that it stays hollow"
    assert bowl.half_size == pytest.approx((0.06, 0.06, 0.03), abs=1e-6)
    bottom = min(solid, key=lambda s: shape_points(s)[:, 2].mean())
    assert np.ptp(shape_points(bottom)[:, 2]) == pytest.approx(0.01)
    assert bowl.mass == 0.2


def test_scaled_instances_are_pieces_of_their_own(dataset: Dataset) -> None:
    names = {p.name for p in dataset.apartment.furniture}
    assert {"table", "table_:0001", "table_:0001~2"} <= names
    sizes = {n: np.ptp(box_of(piece(dataset, n).links[0]), axis=0) for n in names if "table" in n}
    assert sorted(np.round(s, 3).tolist() for s in sizes.values()) == [
        [0.5, 0.3, 0.4], [1.0, 0.6, 0.8], [1.0, 0.6, 1.6],
    ]  # fmt: skip
    for name, layout in dataset.apartment.layouts.items():
        near = [p for p, pose in layout.poses.items() if abs(pose[0]) < 10 and "table" in p]
        assert len(near) == 2, name


def test_mesh_and_composite_receptacles(dataset: Dataset) -> None:
    table = {r.name: r for r in piece(dataset, "table").receptacles}
    parts = [n for n in table if "table_mesh" in n]
    assert len(parts) == 2 and any("table_foot" in n for n in table)
    for name in parts:
        item = table[name]
        assert item.center[2] - item.half_size[2] == pytest.approx(0.8005, abs=1e-3)
        assert item.half_size[:2] == pytest.approx((0.2, 0.25), abs=1e-3)
    foot = next(r for n, r in table.items() if "table_foot" in n)
    assert foot.center == pytest.approx((0.3, -0.1, 0.1))
    assert foot.half_size == pytest.approx((0.15, 0.05, 0.1))
    names = [r.name for p in dataset.apartment.furniture for r in p.receptacles]
    assert len(names) == len(set(names)), "unique in the apartment"
    sill = next(r for r in piece(dataset, "stage").receptacles)
    assert sill.center == pytest.approx((0.0, 1.8, 1.0), abs=1e-3)


def test_an_origin_in_the_asset_is_not_the_centre_of_mass(dataset: Dataset) -> None:
    shelf = piece(dataset, "shelf")
    low, high = box_of(shelf.links[0])
    x, y, _ = dataset.apartment.layouts[VAL].poses["shelf"]
    assert (low[0] + x, high[0] + x) == pytest.approx((0.0, 0.8), abs=1e-6)
    assert y == pytest.approx(-1.5) and low[2] == pytest.approx(1.0, abs=1e-3)


def test_carpets_are_seen_and_driven_over(dataset: Dataset) -> None:
    rug = piece(dataset, "rug")
    assert not any(s.collide for s in rug.links[0].shapes)
    assert any(s.visible for s in rug.links[0].shapes)


def test_articulated_furniture(dataset: Dataset) -> None:
    cabinet = piece(dataset, "cabinet")
    assert [k.name for k in cabinet.links] == ["root", "door", "tray"]
    assert dataset.order["cabinet"] == ("body", "door", "tray", "grip")
    low, high = box_of(cabinet.links[0])
    assert np.array([low, high]) == pytest.approx(
        np.array([[-0.25, -0.3, 0.0], [0.25, 0.3, 0.8]]), abs=1e-5
    )
    tray = link(cabinet, "tray")
    assert tray.pos == pytest.approx((0.3, 0.0, 0.5), abs=1e-6)
    assert box_of(tray)[1, 0] == pytest.approx(0.09, abs=2e-3), "the grip is part of the tray"
    assert tray.joint is not None and (tray.joint.kind, tray.joint.upper) == ("slide", 0.4)
    assert tray.joint.damping > 0.05, "next to no damping counts as not given"
    door = link(cabinet, "door")
    assert door.joint is not None and (door.joint.lower, door.joint.upper) == (-1.5, 0.0)
    places = {r.name: r for r in cabinet.receptacles}
    assert places["receptacle_aabb_tray"].link == "tray"
    assert places["cabinet_top"].link == "root"
    assert places["cabinet_top"].center == pytest.approx((0, 0, 0.9), abs=1e-5)


def test_handles_hang_on_the_frame_of_mass(tmp_path: Path) -> None:
    """Which Habitat takes for the frame of the link."""
    root = handmade.dataset(tmp_path)
    urdf = next(tmp_path.rglob("cabinet.urdf"))
    mass = '<inertial><origin rpy="0 0 1.5707963" xyz="0.1 0.2 0"/><mass value="2"/></inertial>'
    urdf.write_text(handmade.CABINET.replace('<link name="grip">', f'<link name="grip">{mass}'))
    full = with_markers(load_dataset(root, layouts=[VAL]), [episode()])
    # In the grip's own frame it would be at (0.08, 0, 0.02) of the tray: 1 cm ahead of the grip.
    marker = piece(full, "cabinet").markers[0]
    assert marker.link == "tray"
    assert marker.offset == pytest.approx((0.07 + 0.1, 0.2 + 0.01, 0.02), abs=1e-6)


def test_handles_and_containers_come_from_episodes(dataset: Dataset) -> None:
    full = with_markers(dataset, [episode()])
    cabinet = piece(full, "cabinet")
    assert [m.link for m in cabinet.markers] == ["tray"]
    assert cabinet.markers[0].offset == pytest.approx((0.08, 0.0, 0.02))
    box = cabinet.containers[0]
    assert box.moves and box.joint_link == "tray"
    moved = episode(markers={"pull": ("cabinet/grip", np.array([0.05, 0.0, 0.0]))})
    with pytest.raises(UserError, match="'pull' elsewhere"):
        with_markers(dataset, [episode(), moved])
    for joint, words in (("cabinet/body", "does not move"), ("cabinet/gripp", "cabinet/grip'")):
        with pytest.raises(UserError, match=words):
            with_markers(dataset, [episode(markers={"pull": (joint, np.zeros(3))})])


def test_link_numbers_of_episodes_are_habitat_s(dataset: Dataset) -> None:
    adopted = adopt(episode(joints={"cabinet/link_2": 0.3}), dataset)
    assert adopted.joints == {"cabinet/tray": 0.3}
    for joint, words in (("cabinet/link_0", "is fixed"), ("cabinet/link_9", "4 links"),
                         ("fridge/link_1", "do not have")):  # fmt: skip
        with pytest.raises(UserError, match=words):
            adopt(episode(joints={joint: 0.3}), dataset)


def test_it_plays_in_the_engine(dataset: Dataset) -> None:
    full = with_markers(dataset, [episode()])
    bowl = RigidObject("bowl", "bowl_:0000", np.array([0.8, 0.2, 0.86 + FLOOR]),
                       np.array([1.0, 0, 0, 0]), "table_:0000|table_foot")  # fmt: skip
    adopted = adopt(episode(objects=(bowl,), joints={"cabinet/link_2": 0.2}), full)
    assert [o.instance for o in adopted.objects] == ["bowl_:0000", "bowl_:0001"]
    assert adopted.objects[0].receptacle in {
        r.name for p in full.apartment.furniture for r in p.receptacles
    }
    with MujocoSimulator(1, depth=64, pool={"bowl": 2}, apartment=full.apartment,
                         types=full.types) as sim:  # fmt: skip
        sim.reset([adopted], [0])
        assert sim.joint_ranges.tolist() == [[-1.5, 0.0], [0.0, 0.4]]
        assert sim.scene().navigation.is_navigable(np.array([0.0, 0.3])), "on the carpet"
        assert not sim.scene().navigation.is_navigable(np.array([1.0, 0.0])), "under the table"
        assert not sim.scene().navigation.is_navigable(np.array([-1.5, -0.95]))
        sim.settle(1.5)
        state = sim.state()
        assert state.joint_pos[0, 1] == pytest.approx(0.2, abs=0.02)
        # Both bowls lie on the table's top: one of the episode, one of the scene.
        assert state.object_pos[0, :, 2] == pytest.approx([0.83, 0.83], abs=0.01)
        assert state.marker_pos[0, 0] == pytest.approx(
            np.array([0.0, 1.5, 0.0]) + [0.3 + 0.2 + 0.08, 0.0, 0.52], abs=0.02
        )
        sim.reset([dataclasses.replace(adopted, layout=TRAIN, objects=adopted.objects[:1])], [0])
        assert sim.state().marker_pos[0, 0, 0] == pytest.approx(0.5 + 0.3 + 0.2 + 0.08, abs=0.02)
        assert np.asarray(sim.depth()).std() > 0.01


def test_paths_may_point_at_config_folder_or_data_folder(tmp_path: Path) -> None:
    root = handmade.dataset(tmp_path / "data/replica_cad")
    for path in (root, root / "room.scene_dataset_config.json", tmp_path / "data"):
        assert load_dataset(path, layouts=[VAL]).apartment.name == "room"

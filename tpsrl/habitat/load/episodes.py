"""Episodes of a scene dataset: Habitat's names and link numbers become the apartment's.

Handles ("markers") stand in HAB's episode files, not in its scenes; they are added to the furniture
here, and with them the containers that the planner asks about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tpsrl.episodes import handles
from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.errors import UserError, nearest
from tpsrl.habitat.load.dataset import Dataset, load_dataset
from tpsrl.habitat.load.files import download_command
from tpsrl.scenes.description import Container, Furniture, Link, Marker
from tpsrl.scenes.geometry import find_link, link_frame, shape_points

_HAB_NAMES = ("{scenario}_10k_1k", "{scenario}", "{scenario}_{split}")
_HAB_FOLDERS = ("datasets/replica_cad/rearrange/v2/{split}", "episodes", ".")


def load_for_episodes(path: Path, episodes: Sequence[Episode]) -> tuple[Dataset, list[Episode]]:
    """Read the part of a dataset that episodes need, and the episodes in its terms.

    Args:
        path: see :func:`tpsrl.habitat.load.dataset.load_dataset`.
        episodes: as they were read from Habitat's files.

    Raises:
        UserError: one sentence about the first thing that is missing or does not fit.
    """
    layouts = sorted({e.layout for e in episodes})
    objects = sorted({o.type for e in episodes for o in e.objects})
    dataset = with_markers(load_dataset(path, layouts, objects), episodes)
    return dataset, [adopt(e, dataset) for e in episodes]


def find_episodes(path: Path, scenario: str, split: str) -> Path:
    """Return the episode file of a scenario below a dataset or a Habitat data folder.

    Raises:
        UserError: there is none; with the places looked at and the download command.
    """
    base = path if path.is_dir() else path.parent
    tried = []
    for root in (base, base.parent):
        for folder in _HAB_FOLDERS:
            for name in _HAB_NAMES:
                stem = name.format(scenario=scenario, split=split)
                if folder == "." or (folder == "episodes" and split not in stem):
                    continue
                file = root / folder.format(split=split) / f"{stem}.json.gz"
                tried.append(file)
                if file.is_file():
                    return file
    raise UserError(
        f"no {split} episodes of {scenario}: {tried[0]} is not there; give data=FILE or download"
        f" them with '{download_command('episodes')}'"
    )


def read_scene_data(
    path: Path, scenario: str, split: str, file: Path | None = None, count: int | None = None
) -> tuple[Dataset, tuple[Episode, ...]]:
    """Read episodes of a scenario and the scenes they play in.

    Args:
        path: scene dataset or Habitat data folder.
        scenario: e.g. ``"tidy_house"``.
        split: e.g. ``"val"``; unused with ``file``.
        file: episode file, ``None`` to find it by scenario and split.
        count: how many of its first episodes, ``None`` for all.
    """
    source = find_episodes(path, scenario, split) if file is None else file
    chosen = load_episodes(source).episodes[:count]
    if not chosen:
        raise UserError(f"{source} holds no episodes")
    dataset, episodes = load_for_episodes(path, chosen)
    return dataset, tuple(e if e.scenario else replace(e, scenario=scenario) for e in episodes)


def with_markers(dataset: Dataset, episodes: Iterable[Episode]) -> Dataset:
    """Return the dataset with the handles of the episodes on its furniture.

    Raises:
        UserError: two episodes disagree about a handle, or it is on nothing that moves.
    """
    found: dict[str, dict[str, Marker]] = {}
    for episode in episodes:
        where = f"episode '{episode.episode_id}': field 'markers'"
        for name, (joint, offset) in episode.markers.items():
            piece, link, moved = _host(dataset, joint, offset, where, name)
            marker = Marker(name, link, (float(moved[0]), float(moved[1]), float(moved[2])))
            known = found.setdefault(piece, {}).setdefault(name, marker)
            if not np.allclose(known.offset, marker.offset, atol=1e-4) or known.link != link:
                raise UserError(f"{where} puts '{name}' elsewhere than another episode does")
    furniture = tuple(
        _handled(piece, list(found[piece.name].values())) if piece.name in found else piece
        for piece in dataset.apartment.furniture
    )
    return replace(dataset, apartment=replace(dataset.apartment, furniture=furniture))


def adopt(episode: Episode, dataset: Dataset) -> Episode:
    """Return an episode of Habitat's files in the terms of a dataset.

    Raises:
        UserError: it names what the dataset does not have.
    """
    where = f"episode '{episode.episode_id}'"
    loose = dataset.loose.get(episode.layout, ())
    objects = tuple(_object(o, dataset) for o in episode.objects) + tuple(
        _renumbered(o, episode.objects) for o in loose
    )
    joints = {
        _joint(dataset, name, f"{where}: field 'ao_states'"): value
        for name, value in episode.joints.items()
    }
    markers = {}
    for name, (joint, offset) in episode.markers.items():
        piece, link, moved = _host(dataset, joint, offset, f"{where}: field 'markers'", name)
        markers[name] = (f"{piece}/{link}", moved)
    goals = episode.extra.get("goal_receptacles", [])
    targets = tuple(
        _target(t, objects, dataset, episode.layout, goals[i] if i < len(goals) else None)
        for i, t in enumerate(episode.targets)
    )
    return replace(episode, objects=objects, joints=joints, markers=markers, targets=targets)


def _object(item: RigidObject, dataset: Dataset) -> RigidObject:
    place = dataset.receptacles.get(item.receptacle, item.receptacle)
    pos = item.pos - np.array([0.0, 0.0, dataset.floor])
    return replace(item, pos=pos, receptacle=place)


def _renumbered(item: RigidObject, before: Sequence[RigidObject]) -> RigidObject:
    """Give a movable object of the scene a handle that the episode's objects leave free."""
    number = sum(o.type == item.type for o in before) + int(item.instance.rsplit(":", 1)[1])
    return replace(item, instance=f"{item.type}_:{number:04d}")


def _target(
    item: Target, objects: Sequence[RigidObject], dataset: Dataset, layout: str, pair: Any
) -> Target:
    pos = item.goal_pos - np.array([0.0, 0.0, dataset.floor])
    start = objects[item.object_index].receptacle or item.start_receptacle
    known = {r.name for p in dataset.apartment.furniture for r in p.receptacles}
    goal = dataset.receptacles.get(item.goal_receptacle, item.goal_receptacle)
    if goal not in known and pair is not None:
        goal = _receptacle_at(dataset, layout, str(pair[0]), pos) or goal
    return replace(item, goal_pos=pos, start_receptacle=start, goal_receptacle=goal)


def _receptacle_at(dataset: Dataset, layout: str, handle: str, pos: np.ndarray) -> str | None:
    """Return the receptacle of a piece whose closed box is nearest to a point."""
    name = handles.furniture_name(handle)
    piece = next((p for p in dataset.apartment.furniture if p.name == name), None)
    if piece is None or not piece.receptacles:
        return None
    pose = dataset.apartment.layouts[layout].poses[name]

    def gap(item: Any) -> float:
        world = link_frame(find_link(piece, item.link), pose)
        local = world[:3, :3].T @ (pos - world[:3, 3]) - np.asarray(item.center)
        return float(np.linalg.norm(np.maximum(np.abs(local) - np.asarray(item.half_size), 0.0)))

    return str(min(piece.receptacles, key=gap).name)


def _joint(dataset: Dataset, name: str, where: str) -> str:
    """Return the joint that Habitat's link number stands for in this dataset."""
    furniture, _, link = name.partition("/")
    order = dataset.order.get(furniture)
    if order is None:
        raise UserError(
            f"{where} names the furniture '{furniture}', which the scenes do not have"
            + nearest(furniture, dataset.order)
        )
    number = handles.link_id(furniture, link)
    if number is None or not 0 <= number < len(order):
        raise UserError(f"{where} names link {link} of '{furniture}', which has {len(order)} links")
    host, _ = dataset.hosts[furniture][order[number]]
    if host != order[number]:
        raise UserError(
            f"{where} gives a position to '{furniture}/{order[number]}', which is fixed"
        )
    return f"{furniture}/{host}"


def _host(
    dataset: Dataset, joint: str, offset: np.ndarray, where: str, name: str
) -> tuple[str, str, np.ndarray]:
    """Return piece, moving link and (3,) offset there of a handle."""
    furniture, _, link = joint.partition("/")
    known = dataset.hosts.get(furniture, {})
    if link not in known:
        names = [f"{f}/{k}" for f, links in dataset.hosts.items() for k in links]
        raise UserError(
            f"{where} puts '{name}' on the unknown link '{joint}'{nearest(joint, names)}"
        )
    host, pose = known[link]
    piece = next(p for p in dataset.apartment.furniture if p.name == furniture)
    if host not in {k.name for k in piece.links[1:]}:
        raise UserError(f"{where} puts '{name}' on '{joint}', which does not move")
    return furniture, host, pose[:3, :3] @ np.asarray(offset) + pose[:3, 3]


def _handled(piece: Furniture, markers: Sequence[Marker]) -> Furniture:
    """Return a piece with handles, and a container behind each of them."""
    by_name: Mapping[str, Marker] = {m.name: m for m in (*piece.markers, *markers)}
    boxes = {c.joint_link: c for c in piece.containers}
    for marker in by_name.values():
        if marker.link not in boxes:
            boxes[marker.link] = _container(piece, find_link(piece, marker.link))
    return replace(piece, markers=tuple(by_name.values()), containers=tuple(boxes.values()))


def _container(piece: Furniture, link: Link) -> Container:
    """A drawer contains what is in its own box, a door what is in the box of the whole piece."""
    drawer = link.joint is not None and link.joint.kind == "slide"
    source = link if drawer else piece.links[0]
    points = np.concatenate([shape_points(s) for s in source.shapes])
    low, high = points.min(axis=0), points.max(axis=0)
    center, half = (low + high) / 2, (high - low) / 2
    return Container(link.name, drawer, tuple(center.tolist()), tuple(half.tolist()))  # type: ignore[arg-type]

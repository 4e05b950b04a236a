"""Further goals in an episode that is finished: where something else may be put."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError
from tpsrl.generation.draw import Draft, Drawer, Item, Rejected
from tpsrl.generation.placement import Placement, Placer
from tpsrl.generation.prisms import Solids
from tpsrl.generation.room import Pose, Room
from tpsrl.generation.rules import Scenario
from tpsrl.scenes.apartment import load_apartment
from tpsrl.scenes.objects import object_types
from tpsrl.sim.scene_info import SceneLibrary

_INSIDE = 0.5
"""Part of a container's length and width in which goals lie, as in the shipped scenarios."""
_UPRIGHT = np.array([1.0, 0.0, 0.0, 0.0])


def draw_goal(
    episode: Episode,
    index: int,
    receptacle: str,
    taken: Sequence[tuple[int, np.ndarray, str]] = (),
) -> Pose:
    """Draw where an object may be put, by the rules for goals of generated episodes.

    The same question has the same answer, on every machine. The goal is not settled in the engine:
    an object is set down upright on a level surface.

    Args:
        episode: with its objects at rest.
        index: of the object.
        receptacle: where it is to lie; not in a closed drawer.
        taken: indices of objects with (3,) positions that they will have and the receptacles of
            these, furniture as the episode begins.

    Returns:
        Its pose, furniture as the episode begins.

    Raises:
        UserError: the layout is unknown, or there is no free place that the robot can reach.
    """
    drawer, joints = _drawer(episode.layout), dict(episode.joints)
    items = _items(drawer, episode)
    item = items.pop(index)
    for k, pos, where in taken:
        item_there = _outlined(drawer, episode.objects[k].type, pos, _UPRIGHT, where)
        items.append(_shut(drawer, item_there, joints))
    name = f"{episode.episode_id}/{episode.objects[index].instance}/{receptacle}"
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    inside = drawer.room.container_of(receptacle) is not None
    for ratio in (_INSIDE, 1.0) if inside else (1.0,):
        target = Item(item.placement, "goal", (receptacle,), ((receptacle, ratio),))
        with suppress(Rejected):
            (place,) = drawer.goals(rng, Draft((target, *items), (receptacle,), joints))
            return drawer.start_pose(Item(place), joints)
    raise UserError(
        f"episode {episode.episode_id}: '{episode.objects[index].instance}' has no free place on"
        f" '{receptacle}' that the robot can reach; choose another place"
    )


def within_reach(episode: Episode, index: int) -> bool:
    """Return whether the robot can take an object from where it lies, by the generator's rules."""
    drawer = _drawer(episode.layout)
    items = _items(drawer, episode)
    place = items.pop(index).placement
    if place.receptacle not in drawer.room.boxes:
        return True  # a foreign file does not say where it lies
    others = Solids(item.placement.prism for item in items)
    try:
        drawer.check_reach(place, Draft((), (), dict(episode.joints)), others)
    except Rejected:
        return False
    return True


def _items(drawer: Drawer, episode: Episode) -> list[Item]:
    """Return the episode's objects as the generator had them, containers closed."""
    found = []
    for o in episode.objects:
        place = _outlined(drawer, o.type, o.pos, o.quat, o.receptacle)
        found.append(_shut(drawer, place, dict(episode.joints)))
    return found


def _shut(drawer: Drawer, place: Placement, joints: dict[str, float]) -> Item:
    """Return what lies at a place as it lies with containers closed."""
    known = place.receptacle in drawer.room.boxes  # a foreign file does not say where it lies
    return drawer.closed(Item(place), place.pose, joints) if known else Item(place)


def _outlined(
    drawer: Drawer, kind: str, pos: np.ndarray, quat: np.ndarray = _UPRIGHT, receptacle: str = ""
) -> Placement:
    pose = Pose(np.asarray(pos), np.asarray(quat))
    return Placement(kind, receptacle, pose, drawer.placer.outline(kind, pose, kind))


@lru_cache(maxsize=32)
def _drawer(layout: str) -> Drawer:
    apartment = load_apartment()
    room = Room(apartment, SceneLibrary(apartment).scene(layout))
    return Drawer(Scenario(samplers={}), room, Placer(room, dict(object_types())))

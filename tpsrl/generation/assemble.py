"""Puts what was drawn into an `Episode`, objects sorted as Habitat's files sort them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tpsrl.episodes import handles
from tpsrl.episodes.types import Episode, RigidObject, Target
from tpsrl.generation.draw import Draft
from tpsrl.generation.room import Pose, Room


def probe(layout: str, draft: Draft, poses: Sequence[Pose]) -> Episode:
    """Episode without targets, its objects in the draft's order, for the physics to settle."""
    objects = tuple(
        RigidObject(i.placement.type, f"{i.placement.type}_{k}", p.pos, p.quat)
        for k, (i, p) in enumerate(zip(draft.items, poses, strict=True))
    )
    return Episode("probe", "", layout, objects, (), dict(draft.joints))


def assemble(
    scenario: str,
    episode_id: str,
    layout: str,
    draft: Draft,
    poses: Sequence[Pose],
    goals: Sequence[Pose],
    room: Room,
) -> Episode:
    """Build the episode.

    Args:
        scenario: name of the scenario.
        episode_id: unique in the set.
        layout: where the furniture stands.
        draft: what was drawn; its first ``len(goals)`` items are the targets.
        poses: where its objects lie at reset.
        goals: where the targets are to go.
        room: the layout's receptacles and handles.
    """
    types = [i.placement.type for i in draft.items]
    order = sorted(range(len(types)), key=lambda k: types[k])
    instances = handles.instance_handles([types[k] for k in order])
    objects = tuple(
        RigidObject(types[k], name, _rounded(poses[k].pos), poses[k].quat, _place(draft, k))
        for k, name in zip(order, instances, strict=True)
    )
    targets = tuple(
        Target(
            object_index=order.index(k),
            goal_pos=_rounded(goal.pos),
            goal_quat=goal.quat,
            label=draft.items[k].label,
            start_receptacle=_place(draft, k),
            goal_receptacle=draft.goal_receptacles[k],
        )
        for k, goal in enumerate(goals)
    )
    markers = {
        m.name: (f"{f.name}/{m.link}", np.array(m.offset, dtype=np.float64))
        for f in room.apartment.furniture
        for m in f.markers
    }
    extra: dict[str, Any] = {
        "target_receptacles": [_pair(room, t.start_receptacle) for t in targets],
        "goal_receptacles": [_pair(room, t.goal_receptacle) for t in targets],
    }
    return Episode(
        episode_id, scenario, layout, objects, targets, dict(draft.joints), markers, None, extra
    )


def _place(draft: Draft, k: int) -> str:
    return draft.items[k].placement.receptacle


def _rounded(pos: np.ndarray) -> np.ndarray:
    return np.round(pos, 5)


def _pair(room: Room, receptacle: str) -> list[Any]:
    furniture, _, link = room.link_of(receptacle).partition("/")
    return [handles.furniture_handle(furniture), handles.link_id(furniture, link)]

"""Episodes of one layout in others: every object moves with the furniture that carries it.

Furniture is rigid, so what rests on it rests on it wherever it stands, and nothing has to settle
anew. Whether the arm reaches an object in its new place is not checked: for Navigate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.errors import UserError, nearest
from tpsrl.geometry.rotations import frame, matrix_to_quat, planar_frame
from tpsrl.scenes.description import Apartment, Layout
from tpsrl.scenes.geometry import find_receptacle


def moved_episodes(
    episodes: Sequence[Episode], apartment: Apartment, split: str, count: int, seed: int
) -> list[Episode]:
    """Return ``count`` episodes in layouts of a split.

    Layouts are used in turn; which episode is moved there is drawn, each once before any is used
    twice.

    Args:
        episodes: of any layouts of the apartment.
        apartment: furniture and layouts.
        split: whose layouts.
        count: how many.
        seed: of the draw.

    Raises:
        UserError: there are no episodes or no such layouts, or an object lies on no furniture.
    """
    layouts = [layout for layout in apartment.layouts.values() if layout.split == split]
    if not layouts or not episodes:
        raise UserError(f"there are {len(episodes)} episodes and {len(layouts)} {split} layouts.")
    rng, order = np.random.default_rng(seed), list[int]()
    found = []
    for number in range(count):
        order = order or rng.permutation(len(episodes)).tolist()
        name = f"{split}_{number:05d}"
        layout = layouts[number % len(layouts)]
        found.append(moved_episode(episodes[order.pop()], apartment, layout, name))
    return found


def moved_episode(episode: Episode, apartment: Apartment, layout: Layout, name: str) -> Episode:
    """Return an episode, called ``name``, with its furniture as in another layout.

    Raises:
        UserError: an object or a goal lies on no furniture, or the episode is of another apartment.
    """
    if episode.layout not in apartment.layouts:
        raise UserError(
            f"episode '{episode.episode_id}' cannot be moved: apartment '{apartment.name}' has no"
            f" layout '{episode.layout}'{nearest(episode.layout, apartment.layouts)}"
        )
    old = apartment.layouts[episode.layout]

    def move(pos: np.ndarray, quat: np.ndarray, place: str) -> tuple[np.ndarray, np.ndarray]:
        piece = _carrier(apartment, place, episode.episode_id)
        step = planar_frame(layout.poses[piece]) @ np.linalg.inv(planar_frame(old.poses[piece]))
        there = step @ frame(pos, quat)
        return there[:3, 3], np.array(matrix_to_quat(there[:3, :3]))

    objects = []
    for item in episode.objects:
        pos, quat = move(item.pos, item.quat, item.receptacle)
        objects.append(replace(item, pos=pos, quat=quat))
    targets = []
    for target in episode.targets:
        pos, quat = move(target.goal_pos, target.goal_quat, target.goal_receptacle)
        targets.append(replace(target, goal_pos=pos, goal_quat=quat))
    return replace(
        episode,
        episode_id=name,
        layout=layout.name,
        objects=tuple(objects),
        targets=tuple(targets),
        start=None,
    )


def _carrier(apartment: Apartment, place: str, episode_id: str) -> str:
    piece = place.partition("/")[0]
    if piece in {f.name for f in apartment.furniture} and "/" in place:
        return piece
    try:
        return find_receptacle(apartment, place)[0].name
    except ValueError as error:
        raise UserError(f"episode '{episode_id}' cannot be moved: {error}") from None

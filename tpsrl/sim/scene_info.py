"""Scenes of the simulator door, made from an apartment's description; one per layout, kept."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

import numpy as np

from tpsrl.episodes.types import Episode
from tpsrl.episodes.validate import validate
from tpsrl.errors import UserError, nearest
from tpsrl.geometry.rotations import frame, matrix_to_quat
from tpsrl.robot import fetch
from tpsrl.scenes.description import Apartment, Furniture, Layout
from tpsrl.scenes.geometry import footprints, link_frame
from tpsrl.sim.navigation import GridNavigation
from tpsrl.sim.scene import ReceptacleInfo, SceneInfo

_REMEMBERED = 4096
"""Episodes that are known to be sound; a training plays the same ones again and again."""


class SceneLibrary:
    """Builds the :class:`SceneInfo` of a layout once and keeps it.

    Args:
        apartment: walls, furniture and layouts.
    """

    def __init__(self, apartment: Apartment) -> None:
        self.apartment = apartment
        self._scenes: dict[str, SceneInfo] = {}
        self._sound: dict[int, Episode] = {}

    @cached_property
    def joint_names(self) -> list[str]:
        """Furniture joints in the order of the simulator door."""
        return [f"{p.name}/{link.name}" for p in self.apartment.furniture for link in p.links[1:]]

    def check(self, layout: str, where: str) -> None:
        """Raise a :class:`UserError` if the apartment lacks the layout."""
        if layout not in self.apartment.layouts:
            hint = nearest(layout, self.apartment.layouts)
            raise UserError(f"{where}: no layout '{layout}' in {self.apartment.name}{hint}")

    def check_episode(self, episode: Episode, types: Collection[str]) -> None:
        """Refuse an episode that names what there is not, or puts something outside.

        Args:
            episode: to be loaded.
            types: object types of the engine.

        Raises:
            UserError: see :func:`tpsrl.episodes.validate.validate`.
        """
        if id(episode) in self._sound:
            return
        validate(episode, self.apartment, types)
        if len(self._sound) >= _REMEMBERED:
            self._sound.clear()
        self._sound[id(episode)] = episode

    def scene(self, layout: str) -> SceneInfo:
        """Return the scene of a layout.

        Raises:
            UserError: unknown layout.
        """
        self.check(layout, "scene")
        if layout not in self._scenes:
            self._scenes[layout] = self._make(layout)
        return self._scenes[layout]

    def _make(self, name: str) -> SceneInfo:
        layout = self.apartment.layouts[name]
        frames = _frames(self.apartment, layout)
        receptacles: dict[str, ReceptacleInfo] = {}
        containers: dict[str, np.ndarray] = {}
        static: set[str] = set()
        for piece in self.apartment.furniture:
            receptacles.update(self._receptacles(piece, frames))
            for box in piece.containers:
                joint = f"{piece.name}/{box.joint_link}"
                corners = np.array(box.center) + np.array([[-1], [1]]) * np.array(box.half_size)
                if not box.moves:
                    link = next(k for k in piece.links if k.name == box.joint_link)
                    to_link = np.linalg.inv(frame(link.pos, link.quat))
                    corners = corners @ to_link[:3, :3].T + to_link[:3, 3]
                    static.add(joint)
                containers[joint] = np.sort(corners, axis=0)
        rest = {
            f"{p.name}/{link.name}": frames[f"{p.name}/{link.name}"]
            for p in self.apartment.furniture
            for link in p.links[1:]
        }
        navigation = GridNavigation(
            footprints(self.apartment, layout), self.apartment.bounds, radius=fetch.BASE_RADIUS
        )
        poses = {k: np.array(v, dtype=float) for k, v in layout.poses.items()}
        return SceneInfo(name, poses, receptacles, containers, frozenset(static), rest, navigation)

    def _receptacles(
        self, piece: Furniture, frames: dict[str, tuple[np.ndarray, np.ndarray]]
    ) -> dict[str, ReceptacleInfo]:
        found = {}
        root = piece.links[0].name
        for item in piece.receptacles:
            moving = item.link != root
            key = f"{piece.name}/{item.link}"
            pos, quat = frames[key]
            found[item.name] = ReceptacleInfo(
                item.name,
                piece.name,
                self.joint_names.index(key) if moving else -1,
                pos,
                quat,
                np.array(item.center),
                np.array(item.half_size),
            )
        return found


def _frames(apartment: Apartment, layout: Layout) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """World position and orientation of every link at joint position 0, by ``piece/link``."""
    frames = {}
    for piece in apartment.furniture:
        for link in piece.links:
            world = link_frame(link, layout.poses[piece.name])
            quat = np.array(matrix_to_quat(world[:3, :3]))
            frames[f"{piece.name}/{link.name}"] = (world[:3, 3], quat)
    return frames

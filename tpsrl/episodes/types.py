"""An episode in memory: z up, metres, quaternions wxyz. The files are Habitat's (y up)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class RigidObject:
    """One movable object of an episode.

    Attributes:
        type: object config name without suffix, e.g. ``"002_master_chef_can"``.
        instance: handle unique in the episode, e.g. ``"002_master_chef_can_:0000"``.
        pos: (3,) float64 position of the object's centre at reset.
        quat: (4,) float64 orientation at reset.
        receptacle: name of the receptacle it lies on, ``""`` if the file does not say.
    """

    type: str
    instance: str
    pos: np.ndarray
    quat: np.ndarray
    receptacle: str = ""


@dataclass(frozen=True)
class Target:
    """An object to be moved and where to.

    Attributes:
        object_index: index into ``Episode.objects``.
        goal_pos: (3,) float64 wanted position of the object's centre.
        goal_quat: (4,) float64; stored, never scored.
        label: name in the planning domain, e.g. ``"any_targets|0"``, ``"bowl_target|0"``.
        start_receptacle: receptacle (or ``"furniture/link"``) that holds the object at reset.
        goal_receptacle: the same for the goal.
    """

    object_index: int
    goal_pos: np.ndarray
    goal_quat: np.ndarray
    label: str
    start_receptacle: str
    goal_receptacle: str


@dataclass(frozen=True)
class Episode:
    """One rearrangement problem.

    Attributes:
        episode_id: unique in its file.
        scenario: ``"tidy_house"``, ``"set_table"``, ... or ``""``.
        layout: where the furniture stands, e.g. ``"sc3_staging_07"``.
        objects: all movable objects.
        targets: ordered; the planning domain names them by their labels.
        joints: furniture joint name -> start position, m or rad; others are closed.
        markers: handle name -> (joint name, (3,) offset in the link's frame).
        start: (3,) x, y, yaw of the robot, or ``None`` to sample it at reset.
        extra: fields of the file that tpsrl does not use, kept for writing it back.
    """

    episode_id: str
    scenario: str
    layout: str
    objects: tuple[RigidObject, ...]
    targets: tuple[Target, ...]
    joints: Mapping[str, float] = field(default_factory=dict)
    markers: Mapping[str, tuple[str, np.ndarray]] = field(default_factory=dict)
    start: np.ndarray | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EpisodeSet:
    """The episodes of one file, in its order.

    Attributes:
        episodes: all episodes; their ids are unique.
        extra: top-level fields of the file other than ``episodes``.
        source: file it was read from, for messages; ``""`` if made in memory.
    """

    episodes: tuple[Episode, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, index: int) -> Episode:
        return self.episodes[index]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

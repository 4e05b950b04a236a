"""Which bodies of a model's pool are the objects of an episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from tpsrl.episodes.types import Episode

Pool = Mapping[str, tuple[int, ...]]
"""Object type -> bodies."""


def need(episode: Episode) -> Counter[str]:
    """Return how many bodies of each type an episode needs."""
    return Counter(item.type for item in episode.objects)


def fits(pool: Pool, episode: Episode) -> bool:
    """Return whether there is a body for every object of an episode."""
    return all(len(pool.get(name, ())) >= count for name, count in need(episode).items())


def choose(pool: Pool, episode: Episode) -> np.ndarray:
    """Return the (k,) bodies that are an episode's objects, in its order."""
    used: Counter[str] = Counter()
    bodies = []
    for item in episode.objects:
        bodies.append(pool[item.type][used[item.type]])
        used[item.type] += 1
    return np.array(bodies, dtype=np.int64)

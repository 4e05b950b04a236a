"""The last episodes of a training: their means, and the score that checkpoints are compared by."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np

from ver_trainer.config import LogConfig
from ver_trainer.rollout.collector import EpisodeEnd


class RecentEpisodes:
    """The episodes that ended last.

    Args:
        log: how many are kept, and what the best checkpoint is best at.
        info_keys: entries of an episode's last info, of which means are taken.
    """

    def __init__(self, log: LogConfig, info_keys: Sequence[str]) -> None:
        self.log, self.info_keys = log, info_keys
        self.ended: deque[EpisodeEnd] = deque(maxlen=log.window)

    def extend(self, episodes: Iterable[EpisodeEnd]) -> None:
        """Adds episodes that have just ended."""
        self.ended.extend(episodes)

    def mean_return(self) -> float:
        """Mean return, NaN if no episode has ended."""
        return float(np.mean([e.reward for e in self.ended])) if self.ended else math.nan

    def means(self) -> dict[str, float]:
        """``episode/return``, ``episode/length`` and ``episode/KEY``; nothing without episodes."""
        if not self.ended:
            return {}
        record = {
            "episode/return": self.mean_return(),
            "episode/length": float(np.mean([e.length for e in self.ended])),
        }
        for key in self.info_keys:
            values = [e.info[key] for e in self.ended if key in e.info]
            if values:
                record[f"episode/{key}"] = float(np.mean(values))
        return record

    def best_by(self) -> str:
        """``eval``, ``success``, ``return`` or ``last``: what ``log.best_by`` comes to.

        A shaped reward may fall while success rises, as where mistakes begin to cost, so success
        counts where episodes tell of it.
        """
        if self.log.best_by != "auto":
            return self.log.best_by
        if self.log.eval_interval:
            return "eval"
        return "success" if "episode/success" in self.means() else "return"

    def kind(self) -> str:
        """What the score is of: :meth:`best_by`, and of how many episodes while they are few.

        The first to end are the shortest, which where success ends an episode are the best. Scores
        of one kind alone are compared, so until ``log.window`` have ended the newest counts.
        """
        by, count = self.best_by(), len(self.ended)
        whole = by not in ("success", "return") or count >= self.log.window
        return by if whole else f"{by} of {count} episodes"

    def score(self, evaluated: float | None) -> float | None:
        """The present weights' score.

        Args:
            evaluated: what the evaluation of these weights gave, if there was one.
        """
        by = self.best_by()
        value = evaluated if by == "eval" else self.means().get(f"episode/{by}")
        return value if value is not None and math.isfinite(value) else None


def interleave(parts: list[list[EpisodeEnd]]) -> list[EpisodeEnd]:
    """Joins lists in turns, so that the last entries come from all of them.

    Lists are aligned at their ends: a window over the result holds as much of each as it can.
    """
    turns = itertools.zip_longest(*(reversed(part) for part in parts))
    mixed = [episode for turn in turns for episode in turn if episode is not None]
    return mixed[::-1]

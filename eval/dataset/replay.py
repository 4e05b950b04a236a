"""Does recorded actions again, and compares what follows with what was recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from eval.dataset.reading import DataSet, Recorded
from eval.trace import Trace
from planner.chain.make import make_task
from tpsrl.engines import make_simulator
from tpsrl.jobs.pool import JobPool
from tpsrl.jobs.progress import Tally
from tpsrl.jobs.threads import one_thread
from tpsrl.sim.door import Simulator


@dataclass(frozen=True)
class Replay:
    """What came of an episode that was done again.

    Attributes:
        success: the goal held at the end.
        same: every state was the recorded one, to the last bit.
    """

    success: bool
    same: bool


def replay_episode(sim: Simulator, recorded: Recorded, scenario: str = "") -> Replay:
    """Do the actions of an episode again in world 0.

    Args:
        sim: simulator.
        recorded: the episode.
        scenario: whose goal counts; ``""`` takes the one that the episode names.
    """
    sim.reset([recorded.problem], [recorded.seed])
    trace = Trace()
    trace.add(sim.state())
    for action in recorded.actions:
        sim.step(action.astype("float64")[None])
        trace.add(sim.state())
    success = make_task(recorded.problem, scenario).success(sim, 0)
    return Replay(bool(success), trace.digest == recorded.states)


@contextlib.contextmanager
def _replaying(engine: str, scenario: str) -> Iterator[Callable[[Recorded], Replay]]:
    """Do episodes again in a worker process."""
    with one_thread(), contextlib.closing(make_simulator(engine)) as sim:
        yield lambda recorded: replay_episode(sim, recorded, scenario)


def replay(path: Path, episodes: int | None, workers: int) -> tuple[int, int, int, int]:
    """Do the first episodes of a data set again.

    Args:
        path: folder of the data set.
        episodes: how many; ``None`` for all.
        workers: processes.

    Returns:
        How many ended in success when recorded, how many of these do again, how many had the same
        states to the last bit, and of how many.

    Raises:
        UserError: there is no such data set.
    """
    data = DataSet(path)
    every, config = list(data.episodes(episodes)), data.runs["config"]
    won = again = same = 0
    # A scenario of one's own is known by its file, one that ships by the name in the episode.
    work = partial(_replaying, config["engine"], config.get("scenario_file", ""))
    with Tally("replay", len(every)) as tally, JobPool(work, workers) as pool:
        for recorded, result in pool.results(every):
            won += recorded.success
            again += recorded.success and result.success
            same += result.same
            tally.add(1, f"same states {same}")
    return won, again, same, len(every)

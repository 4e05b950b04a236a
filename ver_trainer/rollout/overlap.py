"""Collection in a thread of its own, for the schemes that learn at the same time."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass

import torch
from torch import Tensor

from ver_trainer.errors import Interrupted
from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.collector import Collector, CollectStats
from ver_trainer.rollout.storage import RolloutStorage


@dataclass
class Collected:
    """A rollout that waits for the learner."""

    storage: RolloutStorage
    stats: CollectStats
    behaviour: dict[str, Tensor]


class OverlappedCollector:
    """Runs a collector on its own copy of the policy.

    With ``continuous`` the newest published weights are fetched before every inference and up to
    ``len(spare)`` rollouts wait for the learner. Without it (HTS-RL) the collector and the learner
    meet after every rollout: rollout ``k + 1`` is collected with the weights known when rollout
    ``k`` was handed over, so experience is exactly one update old; with ``keeps_weights`` it brings
    the weights that collected it.
    """

    def __init__(
        self,
        collector: Collector,
        spare: list[RolloutStorage],
        continuous: bool,
        keeps_weights: bool,
    ) -> None:
        self._collector, self._continuous = collector, continuous
        self._keeps_weights = keeps_weights
        self._free: queue.Queue[RolloutStorage] = queue.Queue()
        for storage in spare:
            self._free.put(storage)
        self._full: queue.Queue[Collected | BaseException] = queue.Queue()
        self._go = threading.Semaphore(0)
        self._lock = threading.Lock()
        self._published: tuple[int, dict[str, Tensor]] | None = None
        self._stop = False
        if continuous:
            collector.before_inference = self._fetch
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)

    def start(self, policy: Policy, version: int) -> None:
        """Starts collecting with the weights of ``policy``."""
        self.publish(policy, version)
        self._thread.start()
        self._go.release()

    def publish(self, policy: Policy, version: int) -> None:
        """Makes new weights available to the collector."""
        weights = {name: t.detach().clone() for name, t in policy.state_dict().items()}
        with self._lock:
            self._published = (version, weights)

    def _fetch(self) -> None:
        with self._lock:
            published, self._published = self._published, None
        if published is not None:
            self._collector.version = published[0]
            self._collector.policy.load_state_dict(published[1])

    def take(self) -> Collected:
        """Waits for the next rollout; the caller gives its storage back with :meth:`give_back`.

        Raises:
            Whatever stopped the collector.
        """
        item = self._full.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def give_back(self, storage: RolloutStorage) -> None:
        """Returns a storage after learning."""
        self._free.put(storage)

    def resume(self) -> None:
        """Lets a collector that is not continuous start its next rollout."""
        if not self._continuous:
            self._go.release()

    def _run(self) -> None:
        try:
            if self._continuous:
                self._go.acquire()
            while not self._stop:
                self._one_rollout()
        except BaseException as error:
            self._full.put(error)

    def _one_rollout(self) -> None:
        if not self._continuous:
            self._go.acquire()
        if self._stop:
            return
        with torch.inference_mode():
            self._fetch()
        collector = self._collector
        stats = collector.collect()
        spare = self._free.get()
        if self._stop:
            return
        spare.copy_from(collector.storage)
        collector.storage.after_update()
        behaviour: dict[str, Tensor] = {}
        if self._keeps_weights:
            named = collector.policy.named_parameters()
            behaviour = {name: p.detach().clone() for name, p in named}
        self._full.put(Collected(spare, stats, behaviour))

    def close(self) -> None:
        """Stops the thread; the collector must be told to stop by its pool's ``should_stop``."""
        self._stop = True
        self._go.release()
        self._free.put(self._collector.storage)  # wakes a collector that waits for a storage
        if self._thread.is_alive():
            self._thread.join(timeout=10.0)

    def stop_requested(self) -> None:
        """For the pool's ``should_stop``: ends a rollout that is under way."""
        if self._stop:
            raise Interrupted("closing")

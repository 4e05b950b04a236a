"""Weights with an owner: who computes gradients is not who applies them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

Gradients = list[Tensor | None]


class GradientOwner:
    """A thread that owns the newest weights and applies gradients to them, in their order.

    Whoever computes gradients asks for weights first: gradient ``k`` of an update is computed at
    the weights after ``max(k - lag, 0)`` gradients, so that ``lag`` of them may be on their way
    (the gradient asynchrony of Bou and De Fabritiis 2020, here with a limit). Which weights they
    are does not depend on the speed of the threads: a run repeats bit for bit.

    Attributes:
        rates: learning rates of the optimizer's groups for the next gradient.

    Args:
        parameters: of the computing side, changed by :meth:`fetch`.
        owned: the owner's own, of the same shapes.
        optimizer: of ``owned``.
        after_step: called in the owner's thread after every step.
        lag: most gradients on their way.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        owned: Sequence[nn.Parameter],
        optimizer: torch.optim.Optimizer,
        after_step: Callable[[], None],
        lag: int,
    ) -> None:
        self.parameters, self.owned, self.optimizer = list(parameters), list(owned), optimizer
        self.after_step, self.lag = after_step, lag
        self.rates = [group["lr"] for group in optimizer.param_groups]

    def begin(self) -> None:
        """Starts an update: the owner takes over the weights of the computing side."""
        with torch.no_grad():
            for mine, theirs in zip(self.owned, self.parameters, strict=True):
                mine.copy_(theirs)
        self._given = self._taken = 0
        self._work: queue.Queue[tuple[Gradients, list[float]] | None] = queue.Queue()
        self._done: queue.Queue[list[Tensor] | BaseException] = queue.Queue()
        self._thread = threading.Thread(target=self._run, name="gradient owner", daemon=True)
        self._thread.start()

    def fetch(self) -> int:
        """Waits until no more than ``lag`` gradients are on their way, and takes those weights.

        Returns:
            How many gradients the weights are behind.

        Raises:
            Whatever stopped the owner.
        """
        self._take(max(self._given - self.lag, 0))
        return self._given - self._taken

    def submit(self) -> None:
        """Hands over the gradients of ``parameters``, with the learning rates of this moment."""
        gradients = [None if p.grad is None else p.grad.clone() for p in self.parameters]
        self._work.put((gradients, list(self.rates)))
        self._given += 1

    def end(self) -> None:
        """Waits for all gradients, and takes the newest weights.

        Raises:
            Whatever stopped the owner.
        """
        try:
            self._take(self._given)
        finally:
            self.stop()

    def stop(self) -> None:
        """Ends the thread; safe to call twice."""
        self._work.put(None)
        self._thread.join()

    def _take(self, version: int) -> None:
        while self._taken < version:
            weights = self._done.get()
            if isinstance(weights, BaseException):
                raise weights
            self._taken += 1
            if self._taken == version:
                with torch.no_grad():
                    for mine, theirs in zip(self.parameters, weights, strict=True):
                        mine.copy_(theirs)

    def _run(self) -> None:
        try:
            while (item := self._work.get()) is not None:
                gradients, rates = item
                for parameter, gradient in zip(self.owned, gradients, strict=True):
                    parameter.grad = gradient
                for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                    group["lr"] = rate
                self.optimizer.step()
                self.after_step()
                self._done.put([p.detach().clone() for p in self.owned])
        except BaseException as error:
            self._done.put(error)

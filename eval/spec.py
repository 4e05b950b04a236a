"""What to run: factories that a worker process can call, and the rules of an episode."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Factory:
    """A call that can be sent to another process: ``"module:function"`` and its keywords.

    Attributes:
        target: importable callable, e.g. ``"tpsrl.assembly:make_simulator"``.
        kwargs: picklable keyword arguments.
    """

    target: str
    kwargs: Mapping[str, Any] = field(default_factory=dict)

    def build(self, *args: Any) -> Any:
        """Import the callable and call it with ``args`` and the stored keywords.

        Raises:
            ImportError: the module or the name in it does not exist.
        """
        module_name, _, name = self.target.partition(":")
        module = importlib.import_module(module_name)
        try:
            function: Callable[..., Any] = getattr(module, name)
        except AttributeError as error:
            raise ImportError(f"{module_name} has no '{name}'") from error
        return function(*args, **self.kwargs)


@dataclass(frozen=True)
class EvaluationSpec:
    """Everything that decides a result, apart from the episodes themselves.

    Attributes:
        simulator: ``() -> Simulator`` with one world.
        agent: ``() -> Agent``.
        task: ``(Episode) -> Task``.
        config: plain values that describe the run; a result folder holds runs of one config only.
        max_steps: control steps after which an episode fails.
        seed: seed of the run; every episode gets its own seed from it and its index.
    """

    simulator: Factory
    agent: Factory
    task: Factory
    config: Mapping[str, Any]
    max_steps: int
    seed: int = 0

    def episode_seed(self, index: int) -> int:
        """Return the seed of the episode with this index, whatever else is run."""
        return int(np.random.SeedSequence([self.seed, index]).generate_state(1)[0])

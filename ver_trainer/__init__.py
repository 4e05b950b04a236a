"""VER: on-policy reinforcement learning for any Gymnasium environment.

Names are loaded on first use, because environment processes import ``ver_trainer.envs`` and must
not import torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# Before torch is loaded: its threads, and those of every child, sleep while they wait, so that
# they do not take the core that an environment or somebody else's work needs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

_EXPORTS = {
    "TrainConfig": "ver_trainer.config",
    "load_config": "ver_trainer.config",
    "train": "ver_trainer.runner",
    "Runner": "ver_trainer.runner",
    "Policy": "ver_trainer.nets.policy",
    "make_policy": "ver_trainer.nets.policy",
    "load_policy": "ver_trainer.export",
    "export_policy": "ver_trainer.export",
    "evaluate": "ver_trainer.evaluation",
    "TrainerError": "ver_trainer.errors",
    "ConfigError": "ver_trainer.errors",
    "NonFiniteError": "ver_trainer.errors",
    "WorkerFailure": "ver_trainer.errors",
}

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module 'ver_trainer' has no attribute '{name}'")

"""Keys that several commands take: metadata of their fields, for :mod:`ver_trainer.options`.

A common base class would put its keys before all others; a command lists what matters most first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tpsrl.engines import ENGINES
from tpsrl.generation.rules import SPLITS, scenario_names

Option = Mapping[str, Any]

SCENARIO: Option = {"help": f"{', '.join(scenario_names())}, or FILE.yaml (docs/episodes.md)"}
SPLIT: Option = {"help": "whose layouts", "choices": list(SPLITS)}
DATA: Option = {
    "help": "Habitat episode file to use instead of the split's; replica_cad with path="
}
PATH: Option = {"help": "Habitat scene dataset to play in; null for tpsrl's own apartments"}
SIM: Option = {"help": "physics engine", "choices": list(ENGINES)}
GPU: Option = {"help": "sim=habitat: which GPU renders, -1 for none", "min": -1}
WORKERS: Option = {"help": "processes, by default one a core", "min": 1}
ATTEMPTS: Option = {"help": "workers that may die over an episode before it fails", "min": 1}
TIMEOUT: Option = {"help": "wall-clock s before a worker on one episode counts as hung", "min": 1}

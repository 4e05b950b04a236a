"""Keys that several commands take: what ``tpsrl.config`` says of each, as metadata of its field.

A common base class would put its keys before all others; a command lists what matters most first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tpsrl.engines import ENGINES
from tpsrl.errors import UserError
from tpsrl.generation.rules import SPLITS

Option = Mapping[str, Any]

SPLIT: Option = {"help": "whose layouts", "choices": list(SPLITS)}
DATA: Option = {
    "help": "Habitat episode file to use instead of the split's; replica_cad with path="
}
PATH: Option = {"help": "Habitat scene dataset to play in; null for tpsrl's own apartments"}
SIM: Option = {"help": "physics", "choices": list(ENGINES)}
GPU: Option = {"help": "sim=habitat: which GPU renders, -1 for none", "min": -1}
WORKERS: Option = {"help": "processes, by default one a core", "min": 1}
ATTEMPTS: Option = {"help": "workers that may die over an episode before it fails", "min": 1}
TIMEOUT: Option = {"help": "wall-clock s before a worker on one episode counts as hung", "min": 1}


def refuse_renamed(words: Iterable[str], **renamed: str) -> None:
    """Refuse keys by their old names.

    Args:
        words: of a command line.
        renamed: old name -> new name.

    Raises:
        UserError: a word has an old name; the message holds the new one.
    """
    for word in words:
        key, _, value = word.partition("=")
        if key in renamed:
            raise UserError(f"'{key}' is now '{renamed[key]}'; give {renamed[key]}={value}")

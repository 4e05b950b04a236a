"""The small episode sets that come with tpsrl."""

from __future__ import annotations

from pathlib import Path

from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError, nearest

_FOLDER = Path(__file__).parent / "data"


def load_shipped(scenario: str, split: str = "val") -> EpisodeSet:
    """Return the shipped episodes of a scenario.

    Raises:
        UserError: nothing is shipped for that scenario or split.
    """
    known = sorted(p.name.removesuffix(".json.gz") for p in _FOLDER.glob("*.json.gz"))
    wanted = f"{scenario}_{split}"
    if wanted in known:
        return load_episodes(_FOLDER / f"{wanted}.json.gz")
    scenarios = {k.rsplit("_", 1)[0] for k in known}
    if scenario not in scenarios:
        raise UserError(f"unknown scenario '{scenario}'{nearest(scenario, scenarios)}")
    raise UserError(
        f"no '{split}' episodes of '{scenario}' come with tpsrl; make some with"
        f" 'tpsrl episodes scenario={scenario} split={split} n=100 out=FILE.json.gz'"
        " and give data=FILE.json.gz"
    )

"""The small episode sets that come with tpsrl."""

from __future__ import annotations

from pathlib import Path

from tpsrl.episodes.habitat_json import load_episodes
from tpsrl.episodes.types import EpisodeSet
from tpsrl.errors import UserError, nearest

_FOLDER = Path(__file__).parent / "data"


def shipped_file(scenario: str, split: str = "val") -> Path:
    """Return where the shipped episodes of a scenario lie, whether or not there are any."""
    return _FOLDER / f"{scenario}_{split}.json.gz"


def shipped_scenarios() -> tuple[str, ...]:
    """Return the scenarios of which episodes ship, sorted."""
    files = _FOLDER.glob("*.json.gz")
    return tuple(sorted({p.name.removesuffix(".json.gz").rsplit("_", 1)[0] for p in files}))


def load_shipped(scenario: str, split: str = "val") -> EpisodeSet:
    """Return the shipped episodes of a scenario.

    Raises:
        UserError: nothing is shipped for that scenario or split.
    """
    file, known = shipped_file(scenario, split), shipped_scenarios()
    if file.exists():
        return load_episodes(file)
    if scenario not in known:
        raise UserError(f"unknown scenario '{scenario}'{nearest(scenario, known)}")
    raise UserError(
        f"no '{split}' episodes of '{scenario}' come with tpsrl; make some with"
        f" 'tpsrl episodes scenario={scenario} split={split} n=100 out=FILE.json.gz'"
        " and give data=FILE.json.gz"
    )

"""The goals of benchmarks/goals.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "goals.yaml"


def written_goals() -> list[dict[str, Any]]:
    """Return the goals, each with scenario, episode, words and plan."""
    return yaml.safe_load(FILE.read_text())

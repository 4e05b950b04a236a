"""Keys of commands that take a goal in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpsrl.options import Option
from ver_trainer.options import option

GOAL: Option = {"help": "what to do, in words (docs/words.md); null for the scenario's own task"}


@dataclass
class PlannerConfig:
    """Keys ``planner.*``."""

    llm: str | None = option(
        None,
        "who proposes a goal or a plan, which is checked: URL of an OpenAI-compatible endpoint, or"
        " package.module:function",
    )
    model: str = option("default", "name of the endpoint's model")
    key: str = option("OPENAI_API_KEY", "environment variable with the endpoint's key, if any")
    timeout: float = option(20.0, "s until an answer counts as not given", above=0)
    retries: int = option(2, "how often to ask again after no usable answer", min=0, max=10)


def stem(goal: str | None) -> str:
    """Return what a goal in words adds to the name of a file, ``""`` for no goal."""
    return "" if goal is None else "_" + re.sub(r"\W+", "_", goal.lower()).strip("_")[:60]

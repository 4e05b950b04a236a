"""Keys of commands that take a goal in words."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tpsrl.errors import UserError
from tpsrl.options import Option
from ver_trainer.options import option

GOAL: Option = {"help": "what to do, in words (docs/words.md); null for the scenario's own task"}


@dataclass
class PlannerConfig:
    """Keys ``planner.*``.

    Raises:
        UserError: ``llm`` is no text.
    """

    llm: str | None = option(
        None,
        "who proposes a goal or a plan, which is checked: URL of an OpenAI-compatible endpoint, or"
        " package.module:function",
    )
    model: str = option("default", "name of the endpoint's model")
    key: str = option("OPENAI_API_KEY", "environment variable with the endpoint's key, if any")
    timeout: float = option(20.0, "s until an answer counts as not given", above=0)
    retries: int = option(2, "how often to ask again after no usable answer", min=0, max=10)

    def __post_init__(self) -> None:
        # Results and worker processes are told by name who proposes; a function has none there.
        if not isinstance(self.llm, str | None):
            raise UserError(
                f"PlannerConfig(llm=...) takes text and not a {type(self.llm).__name__}; give a"
                " function as errand_for(..., proposer=...) or by name, 'package.module:function'"
            )


def stem(goal: str | None) -> str:
    """Return what a goal in words adds to the name of a file, ``""`` for no goal."""
    return "" if goal is None else "_" + re.sub(r"\W+", "_", goal.lower()).strip("_")[:60]

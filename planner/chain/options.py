"""Keys of commands that run agents over scenarios, beside those of :mod:`tpsrl.options`."""

from __future__ import annotations

from planner.chain.catalog import AGENTS
from planner.chain.tpsrl import EXECUTORS
from tpsrl.options import Option

AGENT: Option = {"help": "whose skills", "choices": list(AGENTS)}
WEIGHTS: Option = {
    "help": "run folder, checkpoint, file, or folder of skills or runs; null: those shipped"
}
EXECUTOR: Option = {
    "help": "the benchmark's fixed plan, or check and plan again",
    "choices": list(EXECUTORS),
}
MAX_STEPS: Option = {"help": "control steps of an episode; null for the scenario's", "min": 1}

"""Evaluation: agents over episodes, metrics, statistics, figures and videos."""

from tpsrl.rooms import require

require("planner", "skills", "ver_trainer")

"""Skills as registered Gymnasium environments: ``gymnasium.make("tpsrl/Pick-v0", depth=64)``.

Importing this package registers them; so does :func:`register`.
"""

from __future__ import annotations

import gymnasium

import ver_trainer.envs  # noqa: F401 - plain warnings

NAMES = {
    "navigate": "Navigate",
    "pick": "Pick",
    "place": "Place",
    "open_cab": "OpenCabinet",
    "close_cab": "CloseCabinet",
    "open_fridge": "OpenFridge",
    "close_fridge": "CloseFridge",
    "rearrange_easy": "RearrangeEasy",
    "pointnav": "PointNav",
    "flee": "Flee",
    "explore": "Explore",
}
"""Skill -> name of its environment."""


def env_id(skill: str) -> str:
    """Return the Gymnasium id of a skill, e.g. ``"tpsrl/Pick-v0"``."""
    return f"tpsrl/{NAMES[skill]}-v0"


def register() -> None:
    """Register all environments; those already registered are left alone."""
    for skill in NAMES:
        if env_id(skill) not in gymnasium.registry:
            gymnasium.register(
                env_id(skill),
                entry_point="skills.envs.single:SkillEnv",
                vector_entry_point="skills.envs.batch:BatchSkillEnv",
                kwargs={"skill": skill},
            )


register()

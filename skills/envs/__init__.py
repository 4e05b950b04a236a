"""Skills as registered Gymnasium environments: ``gymnasium.make("tpsrl/Pick-v0", depth=64)``.

Importing this package registers them; so does :func:`register`.
"""

from __future__ import annotations

import gymnasium

import ver_trainer.envs  # noqa: F401 - plain warnings
from skills.book import BOOK, row_of


def env_id(skill: str) -> str:
    """Return the Gymnasium id of a skill, e.g. ``"tpsrl/Pick-v0"``.

    Raises:
        UserError: unknown skill.
    """
    return f"tpsrl/{row_of(skill).environment}-v0"


def register() -> None:
    """Register an environment for every skill in the book; those that have one are left alone."""
    for skill in BOOK:
        if env_id(skill) not in gymnasium.registry:
            gymnasium.register(
                env_id(skill),
                entry_point="skills.envs.single:SkillEnv",
                vector_entry_point="skills.envs.batch:BatchSkillEnv",
                kwargs={"skill": skill},
            )


register()

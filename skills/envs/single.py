"""A skill as a Gymnasium environment: one world."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from skills.envs.config import EnvConfig, action_space
from skills.envs.worlds import CarriesMastery, check_options
from skills.tasks.state import CAUSES, Outcome
from tpsrl.sim.door import Simulator


class SkillEnv(CarriesMastery, gymnasium.Env[dict[str, np.ndarray], np.ndarray]):
    """One skill in one apartment.

    ``info`` holds ``success``, ``cause`` (why the episode ended, ``""`` while it runs, see
    ``skills.tasks.state.CAUSES``), ``force`` and ``force_sum`` in newtons, the skill's distances,
    and ``episode_id``, ``layout`` and ``seed`` of the episode. ``reset(options={"seed": s})``
    repeats the episode whose ``info["seed"]`` was ``s``; with ``"start": k`` it begins at the
    ``k``-th of its hand-off starts, instead of one that the seed draws.

    Args:
        skill: e.g. ``"pick"``; a key of :data:`skills.book.BOOK`.
        render_mode: ``"rgb_array"`` or ``None``.
        simulator: instead of an engine of its own; it then stays open on ``close``.
        config: fields of :class:`~skills.envs.config.EnvConfig`.

    Raises:
        UserError: an argument is wrong.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 30}  # noqa: RUF012

    def __init__(
        self,
        skill: str,
        *,
        render_mode: str | None = None,
        simulator: Simulator | None = None,
        **config: Any,
    ) -> None:
        self.skill, self.config, self.render_mode = skill, EnvConfig.of(config), render_mode
        task = self.config.task(skill)
        space = self.config.space(task)
        self.observation_space = space  # type: ignore[assignment]
        self.action_space = action_space(task)
        self._own = simulator is None
        self.worlds = self.config.worlds(skill, 1, simulator)
        self.sim = self.worlds.sim

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode; see the class for ``options``."""
        super().reset(seed=seed)
        given = check_options(options, ("seed", "start"))
        wanted, start = given.get("seed"), given.get("start")
        drawn = int(self.np_random.integers(2**31)) if wanted is None else int(wanted)
        self.worlds.start([0], [drawn], wanted is not None, None if start is None else int(start))
        return self._observe(), self._info(None)

    def step(
        self, action: np.ndarray
    ) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Carry out a flat action in [-1, 1]."""
        outcome = self.worlds.step(np.asarray(action, dtype=np.float64)[None])
        return (
            self._observe(),
            float(outcome.reward[0]),
            bool(outcome.terminated[0]),
            bool(outcome.truncated[0]),
            self._info(outcome),
        )

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """Return a (480, 640, 3) uint8 picture over the robot's shoulder."""
        return self.sim.render("third_person") if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        """Close the engine if it is this environment's own."""
        if self._own:
            self.sim.close()

    def _observe(self) -> dict[str, np.ndarray]:
        return {name: values[0] for name, values in self.worlds.observe().items()}

    def _info(self, outcome: Outcome | None) -> dict[str, Any]:
        assert self.worlds.view is not None
        state, origin = self.worlds.view.state, self.worlds.origins[0]
        info: dict[str, Any] = {
            "success": outcome is not None and bool(outcome.success[0]),
            "cause": "" if outcome is None else CAUSES[int(outcome.cause[0])],
            "force": float(state.force[0]),
            "force_sum": float(state.force_sum[0]),
            "episode_id": origin.episode_id,
            "layout": origin.layout,
            "seed": origin.seed,
        }
        if outcome is not None:
            info.update((name, float(value[0])) for name, value in outcome.metrics.items())
        return info

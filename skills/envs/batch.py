"""A skill in many worlds of one simulator at once, with automatic reset in the same step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from skills.envs.config import EnvConfig, action_space
from skills.envs.worlds import CarriesMastery, check_options
from skills.tasks.kinds import whole
from skills.tasks.state import Outcome
from tpsrl.errors import UserError
from tpsrl.geometry.arrays import Array, host
from tpsrl.sim.door import Simulator


class BatchSkillEnv(CarriesMastery, VectorEnv):
    """Gymnasium's vector interface over a simulator with several worlds.

    Arrays are those of the engine: NumPy on the CPU, torch tensors on the GPU. Where an episode
    ends its world is reset in the same step; ``info["final_obs"]`` then holds the last
    observations of all worlds as they were before the reset, and ``info["_final_obs"]`` (n,) bool
    says where they count. ``info["cause"]`` holds indices into ``skills.tasks.state.CAUSES``.

    Args:
        skill: as for :class:`~skills.envs.single.SkillEnv`.
        num_envs: worlds; ignored if a simulator is given.
        render_mode: ``"rgb_array"`` or ``None``.
        simulator: instead of an engine of its own; it then stays open on ``close``.
        config: fields of :class:`~skills.envs.config.EnvConfig`.

    Raises:
        UserError: an argument is wrong.
    """

    metadata = {  # noqa: RUF012
        "render_modes": ["rgb_array"],
        "render_fps": 30,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        skill: str,
        num_envs: int = 1,
        *,
        render_mode: str | None = None,
        simulator: Simulator | None = None,
        **config: Any,
    ) -> None:
        self.skill, self.config, self.render_mode = skill, EnvConfig.of(config), render_mode
        task = self.config.task(skill)
        self._own = simulator is None
        self.worlds = self.config.worlds(skill, num_envs, simulator)
        self.sim = self.worlds.sim
        self.num_envs = self.sim.num_envs
        self.single_observation_space = self.config.space(task)
        self.single_action_space = action_space(task)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seeds: list[np.random.Generator] = []

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[dict[str, Array], dict[str, Any]]:
        """Begin an episode in every world; world ``i`` is seeded with ``seed + i``.

        World ``i`` then has the episodes of a ``SkillEnv`` reset with ``seed + i``.

        Args:
            seed: see above, or one a world; ``None`` draws on.
            options: ``reset_mask``, (n,) bool: the worlds in which to begin, by default all.

        Raises:
            UserError: unknown option, a mask of another shape, or seeds of another number.
        """
        mask = check_options(options, ("reset_mask",)).get("reset_mask")
        chosen = np.ones(self.num_envs, dtype=bool)
        if mask is not None:
            chosen = host(mask) if is_array_api_obj(mask) else np.asarray(mask)
        if chosen.shape != (self.num_envs,) or chosen.dtype != bool:
            raise UserError(
                f"reset_mask is {chosen.dtype} of shape {chosen.shape}; give {self.num_envs} bool."
            )
        seeds = self._spread(seed)
        super().reset(seed=seeds[0] if whole(seed) else None)
        begun = [int(i) for i in np.flatnonzero(chosen)]
        if not self._seeds:
            begun = list(range(self.num_envs))
            self._seeds = [np.random.default_rng(s) for s in seeds]
        else:
            for i in begun:
                if seeds[i] is not None:
                    self._seeds[i] = np.random.default_rng(seeds[i])
        if begun:
            self.worlds.start(begun, self._draw(begun))
        return self.worlds.observe(), self._info(None)

    def get_state(self) -> dict[str, Any]:
        """Return the whole state as plain values and arrays: simulator, task, random generators.

        Raises:
            UserError: nothing was started yet, or the engine keeps its states to itself.
        """
        return {
            "worlds": self.worlds.get_state(),
            "seeds": [seeds.bit_generator.state for seeds in self._seeds],
        }

    def set_state(self, state: dict[str, Any]) -> None:
        """Put back what :meth:`get_state` returned, of an environment made alike.

        Steps and episodes go on exact to the bit; no ``reset`` has to come first.

        Raises:
            UserError: the state is of another number of worlds.
        """
        self.worlds.set_state(state["worlds"])
        self._seeds = [np.random.default_rng() for _ in state["seeds"]]
        for seeds, kept in zip(self._seeds, state["seeds"], strict=True):
            seeds.bit_generator.state = kept

    def step(self, actions: Array) -> tuple[dict[str, Array], Array, Array, Array, dict[str, Any]]:  # type: ignore[override]
        """Carry out (n, size) actions in [-1, 1]."""
        outcome = self.worlds.step(actions)
        info = self._info(outcome)
        done = outcome.terminated | outcome.truncated
        observation = self.worlds.observe()
        if bool(done.any()):
            info["final_obs"], info["_final_obs"] = observation, done
            ended = [int(i) for i in np.flatnonzero(host(done))]
            self.worlds.start(ended, self._draw(ended))
            observation = self.worlds.observe()
        return observation, outcome.reward, outcome.terminated, outcome.truncated, info

    def render(self) -> tuple[np.ndarray, ...] | None:  # type: ignore[override]
        """Return one picture a world."""
        if self.render_mode != "rgb_array":
            return None
        return tuple(self.sim.render("third_person", env_id=i) for i in range(self.num_envs))

    def close_extras(self, **kwargs: Any) -> None:
        """Close the engine if it is this environment's own."""
        if self._own:
            self.sim.close()

    def _spread(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        """Return the seed of each world."""
        if seed is None:
            return [None] * self.num_envs
        given: Any = seed
        if whole(given):
            given = [int(given) + i for i in range(self.num_envs)]
        right = isinstance(given, Sequence | np.ndarray) and len(given) == self.num_envs
        if not right or not all(s is None or (whole(s) and s >= 0) for s in given):
            raise UserError(
                f"seed={seed!r} is no number from 0, nor a list of {self.num_envs}, one a world."
            )
        return [None if s is None else int(s) for s in given]

    def _draw(self, env_ids: list[int]) -> list[int]:
        return [int(self._seeds[i].integers(2**31)) for i in env_ids]

    def _info(self, outcome: Outcome | None) -> dict[str, Any]:
        assert self.worlds.view is not None
        state = self.worlds.view.state
        info: dict[str, Any] = {"force": state.force, "force_sum": state.force_sum}
        if outcome is not None:
            info |= {"success": outcome.success, "cause": outcome.cause, **outcome.metrics}
        return info

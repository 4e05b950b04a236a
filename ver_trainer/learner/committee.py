"""Several teachers as one: whose critic promises most says what to do."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ver_trainer.envs.spaces import ArraySpec, EnvSpec
from ver_trainer.errors import ConfigError
from ver_trainer.nets.core import Packing
from ver_trainer.nets.heads import Categorical, DiagonalGaussian, MixedActions
from ver_trainer.nets.policy import Policy

EVERY = 10
"""Fewest steps of an environment before another member may take over."""
MARGIN = 0.1
"""By how much it has to promise more, in the first one's unit of returns
(``Policy.return_scale``): hands that change cost something."""


class Committee(nn.Module):
    """Policies without memory for the same actions, of which one speaks at a time.

    At the start of an episode it is the one whose critic promises the highest return of going on by
    itself from there. After :data:`EVERY` steps or more another takes over as soon as it promises
    more by :data:`MARGIN`. The state of an environment ``[n, 2]`` is the member that speaks
    (counted from 1, 0 before the first step) and for how many steps it has.

    Args:
        members: first those that win a draw.

    Attributes:
        actor_obs: names of all that actors and critics read.

    Raises:
        ConfigError: one has a memory, reads another observation by the same name, or acts otherwise
            than the first.
    """

    actor_state_size = 2

    def __init__(self, members: Sequence[Policy]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)
        first = members[0]
        self.config = first.config
        seen: dict[str, ArraySpec] = {}
        for member in members:
            _check(member, first)
            for name in (*member.actor_obs, *member.critic_obs):
                array = member.spec.observations[name]
                if seen.setdefault(name, array) != array:
                    raise ConfigError(f"teachers read different observations by the name '{name}'")
        self.spec = self.acting_spec = EnvSpec(seen, first.spec.action)
        self.actor_obs = tuple(seen)

    def actor_pass(
        self, obs: dict[str, Tensor], packing: Packing
    ) -> tuple[Categorical | DiagonalGaussian, Tensor]:
        """See :meth:`ver_trainer.nets.policy.Policy.actor_pass`."""
        found, values = [], []
        for member in self.members:
            assert isinstance(member, Policy)
            state = packing.state.new_zeros(len(packing.state), member.state_size)
            distribution, value = member.distribution(
                obs, Packing(packing.batch_sizes, state, packing.action)
            )
            found.append(distribution)
            values.append(value)
        first = self.members[0]
        assert isinstance(first, Policy)
        promised = torch.stack(values) / first.return_scale
        speaks, last = speakers(promised, packing.batch_sizes, packing.state)
        return _rows_of(found, speaks), last


def speakers(values: Tensor, batch_sizes: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Return who speaks in each row, and the states after each sequence.

    Args:
        values: ``[members, n]`` what each promises in one unit, rows in packed order.
        batch_sizes: see :class:`ver_trainer.nets.core.Packing`.
        state: ``[sequences, 2]`` before the first rows.

    Returns:
        int64 ``[n]`` and float ``[sequences, 2]``.
    """
    now, since = state[:, 0].long() - 1, state[:, 1].long()
    rows, at = [], 0
    for size in batch_sizes.tolist():
        promised = values[:, at : at + size]
        most, best = promised.max(0)
        mine = now[:size].clamp(min=0)
        gain = most - promised.gather(0, mine[None])[0]
        over = (now[:size] < 0) | ((since[:size] >= EVERY) & (gain > MARGIN))
        since[:size] = torch.where(over, 0, since[:size]) + 1
        now[:size] = torch.where(over, best, mine)
        rows.append(now[:size].clone())
        at += size
    return torch.cat(rows), torch.stack((now + 1, since), 1).to(state.dtype)


def _rows_of(
    found: Sequence[Categorical | DiagonalGaussian], which: Tensor
) -> Categorical | DiagonalGaussian:
    """Return the distribution whose row ``k`` is that of ``found[which[k]]``."""
    rows = torch.arange(len(which), device=which.device)
    first = found[0]
    if isinstance(first, Categorical):
        return Categorical(torch.stack([f.flat() for f in found])[which, rows])
    mean, log_std = torch.stack([f.flat() for f in found])[which, rows].chunk(2, dim=-1)
    if isinstance(first, MixedActions):
        return MixedActions(mean, log_std, first.binary)
    return DiagonalGaussian(mean, log_std)


def _check(member: Policy, first: Policy) -> None:
    critic = member.critic_core
    if member.actor_state_size or (critic is not None and critic.state_size):
        raise ConfigError(
            "distill.others wants policies without memory, and one of the teachers has"
            " net.core=lstm or reads its previous action; leave it out"
        )
    if member.spec.action != first.spec.action or (
        sorted(member.config.binary_actions) != sorted(first.config.binary_actions)
    ):
        raise ConfigError("distill.others: the teachers have different actions; leave one out")

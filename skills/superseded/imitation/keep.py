"""What a policy can do already stays its own: its own labels where it is not to learn anew."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch

from skills.superseded.imitation.demonstrations import Demonstration
from skills.tasks.places import KINDS, kind_of
from tpsrl.errors import UserError, nearest
from ver_trainer.nets.policy import Policy

_PLACES = ("obj_start_place", "obj_goal_place")


def keep_own(
    demonstrations: Sequence[Demonstration], policy: Policy, kinds: Sequence[str]
) -> list[Demonstration]:
    """Replace the expert's labels by the policy's own mean actions in some kinds of places.

    So a policy learns, say, to reach into a fridge without forgetting tables: where both would do
    the same thing differently the expert's labels would only confuse it (Li and Hoiem 2016,
    learning without forgetting).

    Args:
        demonstrations: of Pick or Place, with the place of the target among the observations.
        policy: without memory; its observations are among those of the demonstrations.
        kinds: of :data:`skills.tasks.places.KINDS`.

    Raises:
        UserError: an unknown kind, a policy with memory, or a place that is not observed.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UserError(f"imitate.keep: unknown place '{kind}'{nearest(kind, KINDS)}")
    if policy.recurrent:
        raise UserError("imitate.keep needs a policy without memory; set net.core=none.")
    return [_own(d, policy) if _kind(d) in kinds else d for d in demonstrations]


def _kind(episode: Demonstration) -> str:
    for name in _PLACES:
        if name in episode.observations:
            return kind_of(episode.observations[name][0]) if len(episode) else ""
    raise UserError(f"imitate.keep needs one of {', '.join(_PLACES)} in env_args.sensors.")


def _own(episode: Demonstration, policy: Policy) -> Demonstration:
    seen = {k: torch.from_numpy(episode.observations[k]) for k in policy.encoder.vectors}
    with torch.no_grad():
        actions, _ = policy.act_mode(seen, policy.initial_state(len(episode)))
    labels = np.clip(actions.numpy(), -1.0, 1.0).astype(np.float32)
    return dataclasses.replace(episode, actions=labels)

"""V-trace over a whole rollout (Espeholt et al. 2018)."""

from __future__ import annotations

import numpy as np
import torch

from ver_trainer.nets.policy import Policy
from ver_trainer.rollout.batch import Rollout
from ver_trainer.rollout.returns import vtrace
from ver_trainer.rollout.sequences import pack


@torch.no_grad()
def correct_off_policy(policy: Policy, rollout: Rollout) -> None:
    """Replace a rollout's returns and advantages by V-trace's under the current policy."""
    storage, order, ppo = rollout.storage, rollout.fresh, rollout.config
    packed = pack(order.rows, order.starts, order.lengths)
    batch = rollout.gather(packed)
    out = policy.evaluate(batch.obs, batch.action, batch.packing)
    ratios = np.zeros(storage.capacity)
    values = np.zeros(storage.capacity)
    ratios[packed.rows] = torch.exp(out.log_prob - batch.log_prob).cpu().numpy()
    values[packed.rows] = out.value.float().cpu().numpy()
    rows = order.rows
    targets, advantages = vtrace(
        storage.reward[rows] * ppo.reward_scale,
        values[rows],
        storage.next_value[rows[order.starts + order.lengths - 1]],
        ratios[rows],
        order.starts,
        order.lengths,
        ppo.gamma,
        ppo.vtrace_rho,
        ppo.vtrace_c,
    )
    storage.returns[rows], storage.advantage[rows] = targets, advantages

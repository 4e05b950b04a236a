"""CPC|A: action-conditional contrastive predictive coding, an auxiliary loss for memories."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ver_trainer.config import CPCConfig
from ver_trainer.learner.extras import ExtraLoss
from ver_trainer.nets.policy import Pass, Policy
from ver_trainer.rollout.batch import MiniBatch, Rollout


class _Predictor(nn.Module):
    """From a belief and the actions to come to scores of observations."""

    def __init__(self, belief: int, embedding: int, actions: int, size: int) -> None:
        super().__init__()
        self.start = nn.Linear(belief, size)
        self.forward_model = nn.GRUCell(actions, size)
        self.score = nn.Sequential(nn.Linear(size + embedding, size), nn.ReLU(), nn.Linear(size, 1))

    def logits(self, predicted: Tensor, seen: Tensor) -> Tensor:
        """Log odds ``[...]`` that ``seen`` ``[..., embedding]`` is what comes."""
        return self.score(torch.cat((predicted, seen), dim=-1)).squeeze(-1)


class ActionCPC:
    """The memory's output must tell what will be seen, given the actions until then.

    Guo et al. 2018, section 3.1: a GRU that starts from the belief of step t reads the actions t,
    t + 1, ...; after k of them a classifier tells the observation of step t + k (its encoding) from
    others of the mini-batch. Ye et al. 2020 and Wijmans et al. 2022 use it for navigation.

    Args:
        policy: a recurrent policy.
        config: sizes and weight.
    """

    name, labels = "cpc", False

    def __init__(self, policy: Policy, config: CPCConfig) -> None:
        self.policy, self.config, self.coefficient = policy, config, config.coef
        self.module = _Predictor(
            policy.core.out_features,
            policy.encoder.out_features,
            policy.spec.action.size,
            config.size,
        )

    def prepare(self, rollout: Rollout, progress: float, steps: int) -> None:
        """Nothing changes from update to update."""

    def loss(self, forward: Pass, batch: MiniBatch) -> ExtraLoss | None:
        """Cross-entropy of right and wrong observations; records the share told apart."""
        device = forward.belief.device
        earlier = batch.packing.earlier().to(device)
        if not len(earlier):
            return None  # no two successive steps
        rows = len(batch.rows)
        following = torch.full((rows,), -1, device=device)
        following[earlier] = torch.arange(rows - len(earlier), rows, device=device)
        actions = self.policy.action_features(batch.action)
        chosen = torch.randperm(len(earlier), device=device)[: self.config.samples]
        current = earlier[chosen]
        predicted = self.module.start(forward.belief[current])
        losses, right = [], []
        for _ in range(self.config.steps):
            predicted = self.module.forward_model(actions[current], predicted)
            current = following[current]
            going = current >= 0
            if not bool(going.any()):
                break
            predicted, current = predicted[going], current[going]
            true, false = self._logits(predicted, forward.embedding, current)
            losses.append(F.softplus(-true) + F.softplus(false).mean(-1))
            right.append((true > 0).float() + (false <= 0).float().mean(-1))
        accuracy = torch.cat(right).mean() / 2
        return ExtraLoss(torch.cat(losses).mean() / 2, {"accuracy": accuracy.detach()})

    def _logits(self, predicted: Tensor, seen: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
        count = self.config.negatives
        others = torch.randint(len(seen), (len(truth), count), device=seen.device)
        repeated = predicted[:, None].expand(-1, count, -1)
        true = self.module.logits(predicted, seen[truth])
        return true, self.module.logits(repeated, seen[others])

    def state_dict(self) -> dict[str, Any]:
        """Nothing but the module, which the learner keeps."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Inverse of :meth:`state_dict`."""

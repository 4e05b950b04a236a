"""Parts of somebody else's, named in configurations as ``tests.ver_trainer.stranger:...``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import ArraySpec
from ver_trainer.nets.core import Packing
from ver_trainer.protocols import Setup
from ver_trainer.rollout.sequences import pack
from ver_trainer.rollout.storage import RolloutStorage
from ver_trainer.schemes import Scheme


class Sines(nn.Module):
    """An encoder: sines of a linear map of all vectors."""

    def __init__(self, specs: dict[str, ArraySpec], config: NetConfig) -> None:
        super().__init__()
        self.names = list(specs)
        self.linear = nn.Linear(sum(spec.shape[0] for spec in specs.values()), 24)
        self.out_features = 24

    def forward(self, obs: dict[str, Tensor]) -> Tensor:
        return torch.sin(self.linear(torch.cat([obs[name] for name in self.names], dim=-1)))


class Signs(RolloutStorage):
    """A storage: keeps the signs of rewards."""

    def finish_step(self, envs, rewards, ended, final_values) -> None:
        super().finish_step(envs, np.sign(rewards), ended, final_values)


class Reinforce:
    """An algorithm: one step along the policy gradient of rewards that follow (Williams 1992)."""

    def __init__(self, setup: Setup) -> None:
        self.policy, self.group, self.updates = setup.policy, setup.group, 0
        self.parameters = list(self.policy.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, setup.config.optim.lr)

    def update(
        self,
        storage: RolloutStorage,
        progress: float,
        behaviour: dict[str, Tensor] | None = None,
        steps: int = 0,
    ) -> dict[str, float]:
        order = storage.sequences(storage.fresh_rows())
        packed = pack(order.rows, order.starts, order.lengths)
        for start, length in zip(order.starts, order.lengths, strict=True):
            rows = order.rows[start : start + length]
            storage.returns[rows] = np.cumsum(storage.reward[rows][::-1])[::-1]
        device = storage.tensors["state"].device
        index = torch.from_numpy(packed.rows).to(device)
        first = storage.tensors["state"][torch.from_numpy(packed.first_rows).to(device)]
        packing = Packing(torch.from_numpy(packed.batch_sizes), first)
        obs = {name: tensor[index] for name, tensor in storage.obs.items()}
        distribution, value = self.policy.distribution(obs, packing)
        gain = torch.from_numpy(storage.returns[packed.rows]).to(device)
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        loss = -(distribution.log_prob(storage.tensors["action"][index]) * gain).mean()
        self.optimizer.zero_grad()
        (loss + 0.0 * value.mean()).backward()
        self.group.average_gradients(self.parameters)
        self.optimizer.step()
        self.updates += 1
        return {"loss": float(loss.detach()), "reinforced": 1.0}

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self.updates = int(state["updates"])


@dataclass(frozen=True)
class InStep(Scheme):
    """A scheme: as ``ddppo``, but gradients have an owner."""

    lock_step: bool = True
    owner: bool = True


AHEAD = Scheme(overlap=True, continuous=True)

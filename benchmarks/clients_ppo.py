"""PPO in one file, in the manner of CleanRL: one loop, nothing hidden, no library of ours.

It knows of tpsrl only the environment's id and arguments, so it can be copied and changed
(docs/other_trainers.md). ``train`` is called by ``benchmarks.clients``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.wrappers.vector import NormalizeReward, RecordEpisodeStatistics
from torch import nn

GAMMA, LAMBDA, CLIP, EPOCHS, PARTS, RATE, FIRST_STD = 0.95, 0.9, 0.2, 4, 16, 3e-4, 0.5


class Agent(nn.Module):
    """A CNN on every picture, its features beside the vectors, an actor and a critic."""

    def __init__(self, space: Any, actions: int) -> None:
        super().__init__()
        self.pictures = [k for k, box in space.items() if box.dtype == np.uint8]
        self.vectors = [k for k in space if k not in self.pictures]
        self.eyes, size = nn.ModuleDict(), sum(space[k].shape[0] for k in self.vectors)
        for name in self.pictures:
            height, width, channels = space[name].shape
            convolutions = nn.Sequential(
                nn.Conv2d(channels, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
            )  # fmt: skip
            flat = convolutions(torch.zeros(1, channels, height, width)).shape[1]
            self.eyes[name] = nn.Sequential(convolutions, nn.Linear(flat, 256), nn.ReLU())
            size += 256
        self.actor, self.critic = self._head(size, actions), self._head(size, 1)
        self.log_std = nn.Parameter(torch.full((actions,), float(np.log(FIRST_STD))))

    def _head(self, size: int, out: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Linear(size, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, out)
        )

    def forward(self, seen: dict[str, torch.Tensor]) -> tuple[torch.distributions.Normal, Any]:
        """Return the distribution of the action and the value."""
        parts = [seen[k] for k in self.vectors]
        parts += [self.eyes[k](seen[k].movedim(-1, 1).float() / 255) for k in self.pictures]
        x = torch.cat(parts, 1)
        return torch.distributions.Normal(self.actor(x), self.log_std.exp()), self.critic(x)[:, 0]


def advantages(rewards: Any, values: Any, ends: Any, last: Any) -> torch.Tensor:
    """Generalised advantage estimation; arrays are (steps, worlds), ``last`` is (worlds,)."""
    found, running = torch.zeros_like(rewards), torch.zeros_like(last)
    for t in reversed(range(len(rewards))):
        going = 1.0 - ends[t]
        error = rewards[t] + GAMMA * going * last - values[t]
        running = error + GAMMA * LAMBDA * going * running
        found[t], last = running, values[t]
    return found


def improve(agent: Agent, adam: Any, rows: dict[str, Any], seen: dict[str, Any]) -> None:
    """Pass over a rollout a few times."""
    for _ in range(EPOCHS):
        for part in torch.randperm(len(rows["gain"])).chunk(PARTS):
            policy, value = agent({k: v[part] for k, v in seen.items()})
            ratio = (policy.log_prob(rows["action"][part]).sum(1) - rows["log_prob"][part]).exp()
            gain = rows["gain"][part]
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
            clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
            loss = -torch.min(ratio * gain, clipped * gain).mean()
            loss = loss + 0.5 * (value - rows["return"][part]).square().mean()
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            adam.step()


def train(env_id: str, arguments: dict[str, Any], worlds: int, length: int, steps: int, seed: int,
          report: Callable[[int, list[float], list[float]], None]) -> None:  # fmt: skip
    """Learn for ``steps``; ``report`` gets steps, and success and return of the last episodes."""
    torch.manual_seed(seed)
    mode = "vector_entry_point"  # resets in the step that ends; "sync" and "async" one step later
    made = gymnasium.make_vec(env_id, num_envs=worlds, vectorization_mode=mode, **arguments)
    env: Any = NormalizeReward(RecordEpisodeStatistics(made), GAMMA)  # rewards are of any size
    agent = Agent(env.single_observation_space, env.single_action_space.shape[0])
    adam = torch.optim.Adam(agent.parameters(), RATE, eps=1e-5)
    won, returns = deque[float](maxlen=100), deque[float](maxlen=100)
    look = lambda raw: {k: torch.as_tensor(np.array(v)) for k, v in raw.items()}  # noqa: E731
    now = look(env.reset(seed=seed)[0])
    for done in range(0, steps, worlds * length):
        adam.param_groups[0]["lr"] = RATE * (1 - done / steps)
        seen: list[dict[str, torch.Tensor]] = []
        kept: list[list[torch.Tensor]] = []
        for _ in range(length):
            with torch.no_grad():
                policy, value = agent(now)
                action = policy.sample()
            raw, reward, terminated, truncated, info = env.step(action.clamp(-1, 1).numpy())
            end = terminated | truncated
            row = (action, policy.log_prob(action).sum(1), value, reward, end)
            kept.append([torch.as_tensor(x, dtype=torch.float32).clone() for x in row])
            seen.append(now)
            won.extend(info["success"][end].astype(float))
            if end.any():
                returns.extend(info["episode"]["r"][end])
            now = look(raw)
        actions, log_probs, values, rewards, ends = map(torch.stack, zip(*kept, strict=True))
        with torch.no_grad():
            last = agent(now)[1]
        gain = advantages(rewards, values, ends, last)
        rows = {"action": actions, "log_prob": log_probs, "gain": gain, "return": gain + values}
        flat = {k: v.flatten(0, 1) for k, v in rows.items()}
        improve(agent, adam, flat, {k: torch.cat([s[k] for s in seen]) for k in seen[0]})
        report(done + worlds * length, list(won), list(returns))
    env.close()

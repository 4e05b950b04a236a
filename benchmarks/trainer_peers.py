"""Runs one peer on one workload inside its own environment and prints its speed as JSON.

``python -m benchmarks.trainer_peers NAME WORKLOAD WARMUP SECONDS``; started by
``benchmarks.trainer``. Every peer is set up as its documentation advises for the workload: worker
processes where environments wait, one process with two threads where the network is the work.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

import psutil

from benchmarks.trainer_envs import WORKLOADS, make


def cpu_seconds() -> float:
    """CPU time of this process and everything it started."""
    me = psutil.Process()
    total = 0.0
    for process in [me, *me.children(recursive=True)]:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


class Stopwatch:
    """Steps per second after a warm-up."""

    def __init__(self, warmup: float, seconds: float) -> None:
        self.warmup, self.seconds = warmup, seconds
        self.begin = time.perf_counter()
        self.first: tuple[float, float, float] | None = None
        self.last = (self.begin, 0.0, 0.0)
        self._cpu = 0.0

    @property
    def cpu(self) -> float:
        """CPU seconds at the last tick (children that are gone by now do not count)."""
        return self._cpu or cpu_seconds()

    def tick(self, steps: float) -> bool:
        """Notes ``steps`` done so far; true when the measurement is complete."""
        now = time.perf_counter()
        if self.first is None and now - self.begin >= self.warmup:
            self.first = (now, steps, cpu_seconds())
        self.last = (now, steps, 0.0)
        done = self.first is not None and now - self.first[0] >= self.seconds
        if done:
            self._cpu = cpu_seconds()
        return done

    def result(self) -> dict[str, float]:
        """Steps per second and per CPU second."""
        assert self.first is not None
        steps = self.last[1] - self.first[1]
        return {
            "steps_per_second": steps / max(self.last[0] - self.first[0], 1e-9),
            "steps_per_cpu_second": steps / max(self.cpu - self.first[2], 1e-9),
        }

    def report(self) -> None:
        """Prints the result."""
        print(json.dumps(self.result()), flush=True)


def learn(model: Any, watch: Stopwatch) -> None:
    """Let a model of Stable-Baselines3 learn until a stopwatch has what it wants."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if watch.tick(self.num_timesteps):
                raise DoneError

    with suppress(DoneError):
        model.learn(10**9, callback=Watch())


class DoneError(Exception):
    """The measurement is complete."""


def sb3(workload: str, watch: Stopwatch) -> None:
    """Stable-Baselines3 PPO, sb3-contrib RecurrentPPO for the recurrent workload."""
    import torch
    from sb3_contrib import RecurrentPPO
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    size = WORKLOADS[workload]
    recurrent = size["recurrent"]
    torch.set_num_threads(2 if recurrent else 1)
    makers: list[Any] = [partial(make, workload, i) for i in range(size["num_envs"])]
    env = DummyVecEnv(makers) if recurrent else SubprocVecEnv(makers)
    batch = size["num_envs"] * size["steps"]
    common: dict[str, Any] = {
        "n_steps": size["steps"], "batch_size": batch, "n_epochs": 1, "learning_rate": 1e-4,
        "device": "cpu",
    }  # fmt: skip
    model: Any
    if recurrent:
        kwargs = {
            "lstm_hidden_size": 256, "shared_lstm": True, "enable_critic_lstm": False,
            "net_arch": [], "features_extractor_kwargs": {"features_dim": 256},
        }  # fmt: skip
        model = RecurrentPPO("CnnLstmPolicy", env, policy_kwargs=kwargs, **common)
    else:
        model = PPO("MlpPolicy", env, **common)

    learn(model, watch)
    watch.report()
    env.close()


def _skrl_models(  # noqa: C901 - skrl wants actor, critic and memory in one class
    spaces: tuple[Any, Any], device: str, recurrent: bool, num_envs: int
) -> Any:
    import torch
    from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model
    from torch import nn

    class Shared(CategoricalMixin, DeterministicMixin, Model):
        """One body for both heads; what it computed for the action serves the value, too."""

        def __init__(self) -> None:
            Model.__init__(self, observation_space=spaces[0], action_space=spaces[1], device=device)
            CategoricalMixin.__init__(self, unnormalized_log_prob=True, role="policy")
            DeterministicMixin.__init__(self, role="value")
            if recurrent:
                self.net = nn.Sequential(
                    nn.Conv2d(1, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                    nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 256), nn.ReLU(),
                )  # fmt: skip
                self.lstm = nn.LSTM(256, 256, batch_first=True)
            else:
                self.net = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
            size = 256 if recurrent else 64
            self.pi, self.v = nn.Linear(size, 4), nn.Linear(size, 1)
            self.cache: Any = None

        def get_specification(self) -> Any:
            sizes = [(1, num_envs, 256), (1, num_envs, 256)]
            return {"rnn": {"sequence_length": 32, "sizes": sizes}} if recurrent else {}

        def act(self, inputs: Any, *, role: str) -> Any:
            base = CategoricalMixin if role == "policy" else DeterministicMixin
            return base.act(self, inputs, role=role)

        def compute(self, inputs: Any, role: str) -> Any:
            if role == "value" and self.cache is not None:
                (features, extra), self.cache = self.cache, None
                return self.v(features), extra
            features, extra = self.features(inputs)
            if role == "policy":
                self.cache = (features, extra)
                return self.pi(features), extra
            return self.v(features), extra

        def features(self, inputs: Any) -> Any:
            obs = inputs["observations"]
            if not recurrent:
                return self.net(obs), {}
            x = self.net(obs.view(-1, 1, 64, 64) / 255.0)
            hidden, cell = inputs["rnn"]
            if not self.training:
                out, after = self.lstm(x.unsqueeze(1), (hidden, cell))
                return out.squeeze(1), {"rnn": list(after)}
            return self._sequence(x, hidden, cell, inputs.get("terminated")), {
                "rnn": [hidden, cell]
            }

        def _sequence(self, x: Any, hidden: Any, cell: Any, ended: Any) -> Any:
            x = x.view(-1, 32, 256)
            hidden = hidden.view(1, -1, 32, 256)[:, :, 0].contiguous()
            cell = cell.view(1, -1, 32, 256)[:, :, 0].contiguous()
            if ended is None or not bool(ended.any()):
                return self.lstm(x, (hidden, cell))[0].reshape(-1, 256)
            ended = ended.view(-1, 32)
            cuts = [0, *((ended[:, :-1].any(0).nonzero().view(-1) + 1).tolist()), 32]
            parts = []
            for begin, end in pairwise(cuts):
                out, (hidden, cell) = self.lstm(x[:, begin:end], (hidden, cell))
                gone = ended[:, end - 1]
                hidden = hidden.masked_fill(gone.view(1, -1, 1), 0)
                cell = cell.masked_fill(gone.view(1, -1, 1), 0)
                parts.append(out)
            return torch.cat(parts, 1).reshape(-1, 256)

    return Shared()


def skrl(workload: str, watch: Stopwatch) -> None:
    """Skrl PPO, PPO_RNN for the recurrent workload."""
    import gymnasium as gym
    import torch
    from skrl import config as _config  # noqa: F401 - registers loggers before they are silenced
    from skrl.agents.torch.ppo import PPO, PPO_CFG, PPO_RNN
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory

    size = WORKLOADS[workload]
    recurrent = size["recurrent"]
    torch.set_num_threads(2 if recurrent else 1)
    makers = [lambda i=i: make(workload, i) for i in range(size["num_envs"])]
    vector = gym.vector.SyncVectorEnv if recurrent else gym.vector.AsyncVectorEnv
    env = wrap_env(vector(makers))
    shared = _skrl_models(
        (env.observation_space, env.action_space), "cpu", recurrent, size["num_envs"]
    )
    cfg = PPO_CFG(
        rollouts=size["steps"], learning_epochs=1, mini_batches=1, learning_rate=1e-4,
        entropy_loss_scale=0.01, value_loss_scale=0.5, value_clip=0.0, time_limit_bootstrap=False,
    )  # fmt: skip
    cfg.experiment.write_interval = 0
    cfg.experiment.checkpoint_interval = 0
    memory = RandomMemory(memory_size=size["steps"], num_envs=size["num_envs"], device="cpu")
    agent = (PPO_RNN if recurrent else PPO)(
        models={"policy": shared, "value": shared},
        memory=memory,
        observation_space=env.observation_space,
        state_space=None,
        action_space=env.action_space,
        device="cpu",
        cfg=cfg,
    )
    agent.init()
    _skrl_loop(agent, env, size, watch)


def _skrl_loop(agent: Any, env: Any, size: dict[str, Any], watch: Stopwatch) -> None:
    """Skrl's SequentialTrainer, with a stop watch."""
    import torch

    agent.enable_training_mode(True)
    before = [p.detach().clone() for p in agent.policy.parameters()]
    observations, _ = env.reset()
    step = 0
    while True:
        agent.pre_interaction(timestep=step, timesteps=10**9)
        with torch.no_grad():
            actions, _ = agent.act(observations, None, timestep=step, timesteps=10**9)
            following, rewards, terminated, truncated, infos = env.step(actions)
            agent.record_transition(
                observations=observations, states=None, actions=actions, rewards=rewards,
                next_observations=following, next_states=None, terminated=terminated,
                truncated=truncated, infos=infos, timestep=step, timesteps=10**9,
            )  # fmt: skip
        agent.post_interaction(timestep=step, timesteps=10**9)
        observations = following
        step += 1
        if step % size["steps"] == 0 and watch.tick(step * size["num_envs"]):
            after = agent.policy.parameters()
            if any(torch.equal(a, b) for a, b in zip(before, after, strict=True)):
                raise RuntimeError("the policy did not learn, so its speed means nothing")
            watch.report()
            env.close()
            return


def _sample_factory_env(
    workload: str, name: str, cfg: Any, env_config: Any, render_mode: Any = None
) -> Any:
    return make(workload, env_config.env_id if env_config else 0)


def sample_factory(workload: str, watch: Stopwatch, mode: str = "async") -> None:
    """Sample Factory in asynchronous (its default), synchronous or serial mode."""
    from sample_factory.algo.runners.runner import AlgoObserver
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import make_runner

    size = WORKLOADS[workload]
    recurrent = size["recurrent"]

    register_env("benchmark", partial(_sample_factory_env, workload))
    workers, each = (2, 8) if recurrent else (16, 1)
    batch = size["num_envs"] * size["steps"]
    arguments = {
        "env": "benchmark", "device": "cpu", "num_workers": workers, "num_envs_per_worker": each,
        "worker_num_splits": 2 if each > 1 and mode != "serial" else 1, "rollout": 32,
        "batch_size": batch, "num_batches_per_epoch": 1, "num_epochs": 1,
        "async_rl": mode == "async", "serial_mode": mode == "serial", "use_rnn": recurrent,
        "rnn_type": "lstm", "rnn_size": 256, "recurrence": 32 if recurrent else 1,
        "encoder_conv_mlp_layers": 256, "encoder_conv_architecture": "convnet_atari",
        "encoder_mlp_layers": [64, 64], "nonlinearity": "relu" if recurrent else "tanh",
        "normalize_input": False, "obs_scale": 255.0 if recurrent else 1.0,
        "learning_rate": 1e-4, "train_dir": tempfile.mkdtemp(), "experiment": "run",
        "train_for_env_steps": 10**9, "save_every_sec": 10**6,
        "decorrelate_experience_max_seconds": 0,
        "value_bootstrap": True, "log_to_file": False,
    }  # fmt: skip
    argv = []
    for key, value in arguments.items():
        values = value if isinstance(value, list) else [value]
        argv += [f"--{key}", *map(str, values)]
    parser, _ = parse_sf_args(argv)
    cfg = parse_full_cfg(parser, argv)
    cfg, runner = make_runner(cfg)

    class Watch(AlgoObserver):
        def on_training_step(self, runner: Any, training_iteration_since_resume: int) -> None:
            if watch.tick(sum(runner.env_steps.values())):
                runner.cfg.train_for_env_steps = 0

    runner.register_observer(Watch())
    runner.init()
    runner.run()
    watch.report()


def main() -> None:
    """Runs the peer named on the command line."""
    name, workload, warmup, seconds = sys.argv[1:5]
    os.environ["OMP_NUM_THREADS"] = "2" if WORKLOADS[workload]["recurrent"] else "1"
    watch = Stopwatch(float(warmup), float(seconds))
    if name.startswith("sample_factory"):
        sample_factory(workload, watch, name[15:] or "async")
    else:
        {"sb3": sb3, "skrl": skrl}[name](workload, watch)


if __name__ == "__main__":
    main()

"""Imitation from start to end: demonstrations, cloning, and DAgger rounds; can be interrupted."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from skills.superseded.imitation.cloning import CloneOptions, clone
from skills.superseded.imitation.collect import CollectOptions, ShardJob, record_shard
from skills.superseded.imitation.demonstrations import Demonstration, read_folder, shard_path
from skills.superseded.imitation.keep import keep_own
from skills.superseded.imitation.widen import widened
from skills.superseded.laws.teachers import TEACHERS
from skills.tasks.base import ActionLayout
from tpsrl.errors import UserError
from tpsrl.files import write_json
from tpsrl.jobs.progress import Tally
from tpsrl.launch.pools import run_jobs
from ver_trainer.config import NetConfig
from ver_trainer.envs.spaces import describe
from ver_trainer.export import load_policy, save_policy
from ver_trainer.nets.policy import Policy, make_policy

SHARD = 20
"""Episodes of a file of demonstrations."""
_ROUND_SEEDS = 1_000_000
"""Seeds of one round stand this far from those of the next."""


@dataclass
class ImitateConfig:
    """Keys ``imitate.*`` of ``tpsrl train``."""

    episodes: int = field(default=400, metadata={"help": "plain demonstrations", "min": 0})
    union: list[str] = field(
        default_factory=list,
        metadata={"help": "folders of demonstrations of other runs, cloned together with these"},
    )
    rounds: int = field(default=2, metadata={"help": "DAgger rounds after them", "min": 0})
    round_episodes: int = field(default=200, metadata={"help": "episodes a round", "min": 1})
    round_epochs: int = field(default=8, metadata={"help": "epochs after a round", "min": 1})
    workers: int = field(default=1, metadata={"help": "processes that record", "min": 1})
    noise: float = field(default=0.3, metadata={"help": "on half of the demonstrations", "min": 0})
    noise_steps: int = field(default=80, metadata={"help": "noise ends by this step", "min": 0})
    roll_in: int = field(default=150, metadata={"help": "most learner steps", "min": 0})
    restart: bool = field(
        default=False, metadata={"help": "DAgger: begin the expert anew when it takes over"}
    )
    stall: int = field(
        default=0,
        metadata={"help": "DAgger: the expert takes over after so many steps at rest", "min": 0},
    )
    teacher: str = field(
        default="law",
        metadata={"help": "of Pick and Place: law, or plan, which searches", "choices": TEACHERS},
    )
    seed: int = field(default=0, metadata={"help": "of the first demonstration", "min": 0})
    start: str = field(
        default="", metadata={"help": "weights to go on from; every round is then a DAgger round"}
    )
    keep: list[str] = field(
        default_factory=list,
        metadata={
            "help": "places (open, cabinet, drawer) where start's actions are union's labels"
        },
    )
    clone: CloneOptions = field(default_factory=CloneOptions)


def imitate(
    skill: str,
    env_args: dict[str, Any],
    net: NetConfig,
    config: ImitateConfig,
    folder: Path,
    threads: int = 1,
) -> Path:
    """Imitate the scripted skill; the same call again goes on where it stopped.

    Args:
        skill: one of the seven.
        env_args: of its environment.
        net: the policy network.
        config: see :class:`ImitateConfig`.
        folder: for demonstrations (``demos/``), rounds (``rounds/``) and ``policy.safetensors``.
        threads: torch threads.

    Returns:
        The weights, ``folder/policy.safetensors``.

    Raises:
        UserError: the folder holds an imitation with other settings, the scripted skill fails, or a
            folder of ``config.union`` does not fit.
    """
    result = folder / "policy.safetensors"
    _check_same(folder, skill, env_args, net, config)
    if result.exists():
        return result
    torch.set_num_threads(threads)
    torch.manual_seed(config.seed)
    layout = _layout(skill, env_args)
    demonstrations = _union(skill, env_args, config.union)
    if config.keep:
        demonstrations = _kept(config, demonstrations)
    weights = Path(config.start) if config.start else None
    for number in range(config.rounds + 1):
        demos = folder / "demos" / f"round_{number:02d}"
        _record(skill, env_args, config, demos, number, weights)
        found = read_folder(demos)
        # The mistakes of a learner are what the labels correct.
        if weights is not None and not config.stall:
            found = [dataclasses.replace(d, success=True) for d in found if len(d)]
        demonstrations += found
        weights = _learn(skill, env_args, net, config, folder, number, demonstrations, layout)
    assert weights is not None
    save_policy(load_policy(weights), result)
    return result


def _union(skill: str, env_args: dict[str, Any], folders: Sequence[str]) -> list[Demonstration]:
    """Return the demonstrations of other runs, which may have begun elsewhere."""
    if not folders:
        return []
    observations, actions = _spaces(skill, env_args)
    found: list[Demonstration] = []
    for folder in folders:
        episodes = read_folder(Path(folder))
        if not episodes:
            raise UserError(
                f"imitate.union: {folder} holds no demonstrations; give folders such as"
                " RUN/imitation/demos/round_00."
            )
        for episode in episodes:
            other = sorted(set(observations) ^ set(episode.observations))
            if other or episode.actions.shape[1] != actions.shape[0]:
                what = f"observations ({', '.join(other)})" if other else "actions"
                raise UserError(
                    f"imitate.union: the demonstrations in {folder} have other {what} than this"
                    " run; record them with the same env_args.sensors and env_args.actions."
                )
        found += episodes
    return found


def _kept(config: ImitateConfig, demonstrations: list[Demonstration]) -> list[Demonstration]:
    if not config.start:
        raise UserError("imitate.keep needs imitate.start=WEIGHTS, whose actions are kept.")
    return keep_own(demonstrations, load_policy(config.start), config.keep)


def _record(
    skill: str,
    env_args: dict[str, Any],
    config: ImitateConfig,
    folder: Path,
    number: int,
    policy: Path | None,
) -> None:
    """Record what is missing of a round."""
    total = config.round_episodes if number else config.episodes
    base = config.seed + number * _ROUND_SEEDS
    options = CollectOptions(
        config.noise,
        config.noise_steps,
        config.roll_in,
        config.restart,
        config.stall,
        config.teacher,
    )
    if policy is not None:
        env_args = _longer(skill, env_args, config.roll_in)
    jobs = []
    for first in range(0, total, SHARD):
        seeds = tuple(range(base + first, base + min(first + SHARD, total)))
        path = shard_path(folder, first)
        if not path.exists():
            jobs.append(ShardJob(skill, env_args, seeds, path, options, policy))
    if not jobs:
        return
    missing = sum(len(job.seeds) for job in jobs)
    label = f"{skill}: {'demonstrations' if policy is None else f'DAgger round {number}'}"
    won = seen = 0
    with Tally(label, total, total - missing) as tally:
        for _, result in run_jobs(record_shard, jobs, config.workers):
            won, seen = won + sum(result.success), seen + len(result.success)
            tally.add(len(result.success), f"{100 * won / seen:.0f}% end in success")


def _longer(skill: str, env_args: dict[str, Any], steps: int) -> dict[str, Any]:
    """Return arguments with a later time limit: the expert needs time after the learner."""
    from skills.envs.config import EnvConfig

    horizon = EnvConfig(**env_args).task(skill).horizon + steps
    return {**env_args, "options": {**env_args.get("options", {}), "horizon": horizon}}


def _learn(
    skill: str,
    env_args: dict[str, Any],
    net: NetConfig,
    config: ImitateConfig,
    folder: Path,
    number: int,
    demonstrations: list[Demonstration],
    layout: ActionLayout,
) -> Path:
    """Clone on all demonstrations so far, from the last round's weights."""
    path = folder / "rounds" / f"round_{number:02d}.safetensors"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    if number:
        policy = load_policy(path.with_name(f"round_{number - 1:02d}.safetensors"))
    elif config.start:
        policy = widened(load_policy(Path(config.start)), _new_policy(skill, env_args, net))
    else:
        policy = _new_policy(skill, env_args, net)
    options = config.clone
    if number:
        options = dataclasses.replace(options, epochs=config.round_epochs)
    checkpoint = path.with_suffix(".pt")
    label = f"{skill}: cloning, round {number}"
    facts = clone(policy, demonstrations, options, checkpoint, layout, label)
    save_policy(policy, path)
    write_json(path.with_suffix(".json"), facts)
    checkpoint.unlink(missing_ok=True)
    return path


def _new_policy(skill: str, env_args: dict[str, Any], net: NetConfig) -> Policy:
    env = _spaces(skill, env_args)
    return make_policy(describe(env[0], env[1]), net)


def _spaces(skill: str, env_args: dict[str, Any]) -> tuple[Any, Any]:
    """Return the spaces of an environment without making its engine."""
    from skills.envs.config import EnvConfig, action_space, observation_space

    config = EnvConfig(**env_args)
    task = config.task(skill)
    return observation_space(task, config.depth), action_space(task)


def _layout(skill: str, env_args: dict[str, Any]) -> ActionLayout:
    from skills.envs.config import EnvConfig

    return EnvConfig(**env_args).task(skill).layout


def _check_same(
    folder: Path, skill: str, env_args: dict[str, Any], net: NetConfig, config: ImitateConfig
) -> None:
    """Refuse to mix two imitations in one folder; workers may differ."""
    wanted = {
        "skill": skill,
        "env_args": env_args,
        "net": dataclasses.asdict(net),
        "imitate": dataclasses.asdict(config),
    }
    wanted["imitate"].pop("workers")  # type: ignore[attr-defined]
    for key in ("union", "start", "keep", "stall"):  # older runs do not name them
        if not wanted["imitate"][key]:  # type: ignore[index]
            wanted["imitate"].pop(key)  # type: ignore[attr-defined]
    if not net.critic_mlp:
        wanted["net"].pop("critic_mlp")  # type: ignore[attr-defined]
    wanted = json.loads(json.dumps(wanted, default=str))
    path = folder / "imitation.json"
    if path.exists():
        old = json.loads(path.read_text())
        if "teacher" not in old.get("imitate", {}):  # older runs had one teacher only
            wanted["imitate"].pop("teacher", None)
        changed = sorted(key for key in wanted if old.get(key) != wanted[key])
        if changed:
            raise UserError(
                f"{folder} holds an imitation with other settings ({', '.join(changed)}); give"
                " the old ones to go on, or another out="
            )
        return
    write_json(path, wanted)

"""``tpsrl eval skill=...``: success of a policy in its skill's own environment."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from skills.book import BOOK, row_of
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import REPLICA_CAD, HabitatConfig, choose_scenes, habitat_options
from tpsrl.jobs.processes import all_cores
from ver_trainer.options import load, option, to_dict

if TYPE_CHECKING:
    from eval.trials import Weights

HELP = """tpsrl eval skill=pick ...: run a policy in its skill's own environment.

Writes episodes.jsonl and summary.json into out=; the same command again runs what is missing."""

_BLOCK = 10
_FREE = ("out", "workers", "episodes", "gpu", "habitat")
_NEW = {"sim": "mujoco", "path": None, "sample": False}
"""Keys that older results lack, and what those were measured with."""


@dataclass
class SkillEvalConfig:
    """Keys of ``tpsrl eval skill=...``."""

    skill: str = field(metadata={"help": "which skill", "choices": list(BOOK)})
    agent: str = field(
        default="tpsrl",
        metadata={"help": "who acts", "choices": ["tpsrl", "scripted", "random"]},
    )
    weights: Path | None = field(
        default=None,
        metadata={"help": "folder of weights, or a .safetensors file; null: those shipped"},
    )
    episodes: int = field(default=500, metadata={"help": "how many", "min": 1})
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    path: Path | None = field(default=None, metadata=options.PATH)
    sim: str = field(default="mujoco", metadata=options.SIM)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    handoff: Path | None = field(
        default=None, metadata={"help": "file of start states to begin at ('tpsrl handoff')"}
    )
    depth: int | None = field(
        default=None, metadata={"help": "pixels of depth; null for what the policy was trained on"}
    )
    actions: str = option(
        "full", "restricted: the base stands still", choices=("full", "restricted")
    )
    contract: str = option("fixed", "parity: habitat-lab's quirks", choices=("fixed", "parity"))
    sample: bool = field(
        default=False, metadata={"help": "agent=tpsrl: draw actions; otherwise the mean acts"}
    )
    seed: int = field(default=0, metadata={"help": "of the first episode", "min": 0})
    out: Path | None = field(
        default=None, metadata={"help": "result folder; null for outputs/skills/SKILL_SPLIT_AGENT"}
    )
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)


def run(overrides: list[str]) -> int:
    """Run the missing episodes, print and write the summary."""
    config = load(SkillEvalConfig, overrides)
    name = f"{config.skill}_{config.split}_{config.agent}"
    out = config.out or Path("outputs/skills") / name
    out.mkdir(parents=True, exist_ok=True)
    policy, env_args = _parts(config)
    described = _described(config, policy)
    _check_same(out / "config.json", described)
    records = _records(config, policy, env_args, out / "episodes.jsonl")
    summary = summarise(list(records.values())[: config.episodes]) | {"config": described}
    from tpsrl.provenance import git_commit, machine, now, versions

    summary |= {
        "commit": git_commit(),
        "date": now(),
        "machine": machine(),
        "versions": versions(),
    }
    from tpsrl.files import write_json

    write_json(out / "summary.json", summary)
    _print(config, summary)
    for kind, path in policy.special.items() if policy is not None else ():
        print(f"  where the kind of place is {kind} {path.name} acts, a policy of its own")
    print(out / "summary.json")
    return 0


def _parts(config: SkillEvalConfig) -> tuple[Weights | None, dict[str, Any]]:
    """Return the policy's files, and the arguments of the environment."""
    from eval.trials import find_weights
    from skills.learned.inference import NumpyPolicy

    policy, depth = None, None
    env_args: dict[str, Any] = {"actions": config.actions, "contract": config.contract}
    if config.agent == "tpsrl":
        policy = find_weights(config.weights, config.skill)
        seen: dict[str, tuple[int, ...]] = {}  # the union, the general policy's own first
        for path in policy.files.values():
            seen = NumpyPolicy.load(path).observations | seen
        if "head_depth" in seen:
            depth = config.depth or seen["head_depth"][0]
        env_args["sensors"] = tuple(seen)
    env_args |= {"depth": depth, "split": config.split}
    env_args |= _engine(config)
    if config.agent == "scripted":
        env_args["options"] = dict(row_of(config.skill).needs)
    if config.handoff is not None:
        env_args |= {"start": "handoff", "handoff": str(config.handoff.resolve())}
    return policy, env_args


def _engine(config: SkillEvalConfig) -> dict[str, Any]:
    """Return the arguments of the environment that say where and in which engine it plays."""
    choose_scenes(config.path, config.data, config.skill, config.split, None)  # refuses nonsense
    args: dict[str, Any] = {"sim": config.sim}
    if config.path is not None:
        args["path"] = str(config.path.resolve())
    if config.data is not None:
        named = str(config.data) == REPLICA_CAD
        args["episodes"] = REPLICA_CAD if named else str(config.data.resolve())
    if config.sim == "habitat":
        args["habitat"] = habitat_options(config.habitat, config.gpu)
        args["gpu"] = args["habitat"].pop("gpu")
    return args


def _described(config: SkillEvalConfig, policy: Weights | None) -> dict[str, Any]:
    """Return what the results are of; ``weights_files`` only where several files act."""
    from skills.learned.cards import digests, identity

    described = {k: v for k, v in to_dict(config).items() if k not in _FREE}
    if policy is not None:
        files = digests(policy.files)
        described["weights_sha256"] = identity(files)
        if policy.special:
            described["weights_files"] = files
    return described


def _check_same(path: Path, described: dict[str, Any]) -> None:
    from tpsrl.files import write_json

    if path.exists():
        old = json.loads(path.read_text())
        changed = sorted(k for k in described if old.get(k, _NEW.get(k)) != described[k])
        if changed:
            raise UserError(
                f"{path.parent} holds results of another run ({', '.join(changed)} differ); choose"
                " another out="
            )
        return
    write_json(path, described)


def _records(
    config: SkillEvalConfig, policy: Weights | None, env_args: dict[str, Any], path: Path
) -> dict[int, dict[str, Any]]:
    """Return the record of every seed, running those that the file lacks."""
    from eval.trials import TrialJob, run_trials
    from tpsrl.jobs.batch import Tally, run_jobs

    records = _read(path)
    wanted = range(config.seed, config.seed + config.episodes)
    missing = [seed for seed in wanted if seed not in records]
    blocks = [tuple(missing[k : k + _BLOCK]) for k in range(0, len(missing), _BLOCK)]
    jobs = [
        TrialJob(config.skill, env_args, config.agent, policy, b, config.sample) for b in blocks
    ]
    won = sum(records[s]["success"] for s in wanted if s in records)
    label = f"{config.agent} {config.skill}"
    if jobs:
        with Tally(label, config.episodes, config.episodes - len(missing)) as tally:
            for _, found in run_jobs(run_trials, jobs, config.workers):
                with path.open("a") as file:
                    file.writelines(json.dumps(record) + "\n" for record in found)
                    file.flush()
                    os.fsync(file.fileno())
                records |= {record["seed"]: record for record in found}
                won += sum(record["success"] for record in found)
                done = tally.done + len(found)
                tally.add(len(found), f"{100 * won / done:.1f}% success")
    return {seed: records[seed] for seed in wanted}


def _read(path: Path) -> dict[int, dict[str, Any]]:
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the line that a kill cut short is run again
        found[record["seed"]] = record
    return found


def summarise(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return success with its 95% Wilson interval, mean return and length, and causes.

    Where records name the place of the target (Pick, Place) its kinds are counted by themselves.
    """
    count = len(records)
    causes = Counter(_cause(record) for record in records)
    kinds = sorted({record["place"] for record in records if "place" in record})
    return {
        **_rate(records),
        "mean_return": sum(record["return"] for record in records) / count,
        "mean_steps": sum(record["steps"] for record in records) / count,
        "median_peak_force": median(record["peak_force"] for record in records),
        "causes": dict(causes.most_common()),
        "places": {k: _rate([r for r in records if r.get("place") == k]) for k in kinds},
    }


def _cause(record: dict[str, Any]) -> str:
    """Return why an episode ended, and what the scripted skill said if it failed."""
    reason = record.get("reason", "")
    return f"{record['cause']} ({reason})" if reason and not record["success"] else record["cause"]


def _rate(records: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how many records succeeded, with the 95% Wilson interval."""
    from eval.statistics import wilson

    count, won = len(records), sum(record["success"] for record in records)
    low, high = wilson(won, count)
    return {
        "episodes": count,
        "successes": won,
        "success": won / count,
        "low": low,
        "high": high,
    }


def _print(config: SkillEvalConfig, summary: dict[str, Any]) -> None:
    causes = ", ".join(f"{cause} {number}" for cause, number in summary["causes"].items())
    print(
        f"{config.agent} {config.skill} on {config.split}: {summary['successes']} of"
        f" {summary['episodes']}, {100 * summary['success']:.1f}% (95% interval"
        f" {100 * summary['low']:.1f} to {100 * summary['high']:.1f}), mean return"
        f" {summary['mean_return']:.2f}, mean length {summary['mean_steps']:.0f}, median peak force"
        f" {summary['median_peak_force']:.0f} N; ends: {causes}"
    )
    places = summary["places"] if len(summary["places"]) > 1 else {}
    for kind, rate in places.items():
        print(
            f"  {kind}: {rate['successes']} of {rate['episodes']}, {100 * rate['success']:.1f}%"
            f" ({100 * rate['low']:.1f} to {100 * rate['high']:.1f})"
        )

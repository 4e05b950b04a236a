"""``tpsrl eval skill=...``: success of a policy in its skill's own environment."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eval.episode import fingerprint
from eval.recording import MODES, RECORD, Keeper
from eval.report import write_report
from eval.runner import measure, report_errors
from eval.trials import SkillStudy, TrialJob
from planner.chain.catalog import agent_kind
from skills.book import BOOK, row_of
from skills.envs.starts import beginnings
from skills.learned.cards import SHIPPED, PolicyFiles, digest
from skills.learned.find import acts_as, find_policy
from skills.learned.inference import NumpyPolicy, read_weights
from skills.tasks.sensors import COLOUR
from tpsrl import options
from tpsrl.errors import UserError
from tpsrl.habitat.scenes import HabitatConfig, choose_scenes, habitat_options, named_data
from tpsrl.jobs.processes import all_cores
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.provide import TRAIN_EPISODES, find_episodes
from ver_trainer.options import option, to_dict

HELP = """tpsrl eval skill=pick ...: run a policy in its skill's own environment.

Writes episodes.jsonl, summary.json, report.html and the states of failed episodes into out=; the
same command again runs what is missing."""

_LEARNED = ("tpsrl", "teacher")
_FREE = ("out", "workers", "attempts", "timeout", "episodes", "gpu", "habitat", "launch", "record")
"""Keys that decide no result."""


@dataclass
class TrialConfig:
    """Keys that say what is tried, of ``tpsrl eval skill=...`` and ``tpsrl record skill=...``."""

    skill: str = field(metadata={"help": "which skill", "choices": list(BOOK)})
    agent: str = option("tpsrl", "who acts", choices=(*_LEARNED, "scripted", "random"))
    weights: Path | None = option(
        None, "run folder, checkpoint, file or folder of skills; null: those shipped"
    )
    split: str = field(default="val", metadata=options.SPLIT)
    data: Path | None = field(default=None, metadata=options.DATA)
    handoff: Path | None = option(None, "file of start states to begin at ('tpsrl handoff')")
    places: list[str] = option(
        [], "Pick, Place: only starts at such places: open, cabinet, drawer; [] for all"
    )
    actions: str = option(
        "full", "restricted: the base stands still", choices=("full", "restricted")
    )
    contract: str = option("fixed", "parity: habitat-lab's quirks", choices=("fixed", "parity"))
    sample: bool = option(False, "a policy's actions are drawn; otherwise its mean acts")
    seed: int = option(0, "of the first episode", min=0)


@dataclass
class SkillEvalConfig(TrialConfig):
    """Keys of ``tpsrl eval skill=...``."""

    episodes: int = option(500, "how many", min=1)
    path: Path | None = field(default=None, metadata=options.PATH)
    sim: str = field(default="mujoco", metadata=options.SIM)
    gpu: int = field(default=-1, metadata=options.GPU)
    habitat: HabitatConfig = field(default_factory=HabitatConfig)
    depth: int | None = option(None, "pixels of depth; null: the policy's, it takes no others")
    out: Path | None = option(None, "result folder; null for outputs/skills/SKILL_SPLIT_AGENT")
    workers: int = field(default_factory=all_cores, metadata=options.WORKERS)
    attempts: int = field(default=3, metadata=options.ATTEMPTS)
    timeout: float = field(default=3600.0, metadata=options.TIMEOUT)
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)
    record: str = option("failures", RECORD, choices=MODES)


def evaluate_skill(config: SkillEvalConfig) -> int:
    """Run the missing episodes, print and write the summary."""
    name = f"{config.skill}_{config.split}_{config.agent}"
    out = config.out or Path("outputs/skills") / name
    study = study_of(config, Keeper(out.resolve(), config.record))
    data = _fingerprint(config)
    jobs = [TrialJob(k, config.seed + k, data) for k in range(_count(config))]
    label = f"{config.agent} {config.skill}"
    limits = (config.workers, config.attempts, config.timeout)
    summary = measure(study, jobs, out, *limits, label, config.launch)
    _print(config, summary)
    print(f"{out / 'summary.json'}\n{write_report(out)}")
    return report_errors(summary, out)


def _count(config: SkillEvalConfig) -> int:
    """Return how many episodes there are to run: one from each hand-off start, if so many."""
    if config.handoff is None or config.places:
        return config.episodes
    most = len(beginnings([config.handoff], config.skill)[0])
    if most < config.episodes:
        print(
            f"{config.handoff} has {most} starts of {config.skill}: one episode from each of them"
        )
    return min(config.episodes, most)


def study_of(config: SkillEvalConfig, keeper: Keeper | None = None) -> SkillStudy:
    """Return what a configuration measures.

    Args:
        config: of ``tpsrl eval skill=...``.
        keeper: of the states of episodes.

    Raises:
        UserError: there are no weights, or what is asked for does not fit them.
    """
    policy, env_args = parts_of(config)
    described = _described(config, policy)
    return SkillStudy(
        described, config.skill, env_args, config.agent, policy, config.sample, keeper
    )


def _fingerprint(config: SkillEvalConfig) -> str:
    """Return a short hash of the data that a seed draws its episode from."""
    digest = hashlib.sha256()
    if config.handoff is not None:
        digest.update(b"each start once" + _bytes(config.handoff))
    scenario = row_of(config.skill).task.scenario
    scenes = choose_scenes(config.path, config.data, scenario, config.split, None)
    if scenes is not None:
        digest.update("".join(fingerprint(episode) for episode in scenes.read()[1]).encode())
    elif config.handoff is None:
        # Where no train set was made yet, val in its place would measure what train says.
        digest.update(_bytes(config.data or find_episodes(scenario, config.split, TRAIN_EPISODES)))
    return digest.hexdigest()[:16]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give another file") from None


def parts_of(config: SkillEvalConfig) -> tuple[PolicyFiles | None, dict[str, Any]]:
    """Return the policy's files, and the arguments of the environment."""
    policy, depth = None, None
    env_args: dict[str, Any] = {"actions": config.actions, "contract": config.contract}
    if config.agent != "tpsrl" and config.weights is not None:
        raise UserError(
            f"weights={config.weights} would not be used by agent={config.agent}; give"
            " agent=tpsrl, or leave weights= out."
        )
    if config.agent in _LEARNED:
        shipped = SHIPPED / agent_kind(config.agent).folder
        policy = find_policy(config.weights or shipped, config.skill)
        if policy.card.actions != config.actions and row_of(config.skill).uses_arm:
            own = policy.card.actions
            raise UserError(f"{policy.path} was trained with actions={own}; give actions={own}.")
        if policy.card.contract == "parity" != config.contract:  # the other way round is a question
            raise UserError(
                f"{policy.path} was trained with contract=parity; give contract=parity."
            )
        depth = policy.card.depth
        env_args |= _as_trained(policy)
    if config.depth not in (None, depth):
        sees = "no depth" if depth is None else f"depth of {depth} pixels"
        raise UserError(f"depth={config.depth}: who acts here sees {sees}; leave depth= out.")
    env_args |= {"depth": depth, "split": config.split}
    if config.places:
        env_args["places"] = tuple(config.places)
    env_args |= _engine(config)
    if config.agent == "scripted":
        if config.actions == "restricted" and row_of(config.skill).uses_arm:
            raise UserError(
                f"the scripted {config.skill} moves the base; give actions=full, or agent=random or"
                " tpsrl."
            )
        env_args["options"] = dict(row_of(config.skill).needs)
    if config.handoff is not None:
        env_args |= {"start": "handoff", "handoff": str(config.handoff.resolve())}
    return policy, env_args


def _as_trained(policy: PolicyFiles) -> dict[str, Any]:
    """Return the arguments of the environment that what a policy sees and does depends on."""
    seen = NumpyPolicy.load(policy.path).observations
    args: dict[str, Any] = {"sensors": tuple(seen)}
    coloured = [shape[0] for name, shape in seen.items() if name in COLOUR]
    if coloured:
        args["colour"] = coloured[0]
    return args | acts_as(policy.path, read_weights(policy.path)[1])


def _engine(config: SkillEvalConfig) -> dict[str, Any]:
    """Return the arguments of the environment that say where and in which engine it plays."""
    choose_scenes(config.path, config.data, config.skill, config.split, None)  # refuses nonsense
    args: dict[str, Any] = {"sim": config.sim}
    if config.path is not None:
        args["path"] = str(config.path.resolve())
    if config.data is not None:
        args["episodes"] = named_data(config.data)
    if config.sim == "habitat":
        args["habitat"] = habitat_options(config.habitat, config.gpu)
        args["gpu"] = args["habitat"].pop("gpu")
    return args


def _described(config: SkillEvalConfig, policy: PolicyFiles | None) -> dict[str, Any]:
    """Return what the results are of."""
    described = {k: v for k, v in to_dict(config).items() if k not in _FREE}
    for key in ("weights", "path", "handoff"):  # they are found again from any folder
        if described[key] is not None:
            described[key] = str(Path(described[key]).absolute())
    described["data"] = named_data(config.data)
    if policy is not None:
        described["weights_sha256"] = digest(policy.path)
    if config.handoff is not None:
        left_out = beginnings([config.handoff], config.skill)[1]
        if left_out:  # else as in results from before any were
            described["left_out"] = left_out
    return described


def _where(config: SkillEvalConfig) -> str:
    """Return where the episodes come from, for people to read."""
    if config.handoff is not None:
        return f"from {config.handoff.name}"
    return f"on {config.split if config.data is None else config.data.name}"


def _print(config: SkillEvalConfig, summary: dict[str, Any]) -> None:
    causes = ", ".join(f"{cause} {number}" for cause, number in summary["causes"].items())
    print(
        f"{config.agent} {config.skill} {_where(config)}: {summary['successes']} of"
        f" {summary['episodes']}, {100 * summary['success']:.1f}% (95% interval"
        f" {100 * summary['low']:.1f} to {100 * summary['high']:.1f}), mean return"
        f" {summary['mean_return']:.2f}, mean length {summary['mean_steps']:.0f}, median peak force"
        f" {summary['median_force_max']:.0f} N; ends: {causes}"
    )
    left_out = summary["config"].get("left_out")
    if left_out:
        print(
            f"  starts of {config.skill} left out: {left_out}, whose hand is empty or holds another"
            " object"
        )
    parts = [("", summary["places"]), ("way ", summary["ways"])]
    rows = [(f"{word}{name}", rate) for word, found in parts for name, rate in found.items()]
    for name, rate in rows:
        print(
            f"  {name}: {rate['successes']} of {rate['episodes']}, {100 * rate['success']:.1f}%"
            f" ({100 * rate['low']:.1f} to {100 * rate['high']:.1f})"
        )

"""``tpsrl train``: the trainer; with ``skill=`` a skill's environment, and its teacher."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from skills.book import BOOK, chained, make_task, row_of, sensor_sets
from skills.chain_starts import AGENTS, chain_starts
from skills.envs import env_id
from skills.envs.config import EnvConfig
from skills.envs.starts import beginnings
from skills.learned.cards import TEACHERS, weights_path
from skills.learned.find import find_policy
from skills.tasks.sensors import DEPTH
from tpsrl.errors import UserError
from tpsrl.files import write_json
from tpsrl.generation.rules import load_scenario
from tpsrl.jobs.processes import all_cores
from tpsrl.launch.config import LAUNCH, LaunchConfig
from tpsrl.provenance import git_commit, machine, now, versions
from tpsrl.provide import TRAIN_EPISODES, make_episodes
from tpsrl.rooms import CONFIGS
from ver_trainer.config import TrainConfig, validate
from ver_trainer.machine import settle_threads
from ver_trainer.options import load, option
from ver_trainer.runner import TrainResult, train

LEARNED_SPLITS = ("train", "wide")
"""Episodes of these are made where a training has none; val ones are never trained on unasked."""
_OF_MAKE = ("render_mode", "max_episode_steps")
"""Arguments of ``gymnasium.make`` that are none of the environment's own settings."""


@dataclass
class SkillTraining:
    """Keys of skills."""

    skill: str | None = option(None, "which; null: env= is trained on", choices=tuple(BOOK))
    switches: bool = option(
        False, "grip and stop are choices, at first as likely as the skill's row says"
    )
    lasting: bool = option(
        False, "ppo.max_correlation is the skill's own, as its row says, where none is given"
    )
    teacher: str = option(
        "",
        "whose labels the policy learns from: a run folder, weights, a folder of several skills' or"
        " shipped",
    )
    train_episodes: int = option(
        TRAIN_EPISODES, "episodes to make where none are given, once", min=1
    )
    also_wide: bool = option(False, "as many again in apartments that are drawn at random")
    chain_starts: int = option(
        0,
        "episodes of each scenario whose chain is run, once: env_args.handoff_fraction of the"
        " training's episodes begin where it called the skill",
        min=0,
    )
    chain_agent: str = option("scripted", "who acts in that chain", choices=tuple(AGENTS))
    launch: LaunchConfig = field(default_factory=LaunchConfig, metadata=LAUNCH)


@dataclass
class TrainKeys(TrainConfig, SkillTraining):
    """All keys of ``tpsrl train``."""

    def trainer(self) -> TrainConfig:
        """Return the trainer's part."""
        return TrainConfig(**{key.name: getattr(self, key.name) for key in fields(TrainConfig)})


def parse(words: Sequence[str], ahead: Collection[Path] = ()) -> tuple[TrainKeys, TrainConfig]:
    """Read ``config=`` (files or shipped names) and the words.

    Without ``config=`` a skill is learned by the recipe of those that ship, ``student``, if a
    teacher of it ships, others with ``laptop``.

    Args:
        words: of the command line.
        ahead: run folders of teachers that need not be there yet.

    Raises:
        UserError: unknown key, file or skill, or a value that cannot be used.
    """
    named = [word.removeprefix("skill=") for word in words if word.startswith("skill=")]
    if named:
        given = any(word.startswith("config=") for word in words)
        words = words if given else [f"config={_default(named[-1])}", *words]
        keys = load(TrainKeys, words, defaults=_defaults(named[-1]), folders=[CONFIGS / "skills"])
    else:
        keys = load(TrainKeys, words, folders=[CONFIGS / "train"])
    if keys.skill and not named:
        return parse([f"skill={keys.skill}", *words], ahead)
    config = keys.trainer()
    if keys.skill:
        _check_arguments(config, keys.skill)
    if keys.switches:
        _choose(config, keys.skill)
    if keys.lasting and not config.ppo.max_correlation:
        config.ppo.max_correlation = _lasting(keys.skill)
    if keys.skill:
        _name_senses(config, keys.skill)
    if keys.teacher:
        _follow(config, keys.teacher, keys.skill, ahead)
    if keys.skill and config.env_args.get("sim", "mujoco") != "mujoco":
        config.collect.worlds = config.collect.worlds or 1  # these engines have one world each
    validate(config)
    return keys, config


def _check_arguments(config: TrainConfig, skill: str) -> None:
    """Refuse arguments that the skill's own environment could not be made with, at once."""
    if config.env == _defaults(skill)["env"]:
        own = {name: v for name, v in config.env_args.items() if name not in _OF_MAKE}
        EnvConfig.of(own).check(skill)


def _choose(config: TrainConfig, skill: str | None) -> None:
    """Let the policy choose whether to grasp and to stop, instead of drawing numbers."""
    if skill is None:
        raise UserError("switches=true is of skills; name one with skill=, or leave it out.")
    row = row_of(skill)
    actions: Any = config.env_args.get("actions", "full")
    stop: Any = config.env_args.get("stop", "action")
    places = make_task(skill, actions=actions, stop=stop).layout.switches
    config.net.binary_actions = list(places.values())
    config.net.binary_initial = [row.switches.get(name, 0.5) for name in places]


def _lasting(skill: str | None) -> list[float]:
    """Return how long noise lasts along the training."""
    if skill is None:
        raise UserError("lasting=true is of skills; name one with skill=, or leave it out.")
    return [*row_of(skill).lasting]


def _name_senses(config: TrainConfig, skill: str) -> None:
    """Let the names of sets, ``contract`` and so on, stand for what actor and critic observe."""
    args: Any = config.env_args
    sets = sensor_sets(skill, args.get("contract", "fixed"), args.get("actions", "full"))
    if config.env_args.get("depth", 128) is None:
        sets["contract"] = tuple(name for name in sets["contract"] if name != DEPTH)
    for key in ("actor_obs", "critic_obs"):
        named = [n for name in getattr(config.net, key) for n in sets.get(name, (name,))]
        setattr(config.net, key, list(dict.fromkeys(named)))


def _default(skill: str) -> str:
    return "student" if skill in BOOK and weights_path(TEACHERS, skill).exists() else "laptop"


def _follow(config: TrainConfig, teacher: str, skill: str | None, ahead: Collection[Path]) -> None:
    """Learn from the labels of a skill's teacher."""
    if skill is None:
        raise UserError("teacher= is of skills; name one with skill=, or give distill.teacher=.")
    if config.distill.teacher:
        raise UserError("teacher= and distill.teacher= say the same; give one of them.")
    folder = TEACHERS if teacher == "shipped" else Path(teacher)
    if folder in ahead:
        config.distill.teacher = teacher
        return
    row, actions = row_of(skill), config.env_args.get("actions", "full")
    stands = row.stands(actions)
    if teacher == "shipped" and (stands or not weights_path(folder, skill).exists()):
        raise _no_teacher(skill, f"actions={actions}" if stands else "")
    config.distill.teacher = str(find_policy(folder, skill).path)
    stops = {"failed_stop_ends": True}  # labels teach when to stop; nothing has to be tried out
    if row.teaching.keys() & stops:
        config.env_args["options"] = stops | (config.env_args.get("options") or {})


def _no_teacher(skill: str, actions: str) -> UserError:
    """Return what to do where none ships; ``actions`` is the word for others than the full ones."""
    own, words = (f" of {actions}", f" env_args.{actions}") if actions else ("", "")
    out = f"runs/teacher_{skill}"
    how = (
        f"make one with 'tpsrl train skill={skill} config=teacher{words} out={out}' and give"
        f" teacher={out}, or"
    )
    return UserError(
        f"no teacher of '{skill}'{own} ships that a student could learn from;"
        f" {how if row_of(skill).state else 'as it lists no sensors of one,'}"
        " train without one, e.g. with config=laptop."
    )


def _defaults(skill: str) -> Mapping[str, Any]:
    if skill not in BOOK:
        return {}  # which the loader will say
    module = "skills.envs"
    return {
        "env": f"{module}:{env_id(skill)}",
        "out": f"runs/{skill}",
        "preload": [module],
        "collect.worlds": 0,
    }


def run(
    words: Sequence[str], on_record: Callable[[dict[str, Any]], None] | None = None
) -> TrainResult:
    """Train.

    Args:
        words: see :func:`parse`.
        on_record: called with every record of VER's log.

    Raises:
        UserError: bad input, or the trainer cannot go on.
    """
    keys, config = parse(words)
    if keys.skill is None:
        return train(config, on_record=on_record)
    settle_threads(config)
    provide(keys, config)
    _note_origin(Path(config.out), words)
    return train(config, on_record=on_record)


def provide(keys: TrainKeys, config: TrainConfig) -> None:
    """Make the episodes and starts that a training of a skill needs, once on a machine.

    Processes do it, so a worker process of something else cannot.
    """
    if keys.skill is not None:
        config.env_args |= _episodes(keys, config.env_args)
        config.env_args |= _starts(keys, config.env_args)


def _episodes(keys: TrainKeys, env_args: Mapping[str, Any]) -> dict[str, Any]:
    """Check the episodes that were given, or return the argument that names newly made ones."""
    assert keys.skill is not None
    given, split = env_args.get("episodes"), env_args.get("split", "train")
    if env_args.get("path") is not None:
        return {}
    options = env_args.get("options") or {}
    scenario = str(options.get("scenario") or row_of(keys.skill).task.scenario)
    if given is None and split in LEARNED_SPLITS:
        rules, splits = load_scenario(scenario), [split, "wide"] if keys.also_wide else [split]
        made = [make_episodes(rules, s, keys.train_episodes, all_cores()) for s in splits]
        return {"episodes": [str(file) for file in made] if len(made) > 1 else str(made[0])}
    for file in given if isinstance(given, list | tuple) else [given] if given else []:
        if not Path(str(file)).exists():
            raise UserError(
                f"env_args.episodes={file}: no such file; 'tpsrl episodes scenario={scenario}"
                f" split=train n=500 out={file}' makes it."
            )
    return {}


def _starts(keys: TrainKeys, env_args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that name the starts of the chain, if any are wanted and none given."""
    given = env_args.get("handoff") is not None or env_args.get("path") is not None
    if not keys.chain_starts or keys.skill not in chained() or given:
        return {}  # the starts are of our own apartments
    files = chain_starts(keys.chain_starts, keys.chain_agent, all_cores())
    if not beginnings(files, keys.skill)[0]:
        return {}  # no plan of these scenarios calls it
    return {"start": "handoff", "handoff": [str(file) for file in files]}


def _note_origin(folder: Path, words: Sequence[str]) -> None:
    """Write down once where a policy comes from."""
    path = folder / "origin.json"
    if path.exists():
        return
    origin = {
        "command": "tpsrl train " + " ".join(words),
        "commit": git_commit(),
        "date": now(),
        "machine": machine(),
        "versions": versions(),
    }
    write_json(path, origin)

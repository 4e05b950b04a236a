"""``tpsrl train skill=...``: a skill's environment, an imitation start and the trainer together."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf

from skills.book import row_of
from skills.envs import env_id
from skills.superseded.imitation.rounds import ImitateConfig, imitate
from tpsrl.config import load
from tpsrl.errors import UserError
from tpsrl.jobs.processes import all_cores
from tpsrl.rooms import CONFIGS
from ver_trainer.config import TrainConfig, load_config

OWN = ("skill", "pretrain", "finetune", "train_episodes", "imitate")
"""Keys that are ours; all others are the trainer's."""


@dataclass
class SkillTraining:
    """What ``tpsrl train`` understands beside the trainer's own keys."""

    skill: str = field(default="", metadata={"help": "which skill"})
    pretrain: Literal["none", "scripted"] = field(
        default="none", metadata={"help": "imitate the scripted skill first"}
    )
    finetune: bool = field(
        default=True, metadata={"help": "train with VER; false ends after the imitation"}
    )
    train_episodes: int = field(
        default=500,
        metadata={"help": "episodes of the train split to generate if none are given", "min": 1},
    )
    imitate: ImitateConfig = field(default_factory=ImitateConfig)


def parse(words: Sequence[str]) -> tuple[SkillTraining, TrainConfig]:
    """Read ``config=`` (``laptop``, ``paper`` or files, laptop by default) and the words after.

    Raises:
        UserError: unknown skill, file or key of ours.
        ConfigError: wrong key or value of the trainer.
    """
    files = [word.removeprefix("config=") for word in words if word.startswith("config=")]
    words = [word for word in words if not word.startswith("config=")]
    texts: list[str] = []
    for name in files or ["laptop"]:
        texts += _words(_find(name))
    texts += words
    own = load(SkillTraining, [text for text in texts if _is_own(text)])
    _check_skill(own)
    theirs = [text for text in texts if not _is_own(text)]
    defaults = [f"env=skills.envs:{env_id(own.skill)}", f"out=runs/{own.skill}"]
    config = load_config([*defaults, *theirs])
    if not any(text.startswith("preload=") for text in theirs):
        config.preload = ["skills.envs"]
    # The value head that VER starts from must have learned VER's returns.
    own.imitate.clone.gamma = config.ppo.gamma
    own.imitate.clone.reward_scale = config.ppo.reward_scale
    return own, config


def _check_skill(own: SkillTraining) -> None:
    if own.pretrain == "scripted" and not row_of(own.skill).program:
        raise UserError(f"'{own.skill}' has no scripted skill to imitate; use pretrain=none.")


def train_skill(words: Sequence[str]) -> Any:
    """Imitate if wanted, then train with VER; return the trainer's result.

    Raises:
        UserError: bad input.
        TrainerError: the trainer cannot go on.
    """
    own, config = parse(words)
    _provide_episodes(own, config)
    if own.pretrain == "scripted":
        folder = Path(config.out) / "imitation"
        _note_origin(folder, words)
        weights = imitate(
            own.skill, config.env_args, config.net, own.imitate, folder, config.threads
        )
        print(f"imitation done: {weights}")
        config.pretrained = config.pretrained or str(weights)
    if not own.finetune:
        return None
    from ver_trainer.runner import train

    return train(config)


def _provide_episodes(own: SkillTraining, config: TrainConfig) -> None:
    """Generate train episodes unless the run has its own; val ones are never trained on unasked."""
    given, split = config.env_args.get("episodes"), config.env_args.get("split", "train")
    learned = ("train", "wide")
    if config.env_args.get("path") is not None or (given is None and split not in learned):
        return
    options = config.env_args.get("options") or {}
    scenario = str(options.get("scenario") or row_of(own.skill).task.scenario)
    if given is not None:
        for file in given if isinstance(given, list | tuple) else [given]:
            if not Path(str(file)).exists():
                raise UserError(
                    f"env_args.episodes={file}: no such file; 'tpsrl episodes scenario={scenario}"
                    f" split=train n=500 out={file}' makes it."
                )
        return
    from tpsrl.generation.parallel import generate
    from tpsrl.generation.rules import load_scenario

    rules, count = load_scenario(scenario), own.train_episodes
    path = Path(config.out).parent / "episodes" / f"{rules.stem()}_{split}_{count}.json.gz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        generate(rules, split, count, 0, path, all_cores())
    config.env_args["episodes"] = str(path)


def _note_origin(folder: Path, words: Sequence[str]) -> None:
    """Write down once where an imitation comes from."""
    from tpsrl.files import write_json
    from tpsrl.provenance import git_commit, machine, now, versions

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


def _is_own(text: str) -> bool:
    return text.partition("=")[0].partition(".")[0] in OWN


def _find(name: str) -> Path:
    folders = (CONFIGS / "skills", CONFIGS / "superseded")
    for folder in folders:
        if (folder / f"{name}.yaml").exists():
            return folder / f"{name}.yaml"
    if Path(name).exists():
        return Path(name)
    known = sorted(path.stem for path in folders[0].glob("*.yaml"))
    raise UserError(f"config={name} is no file and none of {', '.join(known)}")


def _words(path: Path) -> list[str]:
    """Return a YAML file as ``key=value`` words."""
    try:
        content = OmegaConf.to_container(OmegaConf.load(path))
    except Exception as error:
        raise UserError(f"{path} is not valid YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} must hold a mapping of keys to values")
    return _flat(content, "")


def _flat(content: dict[Any, Any], prefix: str) -> list[str]:
    words = []
    for key, value in content.items():
        if isinstance(value, dict):
            words += _flat(value, f"{prefix}{key}.")
        else:
            name = f"{prefix}{key}"
            # Our own text values are read as they are typed, the trainer's are YAML.
            plain = isinstance(value, str) and _is_own(name)
            words.append(f"{name}={value if plain else json.dumps(value)}")
    return words

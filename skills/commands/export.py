"""``tpsrl export``: a trained policy as a file of its own, and the card that says what it is."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skills.book import BOOK, Contract, make_task
from skills.learned.cards import (
    SHIPPED,
    Card,
    card_content,
    digest,
    read_card,
    weights_path,
    write_card,
)
from skills.learned.find import acts_as, find_file, find_policy, is_single, skill_of, trained_in
from skills.learned.inference import read_weights
from skills.learned.wiring import wiring
from skills.row import Actions
from skills.tasks.base import Task
from tpsrl.errors import UserError
from tpsrl.files import write_atomically, write_json
from ver_trainer.export import export_policy
from ver_trainer.finding import WEIGHTS
from ver_trainer.options import load, option
from ver_trainer.reading import MIB, read_json

HELP = """Put a trained policy into a file of its own, with a card of what it sees, does and is.

  tpsrl train skill=pick ... out=runs/pick
  tpsrl export weights=runs/pick format=onnx            outputs/export/pick.onnx, pick.onnx.json

ONNX (needs 'pip install tpsrl[onnx]') and TorchScript take the observations in the order of the
card and the recurrent state, zeros at first, and give the action and the next state, for any number
of rows; the card is in the file as well. Observations need no scaling: the network does it.

A folder of skills for agent=tpsrl, with the success that was measured on the cards:

  tpsrl eval skill=pick weights=runs/pick episodes=500 out=results/pick
  tpsrl export weights=runs/pick result=results/pick out=my_skills
  tpsrl eval scenario=tidy_house agent=tpsrl weights=my_skills

The same training with another seed, exported into a folder of its own, is named on the card by
repeats=[other/pick.json]."""

SUFFIXES = {"safetensors": ".safetensors", "onnx": ".onnx", "torchscript": ".pt"}

_PROJECT = SHIPPED.parents[2]


@dataclass
class ExportConfig:
    """Keys of ``tpsrl export``."""

    weights: Path = field(
        metadata={
            "help": "run folder (best checkpoint, else latest), checkpoint, file, folder of skills",
        }
    )
    format: str = option("safetensors", "what to write", choices=tuple(SUFFIXES))
    skill: str | None = option(None, "which; null: as the weights say", choices=tuple(BOOK))
    result: Path | None = option(
        None, "result folder of 'tpsrl eval skill=...' of this policy, for the card"
    )
    repeats: list[Path] = option(
        [], "exported cards of the same training with other seeds, whose success joins the card"
    )
    out: Path = option(Path("outputs/export"), "folder to write into")


CONFIG = ExportConfig


def run(overrides: list[str]) -> int:
    """Write the policy and its card."""
    config = load(ExportConfig, overrides)
    source, card = _source(config)
    if card is None and (config.format == "safetensors" or config.result):
        raise UserError(
            f"weights={config.weights} does not say which skill it is of, which a folder of skills"
            " needs; give skill=, or format=onnx or torchscript."
        )
    name = config.weights.stem if card is None else card.skill
    if card is not None:
        card = dataclasses.replace(card, facts=_facts(source, card))
        if config.result is not None:
            card = _with_result(config.result, card, source)
        if config.repeats:
            card = _with_repeats(config.repeats, card)
    tensors, header = read_weights(source)
    task = None if card is None else _task(card, acts_as(source, header))
    facts = {"wiring": wiring(tensors, header, task)}
    if config.format != "safetensors":
        return _write_network(config, name, source, card, facts)
    assert card is not None
    card = dataclasses.replace(card, facts={**card.facts, **facts})
    path = config.out / f"{name}.json"
    data = source.read_bytes()
    write_atomically(weights_path(config.out, card.skill), data)
    write_card(path, card)
    print(path)
    if "success" not in card.facts:
        print(
            f"the card names no success; 'tpsrl eval skill={card.skill} weights={config.weights}"
            " out=DIR' measures it, and the same export with result=DIR writes it down"
        )
    return 0


def _source(config: ExportConfig) -> tuple[Path, Card | None]:
    """Return the file of the weights, and what is known of it; no card: it is of no skill."""
    if config.skill is None and is_single(config.weights):
        file = find_file(config.weights)
        if skill_of(file, read_weights(file)[1]) is None:
            return file, None
    policy = find_policy(config.weights, config.skill)
    return policy.path, policy.card


def _task(card: Card, acts: dict[str, Any]) -> Task[Any]:
    """Return the task whose rules a policy acts by."""
    contract: Contract = card.contract  # type: ignore[assignment]
    actions: Actions = card.actions  # type: ignore[assignment]
    return make_task(card.skill, contract=contract, actions=actions, **acts)


def _write_network(
    config: ExportConfig, name: str, source: Path, card: Card | None, facts: dict[str, Any]
) -> int:
    """Write TorchScript or ONNX with its card inside and beside it."""
    if card is None:
        content = {"trained_in": trained_in(source, read_weights(source)[1])}
    else:
        content = card_content(card)
    content |= facts
    out = config.out / f"{name}{SUFFIXES[config.format]}"
    export_policy(source, out, {"card": json.dumps(content)})
    write_json(out.with_name(out.name + ".json"), content)
    print(f"{out}\n{out}.json")
    return 0


def _facts(source: Path, card: Card) -> dict[str, Any]:
    """Return what the card says already, or what its run folder knows of the training."""
    if card.facts:
        return dict(card.facts)
    inside = source.name == WEIGHTS and source.parent.parent.name == "checkpoints"
    run = source.parents[2] if inside else source.parent
    found: dict[str, Any] = {}
    if (run / "origin.json").exists():
        found |= _json(run / "origin.json")
    if (source.parent / "meta.json").exists():
        meta = _json(source.parent / "meta.json")
        found["ver"] = {key: meta[key] for key in ("steps", "seconds", "config") if key in meta}
        _without_folders(found["ver"].get("config", {}))
    if (run / "git.json").exists():
        found["trained_at"] = _json(run / "git.json")
    return found


def _without_folders(config: dict[str, Any]) -> None:
    """Leave the names of files alone: where they lay is of no use to others."""
    env_args = config.get("env_args", {})
    for key in ("episodes", "handoff"):
        given = env_args.get(key)
        if isinstance(given, str):
            env_args[key] = Path(given).name
        elif isinstance(given, list):
            env_args[key] = [Path(str(file)).name for file in given]
    distill = config.get("distill", {})
    for part, key in ((config, "pretrained"), (distill, "teacher")):
        if part.get(key):
            part[key] = _name(str(part[key]))
    if "others" in distill:
        distill["others"] = [_name(str(path)) for path in distill["others"]]


def _name(path: str) -> str:
    given = Path(path)
    if not given.is_absolute():
        return path
    return str(given.relative_to(_PROJECT)) if given.is_relative_to(_PROJECT) else given.name


def _with_result(result: Path, card: Card, source: Path) -> Card:
    """Return a card with the success that was measured, of these weights and no others."""
    summary = _json(result / "summary.json")
    if not summary.get("complete", True):
        raise UserError(f"{result} is not complete; run its 'tpsrl eval' again first.")
    described = summary.pop("config", None)
    known = ("skill", "actions", "contract")
    if not isinstance(described, dict) or not all(type(described.get(k)) is str for k in known):
        raise UserError(f"{result} is no result of a skill; give that of 'tpsrl eval skill=...'.")
    if described.get("weights_sha256") != digest(source):
        raise UserError(f"{result} measured other weights than {source}; measure these.")
    if described["skill"] != card.skill:
        raise UserError(f"{result} measured the skill '{described['skill']}'.")
    for key in ("weights", "data", "path", "handoff"):  # where they lay is of no use to others
        given = described.get(key)
        described[key] = Path(given).name if given and Path(given).is_absolute() else given
    facts = {**card.facts, "success": summary, "evaluation": described}
    return dataclasses.replace(
        card, actions=described["actions"], contract=described["contract"], facts=facts
    )


def _with_repeats(cards: list[Path], card: Card) -> Card:
    """Return a card that also says what other seeds of its training gave."""
    found = []
    for path in cards:
        other = read_card(path)
        if other.skill != card.skill or "success" not in other.facts:
            raise UserError(
                f"{path}: is no measured card of '{card.skill}'; export the other training with"
                " result=DIR first, into another folder."
            )
        if other.facts["evaluation"] == card.facts.get("evaluation"):
            raise UserError(f"{path}: is of the same weights; give the card of another seed.")
        kept = ("command", "commit", "date", "machine", "success", "evaluation")
        about = {name: other.facts[name] for name in kept if name in other.facts}
        trained = {k: v for k, v in other.facts.get("ver", {}).items() if k != "config"}
        found.append(about | trained)
    return dataclasses.replace(card, facts={**card.facts, "repeats": found})


def _json(path: Path) -> dict[str, Any]:
    return read_json(path, 64 * MIB, "give another folder")

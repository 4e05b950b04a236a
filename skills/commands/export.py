"""``tpsrl export``: weights of a trained skill and the card that says where they come from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from skills.book import placed, row_of
from skills.learned.cards import (
    Card,
    check_special,
    digests,
    policy_name,
    read_card,
    weights_path,
    write_card,
)
from skills.learned.inference import read_weights
from skills.tasks.places import KINDS
from tpsrl.errors import UserError
from tpsrl.files import write_atomically
from ver_trainer.checkpoint import resolve_weights
from ver_trainer.options import load, option
from ver_trainer.reading import MIB, read_json

HELP = """Put the policy of a run into a folder of skills, with its card.

  tpsrl train skill=pick ... out=runs/pick
  tpsrl eval skill=pick weights=runs/pick/imitation/policy.safetensors episodes=500 out=results/pick
  tpsrl export skill=pick run=runs/pick/imitation result=results/pick out=my_skills
  tpsrl eval scenario=tidy_house agent=tpsrl weights=my_skills

place=cabinet (drawer, open) exports a policy that acts in that kind of place instead of the general
one of the same folder, which is exported first: pick_cabinet.safetensors beside pick.safetensors.
A result of a folder in which several policies act counts for each of them.

run= is a run folder (best checkpoint, else the latest), its imitation/ folder, or a file."""


@dataclass
class ExportConfig:
    """Keys of ``tpsrl export``."""

    skill: str = field(metadata={"help": "which skill"})
    run: Path = field(metadata={"help": "run folder, imitation folder or .safetensors file"})
    result: Path = field(
        metadata={"help": "result folder of 'tpsrl eval skill=...' of this policy"}
    )
    place: str | None = option(None, "kind of place that it acts in; null: all", choices=KINDS)
    out: Path = option(Path("skills/learned/weights"), "folder of skills")


CONFIG = ExportConfig


def run(overrides: list[str]) -> int:
    """Write the weights and the card."""
    config = load(ExportConfig, overrides)
    source = _weights(config.run)
    _, header = read_weights(source)
    summary = _json(config.result / "summary.json")
    if not summary.get("complete", True):
        raise UserError(f"{config.result} is not complete; run its 'tpsrl eval' again first.")
    described = summary.pop("config", None)
    known = ("skill", "actions", "contract")
    if not isinstance(described, dict) or not all(type(described.get(k)) is str for k in known):
        raise UserError(f"{config.result} is no result of a skill; give that of 'tpsrl eval'.")
    data = source.read_bytes()
    name = policy_name(config.skill, config.place)
    _check_measured(config, name, described, source)
    seen = header["spec"]["observations"]
    acts_on = header.get("actor_obs", seen)  # a critic may have read more
    depth = seen["head_depth"]["shape"][0] if "head_depth" in acts_on else None
    facts = {**_training(config.run), "success": summary}
    facts["evaluation"] = described
    actions, contract = described["actions"], described["contract"]
    card = Card(config.skill, depth, actions, contract, facts, config.place)
    path = config.out / f"{name}.json"
    if config.place is not None:
        _check_place(config, card, path)
    write_atomically(weights_path(config.out, config.skill, config.place), data)
    write_card(path, card)
    print(path)
    return 0


def _check_measured(
    config: ExportConfig, name: str, described: dict[str, Any], source: Path
) -> None:
    """Refuse a result of other weights or of another skill."""
    files = described.get("weights_files", {name: described.get("weights_sha256")})
    if not isinstance(files, dict) or files.get(name) != digests({name: source})[name]:
        raise UserError(f"{config.result} measured other weights than {source}; measure these.")
    if described["skill"] != config.skill:
        raise UserError(f"{config.result} measured the skill '{described['skill']}'.")


def _check_place(config: ExportConfig, card: Card, path: Path) -> None:
    """Refuse a policy for a kind of place that would not fit its folder."""
    if not row_of(config.skill).placed:
        known = " and ".join(placed())
        raise UserError(f"skill={config.skill} has no place; place= is for {known}.")
    if not weights_path(config.out, config.skill).exists():
        raise UserError(
            f"{config.out} has no general policy of '{config.skill}', which acts in all other"
            " places; export it first, without place=."
        )
    assert config.place is not None
    general = read_card(config.out / f"{config.skill}.json")
    check_special(path, card, config.place, config.skill, general)


def _weights(run: Path) -> Path:
    if (run / "policy.safetensors").exists():
        return run / "policy.safetensors"
    return resolve_weights(run)


def _training(run: Path) -> dict[str, Any]:
    """Return what a run folder knows of the training: settings, rounds, steps, seconds."""
    found: dict[str, Any] = {}
    for name in ("imitation.json", "imitation/imitation.json"):
        if (run / name).exists():
            folder = (run / name).parent
            if (folder / "origin.json").exists():
                found |= _json(folder / "origin.json")
            found["imitation"] = _json(run / name)
            rounds = sorted((folder / "rounds").glob("round_*.json"))
            found["imitation_rounds"] = [_json(path) for path in rounds]
    meta = sorted(run.glob("checkpoints/update_*/meta.json"))
    if meta:
        last = _json(meta[-1])
        found["ver"] = {key: last[key] for key in ("steps", "seconds", "config") if key in last}
    if (run / "git.json").exists():
        found["trained_at"] = _json(run / "git.json")
    return found


def _json(path: Path) -> dict[str, Any]:
    return read_json(path, 64 * MIB, "give another folder")

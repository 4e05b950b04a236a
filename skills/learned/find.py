"""From whatever names weights to the policies in it: ``weights=`` means the same everywhere.

A folder of skills with their cards, the run folder of a training, a folder of such runs, a
checkpoint, or a file. A run is its best checkpoint, else its newest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skills.book import BOOK, chained
from skills.envs import env_id
from skills.learned.cards import (
    SHIPPED,
    Card,
    PolicyFiles,
    check_digest,
    policies_in,
    policy_of,
    read_card,
    weights_path,
)
from skills.learned.inference import read_weights
from skills.tasks.seen import PIXELS, sees_way
from skills.tasks.sensors import DEPTH
from tpsrl.errors import UserError
from ver_trainer.finding import WEIGHTS, resolve_weights
from ver_trainer.reading import MIB, read_json

_KINDS = "a run folder, a checkpoint, a .safetensors file or a folder of skills"


def find_policies(
    weights: Path | None, skills: Sequence[str] | None = None
) -> dict[str, PolicyFiles]:
    """Return the policies that a path names, by skill.

    Args:
        weights: see the module; ``None`` for those shipped.
        skills: that are looked for in a folder of skills or runs, ``None`` for those of plans.

    Raises:
        UserError: there are none, one is damaged, or nothing says which skill it is of.
    """
    wanted = chained() if skills is None else skills
    folder = _existing(weights)
    if is_single(folder):
        policy = _single(folder, None)
        return {policy.card.skill: policy}
    found = policies_in(folder, wanted)
    found |= {s: _single(folder / s, s) for s in wanted if s not in found and is_single(folder / s)}
    if weights is not None and not found and not (folder / "restricted").is_dir():
        raise UserError(
            f"weights={weights} holds no weights of {', '.join(wanted)}; give {_KINDS}, or make"
            f" some ('tpsrl train skill={wanted[-1]} ...')."
        )
    return found


def find_policy(weights: Path | None, skill: str | None = None) -> PolicyFiles:
    """Return one skill's policy, see :func:`find_policies`.

    Args:
        weights: see the module; ``None`` for those shipped.
        skill: whose; ``None`` where the path names one policy that says of which skill it is.

    Raises:
        UserError: there is none, it is of another skill, damaged, or nothing says of which skill.
    """
    folder = _existing(weights)
    if weights is not None and is_single(folder):
        return _single(folder, skill)
    if skill is None:
        raise UserError(f"weights={weights}: name one policy, or say of which with skill=.")
    if is_single(folder / skill):
        return _single(folder / skill, skill)
    path = weights_path(folder, skill)
    if path.with_suffix(".json").exists():
        return policy_of(folder, skill)
    if not path.exists():
        raise UserError(
            f"{path}: there are no weights of '{skill}'; 'tpsrl train skill={skill}' makes them,"
            f" or give {_KINDS}."
        )
    return _single(path, skill)


def find_file(weights: Path) -> Path:
    """Return the file of a run folder, checkpoint or file, whatever it is trained on.

    Raises:
        UserError: there is none, or it is damaged.
    """
    if (weights / WEIGHTS).is_file():
        return resolve_weights(weights / WEIGHTS)
    return resolve_weights(_existing(weights))


def _existing(weights: Path | None) -> Path:
    folder = SHIPPED if weights is None else Path(weights).absolute()
    if not folder.exists():
        raise UserError(f"weights={weights}: no such file or folder; give {_KINDS}.")
    return folder


def is_single(weights: Path) -> bool:
    """Return whether a path names one policy: a file, a checkpoint or a run."""
    return weights.is_file() or any((weights / mark).exists() for mark in (WEIGHTS, "checkpoints"))


def _single(weights: Path, skill: str | None) -> PolicyFiles:
    """Return the policy of a run, a checkpoint or a file, which acts alone.

    Args:
        weights: its path.
        skill: that it has to be of, ``None`` for any that is known.
    """
    path = find_file(weights)
    beside = path.with_suffix(".json")
    if path.name != WEIGHTS and beside.exists():
        card = read_card(beside)
        check_digest(path, card)
    else:
        card = _card(path, weights, skill)
    if skill is not None and card.skill != skill:
        raise UserError(
            f"weights={weights} is a policy of '{card.skill}'; give skill={card.skill}."
        )
    return PolicyFiles(path.absolute(), card)


def _card(path: Path, named: Path, skill: str | None) -> Card:
    """Return what the file and those beside it know, as a card."""
    _, header = read_weights(path)
    seen = header["spec"]["observations"]
    read = header.get("actor_obs", seen)  # a critic may have read more
    depth = PIXELS if sees_way(read) else None
    if DEPTH in read:
        depth = seen[DEPTH]["shape"][0]
    known = skill_of(path, header) or skill
    if known is None:
        raise UserError(
            f"weights={named} does not say which skill it is of; give its run folder or checkpoint,"
            " or export it with 'tpsrl export skill=NAME weights=...'."
        )
    env_args = {
        "actions": "full",
        "contract": "fixed",
        **trained_in(path, header).get("env_args", {}),
    }
    return Card(known, depth, str(env_args["actions"]), str(env_args["contract"]))


def trained_in(path: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return the environment that a policy was trained in: ``env`` and ``env_args``, or nothing.

    Args:
        path: of the weights; what lies beside it is asked where the file itself does not say.
        header: of the file.
    """
    meta = path.parent / "meta.json"
    told: Mapping[str, Any] = header.get("trained_in") or {}
    if not told and path.name == WEIGHTS and meta.exists():
        told = read_json(meta, 64 * MIB, "give another checkpoint").get("config") or {}
    return {key: told[key] for key in ("env", "env_args") if key in told}


def acts_as(path: Path, header: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a policy's actions depend on, beside its card's, as far as its training said it.

    Returns:
        Keywords of :func:`skills.book.make_task`: ``stop``, and of ``options`` ``suction``.
    """
    args = trained_in(path, header).get("env_args", {})
    options = args.get("options") or {}
    found = {"stop": args["stop"]} if "stop" in args else {}
    return found | ({"options": {"suction": options["suction"]}} if "suction" in options else {})


def skill_of(path: Path, header: Mapping[str, Any]) -> str | None:
    """Return the skill that a policy was trained on, ``None`` if nothing says so."""
    env = str(trained_in(path, header).get("env", "")).rpartition(":")[2]
    return next((skill for skill in BOOK if env_id(skill) == env), None)

"""Which skills have weights, and the card that says where they come from.

A folder holds ``SKILL.safetensors`` and ``SKILL.json`` for each learned skill.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tpsrl.errors import UserError

IMITABLE = ("navigate", "pick", "place", "open_cab", "close_cab", "open_fridge", "close_fridge")
"""Skills that a plan calls and that can be learned."""
IMITABLE_TASKS = (*IMITABLE, "rearrange_easy")
"""All that a scripted skill can demonstrate."""
SHIPPED = Path(__file__).parent / "weights"
"""Weights that come with the project."""
_FACTS = ("skill", "depth", "actions", "contract")


@dataclass(frozen=True)
class Card:
    """Where a policy comes from and what it needs.

    Attributes:
        skill: its name.
        depth: pixels of the head depth picture, ``None`` for none.
        actions: ``"full"`` or ``"restricted"``.
        contract: ``"fixed"`` or ``"parity"``.
        facts: command, config, commit, steps, wall time, machine, success, ...
    """

    skill: str
    depth: int | None
    actions: str = "full"
    contract: str = "fixed"
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Policy:
    """A card and the weights that it is about."""

    path: Path
    card: Card


def weights_path(folder: Path, skill: str) -> Path:
    """Return where a skill's weights are kept."""
    return folder / f"{skill}.safetensors"


def learned_skills(folder: str | Path | None = None) -> dict[str, Card]:
    """Return the cards of a folder (``None``: those shipped), by skill.

    Raises:
        UserError: the folder is missing, or weights have no card or a damaged one.
    """
    return {skill: policy.card for skill, policy in policies_in(folder).items()}


def policies_in(folder: str | Path | None = None) -> dict[str, Policy]:
    """Return the policies of a folder (``None``: those shipped), by skill.

    Raises:
        UserError: the folder is missing, or weights have no card or a damaged one.
    """
    found = SHIPPED if folder is None else Path(folder)
    if folder is not None and not found.is_dir():
        raise UserError(f"weights={folder}: no such folder; 'tpsrl train skill=...' makes weights.")
    here = [skill for skill in IMITABLE if weights_path(found, skill).exists()]
    return {skill: policy_of(found, skill) for skill in here}


def policy_of(folder: Path, skill: str) -> Policy:
    """Return one policy of a folder.

    Raises:
        UserError: it has no card or a damaged one.
    """
    return Policy(weights_path(folder, skill), read_card(folder / f"{skill}.json"))


def read_card(path: Path) -> Card:
    """Read a card.

    Raises:
        UserError: it is missing or damaged.
    """
    try:
        content = json.loads(path.read_text())
        known = {name: content.pop(name) for name in _FACTS}
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{path}: no card of a policy ({error!r}); export it again.") from None
    return Card(**known, facts=content)


def write_card(path: Path, card: Card) -> None:
    """Write a card; the file is either old or new.

    Raises:
        UserError: it cannot be written.
    """
    from tpsrl.episodes.atomic import write_json

    content = asdict(card)
    content |= content.pop("facts")
    write_json(path, content)


def common_depth(cards: Mapping[str, Card]) -> int | None:
    """Return the depth picture's size that all policies need.

    Raises:
        UserError: they differ.
    """
    sizes = {card.depth for card in cards.values()} - {None}
    if len(sizes) > 1:
        raise UserError(
            f"policies of one folder were trained on different depth pictures ({sizes}); put"
            " policies of one size together."
        )
    return sizes.pop() if sizes else None

"""Which skills have weights, and the card that says where they come from.

A folder holds ``SKILL.safetensors`` and ``SKILL.json`` for each learned skill.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from skills.book import BOOK, chained
from tpsrl.errors import UserError
from tpsrl.files import write_json
from ver_trainer.reading import MIB, read_bytes, read_json

SHIPPED = Path(__file__).parent / "weights"
"""Weights that come with the project."""
TEACHERS = SHIPPED / "teacher"
"""Policies that know the whole state."""
MOST_PIXELS = 2048
_EXPORT = "export the policy again"
_VALID: dict[str, tuple[str, ...]] = {
    "actions": ("full", "restricted"),
    "contract": ("fixed", "parity"),
}
"""Field of a card -> what it may be."""


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
class PolicyFiles:
    """A card and the weights that it is about.

    Attributes:
        path: of the weights.
        card: where they come from.
    """

    path: Path
    card: Card


def weights_path(folder: Path, skill: str) -> Path:
    """Return where a skill's weights are kept."""
    return folder / f"{skill}.safetensors"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file in hex digits."""
    return hashlib.sha256(read_bytes(path, hint=_EXPORT)).hexdigest()


def policies_in(
    folder: Path = SHIPPED, skills: Sequence[str] | None = None
) -> dict[str, PolicyFiles]:
    """Return the policies of a folder of skills, by skill.

    Args:
        folder: with weights and cards.
        skills: that are looked for, ``None`` for those that plans call.

    Raises:
        UserError: weights have no card or a damaged one.
    """
    here = [
        skill
        for skill in (chained() if skills is None else skills)
        if (folder / f"{skill}.json").exists() or weights_path(folder, skill).exists()
    ]
    return {skill: policy_of(folder, skill) for skill in here}


def policy_of(folder: Path, skill: str) -> PolicyFiles:
    """Return one policy of a folder.

    Raises:
        UserError: it has no card or a damaged one.
    """
    path = weights_path(folder, skill)
    card = read_card(folder / f"{skill}.json")
    check_digest(path, card)
    return PolicyFiles(path, card)


def read_card(path: Path) -> Card:
    """Read a card.

    Raises:
        UserError: it is missing or damaged.
    """
    content = read_json(path, 16 * MIB, _EXPORT)
    valid_fields = {"skill": tuple(BOOK), **_VALID}
    for name, valid in valid_fields.items():
        value = content.get(name)
        if name not in content or not any(value == v and type(value) is type(v) for v in valid):
            raise UserError(
                f"{path}: field '{name}' is missing or none of"
                f" {', '.join(map(str, valid))}; {_EXPORT}"
            )
    depth = content.get("depth", 0)
    if depth is not None and (type(depth) is not int or not 0 < depth <= MOST_PIXELS):
        raise UserError(f"{path}: field 'depth' is no number of pixels; {_EXPORT}")
    for name in ("success", "evaluation"):
        if not isinstance(content.get(name, {}), dict):
            raise UserError(f"{path}: field '{name}' is no table; {_EXPORT}")
    known = {name: content.pop(name) for name in ("depth", *valid_fields)}
    return Card(**known, facts=content)


def check_digest(weights: Path, card: Card) -> None:
    """Refuse weights that are not those which the card measured: damaged ones, or exchanged.

    Raises:
        UserError: they differ, or the card has no legible digest of them.
    """
    wanted = card.facts.get("evaluation", {}).get("weights_sha256")
    if wanted not in (None, digest(weights)):
        raise UserError(
            f"{weights}: is not the file that its card was written for (it was damaged or"
            f" exchanged); {_EXPORT}"
        )


def write_card(path: Path, card: Card) -> None:
    """Write a card; the file is either old or new.

    Raises:
        UserError: it cannot be written.
    """
    write_json(path, card_content(card))


def card_content(card: Card) -> dict[str, Any]:
    """Return a card as plain values."""
    content = asdict(card)
    content |= content.pop("facts")
    return content


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

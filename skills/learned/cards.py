"""Which skills have weights, and the card that says where they come from.

A folder holds ``SKILL.safetensors`` and ``SKILL.json`` for each learned skill. Beside those of Pick
and Place it may hold ``SKILL_KIND.safetensors`` and ``SKILL_KIND.json``: a further policy that acts
where the target lies, or is wanted, in that kind of place (``skills.tasks.places.KINDS``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from skills.book import BOOK, chained, row_of
from skills.tasks.places import KINDS
from tpsrl.errors import UserError
from tpsrl.files import write_json
from ver_trainer.reading import MIB, read_bytes, read_json

SHIPPED = Path(__file__).parent / "weights"
"""Weights that come with the project."""
MOST_PIXELS = 2048
_EXPORT = "export the policy again"
_VALID: dict[str, tuple[str | None, ...]] = {
    "actions": ("full", "restricted"),
    "contract": ("fixed", "parity"),
    "place": (None, *KINDS),
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
        place: the only kind of place that it acts in, ``None`` for a general policy.
    """

    skill: str
    depth: int | None
    actions: str = "full"
    contract: str = "fixed"
    facts: Mapping[str, Any] = field(default_factory=dict)
    place: str | None = None


@dataclass(frozen=True)
class PolicyFiles:
    """A card and the weights that it is about.

    Attributes:
        path: of the weights.
        card: where they come from.
        special: kind of place -> the policy that acts there instead.
    """

    path: Path
    card: Card
    special: Mapping[str, PolicyFiles] = field(default_factory=dict)

    @property
    def files(self) -> dict[str, Path]:
        """All weights that act, by the names of their files without the ending."""
        return {p.path.stem: p.path for p in (self, *self.special.values())}


def policy_name(skill: str, place: str | None = None) -> str:
    """Return the name of a policy's files without the ending; ``place``: of a special one."""
    return skill if place is None else f"{skill}_{place}"


def weights_path(folder: Path, skill: str, place: str | None = None) -> Path:
    """Return where a skill's weights are kept, those for one kind of place with ``place``."""
    return folder / f"{policy_name(skill, place)}.safetensors"


def special_places(folder: Path, skill: str) -> tuple[str, ...]:
    """Return the kinds of places for which a folder has further weights of a skill."""
    found = KINDS if row_of(skill).placed else ()
    return tuple(kind for kind in found if weights_path(folder, skill, kind).exists())


def digests(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the SHA-256 of each file in hex digits."""
    return {
        k: hashlib.sha256(read_bytes(path, hint=_EXPORT)).hexdigest() for k, path in files.items()
    }


def identity(digests: Mapping[str, str]) -> str:
    """Return one SHA-256 for weights that act together; for a single file it is the file's own."""
    if len(digests) == 1:
        return next(iter(digests.values()))
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def policies_in(
    folder: Path = SHIPPED, skills: Sequence[str] | None = None
) -> dict[str, PolicyFiles]:
    """Return the policies of a folder of skills, by skill.

    Args:
        folder: with weights and cards.
        skills: that are looked for, ``None`` for those that plans call.

    Raises:
        UserError: weights have no card or a damaged one, or a policy for a kind of place does not
            fit the skill's general one.
    """
    here = [
        skill
        for skill in (chained() if skills is None else skills)
        if (folder / f"{skill}.json").exists()
        or weights_path(folder, skill).exists()
        or special_places(folder, skill)
    ]
    return {skill: policy_of(folder, skill) for skill in here}


def policy_of(folder: Path, skill: str) -> PolicyFiles:
    """Return one policy of a folder, with those for kinds of places.

    Raises:
        UserError: it has no card or a damaged one, or one for a kind of place does not fit it.
    """
    kinds = special_places(folder, skill)
    path = weights_path(folder, skill)
    if kinds and not path.exists():
        raise UserError(
            f"{weights_path(folder, skill, kinds[0])} acts in places of the kind '{kinds[0]}' only,"
            f" and {path} for all others is missing; export the general policy as well."
        )
    card = read_card(folder / f"{skill}.json")
    check_digest(path, card)
    if card.place is not None:
        raise UserError(
            f"{folder / skill}.json: the card is of place={card.place}, so it is no general policy;"
            f" export it with place={card.place} beside a general one."
        )
    special = {}
    for kind in kinds:
        own = folder / f"{policy_name(skill, kind)}.json"
        special[kind] = PolicyFiles(weights_path(folder, skill, kind), read_card(own))
        check_digest(special[kind].path, special[kind].card)
        check_special(own, special[kind].card, kind, skill, card)
    return PolicyFiles(path, card, special)


def check_special(path: Path, card: Card, place: str, skill: str, general: Card) -> None:
    """Refuse a policy for a kind of place that does not fit the skill's general one.

    Args:
        path: of its card, for the sentence.
        card: to be checked.
        place: kind of place that it is wanted for.
        skill: that it is wanted for.
        general: card of the general policy.

    Raises:
        UserError: its skill or place is another, or actions, contract or depth differ.
    """
    if (card.skill, card.place) != (skill, place):
        raise UserError(
            f"{path}: the card is of skill={card.skill} place={card.place or 'null'}, its name says"
            f" skill={skill} place={place}; export the policy under its own name."
        )
    for name in ("actions", "contract", "depth"):
        own, other = getattr(card, name), getattr(general, name)
        if own != other:
            raise UserError(
                f"{path}: trained with {name}={own}, and the general policy of '{skill}' with"
                f" {name}={other}; policies of one skill need the same {name}."
            )


def read_card(path: Path) -> Card:
    """Read a card.

    Raises:
        UserError: it is missing or damaged.
    """
    content = read_json(path, 16 * MIB, _EXPORT)
    content.setdefault("place", None)
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
    measured = card.facts.get("evaluation", {})
    files = measured.get("weights_files") or {weights.stem: measured.get("weights_sha256")}
    wanted = files.get(weights.stem) if isinstance(files, dict) else ""
    (found,) = digests({weights.stem: weights}).values()
    if wanted not in (None, found):
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
    place = content.pop("place")
    content |= content.pop("facts")
    if place is not None:  # cards of general policies stay as they were
        content["place"] = place
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

"""What objects and places are called (``configs/words.yaml``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tpsrl.rooms import CONFIGS
from tpsrl.scenes.objects import object_types
from ver_trainer.reading import read_yaml

Phrase = tuple[str, ...]
Names = Mapping[Phrase, tuple[str, ...]]
"""Words -> what they may stand for, the likeliest first."""

_PACKAGING = ("can", "box")


@dataclass(frozen=True)
class Lexicon:
    """Names of things and places.

    Attributes:
        objects: words -> object types.
        places: words -> receptacles.
        mass: words for an uncounted whole: "the fruit" is all of it.
    """

    objects: Names
    places: Names
    mass: frozenset[Phrase]

    def words(self) -> set[str]:
        """Return every single word."""
        return {word for phrase in (*self.objects, *self.places) for word in phrase}

    def object_name(self, kind: str) -> str:
        """Return what an object type is called, e.g. ``"sugar box"``."""
        return " ".join(_plain(kind))

    def place_name(self, receptacle: str) -> str:
        """Return what a receptacle is called, e.g. ``"dining table"``."""
        known = [phrase for phrase, names in self.places.items() if receptacle in names]
        known.sort(key=lambda phrase: len(self.places[phrase]))
        return " ".join(known[0]) if known else receptacle


@dataclass(frozen=True)
class Match:
    """Words that a phrase of the lexicon begins with.

    Attributes:
        length: how many words.
        names: what they may stand for.
        plural: they are several, or a mass.
    """

    length: int
    names: tuple[str, ...]
    plural: bool


def match(
    words: Sequence[str], table: Names, mass: Iterable[Phrase] = (), exact: bool = False
) -> Match | None:
    """Return the longest phrase of ``table`` that ``words`` begin with, ``None`` if there is none.

    Args:
        words: in lower case.
        table: phrases.
        mass: those that count as plural.
        exact: a plural of a phrase is no phrase.
    """
    longest = min(len(words), max((len(phrase) for phrase in table), default=0))
    for length in range(longest, 0, -1):
        for last in words[length - 1 : length] if exact else singulars(words[length - 1]):
            phrase: Phrase = (*words[: length - 1], last)
            if phrase in table:
                plural = last != words[length - 1] or phrase in mass
                return Match(length, table[phrase], plural)
    return None


def singulars(word: str) -> Iterator[str]:
    """Yield a word and what it may be the plural of, in English."""
    yield word
    for ending, single in (("ies", "y"), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) > len(ending) + 1:
            yield word[: -len(ending)] + single


@cache
def lexicon() -> Lexicon:
    """Return the names that ship.

    Raises:
        UserError: the file cannot be read.
    """
    content: Any = read_yaml(CONFIGS / "words.yaml")
    objects: dict[Phrase, list[str]] = {}
    for kind in object_types():
        own = _plain(kind)
        short = [own[:-1]] if len(own) > 1 and own[-1] in _PACKAGING else []
        for phrase in (own, *short, *map(_split, content["objects"].get(kind, ()))):
            objects.setdefault(phrase, []).append(kind)
    for word, kinds in content["kinds"].items():
        objects[_split(word)] = list(kinds)
    places: dict[Phrase, list[str]] = {}
    for place, phrases in content["places"].items():
        for phrase in map(_split, phrases):
            places.setdefault(phrase, []).append(place)
    return Lexicon(
        {phrase: tuple(kinds) for phrase, kinds in objects.items()},
        {phrase: tuple(names) for phrase, names in places.items()},
        frozenset(map(_split, content["mass"])),
    )


def _plain(kind: str) -> Phrase:
    """Return the words of a type's name without its number."""
    return _split(re.sub(r"^\d+(-\w+)?_", "", kind).replace("_", " "))


def _split(phrase: str) -> Phrase:
    return tuple(phrase.lower().split())

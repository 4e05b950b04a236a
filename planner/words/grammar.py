"""Reads goals in words: clauses of a verb, things and places.

    clauses  clause (("and" | "then" | ",") clause)*
    clause   [politeness] verb things (preposition place)*  |  open/close/go place  |  "tidy up"
    things   [quantity] name (("and" | ",") [quantity] name)*

A clause without a verb takes that of the clause before it.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from planner.words.clauses import HOME, Clause, NamedPlace, Things, Verb
from planner.words.lexicon import Lexicon, Match, Names, match, singulars
from tpsrl.errors import UserError, printable

_LONGEST = 4000

VERBS: dict[str, Verb] = {
    **dict.fromkeys(("bring", "carry", "move", "put", "place", "deliver", "transfer"), "bring"),
    **dict.fromkeys(("set", "set down", "lay", "drop", "stow", "store"), "bring"),
    **dict.fromkeys(("take", "fetch", "get", "grab", "pick", "hold", "lift", "collect"), "take"),
    **dict.fromkeys(("return", "tidy", "tidy up", "tidy away", "clean up"), "home"),
    **dict.fromkeys(("open",), "open"),
    **dict.fromkeys(("close", "shut"), "close"),
    **dict.fromkeys(("go", "drive", "navigate", "nav", "walk", "approach", "visit"), "go"),
    "tidy the house": "tidy",
}
_QUANTITIES: dict[str, int | None] = {
    **dict.fromkeys(("all", "every", "each", "all of", "each of"), None),
    **dict.fromkeys(("a", "an", "one", "one of", "any", "any of", "another", "1"), 1),
    **dict.fromkeys(("both", "both of", "two", "two of", "2"), 2),
    **dict.fromkeys(("three", "three of", "3"), 3),
    **dict.fromkeys(("four", "four of", "4"), 4),
    **dict.fromkeys(("five", "five of", "5"), 5),
}
_ANYTHING = ("everything", "thing", "object", "item", "stuff")
_ARTICLES = ("the", "this", "that", "these", "those", "my", "your", "our")
_AGAIN = ("it", "them")
_TO = ("to", "into", "onto", "on", "in", "at", "inside", "upon", "on top of", "on to", "over to")
_LYING = ("on", "in", "at", "inside", "on top of")
_FROM = ("from", "out of", "off", "off of", "from inside", "from on")
_HOME = ("its place", "their place", "where it belongs", "where they belong")
_PARTICLES: tuple[str, ...] = ("up", "down", "out", "over", "along", "back", "away", "me", "us")
_PARTICLES += ("which", "that", "is", "are", "lies", "lie", "lying", "too", "again", "please")
_PARTICLES += ("there",)
_POLITE: tuple[str, ...] = ("please", "kindly", "now", "robot", "hey", "also", "first", "just")
_POLITE += ("can you", "will you", "could you", "would you", "i want you to", "go and")
_POLITE += ("i would like you to", "you should")
_THEN = ("then", "afterwards", "after that", "finally", "next", "later")
_AND = ("and", ",", ";", ".", "!", "?")


def _table(phrases: Sequence[str]) -> Names:
    return {tuple(phrase.split()): (phrase,) for phrase in phrases}


_TABLES = {
    "verb": _table(list(VERBS)),
    "quantity": _table(list(_QUANTITIES)),
    "anything": _table(_ANYTHING),
    "article": _table(_ARTICLES),
    "again": _table(_AGAIN),
    "to": _table(_TO),
    "from": _table(_FROM),
    "home": _table(_HOME),
    "particle": _table(_PARTICLES),
    "polite": _table(_POLITE),
    "then": _table(_THEN),
    "and": _table(_AND),
}


@dataclass
class Memory:
    """What "it" and an omitted verb refer to, from clause to clause."""

    verb: Verb | None = None
    things: tuple[Things, ...] = ()
    place: NamedPlace | None = None


@dataclass
class GoalReader:
    """Reads one goal, or one step after another with the same ``memory``.

    Args:
        lexicon: names of things and places.
        memory: of what was read before.
    """

    lexicon: Lexicon
    memory: Memory = field(default_factory=Memory)

    def read(self, text: str) -> list[Clause]:
        """Return the clauses of a text, at least one.

        Raises:
            UserError: unknown words, or an order of words that means nothing.
        """
        self._text = text
        if len(text) > _LONGEST:
            raise UserError(f"{self._where()} is longer than {_LONGEST} letters; say it shorter")
        self._words = re.findall(r"[\w'-]+|[,;.!?]", text.lower())
        self._at = 0
        self._check_words()
        clauses: list[Clause] = []
        while True:
            then = self._separators()
            if self._at >= len(self._words):
                break
            clauses.append(self._clause(then))
        if not clauses:
            raise UserError(f"{self._where()} asks for nothing; e.g. 'bring the bowl to the table'")
        return clauses

    def _clause(self, then: bool) -> Clause:
        start = self._at
        word = self._eat("verb")
        verb = VERBS[word] if word else self.memory.verb
        if verb is None or (word is None and not self._things_ahead()):
            raise self._lost("a verb", [v for v in VERBS if " " not in v])
        things: tuple[Things, ...] = ()
        places: tuple[NamedPlace, ...] = ()
        if verb in ("open", "close"):
            places = self._furniture()
        elif verb == "go":
            things, places = self._destination()
        elif verb == "tidy" or (verb == "home" and not self._things_ahead()):
            verb = "tidy"
        else:
            verb, things, places = self._handling(verb)
        self.memory.verb = verb if verb != "tidy" else self.memory.verb
        text = " ".join(self._words[start : self._at])
        return Clause(verb, text, things, places, then)

    def _handling(self, verb: Verb) -> tuple[Verb, tuple[Things, ...], tuple[NamedPlace, ...]]:
        """Read what is handled, from where and where to; "put it back" is another verb."""
        self._particles()
        things, found = self._things(), list[tuple[str, NamedPlace]]()
        back = False
        while True:
            back = bool({"back", "away"} & self._particles()) or back
            home = self._eat("home")
            if home:
                found.append(("to", NamedPlace(home, HOME)))
                continue
            origin = self._eat("from")
            target = None if origin else self._eat("to")
            if origin is None and target is None:
                break
            found.append(("from" if origin else str(target), self._place(many=bool(origin))))
        lies = [place for word, place in found if word == "from"]
        goes = [(word, place) for word, place in found if word != "from"]
        located = len(goes) > 1 or (verb == "take" and goes and goes[0][0] in _LYING)
        if located and goes and goes[0][0] in _LYING and goes[0][1].names != HOME:
            lies.append(goes.pop(0)[1])
        if len(lies) > 1 or len(goes) > 1:
            raise UserError(f"{self._where()} gives '{things[0].text}' too many places; say one")
        if lies:  # "the apple and the bowl from the fridge", but "... and the bowl in the drawer"
            first = 0 if found[0][0] == "from" else len(things) - 1
            things = (*things[:first], *(_lying(thing, lies[0]) for thing in things[first:]))
        self.memory.things = things
        if goes:
            return "bring", things, (goes[0][1],)
        if back or verb == "home":
            return "home", things, ()
        if verb == "bring":
            raise UserError(
                f"{self._where()} does not say where '{things[0].text}' goes; add 'to the' and a"
                f" place{self._examples(self.lexicon.places)}"
            )
        return verb, things, ()

    def _things(self) -> tuple[Things, ...]:
        """Read names of things that "and" or commas join."""
        if self._eat("again"):
            if not self.memory.things:
                raise UserError(f"{self._where()}: 'it' stands for nothing named before")
            return self.memory.things
        found = [self._thing()]
        while True:
            back = self._at
            while self._eat("and"):
                pass
            if self._at == back or not self._things_ahead() or self._ahead("verb"):
                self._at = back
                return tuple(found)
            found.append(self._thing())

    def _thing(self) -> Things:
        start = self._at
        count, fresh, several = self._quantity()
        anything = self._eat("anything")
        name = None if anything else self._name()
        if name is None and not anything and not several:
            raise self._lost("a thing", self._phrases(self.lexicon.objects))
        self._at += name.length if name else 0
        text = " ".join(self._words[start : self._at])
        plural = name.plural if name else not several or count != 1
        if several and count is not None:
            return Things(text, name.names if name else None, count, fresh)
        every = several or plural
        return Things(text, name.names if name else None, None if every else 1)

    def _quantity(self) -> tuple[int | None, bool, bool]:
        """Read articles and a number; return it, whether others are meant, whether one stood."""
        self._eat("article")
        word = self._eat("quantity")
        self._eat("article")
        if word is None:
            return 1, False, False
        count = _QUANTITIES[word]
        return count, count == 1 and word not in ("one", "1"), True

    def _name(self) -> Match | None:
        """Return the thing named here, unless the words name a place: "coffee table"."""
        rest = self._words[self._at :]
        thing = match(rest, self.lexicon.objects, self.lexicon.mass)
        place = match(rest, self.lexicon.places)
        return None if thing and place and place.length > thing.length else thing

    def _furniture(self) -> tuple[NamedPlace, ...]:
        """Read what is opened or closed."""
        self._particles()
        found = [self._place(many=True)]
        while True:
            back = self._at
            while self._eat("and"):
                pass
            if self._at == back or self._ahead("verb") or not self._place_ahead():
                self._at = back
                self._particles()
                return tuple(found)
            found.append(self._place(many=True))

    def _destination(self) -> tuple[tuple[Things, ...], tuple[NamedPlace, ...]]:
        self._particles()
        self._eat("to")
        if self._place_ahead():
            return (), (self._place(),)
        things = self._things()
        self.memory.things = things
        if len(things) > 1 or things[0].count != 1:
            raise UserError(f"{self._where()}: the robot can go to one thing at a time")
        return things, ()

    def _place(self, many: bool = False) -> NamedPlace:
        """Read a place; only where ``many`` may be meant, e.g. opened, all of its name may be."""
        start = self._at
        if home := self._eat("home"):
            return NamedPlace(home, HOME)
        if self._eat("again"):
            if self.memory.place is None:
                raise UserError(f"{self._where()}: 'it' stands for no place named before")
            return self.memory.place
        count, _, several = self._quantity()
        found = match(self._words[self._at :], self.lexicon.places)
        if found is None:
            raise self._lost("a place", self._phrases(self.lexicon.places))
        self._at += found.length
        text = " ".join(self._words[start : self._at])
        if count != 1 and not (many and count is None):
            hint = "name each of them, or all" if many else "name the one where to"
            raise UserError(f"{self._where()}: '{text}' does not say which places; {hint}")
        place = NamedPlace(text, found.names, count is None or (found.plural and not several))
        self.memory.place = place
        return place

    def _separators(self) -> bool:
        """Skip what joins clauses and what is only polite; return whether time passes."""
        then = False
        while True:
            if self._eat("then"):
                then = True
            elif not (self._eat("and") or self._eat("polite")):
                return then

    def _particles(self) -> set[str]:
        found = set()
        while not self._ahead("from") and (word := self._eat("particle")):
            found.add(word)
        return found

    def _eat(self, table: str) -> str | None:
        """Go past a phrase of a table of small words; return it, ``None`` if none stands here."""
        exact = table != "anything"
        found = match(self._words[self._at :], _TABLES[table], exact=exact)
        if found is None:
            return None
        self._at += found.length
        return found.names[0]

    def _ahead(self, table: str) -> bool:
        return match(self._words[self._at :], _TABLES[table], exact=True) is not None

    def _things_ahead(self) -> bool:
        back = self._at
        self._particles()
        _, _, several = self._quantity()
        ahead = self._words[self._at :]
        known = match(ahead, _TABLES["anything"]) or match(ahead, _TABLES["again"], exact=True)
        found = known is not None or self._name() is not None or several
        self._at = back
        return found

    def _place_ahead(self) -> bool:
        back = self._at
        self._quantity()
        place = match(self._words[self._at :], self.lexicon.places)
        thing = match(self._words[self._at :], self.lexicon.objects)
        again = match(self._words[back:], _TABLES["again"], exact=True) and self.memory.place
        self._at = back
        return bool(again) or (
            place is not None and (thing is None or place.length >= thing.length)
        )

    def _check_words(self) -> None:
        small = {word for table in _TABLES.values() for phrase in table for word in phrase}
        known = small | self.lexicon.words()
        unknown = [w for w in self._words if not any(s in known for s in singulars(w))]
        if not unknown:
            return
        hints = [_nearest(word, known) for word in dict.fromkeys(unknown)]
        what = "words" if len(hints) > 1 else "word"
        raise UserError(f"{self._where()}: unknown {what} {', '.join(hints)}")

    def _lost(self, wanted: str, examples: Sequence[str]) -> UserError:
        rest = " ".join(self._words[self._at :])
        before = f"before '{printable(rest)}'" if rest else "at the end"
        shown = ", ".join(examples[:6])
        return UserError(f"{self._where()}: {wanted} is missing {before}; e.g. {shown}")

    def _examples(self, table: Names) -> str:
        return f", e.g. {', '.join(self._phrases(table)[:4])}"

    def _phrases(self, table: Names) -> list[str]:
        return [" ".join(phrase) for phrase in table]

    def _where(self) -> str:
        return f"the goal '{printable(self._text)}'"


def _lying(thing: Things, place: NamedPlace) -> Things:
    return Things(
        f"{thing.text} on {place.text}", thing.types, thing.count, thing.fresh, place.names
    )


def _nearest(word: str, known: set[str]) -> str:
    close = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f"'{printable(word)}'" + (f" (did you mean '{close[0]}'?)" if close else "")

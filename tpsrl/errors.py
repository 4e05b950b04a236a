"""The one exception type whose message is meant for the person at the keyboard."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LONGEST_WORD, _LONGEST = 400, 1600
_WORD = re.compile(rf"(\S{{{_LONGEST_WORD // 2}}})\S{{{_LONGEST_WORD // 2},}}(\S{{60}})")


class UserError(ValueError):
    """Bad input. The message is one sentence: what is wrong, where, and what to do.

    Args:
        message: the sentence; what it quotes of a file is shortened and made printable.
    """

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


def printable(text: str) -> str:
    """Return text as one line that a terminal shows as it is, shortened where it is endless."""
    if len(text) > 100 * _LONGEST:
        text = f"{text[: 50 * _LONGEST]}...{text[-50 * _LONGEST :]}"
    text = _WORD.sub(r"\1...\2", text)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest valid word, else list the valid ones.

    Args:
        word: what was given.
        valid: what would have been accepted.
    """
    options = sorted(valid)
    close = difflib.get_close_matches(word[:200], options, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; valid ones are: {', '.join(options)}"

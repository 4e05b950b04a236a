"""The one exception type whose message is meant for the person at the keyboard."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input. The message is one sentence: what is wrong, where, and what to do."""


def nearest(word: str, valid: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the closest valid word, else list the valid ones.

    Args:
        word: what was given.
        valid: what would have been accepted.
    """
    options = sorted(valid)
    close = difflib.get_close_matches(word, options, n=1, cutoff=0.5)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; valid ones are: {', '.join(options)}"

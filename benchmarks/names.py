"""Names that the key of a benchmark lists, with commas between them."""

from __future__ import annotations

from collections.abc import Sequence

from ver_trainer.errors import UserError, nearest


def chosen(words: str, known: Sequence[str], key: str) -> list[str]:
    """Return the names of a list, each once.

    Args:
        words: what was given; ``all`` stands for all that are known.
        known: what may be named.
        key: of the benchmark, for messages.

    Raises:
        UserError: a name is unknown, or there is none.
    """
    if words.strip() == "all":
        return list(known)
    found = [word.strip() for word in words.split(",") if word.strip()]
    for word in found:
        if word not in known:
            raise UserError(f"{key}={words} has no '{word}'{nearest(word, known)}")
    if not found:
        raise UserError(f"{key}= names nothing; choose from {', '.join(known)}")
    return list(dict.fromkeys(found))

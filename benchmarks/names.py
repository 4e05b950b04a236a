"""Names that the key of a benchmark lists, and the answer to names that are none."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Collection, Sequence

from ver_trainer.errors import UserError, nearest


def chosen(words: str, known: Collection[str], key: str) -> list[str]:
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


def run_main(main: Callable[[list[str]], int | None], words: Sequence[str] | None = None) -> int:
    """Run a benchmark, and tell bad input in one line.

    SIGTERM ends it as Ctrl-C does, so that it ends what it started.

    Args:
        main: of the benchmark; ``None`` is a good end.
        words: of the command line; ``None``: those of this process.

    Returns:
        Exit code: that of ``main``, 2 after bad input.
    """
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGTERM, _end) if alone else None
    try:
        return main(list(sys.argv[1:] if words is None else words)) or 0
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        if alone:
            signal.signal(signal.SIGTERM, before)


def _end(number: int, _: object) -> None:
    raise SystemExit(128 + number)

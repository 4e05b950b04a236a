"""Exceptions. Every message of a :class:`UserError` is one sentence: what, where, what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

_LONGEST_WORD, _LONGEST = 400, 1600
_WORD = re.compile(rf"(\S{{{_LONGEST_WORD // 2}}})\S{{{_LONGEST_WORD // 2},}}(\S{{60}})")


def printable(text: str) -> str:
    """Return text as one line that a terminal shows as it is, shortened where it is endless."""
    if len(text) > 100 * _LONGEST:
        text = f"{text[: 50 * _LONGEST]}...{text[-50 * _LONGEST :]}"
    text = _WORD.sub(r"\1...\2", text)
    if len(text) > _LONGEST:
        text = f"{text[: _LONGEST // 2]} ... {text[-_LONGEST // 2 :]}"
    return "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in text)


class UserError(ValueError):
    """Bad input. The message is meant for the person at the keyboard, without a traceback.

    Args:
        message: one sentence; what it quotes of a file is shortened and made printable.
    """

    def __init__(self, message: object) -> None:
        # Gymnasium's vector environments make a worker's error anew, of the error itself.
        super().__init__(printable(str(message)))


class TrainerError(UserError):
    """Base class of everything the trainer refuses."""


class ConfigError(TrainerError):
    """A configuration key or value that cannot be used."""


class SpaceError(TrainerError):
    """An observation or action space that the trainer cannot handle."""


class NonFiniteError(TrainerError):
    """A NaN or infinity in an observation, a reward, a loss or a gradient."""


class CheckpointError(TrainerError):
    """A checkpoint that is missing, damaged or made for another configuration."""


class DamagedError(CheckpointError):
    """A checkpoint whose files are not what was written; an older one may be sound."""


class StorageError(TrainerError):
    """A file or folder that cannot be written, or that another process holds."""


class WorkerFailure(TrainerError):  # noqa: N818 - names what happened, like KeyboardInterrupt
    """An environment failed more often than ``collect.max_faults`` allows.

    The message ends with the traceback of the environment process.
    """

    def __init__(self, message: str) -> None:
        super().__init__("")
        self.args = ("\n".join(printable(line) for line in message.split("\n")),)


class Interrupted(Exception):  # noqa: N818 - not an error: a signal asked the run to stop
    """Raised inside collection when a signal asked the run to stop."""


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

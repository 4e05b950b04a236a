"""Exceptions. Every message of a :class:`UserError` is one sentence: what, where, what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Bad input. The message is meant for the person at the keyboard, without a traceback."""


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


class Interrupted(Exception):  # noqa: N818 - not an error: a signal asked the run to stop
    """Raised inside collection when a signal asked the run to stop."""


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

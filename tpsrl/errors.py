"""The one exception type whose message is meant for the person at the keyboard."""

from __future__ import annotations

from ver_trainer.errors import UserError, nearest, printable

__all__ = ["UserError", "nearest", "printable"]

"""The command line: ``tpsrl COMMAND key=value ...``; each command is a module, loaded on demand."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from tpsrl.errors import UserError, nearest

COMMANDS = {
    "setup": "check this machine, install missing OpenGL libraries",
    "demo": "record a video of each scenario and a small evaluation",
    "episodes": "generate and check episodes of a scenario",
    "scenes": "apartments as a Habitat scene dataset, out and in",
    "plan": "show and draw the task plan of an episode",
    "eval": "run an agent over episodes: table, figure, JSON",
    "record": "record a video of one episode",
    "train": "train a skill, or a policy for any Gymnasium environment",
    "handoff": "collect the states in which the skills of a chain start",
    "average": "mean of the weights of several policies that began as one",
    "export": "put a trained skill, with its card, where agents find it",
}
"""Name -> one line; the module is ``tpsrl.commands.NAME`` with ``HELP`` and ``run(overrides)``.

A module's optional ``CONFIG`` is the dataclass whose keys ``--help`` lists.
"""

EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
_HELP_WORDS = {"-h", "--help", "help"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: words after the program's name; ``None`` takes them from the process.

    Returns:
        Exit code: 0 success, 2 bad input (one sentence on stderr), 130 interrupted, 1 the rest.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except UserError as error:
        print(f"tpsrl: {error}", file=sys.stderr)
        return EXIT_USER_ERROR
    except KeyboardInterrupt:
        print("tpsrl: interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader of our output (head, less) is gone; a traceback would help nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return EXIT_FAILURE
    except OSError as error:
        if error.filename is None:
            raise
        print(f"tpsrl: {error.filename}: {error.strerror}", file=sys.stderr)
        return EXIT_FAILURE
    except Exception:
        traceback.print_exc()
        print("tpsrl: the command failed; this is a fault of tpsrl", file=sys.stderr)
        return EXIT_FAILURE


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in _HELP_WORDS:
        print(usage())
        return 0 if words else EXIT_USER_ERROR
    if words[0] in {"-V", "--version"}:
        from tpsrl import __version__

        print(f"tpsrl {__version__}")
        return 0
    module = _import(words[0])
    if any(word in _HELP_WORDS for word in words[1:]):
        print(command_help(words[0], module))
        return 0
    return int(module.run(words[1:]))


def usage() -> str:
    """Return the text of ``tpsrl --help``."""
    lines = ["usage: tpsrl COMMAND [key=value ...]", "", "commands:"]
    lines += [f"  {name:<10}{text}" for name, text in COMMANDS.items()]
    lines += ["", "tpsrl COMMAND --help lists the keys of a command."]
    return "\n".join(lines)


def command_help(name: str, module: ModuleType) -> str:
    """Return the text of ``tpsrl COMMAND --help``."""
    lines = [f"usage: tpsrl {name} [key=value ...]", "", module.HELP.strip()]
    schema = getattr(module, "CONFIG", None)
    if schema is not None:
        from tpsrl.config import describe

        lines += ["", "keys (with their defaults):", describe(schema)]
    return "\n".join(lines)


def _import(name: str) -> ModuleType:
    if name not in COMMANDS:
        raise UserError(f"unknown command '{name}'{nearest(name, COMMANDS)}")
    module = f"tpsrl.commands.{name}"
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise UserError(f"'tpsrl {name}' is not part of this version yet") from error
        raise


if __name__ == "__main__":
    sys.exit(main())

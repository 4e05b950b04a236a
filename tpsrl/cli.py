"""The command line: ``tpsrl COMMAND key=value ...``; each command is a module, loaded on demand."""

from __future__ import annotations

import ast
import errno
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from types import ModuleType

from tpsrl import __version__
from tpsrl.errors import UserError, nearest, printable
from tpsrl.rooms import ROOT, prefer_ours, require
from ver_trainer.options import HELP_WORDS, help_text

GROUP = "tpsrl.commands"
"""Entry points of installed packages: command -> module with ``HELP`` and ``run(overrides)``.

The first line of the module's docstring tells what the command does; its optional ``CONFIG`` is the
dataclass, or several, whose keys ``--help`` lists. A package of one's own adds a command in its
pyproject.toml::

    [project.entry-points."tpsrl.commands"]
    mine = "package.module"
"""

EXIT_FAILURE = 1
EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130
_OUTSIDE = (errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE,
            errno.ENOMEM, errno.ENOENT)  # fmt: skip
"""Causes outside of tpsrl, which the system sometimes tells without a path: a full disk, memory or
table of files, no folder for temporary files."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: words after the program's name; ``None`` takes them from the process.

    Returns:
        Exit code: 0 success, 2 bad input (one sentence on stderr), 130 interrupted, 1 the rest.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    prefer_ours()
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
        if error.filename is None and error.errno not in _OUTSIDE:
            return _our_fault()
        where = "" if error.filename is None else f"{error.filename}: "
        text = f"tpsrl: {where}{error.strerror}; make room or access and run it again"
        print(printable(text), file=sys.stderr)
        return EXIT_FAILURE
    except Exception:
        return _our_fault()


def _our_fault() -> int:
    traceback.print_exc()
    print("tpsrl: the command failed; this is a fault of tpsrl", file=sys.stderr)
    return EXIT_FAILURE


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in HELP_WORDS:
        print(usage())
        return 0 if words else EXIT_USER_ERROR
    if words[0] in {"-V", "--version"}:
        print(f"tpsrl {__version__}")
        return 0
    module = _import(words[0])
    if any(word in HELP_WORDS for word in words[1:]):
        print(command_help(words[0], module))
        return 0
    return int(module.run(words[1:]))


def commands() -> dict[str, str]:
    """Return every installed command and its module, by name.

    Raises:
        UserError: tpsrl was never installed, so that its commands are unknown.
    """
    # Not entry_points(): of two records of one package, as an editable install leaves them, it
    # reads the first alone, and that may be the older.
    every = [entry for found in distributions() for entry in found.entry_points]
    found = {entry.name: entry.value for entry in sorted(every) if entry.group == GROUP}
    if not found:
        raise UserError(f"no command is installed; run 'pip install -e {ROOT}' once")
    return found


def summary(module: str) -> str:
    """Return the first line of a command module's docstring, without importing the module."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return f"({module} is missing)"
    text = ast.get_docstring(ast.parse(Path(spec.origin).read_text())) or ""
    return text.partition("\n")[0].partition(": ")[2].rstrip(".") or text.partition("\n")[0]


def usage() -> str:
    """Return the text of ``tpsrl --help``."""
    lines = ["usage: tpsrl COMMAND [key=value ...]", "", "commands:"]
    lines += [f"  {name:<10}{summary(module)}" for name, module in commands().items()]
    lines += ["", "tpsrl COMMAND --help lists its keys; config=FILE.yaml reads some from a file."]
    return "\n".join(lines)


def command_help(name: str, module: ModuleType) -> str:
    """Return the text of ``tpsrl COMMAND --help``."""
    schemas = getattr(module, "CONFIG", ())
    tables = schemas if isinstance(schemas, tuple) else (schemas,)
    return f"usage: tpsrl {name} [key=value ...]\n\n{help_text(module.HELP, *tables)}"


def _import(name: str) -> ModuleType:
    known = commands()
    if name not in known:
        raise UserError(f"unknown command '{name}'{nearest(name, known)}")
    room = known[name].partition(".")[0]
    if (ROOT / room / "__init__.py").exists():
        try:
            require(room)
        except ImportError as error:
            raise UserError(str(error)) from error
    return importlib.import_module(known[name])


if __name__ == "__main__":
    sys.exit(main())

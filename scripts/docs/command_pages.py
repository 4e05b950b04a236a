"""Pages of the commands, made from what ``tpsrl COMMAND --help`` is made from."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from tpsrl.cli import commands, summary
from ver_trainer.options import table


def command_pages() -> Iterator[tuple[str, str]]:
    """Yield the address and the Markdown of a page of all commands, and of one a command."""
    known = commands()
    rows = [f"| [`tpsrl {name}`]({name}.md) | {summary(known[name])} |" for name in known]
    yield "commands/index.md", "\n".join([*_INDEX, *rows, ""])
    for name, module in known.items():
        yield f"commands/{name}.md", _page(name, importlib.import_module(module))


_INDEX = (
    "# Commands",
    "",
    "`tpsrl COMMAND key=value ...` runs a command, `tpsrl COMMAND --help` lists its keys.",
    "These pages are made from the same tables as that list. A key of a section has a dot in its",
    "name: `ppo.clip=0.1`. `config=FILE.yaml` reads keys from a file. Numbers of processes and",
    "threads follow the machine; here they are those of the machine that built the page.",
    "",
    "| command | what it does |",
    "|---|---|",
)


def _page(name: str, module: object) -> str:
    lines = [f"# tpsrl {name}", "", f"`tpsrl {name} [key=value ...]`", ""]
    lines += _help(str(getattr(module, "HELP", "")))
    schemas = getattr(module, "CONFIG", ())
    for schema in schemas if isinstance(schemas, tuple) else (schemas,):
        title = (schema.__doc__ or "Keys").partition("\n")[0].rstrip(".").replace("``", "`")
        lines += ["", f"## {title}", "", "| key | default | takes | meaning |", "|---|---|---|---|"]
        for key, default, kind, text in table(schema):
            cells = (f"`{key}`", f"`{default}`" if default else "", kind, text)
            lines.append(f"| {' | '.join(_cell(cell) for cell in cells)} |")
    return "\n".join([*lines, ""])


def _help(text: str) -> list[str]:
    """Return a command's own words: what is indented is code, the rest paragraphs."""
    lines: list[str] = []
    for block in re.split(r"\n{2,}", text.strip()):
        inside = False
        for line in block.split("\n"):
            if line.startswith(" ") != inside:
                lines += ["```"] if inside else ["", "```text"]
                inside = not inside
            lines.append(line.removeprefix("  ") if inside else _linked(line))
        lines += ["```", ""] if inside else [""]
    return lines


def _linked(text: str) -> str:
    return re.sub(r"\bdocs/([\w/]+)\.md", r"[\1](../\1.md)", text)


def _cell(text: str) -> str:
    escaped = text if text.startswith("`") else _linked(text).replace("<", "&lt;")
    return escaped.replace("|", r"\|").replace("\n", " ")

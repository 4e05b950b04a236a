"""What ``make docs`` adds to the pages of docs/: command tables, the map, pages from elsewhere.

MkDocs calls the functions ``on_...`` by their names. Nothing here is written into docs/: whoever
reads the Markdown in the repository misses only what is made from the sources.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(Path(__file__).parent)]

from command_pages import command_pages  # noqa: E402
from rooms import rooms_map  # noqa: E402

ELSEWHERE = {"benchmarks/README.md": "benchmarks.md", "CHANGELOG.md": "changelog.md"}
"""Pages whose Markdown stands outside docs/, and their place on the site."""
MAP = "<!-- map of the rooms -->"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not files of docs/, and put files in place of the ``*`` in ``nav``."""
    pages = dict(command_pages())
    pages |= {page: (ROOT / path).read_text() for path, page in ELSEWHERE.items()}
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))
    known = sorted(file.src_uri for file in files.documentation_pages())
    named = {entry for entry in _entries(config.nav) if "*" not in entry}
    config.nav = _expanded(config.nav, known, named)
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links to the files of ``ELSEWHERE``, and from them, point into the site."""
    if page.file.src_uri in ELSEWHERE.values():
        return markdown.replace("](../docs/", "](").replace("](docs/", "](")
    up = page.file.src_uri.count("/") * "../"
    for path, target in ELSEWHERE.items():
        markdown = markdown.replace(f"](../{up}{path}", f"]({up}{target}")
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Draw the map where it is asked for; take Sphinx's roles off the names in docstrings."""
    if MAP in html:
        html = html.replace(MAP, rooms_map())
    return re.sub(r":(?:py:)?(?:func|class|mod|meth|data|attr|obj):(?=<code>)", "", html)


def _entries(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    inner = nav.values() if isinstance(nav, dict) else nav
    return [entry for item in inner for entry in _entries(item)]


def _expanded(nav: list[Any], known: list[str], named: set[str]) -> list[Any]:
    """Return ``nav`` with the pages that nobody names in place of each ``*``; empty parts go."""
    result: list[Any] = []
    for item in nav:
        if isinstance(item, str) and "*" in item:
            pattern = re.compile(re.escape(item).replace(r"\*", "[^/]*"))
            result += [name for name in known if name not in named and pattern.fullmatch(name)]
        elif isinstance(item, dict):
            for title, inner in item.items():
                part = inner if isinstance(inner, str) else _expanded(inner, known, named)
                result += [{title: part}] if part else []
        else:
            result.append(item)
    return result

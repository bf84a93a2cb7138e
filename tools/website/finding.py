"""Search of the site that works from files: `find_index.js` holds the text of all sections, `find.js` looks in it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

INDEX = "find_index.js"
_HEADS = ("h1", "h2", "h3", "h4")
_SILENT = ("script", "style", "svg")
_SIGNS = {"msub": "_", "msup": "^", "msubsup": "_^", "munder": "_", "mover": "^", "munderover": "_^", "mfrac": "/"}
"""Signs between the parts of a formula's element, in a text of one line."""


class _Sections(HTMLParser):
    """The sections of a page's article: anchor, heading and text of each."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[str], list[str]]] = []
        self._inside = self._head = False
        self._silent = 0
        self._formula: list[Iterator[str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._inside |= tag == "article"
        self._silent += tag in _SILENT
        if self._inside and tag in _HEADS:
            self._head = True
            self.found.append((dict(attrs).get("id") or "", [], []))
        if self._formula:
            self.handle_data(next(self._formula[-1], ""))
        if tag == "math" or self._formula:
            self._formula.append(iter(("", *_SIGNS.get(tag, ""))))

    def handle_endtag(self, tag: str) -> None:
        self._inside &= tag != "article"
        self._head &= tag not in _HEADS
        self._silent -= tag in _SILENT
        if self._formula:
            self._formula.pop()

    def handle_data(self, data: str) -> None:
        if self._inside and not self._silent and self.found:
            self.found[-1][1 if self._head else 2].append(data)


def sections(site: Path) -> list[tuple[str, str, str, str]]:
    """Return (link, page, heading, text) of each section of the built pages, in the order of their names."""
    rows = []
    for path in sorted(site.rglob("*.html")):
        page = _Sections()
        page.feed(path.read_text(encoding="utf-8"))
        name = path.relative_to(site).as_posix()
        texts = [(anchor, *(" ".join("".join(one).replace("¶", " ").split()) for one in both)) for anchor, *both in page.found]
        rows += [(f"{name}#{anchor}" if anchor else name, texts[0][1], head, text) for anchor, head, text in texts]
    return rows


def write_index(site: Path) -> int:
    """Write the index of a built site; returns the number of sections."""
    rows = sections(site)
    (site / INDEX).write_text(f"window.findIndex = {json.dumps(rows, ensure_ascii=False)};\n", encoding="utf-8")
    return len(rows)

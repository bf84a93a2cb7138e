"""Text of what is drawn on a console, for `print` in Python (as wide as the terminal, or as COLUMNS says), and its HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from html import escape
from io import StringIO
from itertools import groupby
from typing import Any

from rich.console import Console

from ascend_sim.report.columns import PIPE_WIDTH, text_width
from ascend_sim.report.grid import Grid

UNLIMITED = 10_000
"""Columns of a text of which no line is cut or wrapped where no terminal limits it."""


def printed(draw: Callable[[Console], object], width: int = PIPE_WIDTH) -> str:
    """Return the text that `draw` prints on a console, without colours and trailing blanks; `width` holds if no terminal or
    COLUMNS sets another.
    """
    text = StringIO()
    draw(Console(file=text, width=text_width(width), force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def printed_html(draw: Callable[[Console], object]) -> str:
    """Return the HTML of a console output (`draw` prints it): a table for each grid, other lines as preformatted text."""
    console = _Pieces()
    draw(console)
    return f'<div class="ascend-sim">{"".join(console.html())}</div>'


class _Pieces(Console):
    """Console that keeps the objects printed on it, for HTML."""

    def __init__(self) -> None:
        super().__init__(file=StringIO(), width=UNLIMITED, force_terminal=False, color_system=None)
        self._printed: list[Any] = []

    def print(  # type: ignore[override]  # the keywords that pages use
        self, *objects: Any, soft_wrap: bool = False, highlight: bool = False, markup: bool = False
    ) -> None:
        self._printed += objects or [""]

    def html(self) -> Iterator[str]:
        """Yield HTML: a table for each grid, and each run of other lines as one preformatted block."""
        for is_grid, pieces in groupby(self._printed, lambda piece: isinstance(piece, Grid)):
            if is_grid:
                yield from (grid.html() for grid in pieces)
            elif text := "\n".join(map(str, pieces)).strip("\n"):
                yield f'<pre style="white-space: pre-wrap">{escape(text)}</pre>'

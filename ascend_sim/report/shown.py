"""Base class of results that `print` shows as text and a notebook as HTML, both drawn by one function.

class Sweep(ShownResult):
    _drawn = "ascend_sim.studies.sweep.pages:render"       # render(result, console)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from ascend_sim.report.columns import PIPE_WIDTH

if TYPE_CHECKING:
    from rich.console import Console
from collections.abc import Callable, Iterator
from html import escape
from io import StringIO
from itertools import groupby

from rich.console import Console

from ascend_sim.report.columns import text_width
from ascend_sim.report.grid import Grid

UNLIMITED = 10_000
"""Columns of a text of which no line is cut or wrapped where no terminal limits it."""


def printed(draw: Callable[[Console], object], width: int = PIPE_WIDTH) -> str:
    """Return the text that `draw` prints on a console, without colors; `width` holds if no terminal or COLUMNS sets another."""
    text = StringIO()
    draw(Console(file=text, width=text_width(width), force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def printed_html(draw: Callable[[Console], object]) -> str:
    """Return the HTML of the output that `draw` prints on a console: a table for each grid, the lines between them as
    preformatted text.
    """
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


class ShownResult:
    """Base of results that `print` shows as text and a notebook as HTML.

    The function named in `_drawn`, "module:function", draws the result on a console, with the keywords `_options`; a notebook
    also shows, below, what the function named in `_more` draws. Functions are named, not imported, because a page imports the
    results of its study.
    """

    _drawn: ClassVar[str] = ""
    _more: ClassVar[str] = ""
    _options: ClassVar[Mapping[str, Any]] = {}
    _width: ClassVar[int] = PIPE_WIDTH

    def _draw(self, console: Console) -> None:
        _function(self._drawn)(self, console, **self._options)

    def _draw_all(self, console: Console) -> None:
        self._draw(console)
        if self._more:
            _function(self._more)(self, console)

    def __str__(self) -> str:
        from ascend_sim.report.shown import printed

        return printed(self._draw, self._width)

    def _repr_html_(self) -> str:
        """Return the drawn result as HTML, for notebooks."""
        from ascend_sim.report.shown import printed_html

        return printed_html(self._draw_all)


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)

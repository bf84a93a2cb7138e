"""Tables for a terminal of any width: columns that do not fit continue below, with the rows named again. Nothing is cut.

grid = Grid("Kernels", ("kernel", ">us", "~why"))       # ">" sets a column to the right, "~" may wrap at blanks
grid.row("grad_input", "12.4", "waits for loads")
console.print(grid)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from ascend_sim.report.columns import GAP, filled, parts, wrapped

_PROSE = 28
"""Columns that a wrapping column has at least; where fewer are left it goes on below."""

Cell = str | Text


class Grid:
    """Table for a terminal: rows of cells under heads. A table that is too wide is printed in parts, one below the other, each
    with the first `names` columns, which name the row (with the first alone where they leave no room).

    A head that begins with ">" aligns its column right; one with "~" lets its texts wrap.
    """

    def __init__(self, title: str, heads: Sequence[str], *, names: int = 1) -> None:
        self.title = title
        self._heads = [head.lstrip(">~") for head in heads]
        self._right = [head.startswith(">") for head in heads]
        self._wraps = [head.startswith("~") for head in heads]
        self._names = names
        self._rows: list[list[Text]] = []

    def row(self, *cells: Cell, style: str = "") -> None:
        """Add one row, its texts in `style` (rich's words, such as "bold red"). Raises ValueError unless there are as many
        cells as heads.
        """
        if len(cells) != len(self._heads):
            raise ValueError(f"{len(cells)} cells under {len(self._heads)} heads")
        self._rows.append([self._cell(cell, style) for cell in cells])

    @property
    def row_count(self) -> int:
        """Return the number of rows added so far."""
        return len(self._rows)

    def html(self) -> str:
        """Return title and table as HTML, with all columns side by side and without the styles of cells."""
        from ascend_sim.report.html import table  # pages and notebooks alone need it

        heads = [f"{'>' * right}{head}".replace("\n", " ") for head, right in zip(self._heads, self._right, strict=True)]
        rows = [[escape(cell.plain) for cell in row] for row in self._rows]
        title = f"<p><b>{escape(self.title)}</b></p>" if self.title else ""
        return title + table(heads, rows)

    @staticmethod
    def _cell(cell: Cell, style: str) -> Text:
        text = cell.copy() if isinstance(cell, Text) else Text(cell)
        if style:
            text.stylize(style)
        return text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title:
            yield Text(self.title, style="bold")
        for number, (shown, widths) in enumerate(self._parts(options.max_width)):
            if number:
                yield Text("")
            named = any(self._heads)
            drawn = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False, header_style="", show_header=named)
            deepest = max(self._heads[index].count("\n") for index in shown)
            for index, width in zip(shown, widths, strict=True):
                head = "\n" * (deepest - self._heads[index].count("\n")) + self._heads[index]
                justify: Literal["left", "right"] = "right" if self._right[index] else "left"
                drawn.add_column(head, justify=justify, overflow="fold", width=width)
            for row in self._rows:
                drawn.add_row(*(row[index] for index in shown))
            yield drawn

    def _parts(self, width: int) -> Iterator[tuple[list[int], list[int]]]:
        """Yield (indices of the columns that stand side by side, their widths) for each part of the table within `width`."""
        whole = [
            max(
                (len(line) for text in (head, *(row[index].plain for row in self._rows)) for line in text.split("\n")),
                default=0,
            )
            for index, head in enumerate(self._heads)
        ]
        least = [min(size, _PROSE) if wraps else size for size, wraps in zip(whole, self._wraps, strict=True)]
        for shown in parts(least, self._names, width):
            yield shown, filled([least[index] for index in shown], [whole[index] for index in shown], width)


def say(console: Console, text: str, *, style: str = "", indent: str = "  ") -> None:
    """Print text within the console's width, broken at blanks only, without markup or automatic colours; `indent` as in
    `wrapped`.
    """
    for paragraph in text.split("\n"):
        for line in wrapped(paragraph, console.width, indent):
            console.print(Text(line, style=style), highlight=False, soft_wrap=True)

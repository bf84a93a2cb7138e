"""Aligned columns of plain text that stay within a width."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from shutil import get_terminal_size
from typing import TypeVar

Row = tuple[str, ...]
Item = TypeVar("Item")
PIPE_WIDTH = 100
"""Columns of text where neither a terminal nor COLUMNS says how many there are."""
GAP = 2
"""Blanks between columns."""
_BETWEEN_FIELDS = "   "


def text_width(otherwise: int = PIPE_WIDTH) -> int:
    """Return the columns of a line of text on stdout: COLUMNS, else those of the terminal, else (in a pipe) `otherwise`."""
    known = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return get_terminal_size().columns if known else otherwise


def columns(rows: Sequence[Row], align: str = "", width: int | None = None) -> list[str]:
    """Return the rows as lines, columns two blanks apart; `align` has ">" at right-aligned columns, others are left-aligned.

    Columns that do not fit in `width` (None: any fit) go below, after an empty line and with the first column of each row
    repeated. A row of one cell is a line of its own in each of these parts, whatever its length.
    """
    whole = [row for row in rows if len(row) > 1]
    widths = [max(len(row[i]) for row in whole) for i in range(len(whole[0]))] if whole else []
    lines: list[str] = []
    for shown in parts(widths, 1, width) if whole else [[0]]:
        lines += [""] if lines else []
        for row in rows:
            cells = [
                row[i].rjust(widths[i]) if align[i : i + 1] == ">" else row[i].ljust(widths[i])
                for i in shown
                if i < len(row) > 1
            ]
            lines.append(((" " * GAP).join(cells) if len(row) > 1 else row[0]).rstrip())
    return lines


def parts(widths: Sequence[int], names: int, width: int | None) -> list[list[int]]:
    """Return lists of column indices, a list for each part of a table that fits `width` (None: any), each with the first
    `names` columns in front.

    If these leave no room for the widest other column, only the first column stands in front. A part has one further column
    even if that is too wide.
    """
    if names > 1 and width is not None and sum(widths[:names]) + GAP * names + max(widths[names:], default=0) > width:
        names = 1
    lead = list(range(names))
    start = sum(widths[:names]) + GAP * (names - 1)
    found, taken = [list(lead)], start
    for index in range(names, len(widths)):
        size = GAP + widths[index]
        if width is not None and taken + size > width and len(found[-1]) > names:
            found.append(list(lead))
            taken = start
        found[-1].append(index)
        taken += size
    return found


def filled(least: Sequence[int], whole: Sequence[int], width: int) -> list[int]:
    """Return the widths of columns, from `least` to `whole` each; the room of `width`, less GAP between columns, goes to the
    left ones first. If `least` does not fit, it is the result.
    """
    left = max(width - sum(least) - GAP * (len(least) - 1), 0)
    widths = []
    for small, large in zip(least, whole, strict=True):
        more = min(large - small, left)
        widths.append(small + more)
        left -= more
    return widths


def wrapped(text: str, width: int, indent: str = "") -> list[str]:
    """Return a paragraph as lines of at most `width` (20 at least), broken at blanks only; one that fits stays as it is.

    Its leading blanks stand before every line, `indent` behind them on all but the first. Fields, which three blanks part, stay
    whole where they fit. A longer word, such as a path, has a line of its own.
    """
    if len(text) <= width:
        return [text]
    own, width = text[: len(text) - len(text.lstrip())], max(width, 20)
    first, *fields = text.strip().split(_BETWEEN_FIELDS)
    lines = [own + first]
    for field in fields:
        if len(lines[-1]) + len(_BETWEEN_FIELDS) + len(field) <= width:
            lines[-1] += _BETWEEN_FIELDS + field
        else:
            lines.append(own + indent + field.lstrip())
    whole = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False, replace_whitespace=False)
    return [piece for line in lines for piece in whole(line, width, subsequent_indent=own + indent)]


def middle_out(items: Sequence[Item], most: int, row: Callable[[Item], Row]) -> list[Row]:
    """Return the `row` of each item; of more than `most` + 1 items (`most` is 3 or more) the first two thirds of `most` rows,
    one with the number of those left out, and the last third.
    """
    if len(items) <= most + 1:
        return [row(item) for item in items]
    tail = most // 3
    return [*map(row, items[: most - tail]), (f"... {len(items) - most} more",), *map(row, items[-tail:])]


def listed(parts: Sequence[str]) -> str:
    """Return one or more parts as one text, commas between them and "and" before the last: "A", "A and B", "A, B and C"."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: "1 point", "3,000 points"; `plural` is the noun's irregular plural."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"

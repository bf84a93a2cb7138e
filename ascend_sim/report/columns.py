"""Lines of aligned columns, for pages of plain text."""

from __future__ import annotations

from collections.abc import Sequence

Row = tuple[str, ...]


def columns(rows: Sequence[Row], align: str = "") -> list[str]:
    """Rows as lines, columns two blanks apart; `align` has ">" at those set to the right. A row of one cell stands alone."""
    whole = [row for row in rows if len(row) > 1]
    widths = [max(len(row[i]) for row in whole) for i in range(len(whole[0]))] if whole else []
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if align[i : i + 1] == ">" else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append(("  ".join(cells) if len(row) > 1 else row[0]).rstrip())
    return lines


def middle_out(rows: Sequence[Row], most: int) -> list[Row]:
    """The rows, without the middle where there are more than `most`."""
    if len(rows) <= most + 1:
        return list(rows)
    tail = most // 3
    return [*rows[: most - tail], (f"... {len(rows) - most} more",), *rows[-tail:]]


def many(count: int, thing: str) -> str:
    """A number of things in words."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"

"""Tables of groups of rows in Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.studies.validate.pages import HEADS, PROGRAM_HEADS, Group, program_rows, table_rows


def markdown(groups: Sequence[Group]) -> str:
    """Return the table of groups in Markdown."""
    return _markdown(HEADS, table_rows(groups))


def programs_markdown(groups: Sequence[Group]) -> str:
    """Return the table of small programs in Markdown."""
    return _markdown(PROGRAM_HEADS, program_rows(groups))


def _markdown(heads: Sequence[str], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])

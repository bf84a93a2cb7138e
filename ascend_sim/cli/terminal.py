"""Consoles of the commands: as wide as the terminal, or as COLUMNS says for a pipe."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ascend_sim.report.columns import wrapped

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120
"""Columns of a pipe or file, unless COLUMNS says otherwise."""


def console() -> Console:
    """Return a console for standard output: as wide as the terminal or COLUMNS, for a pipe without COLUMNS
    `PIPE_WIDTH`.
    """
    from rich.console import Console

    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if told else PIPE_WIDTH)


def print_text(text: str) -> None:
    """Print lines of text; a line too wide for the terminal is wrapped."""
    width = console().width
    for line in text.split("\n"):
        print("\n".join(wrapped(line, width, "    ")))


def print_paragraphs(paragraphs: list[str]) -> None:
    """Print paragraphs with an empty line between them."""
    from ascend_sim.report.grid import say

    out = console()
    for text in paragraphs:
        print()
        say(out, text, indent="")
    if paragraphs:
        print()

"""Consoles of the commands, as wide as the terminal; a pipe has the width that COLUMNS gives, else 120."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ascend_sim.report.columns import wrapped

if TYPE_CHECKING:
    from rich.console import Console

PIPE_WIDTH = 120
"""Columns of a pipe or file if COLUMNS is not set."""


def console() -> Console:
    """Return a rich console on stdout: as wide as the terminal or COLUMNS, else `PIPE_WIDTH`."""
    from rich.console import Console

    told = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(width=None if told else PIPE_WIDTH)


def print_text(text: str) -> None:
    """Print lines of text to stdout; a line wider than the terminal is wrapped with an indent."""
    width = console().width
    for line in text.split("\n"):
        print("\n".join(wrapped(line, width, "    ")))


def print_paragraphs(paragraphs: list[str]) -> None:
    """Print an empty line before each paragraph and one at the end; nothing for an empty list."""
    from ascend_sim.report.grid import say

    out = console()
    for text in paragraphs:
        print()
        say(out, text, indent="")
    if paragraphs:
        print()

"""Text of what is drawn on a console, for `print` in Python: as wide as the terminal, or as COLUMNS says."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import StringIO
from shutil import get_terminal_size

from rich.console import Console

UNLIMITED = 10_000
"""Columns of a text of which no line is cut or wrapped where no terminal limits it."""


def printed(draw: Callable[[Console], object], width: int = 120) -> str:
    """Return the text that `draw` prints, without colors; `width` holds where neither a terminal nor COLUMNS limits it."""
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        width = get_terminal_size().columns
    text = StringIO()
    draw(Console(file=text, width=width, force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

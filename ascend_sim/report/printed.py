"""Text of what is drawn on a console, for `print` in Python: as wide as the terminal, or as COLUMNS says."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from io import StringIO
from shutil import get_terminal_size

from rich.console import Console

UNLIMITED = 10_000
"""Columns of a text of which no line is cut or wrapped where no terminal limits it."""


def printed(draw: Callable[[Console], object], width: int = 120) -> str:
    """Return the text that `draw` prints on a console, without colors; `width` holds if no terminal or COLUMNS sets
    another.
    """
    if sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit():
        width = get_terminal_size().columns
    text = StringIO()
    draw(Console(file=text, width=width, force_terminal=False, color_system=None))
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


def printed_by(place: str, value: object, width: int = 120, more: str | None = None) -> str:
    """Return the text that `place`, "module:function", prints for a result `value`; `more` ends it.

    The page of a study imports its results; a result names its page, so that its own import loads no page.
    """
    module, _, name = place.partition(":")
    draw = getattr(import_module(module), name)
    return printed(partial(draw, value) if more is None else partial(draw, value, more=more), width)

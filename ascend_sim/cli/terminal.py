"""Consoles of the commands, as wide as the terminal; a pipe has the width that COLUMNS gives, else 100.

rich, which takes long to import, prints tables and colours; plain text goes without it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ascend_sim.report.columns import text_width, wrapped

if TYPE_CHECKING:
    from rich.console import Console

    from ascend_sim.report.report import Report


def console() -> Console:
    """Return a rich console on stdout: as wide as the terminal or COLUMNS, else `PIPE_WIDTH`."""
    from rich.console import Console

    return Console(width=text_width())


def print_text(text: str, indent: str = "    ") -> None:
    """Print lines of text to stdout; a line wider than `text_width` is wrapped at blanks, its further lines indented."""
    for line in text.split("\n"):
        print("\n".join(wrapped(line, text_width(), indent)))


def print_json(data: Any) -> None:
    """Print plain data as indented JSON on stdout; NaN and infinity, which JSON lacks, as Python writes them."""
    print(json.dumps(data, indent=1))


def print_written(paths: Iterable[Path | None]) -> None:
    """Print "wrote" and the names of the files that a command wrote, wrapped, on stdout; a None is left out. Print nothing
    without names.
    """
    if named := [str(path) for path in paths if path is not None]:
        print_text(f"wrote {', '.join(named)}")


def print_summary(report: Report, check: Sequence[str] = (), findings: Sequence[str] = ()) -> None:
    """Print a report's summary, at most fifteen lines before they are wrapped, with the line `check` of a check (or none).
    Commands are not wrapped, to be copied.

    `findings` of the check, which name lines of the kernel, are printed in place of the run's, if there are any. The advice may
    need simulations.
    """
    summary = report.to_dict()["summary"]
    if findings:
        summary = {**summary, "findings": findings}
    print_summary_lines(summary, "more: --full" + ("" if report.total_us is None else ", --html page.html"), check)


def print_summary_lines(summary: Mapping[str, Any], more: str, check: Sequence[str] = ()) -> None:
    """Print the "summary" of a report as `print_summary` does; the last line `more` says where to find the rest."""
    from ascend_sim.report.summary import lines_of

    bad = summary["values"] == "wrong" or summary["findings"]
    coloured = sys.stdout.isatty() or any(os.environ.get(name) for name in ("FORCE_COLOR", "TTY_COMPATIBLE"))
    for number, line in enumerate(lines_of(summary, more, check)):
        style = "bold" if number == 0 else "red" if bad and number == 2 else ""
        if line.startswith("   ") or line in check:
            print(line)
        elif style and coloured:
            from ascend_sim.report.grid import say

            say(console(), line, style=style, indent="   ")
        else:
            print_text(line, "   ")


def print_paragraphs(paragraphs: list[str]) -> None:
    """Print an empty line before each paragraph and one at the end; nothing for an empty list."""
    for text in paragraphs:
        print()
        print_text(text, "")
    if paragraphs:
        print()

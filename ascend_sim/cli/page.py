"""The page of `run --html` and `report`, and what it says of the bottleneck."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascend_sim.cli.progress import Progress
from ascend_sim.errors import SimError

_ROWS_WORTH_PROCESSES = 50_000
"""Instructions from which it pays to share runs out among processes."""

_ROWS_OF_TEXT = 100_000_000
"""Instructions up to which a run keeps its timeline for its text alone: 2 GB on disk."""


def timeline_for(out: Path | None, html: Path | None, json_output: bool) -> bool | int:
    """What a timing run keeps of its timeline: all for files, for text as long as it is not too long, for JSON nothing."""
    if out is not None or html is not None:
        return True
    return False if json_output else _ROWS_OF_TEXT


def check_html(html: Path, out: Path | None = None) -> None:
    """Refuse before the work what would fail after it."""
    from ascend_sim.report.skeleton import check_plotly

    check_plotly()
    if html.is_dir():
        raise SimError(f"--html {html}: that is a folder; give a file, for example {html / 'report.html'}")
    if not html.parent.is_dir() and html.parent != out:
        raise SimError(f"--html {html}: there is no folder {html.parent}")


def check_lines(lines: bool, mode: str, out: Path | None, html: Path | None) -> None:
    """Refuse to note lines that nobody gets to see."""
    if lines and (mode == "functional" or (out is None and html is None)):
        raise SimError(
            "--lines: needs a page (--html FILE) or a folder (--out DIR), and a mode with time (full or timing)"
        )


def add_lines(recording: Any) -> None:
    """Note the source lines of a run's kernels."""
    from ascend_sim.report.lines import note_lines

    note_lines(recording)


def write_html(
    html: Path,
    recording: Any,
    report: dict[str, Any],
    progress: Progress,
    *,
    other_rates: bool,
    all_blocks: bool = False,
) -> list[str]:
    """Write the page; returns what it says of the bottleneck."""
    from ascend_sim.report.packed import LIMIT
    from ascend_sim.report.page import write_page
    from ascend_sim.report.what_if import what_if
    from ascend_sim.runtime.workers import usable_cores

    rows = sum(len(run.program) for run in recording.timeline.programs)
    # A class of a kernel's own file is unknown to another process.
    ours = all(
        type(one).__module__.startswith("ascend_sim.")
        for run in recording.timeline.programs
        for one in run.program.table.instructions
    )
    jobs = usable_cores() if ours and rows > _ROWS_WORTH_PROCESSES else 1
    outcomes = what_if(recording, jobs=jobs, progress=progress) if other_rates else None
    return write_page(html, recording, report, outcomes, limit=None if all_blocks else LIMIT)

"""The files of one run: those of `--out`, and the page of `run --html` and `report`."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ascend_sim.cli.app import make_folder
from ascend_sim.cli.progress import Progress, ProgressLine
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.options.description import listed
from ascend_sim.options.run_options import MODES

if TYPE_CHECKING:
    from ascend_sim.sequence import RunResult

_ROWS_WORTH_PROCESSES = 50_000
"""Instructions of a run from which other rates are computed in several processes."""

_ROWS_OF_TEXT = 100_000_000
"""Most instructions of which a timing run without files keeps its timeline for the printed report: 2 GB on disk."""


@frozen
class RunFiles:
    """Options for the files that a command writes of one run, and for the form in which it prints the report."""

    out: Annotated[
        list[Path] | None,
        typer.Option(help="Folder for report.json, trace.json.gz, timeline.npz, gradients.npz or outputs.npz."),
    ] = None
    json_output: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False
    full: Annotated[bool, typer.Option("--full", help="Print every table: problem, kernels, bounds, waterfalls.")] = False
    trace_limit: Annotated[int, typer.Option(min=1, help="Events in trace.json.gz at most; beyond, cores are left out.")] = (
        500_000
    )
    msprof: Annotated[
        bool, typer.Option("--msprof", help="With --out: also the folders of the vendor's msprof op simulator.")
    ] = False
    html: Annotated[
        Path | None, typer.Option(help="Write one page to this file: timeline, critical path, other rates, pictures.")
    ] = None
    lines: Annotated[bool, typer.Option("--lines", help="Note the kernels' source lines, for the page and timeline.npz.")] = (
        False
    )

    @property
    def folder(self) -> Path | None:
        """Return the folder of --out, or None without one."""
        return self.out[0] if self.out else None

    def check(self, mode: str) -> None:
        """Raise SimError, before any work, for an unknown mode and options that do not go together, and for --html as
        `check_html`.
        """
        if len(self.out or ()) > 1:
            raise SimError(f"--out: {listed(list(map(str, self.out or ())))}; one folder is allowed")
        if mode not in MODES:
            raise SimError(f"--mode {mode}: allowed are {listed(MODES)}")
        if self.msprof and (self.folder is None or mode == "functional"):
            raise SimError("--msprof: needs a folder (--out DIR) and a mode with time (full or timing)")
        if self.html is not None:
            if mode == "functional":
                raise SimError("--html: needs a mode with time (full or timing)")
            check_html(self.html, self.folder)
        if self.lines and (mode == "functional" or (self.folder is None and self.html is None)):
            raise SimError("--lines: needs a page (--html FILE) or a folder (--out DIR), and a mode with time (full or timing)")

    def make_folder(self) -> None:
        """Create the folder of `--out`, before the work; does nothing without one. Raises SimError, for --msprof also if other
        files are there.
        """
        if self.folder is not None:
            make_folder(self.folder)
            if self.msprof:
                from ascend_sim.report.msprof import check_msprof

                check_msprof(self.folder)

    @property
    def timeline(self) -> bool | int:
        """Return the `timeline` option of a timing run: True, for a whole timeline, with --out or --html.

        Otherwise it is a number: a run of more instructions keeps no timeline, and its printed report does without.
        """
        return True if self.folder is not None or self.html is not None else _ROWS_OF_TEXT

    def write(self, run: RunResult, progress: Progress) -> tuple[list[Path], list[str]]:
        """Write the files of --out and --html; return (their paths, the page's paragraphs on the bottleneck, [] without a
        page).

        Source lines are noted first for --lines and --msprof. A page runs the programs again with other rates.
        """
        said: list[str] = []
        written: list[Path] = []
        if self.lines or self.msprof:
            from ascend_sim.report.lines import note_lines

            assert run.recording is not None  # `check` has seen to the mode, `timeline` to the rest
            with nullcontext() if self.lines else suppress(SimError):  # msprof has lines where they can be noted
                note_lines(run.recording)
        if self.folder is not None:
            progress.close()
            with ProgressLine(f"writing to {self.folder}"):
                written = run.write(self.folder, msprof=self.msprof, trace_limit=self.trace_limit)
        if self.html is not None:
            report = run.report.to_dict()
            said = write_html(self.html, run.recording, report, progress, other_rates=True)
            written.append(self.html)
        return written, said


def check_html(html: Path, out: Path | None = None) -> None:
    """Raise SimError, before the work, for an `--html` file without Plotly, and as `check_place`."""
    from ascend_sim.report.skeleton import check_plotly

    check_plotly()
    check_place(html, out)


def check_place(html: Path, out: Path | None = None) -> None:
    """Raise SimError, before the work, for an `--html` file that is a folder, or whose folder neither exists nor is `out`,
    which is made later.
    """
    if html.is_dir():
        raise SimError(f"--html {html}: that is a folder; give a file, for example {html / 'report.html'}")
    if not html.parent.is_dir() and html.parent != out:
        raise SimError(f"--html {html}: there is no folder {html.parent}")


def write_html(
    html: Path, recording: Any, report: dict[str, Any], progress: Progress, *, other_rates: bool, all_blocks: bool = False
) -> list[str]:
    """Write the HTML page of a run; return the lines that it shows on the bottleneck.

    `other_rates` runs the programs again under each change of `what_if`, in several processes if the run is long and its
    instructions are the simulator's own. `all_blocks`: the page has every block, however large it becomes.
    """
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

"""`ascend-sim report OUT`: an earlier run as one page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.page import check_html, write_html
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import print_paragraphs, print_summary_lines, print_written


@app.command(epilog="Example:  ascend-sim run resnet50_conv2_3x3 --mode timing --out out/ && ascend-sim report out/")
def report(
    folder: Annotated[Path, typer.Argument(metavar="OUT", help="The folder that `run --out` wrote.")],
    html: Annotated[Path | None, typer.Option(help="The page; default: report.html in the folder.")] = None,
    what_if: Annotated[
        bool, typer.Option("--what-if/--no-what-if", help="Run the programs again with each rate of the chip doubled.")
    ] = True,
    all_blocks: Annotated[
        bool, typer.Option("--all-blocks", help="Draw every block, also where the page gets larger than 10 MB.")
    ] = False,
    full: Annotated[bool, typer.Option("--full", help="Print what the page says in words, too.")] = False,
) -> None:
    """Draw an earlier run as one page: timeline, critical path, what other rates would change, pictures."""
    from ascend_sim.report.page import open_run

    with errors(as_json=False):
        html = html or folder / "report.html"
        recording, stored = open_run(folder)
        check_html(html)
        with Progress("runs") as progress:
            said = write_html(html, recording, stored, progress, other_rates=what_if, all_blocks=all_blocks)
        if full or "summary" not in stored:
            print_paragraphs(said)
        else:
            print_summary_lines(stored["summary"], "more: --full")
        print_written([html])

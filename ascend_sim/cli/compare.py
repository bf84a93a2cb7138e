"""`ascend-sim compare A B ...`: runs side by side, with what differs marked."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.completing import CASES, CHIPS, KERNELS, RUNS
from ascend_sim.cli.page import check_html
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_json, print_written


@app.command(
    epilog="Examples:  ascend-sim compare out/before out/after --html compare.html   |   "
    "ascend-sim compare strided tilings/best.yaml --case strided   |   "
    "ascend-sim compare ascend910b3 ascend910_9391 --case strided"
)
def compare(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="A B [C ...]",
            help="Each a case (or NETWORK:LAYER), a folder of `run --out`, a tiling file, a chip, or a timeline.npz; or two "
            "folders of `run-network --out` or of simulations.",
            autocompletion=RUNS,
        ),
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="The case that tilings and chips are compared with.", autocompletion=CASES)
    ] = None,
    chip: Annotated[
        str | None,
        typer.Option(help="Chip name or chip file for cases and tilings; default: each case's.", autocompletion=CHIPS),
    ] = None,
    kernel: Annotated[
        list[str] | None, typer.Option(help="Show all that differs in this kernel; again for more.", autocompletion=KERNELS)
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Print every table; facts of the three kernels that differ most.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Show all kernels, and what is equal too.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print everything as JSON.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="Write one page to this file: tables, waterfalls, timelines on one zoom.")
    ] = None,
) -> None:
    """Lay runs side by side: kernels, waterfalls, stalls, bytes, instructions, tilings, results; mark what differs."""
    from ascend_sim.studies.compare.layers import compare_layers, has_layers, render_layers
    from ascend_sim.studies.compare.page import write_page
    from ascend_sim.studies.compare.run import compare_calls
    from ascend_sim.studies.compare.text import chosen_kernels, render

    with errors(json_output):
        found: Any
        if runs and any(map(has_layers, runs)):
            found = compare_layers(*runs, options={"case": case, "chip": chip, "kernel": kernel, "html": html})
            draw = partial(render_layers, everything=everything or full)
        else:
            if html is not None:
                check_html(html)
            with Progress() as progress:
                found = compare_calls(runs or (), case, chip, progress)
            chosen_kernels(found, kernel or (), everything)
            if html is not None:
                write_page(html, found)
            draw = partial(render, kernels=kernel or (), full=full, everything=everything)
    if json_output:
        print_json(found.to_dict())
    else:
        draw(found, console())
        print_written([html])

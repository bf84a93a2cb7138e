"""`ascend-sim compare A B ...`: runs side by side, with what differs marked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.completing import CASES, CHIPS, KERNELS, RUNS
from ascend_sim.cli.page import check_html
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_text
from ascend_sim.errors import SimError


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
        list[str] | None,
        typer.Option(help="Show all that differs in this kernel; again for more.", autocompletion=KERNELS),
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
    from ascend_sim.studies.compare.layers import file_in
    from ascend_sim.studies.compare.page import write_page
    from ascend_sim.studies.compare.run import compare_runs
    from ascend_sim.studies.compare.text import chosen_kernels, render

    with errors(json_output):
        if any(map(file_in, runs or ())):
            alone = {"--case": case, "--chip": chip, "--kernel": kernel, "--html": html}
            _print_layers(runs or (), [name for name, value in alone.items() if value], everything, json_output)
            return
        if html is not None:
            check_html(html)
        with closing(Progress()) as progress:
            comparison = compare_runs(*(runs or ()), case=case, chip=chip, progress=progress)
        chosen_kernels(comparison, kernel or (), everything)
        if html is not None:
            write_page(html, comparison)
    if json_output:
        print(json.dumps(comparison.to_dict(), indent=1))
    else:
        render(comparison, console(), kernels=kernel or (), full=full, everything=everything)
        if html is not None:
            print_text(f"wrote {html}")


def _print_layers(runs: Sequence[str], given: Sequence[str], everything: bool, json_output: bool) -> None:
    """Compare two folders of networks or simulations layer by layer and print the result: JSON, or a table (with `everything`
    of all layers).

    Raises SimError unless there are two, and for options in `given`, which apply to single runs only.
    """
    from ascend_sim.studies.compare.layers import compare_layers, render

    if given:
        raise SimError(f"{given[0]}: not for folders of networks or simulations, which are compared by the times of layers")
    if len(runs) != 2:
        raise SimError(f"compare: {len(runs)} given; allowed are two folders of networks or simulations")
    found = compare_layers(*runs)
    if json_output:
        print(json.dumps(found.to_dict(), indent=1))
    else:
        render(found, console(), everything=everything)

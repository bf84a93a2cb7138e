"""`ascend-sim precision CASE`: a case in every precision, and the errors of its results."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from ascend_sim.cli.app import OptionalValues, app, errors
from ascend_sim.cli.options import Case, Conformance, Overflow
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_text
from ascend_sim.errors import SimError


class _PrecisionCommand(OptionalValues):
    alone: ClassVar = {"--accumulate": "all", "--plot": "precision.png"}


@app.command(
    cls=_PrecisionCommand,
    epilog="Example:  ascend-sim precision fp32_keep --chips ascend910b3,ascend910_9391 --inputs normal --accumulate all",
)
def precision(
    case: Case,
    chips: Annotated[str | None, typer.Option(help="Chips side by side, with commas; default: the case's.")] = None,
    inputs: Annotated[
        str | None, typer.Option(help="uniform, normal, relu, wide, ones, adversarial or a .npz file.")
    ] = None,
    accumulate: Annotated[
        str, typer.Option(help="Models of the cube's sums: blas, chunk, exact_group, several with commas, or all.")
    ] = "blas",
    overflow: Overflow = None,
    conformance: Conformance = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Run each row's programs again on data on which each product counts.")
    ] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print all figures as JSON.")] = False,
    csv_output: Annotated[bool, typer.Option("--csv", help="Print all figures as CSV.")] = False,
    plot: Annotated[Path | None, typer.Option(help="Write the error distributions to this PNG file.")] = None,
) -> None:
    """Run a case in every precision that the product offers and compare the errors of its results."""
    from ascend_sim.studies.precision import pages, run

    with errors(json_output):
        if json_output and csv_output:
            raise SimError("--json and --csv: give only one of them")
        with closing(Progress("rows")) as progress:
            table = run.precision(
                case,
                chips=chips.split(",") if chips else None,
                inputs=inputs,
                accumulate=accumulate if accumulate == "all" else accumulate.split(","),
                overflow=overflow,
                conformance=conformance,
                probe=probe,
                progress=progress,
            )
        if plot is not None:
            pages.plot(table, plot)
        if json_output:
            print(json.dumps({**table.to_dict(), "notes": pages.notes(table)}, indent=1))
        elif csv_output:
            print(pages.csv_text(table), end="")
        else:
            pages.render(table, console())
            if plot is not None:
                print_text(f"wrote {plot}")
        if not table.complete:
            raise KeyboardInterrupt
    raise typer.Exit(0 if table.passed else 1)

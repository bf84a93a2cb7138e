"""`ascend-sim precision CASE`: a case in every precision, and the errors of its results."""

from __future__ import annotations

from typing import Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.completing import INPUTS, SEVERAL_CHIPS
from ascend_sim.cli.options import Case, Printed, command
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.terminal import console, print_json, print_written
from ascend_sim.studies.precision.options import PrecisionOptions


@command(
    alone={"--accumulate": "all", "--plot": "precision.png"},
    epilog="Example:  ascend-sim precision fp32_keep --chips ascend910b3,ascend910_9391 --inputs normal --accumulate all",
)
def precision(
    case: Case,
    asked: PrecisionOptions,
    printed: Printed,
    chips: Annotated[
        str | None, typer.Option(help="Chips side by side, with commas; default: the case's.", autocompletion=SEVERAL_CHIPS)
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every row, figure and note.")] = False,
    inputs: Annotated[
        str | None, typer.Option(help="uniform, normal, relu, wide, ones, adversarial or a .npz file.", autocompletion=INPUTS)
    ] = None,
) -> None:
    """Run a case in every precision that the product offers and compare the errors of its results. Exit code 1 where one is
    wrong.
    """
    from ascend_sim.studies.precision import pages, run, summary

    with errors(printed.json_output):
        printed.check()
        with Progress("rows", at_once=True) as progress:
            named = chips.split(",") if chips else None
            table = run.precision(case, chips=named, inputs=inputs, progress=progress, **asked)
        if printed.plot is not None:
            pages.plot(table, printed.plot)
        if printed.json_output:
            answer = {"rows": summary.rows_of(table), "sentences": summary.sentences(table)}
            print_json({**table.to_dict(), "notes": pages.notes(table), "summary": answer})
        elif printed.csv_output:
            print(pages.csv_text(table), end="")
        else:
            (pages.render if full else summary.render_summary)(table, console())
            print_written([printed.plot])
        if not table.complete:
            raise KeyboardInterrupt
    raise typer.Exit(0 if table.passed else 1)

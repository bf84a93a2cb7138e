"""`ascend-sim explain CASE`: one number of a result from the formula to the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.options import Case, command
from ascend_sim.cli.page import check_place
from ascend_sim.cli.progress import Progress, ProgressLine
from ascend_sim.cli.terminal import console, print_json, print_text
from ascend_sim.cli.values import parse_index
from ascend_sim.options.run_options import ExplainOptions


@command("explain", epilog="Example:  ascend-sim explain strided --element 1,16,14,14")
def explain_command(
    case: Case,
    asked: ExplainOptions,
    element: Annotated[
        str | None, typer.Option(help="An element of grad_input or output, n,c,h,w (TBC: t,n,c); default: its middle.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="An element of grad_weight, co,ci,kh,kw (TBC: k,ci,co).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the walk as a page with step, back and slider.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print what the page shows as JSON.")] = False,
) -> None:
    """Follow one number of a result from the formula through tiles, loads and mmads to the result. Exit code 1 where that leads
    to another number.
    """
    from ascend_sim.report.files import write_text
    from ascend_sim.studies.explain.page import explain_data, explain_html
    from ascend_sim.studies.explain.run import explain
    from ascend_sim.studies.explain.text import explain_page

    with errors(json_output):
        if html is not None:
            check_place(html)
        with Progress() as progress:
            first, second = parse_index("--element", element), parse_index("--weight", weight)
            explanation = explain(case, element=first, weight=second, tiles=html is not None, progress=progress, **asked)
        with ProgressLine("following the loads back to the tensors"):
            text = "" if json_output else explain_page(explanation, console().width).rstrip("\n")
            data = explain_data(explanation) if json_output else None
            page = explain_html(explanation) if html is not None else ""
        if json_output:
            print_json(data)
        else:
            print_text(text)
        if html is not None:
            write_text(html, page)
            print(f"wrote {html}", file=sys.stderr if json_output else sys.stdout)
    raise typer.Exit(0 if explanation.agrees else 1)

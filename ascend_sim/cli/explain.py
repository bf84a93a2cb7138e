"""`ascend-sim explain CASE`, `explain-status CASE` and `format NAME`: what happens, and why."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.progress import Progress
from ascend_sim.cli.values import parse_index, parse_tiling
from ascend_sim.errors import SimError


@app.command("explain", epilog="Example:  ascend-sim explain strided --element 1,16,14,14")
def explain_command(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    element: Annotated[
        str | None, typer.Option(help="An element of grad_input, n,c,h,w (TBC: t,n,c); default: its middle.")
    ] = None,
    weight: Annotated[str | None, typer.Option(help="An element of grad_weight, co,ci,kh,kw (TBC: k,ci,co).")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the walk as a page with step, back and slider.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print what the page shows as JSON.")] = False,
    chip: Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.")] = None,
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    tiling: Annotated[
        str | None, typer.Option(help="grad_input.baseM=256,grad_weight.baseK=64,... or a YAML file.")
    ] = None,
    deterministic: Annotated[
        bool | None, typer.Option("--deterministic/--no-deterministic", help="Default: of the chip and profile.")
    ] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library; default: the case's.")] = None,
    accumulate: Annotated[str, typer.Option(help="Model of the cube's sums: blas, chunk or exact_group.")] = "blas",
    overflow: Annotated[str | None, typer.Option(help="inf_nan or saturate; default: the chip's.")] = None,
) -> None:
    """Follow one number of a gradient from the formula through tiles, loads and mmads to the result."""
    from ascend_sim.report.files import atomic_write
    from ascend_sim.studies.explain.page import explain_data, explain_html
    from ascend_sim.studies.explain.run import explain
    from ascend_sim.studies.explain.text import explain_page

    progress = Progress()
    with errors(json_output):
        if html is not None and (html.is_dir() or not html.parent.is_dir()):
            raise SimError(f"--html {html}: give the name of a file in a folder that there is")
        try:
            explanation = explain(
                case,
                element=parse_index("--element", element),
                weight=parse_index("--weight", weight),
                chip=chip,
                cube_math_type=cube_math_type,
                tiling=parse_tiling(tiling) if tiling else None,
                deterministic=deterministic,
                conformance=conformance,
                accumulate=accumulate,
                overflow=overflow,
                tiles=html is not None,
                progress=progress,
            )
        finally:
            progress.close()
        if json_output:
            print(json.dumps(explain_data(explanation), indent=1))
        else:
            print(explain_page(explanation), end="")
        if html is not None:
            with atomic_write(html) as file:
                file.write(explain_html(explanation).encode())
            print(f"wrote {html}", file=sys.stderr if json_output else sys.stdout)
    raise typer.Exit(0 if explanation.agrees else 1)


@app.command("explain-status", epilog="Example:  ascend-sim explain-status document_example_2d --conformance library")
def explain_status(
    case: Annotated[str, typer.Argument(help="A case file (.yaml) or the name of a case that ships with the package.")],
    chip: Annotated[str | None, typer.Option(help="Chip name or chip file; default: the case's.")] = None,
    cube_math_type: Annotated[int | None, typer.Option(help="0 keep, 1 allow down, 2 fp16, 3 hf32.")] = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Show every rule that the operator checks for a case: pass, fail, skipped or not reached."""
    from ascend_sim.api import phase_one_of_case
    from ascend_sim.chip import load_chip
    from ascend_sim.ops.case import load_case
    from ascend_sim.report.pages import status_table

    with errors(as_json=json_output):
        loaded = load_case(case)
        number = loaded.cube_math_type if cube_math_type is None else cube_math_type
        spec = load_chip(chip or loaded.chip)
        result, rules = phase_one_of_case(loaded, spec, number, conformance or loaded.conformance)
    message = None if result.failure is None else result.failure.message
    if json_output:
        sources = {rule.id: rule.source for rule in rules}
        rows = [{"rule": name, "verdict": verdict, "source": sources[name]} for name, verdict in result.trace]
        print(
            json.dumps(
                {"status": result.status, "error": message, "warnings": result.warnings, "rules": rows}, indent=2
            )
        )
    else:
        Console(width=None if sys.stdout.isatty() else 160).print(status_table(result, rules))
        for warning in result.warnings:
            print(f"warning: {warning}")
        if message is not None:
            print(f"status {result.status}: {message}")
    raise typer.Exit(0 if result.status == 0 else 2)


@app.command("format", epilog="Example:  ascend-sim format hifloat8 --value 0.1 --rounding hybrid")
def format_command(
    name: Annotated[str, typer.Argument(help="A number format: float16, bf16, hf32, hifloat8, float8_e4m3fn, ...")],
    value: Annotated[str | None, typer.Option(help="A number to round step by step, such as 0.1, inf or nan.")] = None,
    rounding: Annotated[str | None, typer.Option(help="A cast mode of the format; default: its first.")] = None,
    mantissa_bits: Annotated[int | None, typer.Option(help="For hf32: 11 (910B, 910_93) or 10 (950).")] = None,
) -> None:
    """Explain a number format: layout, range, special codes, spacing, and how a number is rounded to it."""
    from ascend_sim.studies.lookup.formats import format_page

    with errors(as_json=False):
        print(format_page(name, value, rounding=rounding, mantissa_bits=mantissa_bits), end="")

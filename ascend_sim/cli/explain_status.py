"""`ascend-sim explain-status CASE`: every rule that the operator checks for a case."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer
from rich.console import Console

from ascend_sim.cli.app import app, errors
from ascend_sim.cli.options import Case, Chip, CubeMathType


@app.command("explain-status", epilog="Example:  ascend-sim explain-status document_example_2d --conformance library")
def explain_status(
    case: Case,
    chip: Chip = None,
    cube_math_type: CubeMathType = None,
    conformance: Annotated[str | None, typer.Option(help="documented or library.")] = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Show every rule that the operator checks for a case: pass, fail, skipped or not reached."""
    from ascend_sim.calls.cases import phase_one_of_case
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

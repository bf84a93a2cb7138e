"""`ascend-sim explain-status CASE`: every rule that the operator checks for a case."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.options import Case, command
from ascend_sim.cli.terminal import console, print_text
from ascend_sim.options.run_options import StatusOptions


@command("explain-status", epilog="Example:  ascend-sim explain-status document_example_2d --conformance library")
def explain_status(
    case: Case,
    asked: StatusOptions,
    json_output: Annotated[bool, typer.Option("--json", help="Print the same as JSON.")] = False,
) -> None:
    """Show every rule that the operator checks for a case: pass, fail, skipped or not reached."""
    from ascend_sim.calls.cases import explain_status as said
    from ascend_sim.report.pages import status_table

    with errors(as_json=json_output):
        result, rules = said(case, **asked)
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
        if message is not None:  # before the table, which is longer than a screen
            print_text(f"status {result.status}: {message}\n")
        console().print(status_table(result, rules))
        for warning in result.warnings:
            print_text(f"warning: {warning}")
    raise typer.Exit(0 if result.status == 0 else 2)

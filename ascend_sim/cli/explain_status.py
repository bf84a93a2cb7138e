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
    full: Annotated[bool, typer.Option("--full", help="Print a line for every rule, with its source.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print every rule as JSON.")] = False,
) -> None:
    """Show which rules of the operator a case passes, fails, does not concern (skipped) or does not reach."""
    from ascend_sim.calls.cases import explain_status as said
    from ascend_sim.report.pages import status_summary, status_table

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
        if message is not None:  # before the table, which may be longer than a screen
            print_text(f"status {result.status}: {message}\n")
        console().print(status_table(result, rules) if full else status_summary(result))
        for warning in result.warnings:
            print_text(f"warning: {warning}")
        if not full:
            print_text("more: --full, --json")
    raise typer.Exit(0 if result.status == 0 else 2)

"""`ascend-sim explain-status CASE`: every rule that the operator checks for a case; with a number, what that status means."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from ascend_sim.cli.app import errors
from ascend_sim.cli.completing import CASES
from ascend_sim.cli.options import command
from ascend_sim.cli.terminal import console, print_text
from ascend_sim.errors import SimError
from ascend_sim.options.run_options import StatusOptions


@command(
    "explain-status",
    epilog="Examples:  ascend-sim explain-status document_example_2d --conformance library   |   "
    "ascend-sim explain-status 161002",
)
def explain_status(
    case: Annotated[
        str, typer.Argument(help="A case, as of `run`, or a status: 161002.", autocompletion=CASES, metavar="CASE|STATUS")
    ],
    asked: StatusOptions,
    full: Annotated[bool, typer.Option("--full", help="Print a line for every rule, with its source.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print every rule as JSON.")] = False,
) -> None:
    """Show which rules of the operator a case passes, fails, does not concern (skipped) or does not reach. Exit code 2 where it
    is refused.

    With a number in place of a case: what that status means.
    """
    from ascend_sim.calls.cases import explain_status as said
    from ascend_sim.report.pages import render_status

    with errors(as_json=json_output):
        if case.isdecimal() and not Path(case).exists():
            name, meanings = _meanings(int(case))
            if json_output:
                print(json.dumps({"status": int(case), "name": name, "meanings": meanings}, indent=2))
            else:
                print_text("\n".join([f"status {case}, {name}", *(f"  {one}" for one in meanings)]))
            return
        result, rules = said(case, **asked)
    message = None if result.failure is None else result.failure.message
    if json_output:
        sources = {rule.id: rule.source for rule in rules}
        rows = [{"rule": name, "verdict": verdict, "source": sources[name]} for name, verdict in result.trace]
        print(json.dumps({"status": result.status, "error": message, "warnings": result.warnings, "rules": rows}, indent=2))
    else:
        render_status(result, console(), rules if full else ())
        if not full:
            print_text("more: --full, --json")
    raise typer.Exit(0 if result.status == 0 else 2)


def _meanings(status: int) -> tuple[str, list[str]]:
    """Return (the vendor's name of a status, what it means: of an operator's call, and of acl). Raises SimError for an unknown
    number.
    """
    from ascend_sim.acl.codes import ASSUMED_CODES
    from ascend_sim.acl.enums import CODE_NAMES
    from ascend_sim.ops.status import MEANINGS, Status

    if status not in CODE_NAMES:
        known = ", ".join(map(str, CODE_NAMES))
        raise SimError(f"{status}: no such status; known are {known}. explain-status CASE prints the status of a case")
    found = [f"a call's first phase: {MEANINGS[Status(status)]}"] if status in list(MEANINGS) else []
    found += [f"acl (assumed): {one.when}" for one in ASSUMED_CODES.values() if one.code == status]
    if status in list(MEANINGS):
        found.append("ascend-sim explain-status CASE names the rule that a case breaks")
    return CODE_NAMES[status], found or ["an internal error of the library, which no call here returns"]

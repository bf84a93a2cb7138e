"""Small pages for the terminal: the plan of a call, and the checks that it went through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from ascend_sim.errors import binary_size
from ascend_sim.ops.checks.rules import CheckResult, Rule
from ascend_sim.report.grid import Grid, say

_STYLES = {"fail": "bold red", "pass": "green"}


def plan_table(rows: Sequence[Mapping[str, Any]], workspace_bytes: int) -> Grid:
    """Return a table of a plan's kernels in launch order with the tensors that each reads and writes (`Plan.rows`)."""
    table = Grid(f"\nPlan: {len(rows)} kernels, workspace {binary_size(workspace_bytes)}", ("kernel", "", "tensors"))
    for row in rows:
        for word, tensors in (("reads", row["inputs"]), ("writes", row["outputs"])):
            for number, tensor in enumerate(tensors):
                named = not number and (word == "reads" or not row["inputs"])
                table.row(row["name"] if named else "", "" if number else word, tensor)
    return table


def status_table(result: CheckResult, rules: Sequence[Rule]) -> Grid:
    """Return a table of the rules of a check, each with its verdict (pass, fail, skipped, ...) and its source."""
    sources = {rule.id: rule.source for rule in rules}
    table = Grid(f"status {result.status}", ("rule", "verdict", "~source"))
    for identity, verdict in result.trace:
        table.row(identity, Text(verdict, style=_STYLES.get(verdict, "dim")), sources.get(identity, ""))
    return table


def render_status(result: CheckResult, console: Console, rules: Sequence[Rule] = ()) -> None:
    """Print a check's result: the error, how many rules have each verdict (with `rules` a row for each rule instead), and the
    warnings.
    """
    if result.failure is not None:  # before the table, which may be longer than a screen
        say(console, f"status {result.status}: {result.failure.message}\n")
    console.print(status_table(result, rules) if rules else status_summary(result))
    for warning in result.warnings:
        say(console, f"warning: {warning}")


def status_summary(result: CheckResult) -> Grid:
    """Return a table of verdicts: how many rules of a check have each, and their names; the rule that fails comes first."""
    rules: dict[str, list[str]] = {}
    for identity, verdict in result.trace:
        rules.setdefault(verdict, []).append(identity)
    title = "" if result.failure else f"status {result.status}"  # a failure has its own line
    table = Grid(title, ("verdict", ">rules", "~which"))
    for name in sorted(rules, key=lambda one: one != "fail"):
        table.row(Text(name, style=_STYLES.get(name, "dim")), str(len(rules[name])), ", ".join(rules[name]))
    return table

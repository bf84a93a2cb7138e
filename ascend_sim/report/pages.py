"""Small pages for the terminal: the plan of a call, and the checks that it went through."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from ascend_sim.ops.checks.rules import CheckResult, Rule


def plan_table(rows: Sequence[Mapping[str, Any]], workspace_bytes: int) -> Table:
    """The kernels of a plan in launch order with what they read and write (`Plan.rows`)."""
    table = Table(title=f"Plan: {len(rows)} kernels, workspace {workspace_bytes:,} bytes", title_justify="left")
    for column in ("#", "op_type", "name", "reads", "writes"):
        table.add_column(column, justify="right" if column == "#" else "left")
    for number, row in enumerate(rows):
        table.add_row(str(number), row["op_type"], row["name"], "\n".join(row["inputs"]), "\n".join(row["outputs"]))
    return table


def status_table(result: CheckResult, rules: Sequence[Rule]) -> Table:
    """Every rule of an operator with pass, fail, skipped or not reached, and where it is from."""
    sources = {rule.id: rule.source for rule in rules}
    table = Table(title=f"status {result.status}", title_justify="left")
    for column in ("rule", "verdict", "source"):
        table.add_column(column)
    for identity, verdict in result.trace:
        style = {"fail": "bold red", "pass": "green"}.get(verdict, "dim")
        table.add_row(identity, f"[{style}]{verdict}[/]", sources.get(identity, ""))
    return table

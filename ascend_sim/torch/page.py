"""The report of a model as one page: that of a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascend_sim.report.certainty import words
from ascend_sim.report.network_page import NetworkPage, PageLayer, next_line, ranking
from ascend_sim.torch.calls import Call
from ascend_sim.torch.report import HEADS, ModelReport
from ascend_sim.torch.summary import ranked, summary_of


def write_page(path: str | Path, report: ModelReport, links: Mapping[str, str] | None = None) -> None:
    """Write a model's report as one HTML page that loads no other file; `links` is {layer name: link to its page}."""
    totals, summary = report.totals, None if report.mode == "functional" else summary_of(report)
    columns = {part: head for part, head in HEADS.items() if totals[part]} if report.mode != "functional" else {}
    names = [name for name, _ in report.columns()]
    own = [name for name in names if name not in ("layer", "input * weight", *HEADS.values(), "share")]
    layers = [
        PageLayer(
            row.layer.name,
            row.layer.text,
            report.us(row),
            [cells[names.index(name)] for name in own],
            bool(report.refusals(row)) and not report.us(row),
        )
        for row, cells in zip(report.rows, report.lines(), strict=False)  # the line of the totals is left out
    ]
    NetworkPage(
        f"A model on {report.chip}",
        columns,
        layers,
        len({frozenset(row.calls.items()) for row in report.rows}),
        [report.head(), *([f"{words(summary['interval'])}."] if summary else []), *report.notes()],
        own,
        [
            (kernel["op_type"], kernel["task_us"])
            for row in report.rows
            for call, count in row.calls.items()
            for kernel in (report.outcomes[call].kernels if call in report.outcomes and columns else ())
            for _ in range(count)
        ],
        _calls(report),
        [ranking(ranked(report), totals["total"]), next_line(summary["next"])] if summary else [],
    ).write(path, links)


def _calls(report: ModelReport) -> list[tuple[str, Any]]:
    """Return a line and the kernels of each distinct call, under the first layer that made it."""
    found: dict[Call, tuple[str, Any]] = {}
    for row in report.rows:
        for call in row.calls:
            outcome = report.outcomes.get(call)
            if outcome is not None and outcome.kernels:
                total = "" if outcome.total_us is None else f", {outcome.total_us:,.2f} us"
                line = f"{row.layer.name}: {call.operator} {row.layer.text}{total}"
                found.setdefault(call, (line, outcome.kernels))
    return list(found.values())

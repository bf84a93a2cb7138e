"""The report of a model as one page: that of a network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ascend_sim.report.certainty import words
from ascend_sim.report.network_page import NetworkPage, PageLayer
from ascend_sim.torch.calls import Call
from ascend_sim.torch.report import HEADS, ModelReport, counts
from ascend_sim.torch.summary import lines_to_open, ranked, summary_of


def write_page(path: str | Path, report: ModelReport, links: Mapping[str, str] | None = None) -> None:
    """Write a model's report as one HTML page that loads no other file; `links` is {layer name: link to its page}."""
    timed = report.mode != "functional"
    totals, rows = report.totals, ranked(report) if timed else []
    columns = {part: head for part, head in HEADS.items() if totals[part]} if timed else {}
    first: dict[frozenset[tuple[Call, int]], str] = {}
    layers = []
    for row in report.rows:
        owner = first.setdefault(frozenset(row.calls.items()), row.layer.name)
        differs = row.differences.values()
        layers.append(
            PageLayer(
                row.layer.name, row.layer.text, row.layer.tensors[0][1].dtype, counts(row), report.us(row),
                list(report.kernels(row)), "" if owner == row.layer.name else owner, report.status(row),
                f"{max(differs):.1e}" if differs else "",
            )
        )  # fmt: skip
    NetworkPage(
        f"A model on {report.chip}",
        columns,
        layers,
        len(first),
        [report.head(), *([f"{words(summary_of(report)['interval'])}."] if timed else []), *report.notes()],
        [
            (kernel["op_type"], kernel["task_us"])
            for row in report.rows
            for call, count in row.calls.items()
            for kernel in (report.outcomes[call].kernels if call in report.outcomes and columns else ())
            for _ in range(count)
        ],
        _calls(report),
        rows,
        lines_to_open(report, rows),
        'sim.write_html("model.html", layers=5) writes pages of the five longest convolutions too, and their names lead there.',
        links or {},
    ).write(path)


def _calls(report: ModelReport) -> list[tuple[str, Any]]:
    """Return (line, kernels) of each distinct call that launched kernels; the line names the first layer that made the call."""
    found: dict[Call, tuple[str, Any]] = {}
    for row in report.rows:
        for call in row.calls:
            outcome = report.outcomes.get(call)
            if outcome is not None and outcome.kernels:
                total = "" if outcome.total_us is None else f", {outcome.total_us:,.2f} us"
                line = f"{row.layer.name}: {call.operator} {row.layer.text}{total}"
                found.setdefault(call, (line, outcome.kernels))
    return list(found.values())

"""The report of a model as one page."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from importlib import resources
from pathlib import Path

from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.layer_pages import linked
from ascend_sim.report.summary import LAYOUT
from ascend_sim.torch.report import HEADS, ModelReport


def write_page(path: str | Path, report: ModelReport, links: Mapping[str, str] | None = None) -> None:
    """Write a model's report as one self-contained HTML page: table of layers, totals, each layer's kernels, calls that did not
    run.

    `links` maps layer names to the pages of layers.
    """
    with atomic_write(path) as file:
        file.write(page(report, links or {}).encode())


def page(report: ModelReport, links: Mapping[str, str]) -> str:
    """Return the HTML text of a model's report; `links` maps layer names to their pages."""
    style = resources.files("ascend_sim.report").joinpath("page.css").read_text(encoding="utf-8")
    title = f"A model on {report.chip}"
    parts = [
        f"<h1>{escape(title)}</h1><p>{escape(report.head())}</p>",
        _facts(report),
        *(f'<p class="words">{escape(note)}</p>' for note in report.notes()),
        "<h2>Layers</h2>",
        _layers(report, links),
        "<h2>Kernels</h2>",
        *_kernels(report),
    ]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>'
        f"<body><main>{''.join(parts)}</main></body></html>\n"
    )


def _facts(report: ModelReport) -> str:
    heads = {**HEADS, LAYOUT: "layout conversions"}
    facts = "".join(
        f'<div class="fact"><b>{value:,.1f} us</b>{escape(heads[part])}</div>' for part, value in report.totals.items()
    )
    return f'<div class="facts">{facts}</div>'


def _layers(report: ModelReport, links: Mapping[str, str]) -> str:
    columns = report.columns()
    names = [name for name, _ in columns]
    share = names.index("share")
    head = [f">{name}" if side == "right" else name for name, side in columns]
    lines = report.lines()
    marks = [f'style="--part: {cells[share]}"' if cells[share] not in ("", "-") else "" for cells in lines]
    rows = [[linked(cells[0], links), *map(escape, cells[1:])] for cells in lines]
    return table(head, rows, marks=marks, bar=share)


def _kernels(report: ModelReport) -> list[str]:
    """Return a folded HTML table of the kernels of each distinct call, under the first layer that made it."""
    parts, shown = [], set()
    for row in report.rows:
        for call in row.calls:
            outcome = report.outcomes.get(call)
            if outcome is None or call in shown or not outcome.kernels:
                continue
            shown.add(call)
            total = "" if outcome.total_us is None else f", {outcome.total_us:,.2f} us"
            rows = [
                [
                    escape(str(kernel["op_type"])), escape(str(kernel["name"])), str(kernel["block_dim"]),
                    "-" if kernel["task_us"] is None else f"{kernel['task_us']:.2f}",
                    escape(kernel["bottleneck_pipe"] or "-"), escape(kernel["tiling_source"] or ""),
                ]
                for kernel in outcome.kernels
            ]  # fmt: skip
            inside = table(("op_type", "kernel", ">blocks", ">us", "busiest pipe", "tiling"), rows)
            summary = f"{row.layer.name}: {call.operator} {row.layer.text}{total}"
            parts.append(f"<details><summary>{escape(summary)}</summary>{inside}</details>")
    return parts

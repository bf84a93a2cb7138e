"""The answer of a simulated model in a few lines: time, its interval, its parts, the layers that cost most, the next line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ascend_sim.report.certainty import together
from ascend_sim.report.columns import counted
from ascend_sim.report.ranking import costs_of, numbered, ranking_lines
from ascend_sim.report.summary import LAYOUT, before_words, head_words, parts_words
from ascend_sim.torch.calls import MATMUL, Call
from ascend_sim.torch.report import LayerRow, ModelReport

_NOTES = 2
"""Refusals and findings that are shown."""
_NOTE = 160
"""Characters of a note."""


def addresses(rows: Sequence[LayerRow]) -> dict[str, LayerRow]:
    """Return {address: row}; the address is the layer's name, "NAME#2" for the second row of that name."""
    return dict(zip(numbered(row.layer.name for row in rows), rows, strict=True))


def ranked(report: ModelReport) -> list[dict[str, Any]]:
    """Return a dict for each distinct layer that has times, most time over all copies first; layers with equal calls are copies
    of one another.

    Keys: "layer" (its address), "text", "us" of one, "copies", "all" (us of all copies), "ideal" (us of one with the cube at
    its peak), "layout" (us of one), and "beyond", the us above the ideal over all copies.
    """
    alike: dict[frozenset[tuple[Call, int]], list[tuple[str, LayerRow]]] = {}
    for address, row in addresses(report.rows).items():
        if report.us(row):
            alike.setdefault(frozenset(row.calls.items()), []).append((address, row))
    rows = []
    for copies in alike.values():
        (address, row), count = copies[0], len(copies)
        times = report.us(row)
        ideal = sum(
            number * (kernel["ideal_us"] or 0.0)
            for call, number in row.calls.items()
            for kernel in (report.outcomes[call].kernels if call in report.outcomes else ())
        )
        rows.append(
            {
                "layer": address, "text": row.layer.text, "us": times["total"], "copies": count,
                "all": count * times["total"], "ideal": ideal, "layout": times.get(LAYOUT, 0.0),
                "beyond": count * (times["total"] - ideal),
            }
        )  # fmt: skip
    return sorted(rows, key=lambda row: -row["all"])


def summary_of(report: ModelReport) -> dict[str, Any]:
    """Return a report with times as plain data: chip, total us and interval, parts by time, the five distinct layers with most
    time, the layer "farthest" from PyTorch's values (None where there are none), notes, the next line of Python.
    """
    totals, rows = report.totals, ranked(report)
    far = max(
        ((max(row.differences.values()), name) for name, row in addresses(report.rows).items() if row.differences), default=None
    )
    total = totals.pop("total")
    return {
        "chip": report.chip,
        "mode": report.mode,
        "values": report.values,
        "l2": report.l2,
        "launches": report.launches,
        "layers": len(report.rows),
        "distinct_layers": len(rows),
        "distinct_calls": len(report.outcomes),
        "total_us": total,
        "interval": together(
            kernel
            for row in report.rows
            for call, count in row.calls.items()
            for kernel in (report.outcomes[call].kernels if call in report.outcomes else ())
            for _ in range(count)
        ),
        **costs_of(rows, totals, total, totals[LAYOUT]),
        "farthest": None if far is None else {"layer": far[1], "difference": far[0]},
        "notes": report.notes(),
        "next": next(iter(lines_to_open(report, rows).values()), ""),
    }


def lines_to_open(report: ModelReport, rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return {layer: line of Python that runs it alone} for the convolutions among `rows`, in their order.

    Of a layer with several distinct calls (forward, backward) the first backward one runs, or the first of all if none is; a
    comment says which and its us, if it has a time.
    """
    known, found = addresses(report.rows), {}
    for name in (one["layer"] for one in rows):
        if known[name].layer.kind != MATMUL:
            calls = list(known[name].calls)
            first = next((call for call in calls if not call.forward), calls[0])
            found[name] = f"print(sim[{json.dumps(name)}].run({'forward=True' if first.forward else ''}))"
            if len(calls) > 1 and first in report.outcomes and (us := report.outcomes[first].total_us):
                found[name] += f"  # its {'forward' if first.forward else 'backward'} call, {us:,.1f} us"
    return found


def lines_of(summary: Mapping[str, Any]) -> list[str]:
    """Return a summary as at most fifteen lines: time, parts, the layers with most time, two notes, the next line, and where
    the rest is.
    """
    whose = ", PyTorch goes on with the chip's values" if summary["values"] == "chip" else ""
    what = f"{counted(summary['layers'], 'layer')} on {summary['chip']}, mode {summary['mode']}{whose}"
    lines = [f"{what}   {head_words(summary['total_us'], summary['interval'])}"]
    if summary["most"]:
        lines.append(parts_words(summary["parts"]))
        distinct = f"{summary['distinct_layers']} distinct, {counted(summary['distinct_calls'], 'distinct call')}"
        lines.append(f"{distinct}   {before_words(summary)} of each call   most time, copies together:")
        lines += ranking_lines(summary)
    if (far := summary["farthest"]) is not None:
        lines.append(f"values: {far['layer']} is farthest from PyTorch's, by {far['difference']:.1e} of its largest value")
    notes = summary["notes"]
    lines += [note if len(note) <= _NOTE else f"{note[:_NOTE]} ..." for note in notes[:_NOTES]]
    if len(notes) > _NOTES:
        lines.append(f"... and {counted(len(notes) - _NOTES, 'more note')}")
    if summary["next"]:
        lines.append(f"next: {summary['next']}")
    return [*lines, 'more: print(sim.report), sim.write_html("model.html")']

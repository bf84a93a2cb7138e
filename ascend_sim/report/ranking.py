"""The layers of a network, or of a simulated model, that cost most: as plain data and as lines of a summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console

from ascend_sim.report.columns import columns
from ascend_sim.report.grid import say

MOST = 5
"""Layers that are shown."""
_SHOWN = ("layer", "text", "copies", "us", "all", "layout")


def costs_of(rows: Sequence[Mapping[str, Any]], parts: Mapping[str, float], total: float, layout: float) -> dict[str, Any]:
    """Return the part of a summary that ranks: "parts" of the time, the five layers that cost "most", and
    "most_layout", each with its "us" and "share".

    `rows` are distinct layers, most time over all copies first, with "layer", "text", "us" of one, "copies", "all" and "layout"
    of one. `parts` is {part: us}, from which those of 0 are left out and the others sorted, longest first; `total` the us of
    all layers, `layout` their layout time. "most_layout" is the layer with most layout time over all copies, or None.
    """
    longest = sorted(((us, part) for part, us in parts.items()), reverse=True)
    most_layout, row = None, max(rows, key=lambda row: row["layout"] * row["copies"], default=None)
    if row and row["layout"]:
        us = row["layout"] * row["copies"]  # of all copies
        most_layout = {"layer": row["layer"], "copies": row["copies"], "us": round(us, 4), "share": round(us / layout, 4)}
    return {
        "parts": [{"part": part, "us": round(us, 4), "share": round(us / total, 4)} for us, part in longest if us],
        "most": [
            {key: round(row[key], 4) if isinstance(row[key], float) else row[key] for key in _SHOWN}
            | {"share": round(row["all"] / total, 4)}
            for row in rows[:MOST]
        ],
        "most_layout": most_layout,
    }


def ranking_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return a line for each layer that costs most, and one for the layer with most layout time, if there is any and the
    network has two distinct layers or more.
    """
    rows = [
        (
            f"{row['all']:,.1f} us", f"{100 * row['share']:.0f} %", f"{row['copies']} x", f"{row['us']:,.1f} us", row["layer"],
            f"layout {100 * row['layout'] / row['us']:.0f} %  {row['text']}",
        )
        for row in summary["most"]
    ]  # fmt: skip
    lines = columns(rows, ">>>>")
    if (one := summary["most_layout"]) and summary["distinct_layers"] > 1:
        share = f"{100 * one['share']:.0f} % of all layout"
        lines.append(f"most layout: {one['layer']}  {one['copies']} x, {one['us']:,.1f} us together, {share}")
    return lines


def print_lines(lines: Iterable[str], console: Console) -> None:
    """Print the lines of a summary, wrapped to the console; a line "next: COMMAND" is not wrapped, so that it can be copied."""
    for line in lines:
        if line.startswith("next: "):
            console.print(line, soft_wrap=True, highlight=False, markup=False)
        else:
            say(console, line, indent="   ")


def numbered(names: Iterable[str]) -> Iterator[str]:
    """Yield the names of layers; a repeated one gets "#2", "#3" and so on."""
    used: Counter[str] = Counter()
    for name in names:
        used[name] += 1
        yield name if used[name] == 1 else f"{name}#{used[name]}"

"""The layers of a network by time, with the time above the ideal and what other tilings save."""

from __future__ import annotations

from html import escape
from typing import Any

from ascend_sim.report.html import table
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.summary import ranked
from ascend_sim.studies.network.tuning import Tuned

__all__ = ["ranking"]


def ranking(run: NetworkRun, tuned: Tuned | None = None) -> str:
    """Return the distinct layers, longest time first, as HTML for a page; `tuned` adds a column and a sentence on what
    searched tilings save.
    """
    saved = None if tuned is None else {name: before - after for name, before, after in tuned.ranked}
    return "\n".join(
        [
            "<h2>Layers by time</h2>",
            f"<p>{escape(tuned.sentence)}.</p>" if tuned is not None else "",
            _table(ranked(run), run.totals["total"], saved),
            '<p class="faint">Above the ideal is what no product needs: layout conversions, launches, what keeps the cube '
            "waiting. It bounds what any tiling, layout or batch can save; saved is what searched tilings do save. A click on "
            "the name of a column sorts by it.</p>",
        ]
    )


def _table(rows: list[dict[str, Any]], total: float, saved: dict[str, float] | None) -> str:
    head = [
        "layer",
        "input * weight",
        ">us",
        ">copies",
        ">us in all",
        ">share",
        ">ideal us",
        ">layout us",
        ">above ideal, all",
    ]
    head += [] if saved is None else [">saved in all"]
    lines = []
    for row in rows:
        cells = [
            escape(row["layer"]), escape(row["text"]), f"{row['us']:,.1f}", str(row["copies"]), f"{row['all']:,.1f}",
            f"{100 * row['all'] / total:.1f} %", f"{row['ideal']:,.1f}", f"{row['layout']:,.1f}", f"{row['beyond']:,.1f}",
        ]  # fmt: skip
        cells += [] if saved is None else [f"{saved[row['layer']] * row['copies']:,.1f}"]
        lines.append(cells)
    return table(head, lines, identity="ranking", sort=True)

"""A network as one page: its layers by time, what of it no layer needs, and what other tilings save."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.skeleton import Figures, check_plotly, framed
from ascend_sim.studies.network.pages import around_line, text_of
from ascend_sim.studies.network.run import AROUND, NetworkRun
from ascend_sim.studies.network.tuning import Tuned

__all__ = ["ranked", "write_ranking"]

_DRAWN = 25
"""Layers in the picture: the longest ones."""


def ranked(run: NetworkRun) -> list[dict[str, Any]]:
    """The distinct layers that ran, longest time over all their copies first.

    "us" of one, "copies", "all" of them together, "ideal" of the cube at its peak, "around", and "beyond": what is above the
    ideal, over all copies, which bounds what can be saved.
    """
    copies: dict[str, int] = {}
    for layer, same in zip(run.network.layers, run.same_as, strict=True):
        copies[same or layer.name] = copies.get(same or layer.name, 0) + 1
    found = []
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        if same is None and not times.refused:
            us, count = times.times["total"], copies[layer.name]
            found.append(
                {
                    "layer": layer.name, "text": text_of(layer), "us": us, "copies": count, "all": us * count,
                    "ideal": times.ideal, "around": times.times[AROUND], "beyond": (us - times.ideal) * count,
                    "parts": {part: times.times[part] * count for part in run.parts},
                }
            )  # fmt: skip
    return sorted(found, key=lambda row: -row["all"])


def write_ranking(path: str | Path, run: NetworkRun, tuned: Tuned | None = None) -> None:
    """Write the page. Raises SimError without Plotly, and where the file cannot be written."""
    check_plotly()
    figures = Figures()
    title = f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}"
    rows, total = ranked(run), run.totals["total"]
    saved = {name: before - after for name, before, after in tuned.ranked} if tuned is not None else {}
    ideal = sum(row["ideal"] * row["copies"] for row in rows)
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{total:,.1f} us in {len(run.layers)} layers, {run.distinct} of them distinct. The cube at its peak would need "
        f"{ideal:,.1f} us ({100 * ideal / total:.0f} %).</p>",
        f"<p>{escape(around_line(run))}.</p>" if run.around else "",
        f"<p>{escape(tuned.sentence)}.</p>" if tuned is not None else "",
        *(f"<p>refused: {escape(refusal)}</p>" for refusal in run.refused),
        "<h2>Where the time goes</h2>",
        figures.add(_bars(run, rows[:_DRAWN]), "layers"),
        "<h2>Layers by time</h2>",
        _table(rows, total, saved if tuned is not None else None),
        '<p class="faint">Above the ideal is what no product needs: the kernels around, launches, what keeps the cube '
        "waiting. It bounds what any tiling, layout or batch can save; saved is what searched tilings do save.</p>",
    ]
    with atomic_write(path) as file:
        file.write(framed(title, parts, figures).encode())


def _table(rows: list[dict[str, Any]], total: float, saved: dict[str, float] | None) -> str:
    head = [
        "layer",
        "input * weight",
        ">us",
        ">copies",
        ">us in all",
        ">share",
        ">ideal us",
        ">around us",
        ">above ideal, all",
    ]
    head += [] if saved is None else [">saved in all"]
    lines = []
    for row in rows:
        cells = [
            escape(row["layer"]), escape(row["text"]), f"{row['us']:,.1f}", str(row["copies"]), f"{row['all']:,.1f}",
            f"{100 * row['all'] / total:.1f} %", f"{row['ideal']:,.1f}", f"{row['around']:,.1f}", f"{row['beyond']:,.1f}",
        ]  # fmt: skip
        cells += [] if saved is None else [f"{saved[row['layer']] * row['copies']:,.1f}"]
        lines.append(cells)
    return table(head, lines)


def _bars(run: NetworkRun, rows: list[dict[str, Any]]) -> Any:
    """Us of all copies, by part, the longest layer on top."""
    import plotly.graph_objects as draw

    names = [row["layer"] for row in reversed(rows)]
    figure = draw.Figure(
        [
            draw.Bar(y=names, x=[row["parts"][part] for row in reversed(rows)], name=part, orientation="h")
            for part in run.parts
        ]
    )
    figure.update_layout(
        barmode="stack", height=120 + 22 * len(rows), margin={"l": 160, "t": 20, "r": 20, "b": 45},
        xaxis_title="us, all copies", legend={"orientation": "h", "y": 1.08},
    )  # fmt: skip
    return figure

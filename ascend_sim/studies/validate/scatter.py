"""Predicted against measured task times as a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_sim.report.png import png_figure, write_png
from ascend_sim.studies.validate.run import RowComparison


def plot(compared: Sequence[RowComparison], path: str | Path) -> None:
    """Write a PNG of predicted against measured task times on log axes: a colour for every operator, a shape for every chip.

    Skipped rows are left out, and single transfers unless there is nothing else. Raises SimError as `check_png` and
    `write_png`.
    """
    figure = png_figure(path, 10, 6.5)
    axis = figure.subplots()
    found = [one for one in compared if not one.prediction.skipped]
    # Single transfers take fractions of a microsecond: beside kernels they would squeeze these into a corner.
    shown = [one for one in found if one.row.kernel.op_type != "DataCopy"] or found
    operators = list(dict.fromkeys(sorted(one.row.kernel.op_type for one in shown)))
    chips = list(dict.fromkeys(sorted(_chip(one) for one in shown)))
    for operator in operators:
        for chip in chips:
            rows = [one for one in shown if (one.row.kernel.op_type, _chip(one)) == (operator, chip)]
            axis.scatter(
                [one.row.duration_us for one in rows],
                [one.prediction.task_us for one in rows],
                s=16,
                linewidths=0.8,
                color=f"C{operators.index(operator) % 10}",
                marker=_SHAPES[chips.index(chip) % len(_SHAPES)],
                facecolors="none" if operators.index(operator) >= 10 else None,
            )
    if shown:
        times = [time for one in shown for time in (one.row.duration_us, one.prediction.task_us)]
        ends = (min(times) / math.sqrt(2), max(times) * math.sqrt(2))
        axis.plot(ends, ends, color="black", linewidth=0.8)
        for factor in (0.8, 1.25):
            axis.plot(ends, [end * factor for end in ends], color="grey", linewidth=0.6, linestyle="--")
        figure.legend(handles=_legend(operators, chips), loc="outside right upper", fontsize="small")
    title = f"Task time of {len(shown)} rows (dashed: +25 %, -20 %)"
    axis.set(xscale="log", yscale="log", xlabel="measured us", ylabel="predicted us", title=title)
    axis.grid(alpha=0.3)
    write_png(figure, path)


_SHAPES = "os^DvP*X"
"""Markers of chips."""


def _chip(one: RowComparison) -> str:
    """Return the name of a row's chip; of a chip file its name without folders."""
    return Path(one.row.kernel.chip).name


def _legend(operators: Sequence[str], chips: Sequence[str]) -> list[Any]:
    """Return the legend's entries: colours of operators (hollow from the eleventh on), then shapes of chips."""
    from matplotlib.lines import Line2D

    marks: list[dict[str, Any]] = [
        {"marker": "o", "color": f"C{number % 10}", "label": name, "markerfacecolor": "none" if number >= 10 else None}
        for number, name in enumerate(operators)
    ]
    marks += [{"marker": _SHAPES[number % len(_SHAPES)], "color": "black", "label": name} for number, name in enumerate(chips)]
    return [Line2D([], [], linestyle="", markersize=5, **mark) for mark in marks]

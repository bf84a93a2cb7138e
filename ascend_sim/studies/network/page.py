"""A network's convolutions as one self-contained page: the time of every layer by parts, and of every kind of kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from ascend_sim.ops.network import text_of
from ascend_sim.report.certainty import words
from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.layer_pages import linked
from ascend_sim.report.skeleton import Figures, check_plotly, framed
from ascend_sim.studies.network.pages import heads, layout_line, time_text
from ascend_sim.studies.network.ranking import ranking
from ascend_sim.studies.network.run import NetworkRun
from ascend_sim.studies.network.tuning import Tuned

__all__ = ["write_page"]


def write_page(
    path: str | Path, run: NetworkRun, tuned: Tuned | None = None, links: Mapping[str, str] | None = None
) -> None:
    """Write the run as one self-contained HTML page: figure and table of layers, their ranking, the kinds of kernels.

    `tuned` adds what searched tilings save; `links` is {layer: link to its page}. Raises SimError without Plotly, and where the
    file cannot be written.
    """
    check_plotly()
    figures = Figures()
    title = f"{run.network.name}, batch {run.batch}, on {run.chip}: {run.direction}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        _facts(run),
        "<h2>Layers</h2>",
        '<p class="faint">us of each part, in forward order; equal layers are simulated once.</p>',
        figures.add(_layers_figure(run), "layers"),
        _layers(run, links or {}),
        ranking(run, tuned),
        "<h2>Kernels</h2>",
        '<p class="faint">us of all launches of one kind, and their share of the time that kernels take.</p>',
        _kernels(run),
    ]
    text = framed(title, parts, figures)
    with atomic_write(path) as file:
        file.write(text.encode())


def _facts(run: NetworkRun) -> str:
    shown = {"us in all": f"{run.totals['total']:,.1f}", "layers": f"{len(run.layers)}", "distinct": f"{run.distinct}"}
    facts = "".join(f'<div class="fact"><b>{value}</b>{name}</div>' for name, value in shown.items())
    said = [] if run.complete else ["<p>Interrupted: only the layers that were finished stand here.</p>"]
    said += [f"<p>{escape(layout_line(run))}.</p>"] if run.layout else []
    said.append(f"<p>{escape(words(run.interval))}.</p>")
    said += [f"<p>refused: {escape(refusal)}</p>" for refusal in run.refused]
    said += [f"<p>{escape(finding)}</p>" for finding in run.findings]
    return "\n".join([f'<div class="facts">{facts}</div>', *said])


def _layers_figure(run: NetworkRun) -> Any:
    from ascend_sim.report.figures import EDGE, LEGEND, new_figure

    figure = new_figure(90 + 22 * len(run.layers), barmode="stack", legend=LEGEND, xaxis_title="us")
    names = [f"{number} {layer.name}" for number, layer in enumerate(run.network.layers, 1)]
    columns = heads(run)
    for part in run.parts:
        figure.add_bar(
            y=names,
            x=[layer.times.get(part, 0.0) for layer in run.layers],
            name=columns[part].removesuffix(" us"),
            orientation="h",
            marker_line_color=EDGE,
        )
    figure.update_yaxes(autorange="reversed")
    return figure


def _layers(run: NetworkRun, links: Mapping[str, str]) -> str:
    whole, columns, rows = run.totals["total"], heads(run), []
    for layer, times, same in zip(run.network.layers, run.layers, run.same_as, strict=True):
        figures = ["refused" if times.refused else time_text(times.times[part], ",.1f") for part in columns]
        share = _share(times.times.get("total", 0.0), whole)
        rows.append([linked(layer.name, links), escape(text_of(layer)), *figures, share, escape(same or "")])
    head = ("layer", "input * weight", *(f">{one}" for one in columns.values()), ">share", "same as")
    marks = [_bar(layer.times.get("total", 0.0), whole) for layer in run.layers]
    return table(head, rows, marks=marks, bar=len(columns) + 2, identity="all-layers", sort=True)


def _kernels(run: NetworkRun) -> str:
    launches: Counter[str] = Counter()
    times: Counter[str] = Counter()
    for layer in run.layers:
        for kernel in layer.kernels:
            launches[kernel["op_type"]] += 1
            times[kernel["op_type"]] += kernel["task_us"]
    whole = sum(times.values())
    rows = [[escape(name), f"{launches[name]}", f"{us:,.1f}", _share(us, whole)] for name, us in times.most_common()]
    marks = [_bar(us, whole) for _, us in times.most_common()]
    return table(("op_type", ">launches", ">us", ">share"), rows, marks=marks, bar=3, identity="kinds")


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _bar(part: float, whole: float) -> str:
    """Return the HTML attribute with the length of a row's bar in per cent of `whole` (0 of none), for `table`."""
    return f'style="--part: {100 * part / whole if whole else 0:.1f}%"'

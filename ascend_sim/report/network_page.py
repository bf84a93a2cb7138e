"""The page of the layers of a network, or of a model that PyTorch ran: times by layer and part, and every kind of kernel.

NetworkPage(title, columns, layers, kernels=...).write("page.html", links)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ascend_sim.frozen import frozen
from ascend_sim.report.colors import PART_COLORS
from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.layer_pages import linked
from ascend_sim.report.skeleton import Figures, framed
from ascend_sim.report.summary import command_html

_RANKING = (
    "layer", "input * weight", ">us", ">copies", ">us in all", ">share", ">ideal us", ">layout us", ">above ideal, all",
)  # fmt: skip


@frozen
class PageLayer:
    """One layer on the page: its sizes as text, its us by part with "total" ({} without times), and the cells of the page's
    own columns.
    """

    name: str
    text: str
    times: Mapping[str, float]
    cells: Sequence[str] = ()
    refused: bool = False


@frozen
class NetworkPage:
    """Contents of the page of a network's layers, and its writer.

    `columns` maps each part of a layer's time to the head of its column, "total" last; {} for a run without times. `more` are
    the heads of further columns, whose cells the layers bring. `kernels` has (op_type, us) of every launch, `calls` (line,
    kernels) of each distinct call, `sections` HTML to put after the table of layers.
    """

    title: str
    columns: Mapping[str, str]
    layers: Sequence[PageLayer]
    distinct: int
    notes: Sequence[str] = ()
    more: Sequence[str] = ()
    kernels: Sequence[tuple[str, float]] = ()
    calls: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = ()
    sections: Sequence[str] = field(default_factory=list)

    @property
    def totals(self) -> dict[str, float]:
        """Return {part: us}, summed over the layers."""
        return {part: sum(layer.times.get(part, 0.0) for layer in self.layers) for part in self.columns}

    def write(self, path: str | Path, links: Mapping[str, str] | None = None) -> None:
        """Write the page as one HTML file that loads no other; `links` is {layer: link to its page}.

        Without Plotly it has no figure. Raises SimError where the file cannot be written.
        """
        text = self.html(links or {})
        with atomic_write(path) as file:
            file.write(text.encode())

    def html(self, links: Mapping[str, str]) -> str:
        """Return the page as HTML: facts, notes, figure and table of layers, `sections`, kinds of kernels, calls; parts
        without data are left out.
        """
        figures, parts = Figures(), [f"<h1>{escape(self.title)}</h1>", self._facts()]
        parts += [f"<p>{escape(note)}</p>" for note in self.notes]
        parts.append("<h2>Layers</h2>")
        if self.columns:
            parts.append('<p class="faint">us of each part, in forward order; equal calls are simulated once.</p>')
            parts.append(figures.add(self._figure(), "layers") if find_spec("plotly") else "")
        parts += [self._layers(links), *self.sections]
        if self.kernels:
            parts += [
                "<h2>Kernels</h2>",
                '<p class="faint">us of all launches of one kind, and their share of the time that kernels take.</p>',
                self._kinds(),
            ]
        parts += [_call(line, kernels) for line, kernels in self.calls]
        return framed(self.title, parts, figures)

    def _facts(self) -> str:
        totals = self.totals
        whole = totals.pop("total", 0.0)
        shown = {"us in all": f"{whole:,.1f}"} if self.columns else {}
        shown |= {"layers": str(len(self.layers)), "distinct": str(self.distinct)}
        for part, us in totals.items():
            if us:
                shown[f"{self.columns[part].removesuffix(' us')}, {us:,.1f} us"] = f"{100 * us / whole:.0f} %"
        facts = "".join(f'<div class="fact"><b>{value}</b>{escape(name)}</div>' for name, value in shown.items())
        return f'<div class="facts">{facts}</div>'

    def _figure(self) -> Any:
        from ascend_sim.report.figures import EDGE, LEGEND, new_figure

        figure = new_figure(90 + 22 * len(self.layers), barmode="stack", legend=LEGEND, xaxis_title="us")
        names = [f"{number} {layer.name}" for number, layer in enumerate(self.layers, 1)]
        for part, head in self.columns.items():
            times = [layer.times.get(part, 0.0) for layer in self.layers]
            if part != "total" and any(times):
                bar = {"name": head.removesuffix(" us"), "orientation": "h", "marker_line_color": EDGE}
                figure.add_bar(y=names, x=times, marker_color=PART_COLORS.get(part), **bar)
        figure.update_yaxes(autorange="reversed")
        return figure

    def _layers(self, links: Mapping[str, str]) -> str:
        whole, rows = self.totals.get("total", 0.0), []
        for layer in self.layers:
            figures = ["refused" if layer.refused else _us(layer.times.get(part)) for part in self.columns]
            figures += [_share(layer.times.get("total", 0.0), whole)] if self.columns else []
            rows.append([linked(layer.name, links), escape(layer.text), *figures, *map(escape, layer.cells)])
        timed = [*(f">{one}" for one in self.columns.values()), ">share"] if self.columns else []
        marks = [_bar(layer.times.get("total", 0.0), whole) for layer in self.layers]
        head = ("layer", "input * weight", *timed, *self.more)
        return table(head, rows, marks=marks, bar=1 + len(timed) if timed else -1, identity="all-layers", sort=True)

    def _kinds(self) -> str:
        launches = Counter(name for name, _ in self.kernels)
        times: Counter[str] = Counter()
        for name, us in self.kernels:
            times[name] += us  # type: ignore[assignment]
        whole = sum(times.values())
        rows = [[escape(name), f"{launches[name]}", f"{us:,.1f}", _share(us, whole)] for name, us in times.most_common()]
        marks = [_bar(us, whole) for _, us in times.most_common()]
        return table(("op_type", ">launches", ">us", ">share"), rows, marks=marks, bar=3, identity="kinds")


def ranking(
    rows: Sequence[Mapping[str, Any]], total: float, saved: Mapping[str, float] | None = None, sentence: str = ""
) -> str:
    """Return a table of layers, in the order of `rows`, as HTML for a section of the page.

    `rows` have "layer", "text", "us" of one, "copies", "all", "ideal", "layout", and "beyond": the time of all copies above the
    ideal. `saved` is {layer: us that other tilings save}; `sentence` stands above the table.
    """
    lines = []
    for row in rows:
        cells = [
            escape(row["layer"]), escape(row["text"]), f"{row['us']:,.1f}", str(row["copies"]), f"{row['all']:,.1f}",
            _share(row["all"], total), f"{row['ideal']:,.1f}", f"{row['layout']:,.1f}", f"{row['beyond']:,.1f}",
        ]  # fmt: skip
        lines.append([*cells, *([] if saved is None else [f"{saved[row['layer']] * row['copies']:,.1f}"])])
    return "\n".join(
        [
            "<h2>Layers by time</h2>",
            f"<p>{escape(sentence)}.</p>" if sentence else "",
            table((*_RANKING, *([] if saved is None else [">saved in all"])), lines, identity="ranking", sort=True),
            '<p class="faint">Above the ideal is what no product needs: layout conversions, launches, what keeps the cube '
            "waiting. It bounds what any tiling, layout or batch can save; saved is what searched tilings do save. A click on "
            "the name of a column sorts by it.</p>",
        ]
    )


def next_line(line: str) -> str:
    """Return the command, or line of Python, that opens the layer with most time as HTML for a section; "" for none."""
    return f"<p>To open the longest layer:{command_html(line)}</p>" if line else ""


def _call(line: str, kernels: Sequence[Mapping[str, Any]]) -> str:
    """Return a folded HTML element with `line` as its head and a table of the call's kernels."""
    rows = [
        [
            escape(str(kernel["op_type"])), escape(str(kernel["name"])), str(kernel["block_dim"]),
            _us(kernel["task_us"], ",.2f"), escape(kernel["tiling_source"] or ""),
        ]
        for kernel in kernels
    ]  # fmt: skip
    inside = table(("op_type", "kernel", ">blocks", ">us", "tiling"), rows)
    return f"<details><summary>{escape(line)}</summary>{inside}</details>"


def _us(us: float | None, form: str = ",.1f") -> str:
    """Return a time as text in the number format `form`; "-" for None or 0, where no kernel computes it."""
    return f"{us:{form}}" if us else "-"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def _bar(part: float, whole: float) -> str:
    return f'style="--part: {100 * part / whole:.1f}%"' if whole else ""

"""The page of the layers of a network, or of a model that PyTorch ran: times by layer and part, and every kind of kernel.

NetworkPage(title, columns, layers, distinct, kernels=...).write("page.html")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ascend_sim.frozen import frozen
from ascend_sim.report.colors import PART_COLORS
from ascend_sim.report.files import write_text
from ascend_sim.report.html import cards, code_html, table
from ascend_sim.report.layer_pages import linked
from ascend_sim.report.ranking import MOST
from ascend_sim.report.skeleton import Figures, framed

_RANKING = (
    "layer", "input * weight", ">us", ">copies", ">us in all", ">share", ">ideal us", ">layout us", ">above ideal, all",
)  # fmt: skip

_LONG_NOTE = 120
"""Notes of the page that are longer are folded, but for their first part."""
_LAYERS = (
    "Layers in forward order; a bar is the time of one layer by part. Layout kernels only convert layouts and dtypes. Times "
    "are in us; calls are forward + backward calls. Equal layers are simulated once: same as names the first of them."
)


@frozen
class PageLayer:
    """One layer on the page: its sizes as text, its calls as "forward+backward", its us by part with "total" ({} without
    times), the kernels of its calls, the earlier layer that it equals, and the status of a refusal ("" for neither).

    `difference` is how far the chip's values are from PyTorch's, as text; "" where they were not compared.
    """

    name: str
    text: str
    dtype: str
    calls: str
    times: Mapping[str, float]
    kernels: Sequence[Mapping[str, Any]]
    same_as: str = ""
    refused: str = ""
    difference: str = ""


@frozen
class NetworkPage:
    """Contents of the page of a network's layers, and its writer; times are in us.

    `columns` maps each part of a layer's time to the head of its column, "total" last; {} for a run without times, where
    `ranked` must be empty. `ranked` has a row for each distinct layer: "layer", "text", "us", "ideal" and "layout" of one copy,
    "copies", and "all" and "beyond", the time above the ideal, of all copies. `opens` is {layer: the line that opens it},
    `links` {layer: link to its page}; `pages` says how to get such pages. `saved` is {layer: us that other tilings save of one
    copy} for every ranked layer, or None; `sentence` is about it. `kernels` has (op_type, us) of every launch, `calls` (line,
    kernels) of each distinct call.
    """

    title: str
    columns: Mapping[str, str]
    layers: Sequence[PageLayer]
    distinct: int
    notes: Sequence[str] = ()
    kernels: Sequence[tuple[str, float]] = ()
    calls: Sequence[tuple[str, Sequence[Mapping[str, Any]]]] = ()
    ranked: Sequence[Mapping[str, Any]] = ()
    opens: Mapping[str, str] = field(default_factory=dict)
    pages: str = ""
    links: Mapping[str, str] = field(default_factory=dict)
    saved: Mapping[str, float] | None = None
    sentence: str = ""

    @property
    def totals(self) -> dict[str, float]:
        """Return {part: us}, summed over all layers, copies too; {} without `columns`."""
        return {part: sum(layer.times.get(part, 0.0) for layer in self.layers) for part in self.columns}

    def write(self, path: str | Path) -> None:
        """Write the page as one HTML file that loads no other.

        Without Plotly it has no figure. Raises SimError where the file cannot be written.
        """
        write_text(path, self.html())

    def html(self) -> str:
        """Return the page as HTML: facts, layers that cost most, notes, figure and table of layers, ranking, kinds of kernels,
        calls. Parts without data are left out, and without Plotly the figure.
        """
        figures, parts = Figures(), [f"<h1>{escape(self.title)}</h1>", self._facts()]
        parts += [self._most()] if self.ranked else []
        parts += map(_note, self.notes)
        parts.append("<h2>Layers</h2>")
        if self.columns:
            parts.append(f'<p class="faint">{_LAYERS}</p>')
            parts.append(figures.add(self._figure(), "layers", "us of each layer by part") if find_spec("plotly") else "")
        parts += [self._layers(), self._ranking() if self.ranked else ""]
        if self.kernels:
            parts += [
                "<h2>Kinds of kernels</h2>",
                '<p class="faint">Launches of each kind in the whole network, their us together, and their share.</p>',
                self._kinds(),
            ]
        parts += ["<h2>Kernels of each distinct call</h2>"] if self.calls else []
        parts += [_call(line, kernels) for line, kernels in self.calls]
        return framed(self.title, parts, figures)

    def _facts(self) -> str:
        totals = self.totals
        whole = totals.pop("total", 0.0)
        shown = {"us in all": f"{whole:,.1f}"} if self.columns else {}
        shown |= {"layers": str(len(self.layers)), "distinct": str(self.distinct)}
        for part, us in sorted(totals.items(), key=lambda item: -item[1]):
            if us:
                shown[f"{self.columns[part].removesuffix(' us')}, {us:,.1f} us"] = f"{100 * us / whole:.0f} %"
        return cards((value, name) for name, value in shown.items())

    def _most(self) -> str:
        """Return a table of the layers that cost most, and the line that opens the first one."""
        total, rows = self.totals["total"], self.ranked[:MOST]
        lines = []
        for row in rows:
            times = f"{row['all']:,.1f}", _share(row["all"], total), f"{row['copies']} x", f"{row['us']:,.1f}"
            lines.append([linked(row["layer"], self.links), *times, _share(row["layout"], row["us"])])
        found = table(("most time", ">us in all", ">share", ">copies", ">us of one", ">layout"), lines, identity="most")
        first = self.opens.get(rows[0]["layer"])
        return found + (f"<p>Next: {code_html(first)}</p>" if first else "")

    def _figure(self) -> Any:
        from ascend_sim.report.figures import EDGE, LEGEND, new_figure

        figure = new_figure(90 + 22 * len(self.layers), barmode="stack", legend=LEGEND, xaxis_title="us")
        names = [f"{number} {layer.name}" for number, layer in enumerate(self.layers, 1)]
        for part, head in self.columns.items():
            times = [layer.times.get(part, 0.0) for layer in self.layers]
            if part != "total" and any(times):
                bar = {"name": head.removesuffix(" us"), "orientation": "h", "marker_line_color": EDGE}
                figure.add_bar(y=names, x=times, marker_color=PART_COLORS.get(part), **bar)
        figure.update_yaxes(autorange="reversed", type="category")  # a layer may be called 7
        return figure

    def _layers(self) -> str:
        whole, rows = self.totals.get("total", 0.0), []
        compared = any(layer.difference for layer in self.layers)
        for layer in self.layers:
            refused = layer.refused and not layer.times
            figures = ["refused" if refused else _us(layer.times.get(part)) for part in self.columns]
            figures += [_share(layer.times.get("total", 0.0), whole)] if self.columns else []
            longest = max(layer.kernels, key=lambda kernel: kernel["task_us"] or 0.0, default={"op_type": "-"})["op_type"]
            words = [layer.refused or longest, layer.same_as]
            words += [layer.difference or "-"] if compared else []
            before = [escape(layer.text), escape(layer.dtype), layer.calls, str(len(layer.kernels))]
            rows.append([linked(layer.name, self.links), *before, *figures, *map(escape, words)])
        timed = [*(f">{one.removesuffix(' us')}" for one in self.columns.values()), ">share"] if self.columns else []
        marks = [_bar(layer.times.get("total", 0.0), whole) for layer in self.layers]
        head = ["layer", "input * weight", "dtype", ">calls", ">kernels", *timed, "longest kernel", "same as"]
        head += [">from torch"] if compared else []
        return table(head, rows, marks=marks, bar=4 + len(timed) if timed else -1, identity="all-layers", sort=True)

    def _ranking(self) -> str:
        lines, saved, total = [], self.saved, self.totals["total"]
        for row in self.ranked:
            name = row["layer"]
            cells = [
                linked(name, self.links), escape(row["text"]), f"{row['us']:,.1f}", str(row["copies"]), f"{row['all']:,.1f}",
                _share(row["all"], total), f"{row['ideal']:,.1f}", f"{row['layout']:,.1f}", f"{row['beyond']:,.1f}",
            ]  # fmt: skip
            cells += [] if saved is None else [f"{saved[name] * row['copies']:,.1f}"]
            lines.append([*cells, *([code_html(self.opens[name]) if name in self.opens else "-"] if self.opens else [])])
        head = (*_RANKING, *([] if saved is None else [">saved in all"]), *(["open it"] if self.opens else []))
        found = "" if saved is None else " Saved is what the searched tilings save."
        return "\n".join(
            [
                "<h2>Layers by time</h2>",
                f"<p>{escape(self.sentence)}.</p>" if self.sentence else "",
                f"<p>{escape('Names lead to pages of the layers.' if self.links else self.pages)}</p>",
                table(head, lines, identity="ranking", sort=True),
                '<p class="faint">Equal layers are copies of one. Ideal is the time of the products alone, with every cube '
                f"busy; above it are layout conversions, launches and waits. No tiling, layout or batch saves more.{found} "
                "A click on the name of a column sorts by it.</p>",
            ]
        )

    def _kinds(self) -> str:
        of_kind: dict[str, list[float]] = {}
        for name, us in self.kernels:
            of_kind.setdefault(name, []).append(us)
        whole = sum(us for _, us in self.kernels)
        ranked = sorted(((sum(times), name) for name, times in of_kind.items()), key=lambda one: -one[0])
        rows = [[escape(name), f"{len(of_kind[name])}", f"{us:,.1f}", _share(us, whole)] for us, name in ranked]
        marks = [_bar(us, whole) for us, _ in ranked]
        return table(("op_type", ">launches", ">us", ">share"), rows, marks=marks, bar=3, identity="kinds")


def _note(note: str) -> str:
    """Return a note as HTML; one of over 120 characters is folded behind its part before the first "; ", if it has one."""
    head, _, rest = note.partition("; ")
    if not rest or len(note) <= _LONG_NOTE:
        return f"<p>{escape(note)}</p>"
    return f"<details><summary>{escape(head)}</summary><p>{escape(rest)}</p></details>"


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

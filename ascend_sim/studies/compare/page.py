"""A comparison as one self-contained page: what differs, and kernel by kernel waterfalls and timelines on one zoom."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from ascend_sim.engine.critical_path import PathStep, critical_path
from ascend_sim.report.files import atomic_write
from ascend_sim.report.html import table
from ascend_sim.report.page import chosen_block
from ascend_sim.report.skeleton import Figures, check_plotly, framed, window_buttons
from ascend_sim.report.waterfall import WORDS
from ascend_sim.studies.compare.facts import LETTERS, Fact, KernelFacts, RunComparison
from ascend_sim.studies.compare.text import HEADS, shown_difference, shown_value, shown_values

_KERNELS = 12
"""Kernels with a part of their own, those first whose times differ most."""
_ROWS = 2400
"""Instructions that are drawn one by one in a window of a timeline, over all kernels and runs: the page stays small."""

_MARK = "*\u00a0"
"""Before the name of a quantity that differs, on the name's line."""
_LONG = 40
"""Characters of a cell that stay in one line."""


def write_page(path: str | Path, comparison: RunComparison) -> None:
    """Write a comparison as one self-contained HTML page: the whole call, and parts for the 12 kernels whose times differ most.

    Raises SimError without Plotly, and where the file cannot be written.
    """
    check_plotly()
    figures = Figures()
    title = f"{', '.join(run.label for run in comparison.runs)} side by side"
    parts = [f"<h1>{escape(title)}</h1>", _runs(comparison), _whole_call(comparison), *_kernels(comparison, figures)]
    text = framed(title, parts, figures)
    with atomic_write(path) as file:
        file.write(text.encode())


def _runs(comparison: RunComparison) -> str:
    facts = [
        f'<div class="fact"><b>{letter}: {shown_value(run.report["total_us"])} us</b>'
        f"{escape(run.label)} ({run.kind}) on {escape(run.report['chip'])}</div>"
        for letter, run in zip(LETTERS, comparison.runs, strict=False)
    ]
    said = "Nothing differs." if comparison.same else "What differs is marked with * and set in bold."
    return f'<div class="facts">{"".join(facts)}</div>\n<p>{said}</p>'


def _whole_call(comparison: RunComparison) -> str:
    lines = ["<h2>The whole call</h2>", _facts(comparison, comparison.call)]
    if comparison.outputs:
        lines += ["<h2>Results</h2>", _facts(comparison, comparison.outputs)]
    return "\n".join(lines)


def _kernels(comparison: RunComparison, figures: Figures) -> list[str]:
    kernels = comparison.kernels
    order = sorted(range(len(kernels)), key=lambda i: (-kernels[i].spread, not kernels[i].differs, i))[:_KERNELS]
    times = [Fact(kernel.name, kernel.fact("kernel", "us").values) for kernel in comparison.kernels]
    marks = [kernel.differs for kernel in comparison.kernels]
    options = "".join(f'<option value="{i}">{escape(comparison.kernels[i].name)}</option>' for i in order)
    lines = [
        "<h2>Kernels</h2>",
        '<p class="faint">In us, in launch order; a click shows the kernel below.</p>',
        _facts(comparison, times, marks, kernels=True),
        '<h2 id="one-kernel">One kernel</h2>',
        f'<p><select id="kernel" aria-label="kernel">{options}</select></p>',
    ]
    if len(order) < len(comparison.kernels):
        lines.append(f'<p class="faint">The {len(order)} of {len(comparison.kernels)} whose times differ most.</p>')
    paths = [critical_path(run.recording.timeline) for run in comparison.runs]
    rows = max(_ROWS // (len(order) * len(comparison.runs)), 100)
    return [*lines, *(_kernel(comparison, index, paths, rows, figures) for index in order)]


def _kernel(comparison: RunComparison, index: int, paths: Sequence[Sequence[PathStep]], rows: int, figures: Figures) -> str:
    kernel = comparison.kernels[index]
    lines = [f'<section class="kernel" data-kernel="{index}" hidden>', f"<h3>{escape(kernel.name)}</h3>"]
    if kernel.missing:
        there = [letter for letter, row in zip(LETTERS, kernel.rows, strict=False) if row is not None]
        lines.append(f"<p>Only in {' and '.join(there)}.</p>")
    lines += _waterfalls(comparison, kernel, index, figures)
    lines += _timelines(comparison, kernel, index, paths, rows, figures)
    for group, facts in kernel.groups.items():
        if group in HEADS:
            lines.append(f"<h3>{HEADS[group].capitalize()}</h3>")
        named = [Fact(WORDS[fact.name], fact.values) for fact in facts] if group == "waterfall" else facts
        lines.append(_facts(comparison, named))
    return "\n".join([*lines, "</section>"])


def _waterfalls(comparison: RunComparison, kernel: KernelFacts, index: int, figures: Figures) -> list[str]:
    """Return the HTML of one kernel's waterfalls, one a run, side by side on one scale of us; [] if none has."""
    from ascend_sim.report.figures import waterfall_figure

    cells = []
    longest = _longest_us(kernel)
    for letter, run, row in zip(LETTERS, comparison.runs, kernel.rows, strict=False):
        if row is not None and run.report["kernels"][row].get("waterfall"):
            figure = waterfall_figure(run.recording.chip, run.report["kernels"][row])
            figure.update_xaxes(range=[0, longest])
            drawn = figures.add(figure, f"waterfall-{index}-{letter}", f"waterfall of {kernel.name} in {letter}")
            cells.append(f"<div><h3>{letter}: where the time goes</h3>{drawn}</div>")
    return [f'<div class="columns">{"".join(cells)}</div>'] if cells else []


def _timelines(
    comparison: RunComparison,
    kernel: KernelFacts,
    index: int,
    paths: Sequence[Sequence[PathStep]],
    rows: int,
    figures: Figures,
) -> list[str]:
    """Return the HTML of a kernel's timelines: one block of each run that ran it, from the launch on, all on one zoom.

    At most `rows` instructions are drawn one by one in each window.
    """
    from ascend_sim.report.timeline_figure import WINDOW_ROWS, timeline_figure

    lines = [
        '<p class="faint">One block of each run, from the launch of the kernel. Drag to zoom: all follow; double-click to go '
        "back. Every instruction is drawn in the windows that the buttons name, between them how busy each pipe was.</p>"
    ]
    longest = _longest_us(kernel)
    for letter, run, path, row in zip(LETTERS, comparison.runs, paths, kernel.rows, strict=False):
        if row is None or not run.recording.timeline.of(row):
            continue
        block = chosen_block(run.recording, row, path)
        origin = run.recording.timeline.tasks[row].launch
        figure = timeline_figure(run.recording, block, path, min(rows, WINDOW_ROWS), origin=origin)
        figure.layout.meta["windows"]["whole kernel"] = [0, longest]
        figure.update_layout(xaxis_range=[0, longest])
        names = ["whole kernel", *(name for name in figure.layout.meta["windows"] if name != "whole kernel")]
        lines += [
            f'<div class="timeline"><h3>{letter}: {escape(block.program.where)}, on core {block.core}</h3>',
            f"<p>{window_buttons(names)}</p>",
            figures.add(
                figure, f"timeline-{index}-{letter}", f"timeline of {kernel.name} in {letter}", zoom=True, time=f"{index}"
            ),
            "</div>",
        ]
    return lines


def _cell(text: str) -> str:
    """Return the text of a cell as HTML; a long one may take several lines."""
    return f'<span class="long">{escape(text)}</span>' if len(text) > _LONG else escape(text)


def _longest_us(kernel: KernelFacts) -> float:
    return max(float(value) for value in kernel.fact("kernel", "us").values if value is not None)


def _facts(comparison: RunComparison, facts: Sequence[Fact], marks: Sequence[bool] = (), *, kernels: bool = False) -> str:
    """Return facts as HTML tables: one of those that differ, each marked, and below it a folded one of those that are equal.

    `marks` (a bool for each fact) replaces the decision which facts differ. With `kernels`, for facts that are one per kernel,
    each row carries its index as `data-kernel`, by which the page's script finds it.
    """
    two = len(comparison.runs) == 2
    found: dict[bool, list[tuple[list[str], str]]] = {True: [], False: []}
    for number, fact in enumerate(facts):
        differs = marks[number] if marks else fact.differs
        cells: list[Any] = [f"{_MARK if differs else ''}{fact.name}", *shown_values(fact)]
        cells += shown_difference(fact) if two else ()
        mark = [*(['class="differs"'] if differs else []), *([f'data-kernel="{number}"'] if kernels else [])]
        found[differs].append((list(map(_cell, cells)), " ".join(mark)))
    head = [
        "kernel" if kernels else "quantity",
        *(f">{letter}" for letter in LETTERS[: len(comparison.runs)]),
        *((">B - A", ">relative") if two else ()),
    ]
    tables = {
        differs: table(head, [cells for cells, _ in rows], marks=[mark for _, mark in rows])
        for differs, rows in found.items()
        if rows
    }
    if False in tables:
        folded = f"{len(found[False])} equal {'row' if len(found[False]) == 1 else 'rows'}"
        tables[False] = f'<details class="equal"><summary>{folded}</summary>{tables[False]}</details>'
    return "\n".join(tables.values())

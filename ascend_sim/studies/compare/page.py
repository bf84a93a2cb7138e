"""A comparison as one self-contained page: what differs, and kernel by kernel waterfalls and timelines on one zoom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ascend_sim.engine.critical_path import critical_path
from ascend_sim.report.blocks import EXPLAINED, timeline_part
from ascend_sim.report.columns import counted
from ascend_sim.report.files import write_text
from ascend_sim.report.html import cards, table
from ascend_sim.report.packed import LIMIT, PackedBlocks
from ascend_sim.report.page import chosen_block
from ascend_sim.report.skeleton import Figures, check_plotly, framed
from ascend_sim.report.waterfall import WORDS
from ascend_sim.studies.compare.facts import LETTERS, Fact, KernelFacts, RunComparison
from ascend_sim.studies.compare.text import HEADS, shown_difference, shown_value, shown_values

_KERNELS = 12
"""Kernels with a part of their own, those first whose times differ most."""
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
    runs = zip(LETTERS, comparison.runs, strict=False)
    said = "Nothing differs." if comparison.same else "What differs is marked with * and set in bold."
    parts = [
        f"<h1>{escape(title)}</h1>",
        cards((f"{letter}: {shown_value(run.report['total_us'])} us", run.title) for letter, run in runs),
        f"<p>{said}</p>",
        "<h2>The whole call</h2>",
        _facts(comparison, comparison.call),
    ]
    parts += ["<h2>Results</h2>", _facts(comparison, comparison.outputs)] if comparison.outputs else []
    kernels, blocks = _kernels(comparison, figures)
    write_text(path, framed(title, [*parts, *kernels], figures, blocks))


def _kernels(comparison: RunComparison, figures: Figures) -> tuple[list[str], list[dict[str, Any]]]:
    """Return (HTML of the table of kernels and a section for each of the 12, blocks of each run for `timeline.js`)."""
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
    firsts, packed = [], []
    for number, run in enumerate(comparison.runs):
        path, rows = critical_path(run.recording.timeline), (kernels[i].rows[number] for i in order)
        ran = (row for row in rows if row is not None and run.recording.timeline.of(row))
        firsts.append({row: chosen_block(run.recording, row, path) for row in ran})
        packed.append(PackedBlocks(run.recording, path, firsts[-1].values(), LIMIT // len(comparison.runs)))
    if left_out := sum(one.left_out for one in packed):
        lines.append(f'<p class="faint">{left_out:,} blocks are left out to keep the page small.</p>')
    lines += [_kernel(comparison, index, firsts, figures) for index in order]
    return lines, [{**one.to_dict(), "clashes": []} for one in packed]


def _kernel(comparison: RunComparison, index: int, firsts: Sequence[Mapping[int, int]], figures: Figures) -> str:
    kernel = comparison.kernels[index]
    lines = [f'<section class="kernel" data-kernel="{index}" hidden>', f"<h3>{escape(kernel.name)}</h3>"]
    if kernel.missing:
        there = [letter for letter, row in zip(LETTERS, kernel.rows, strict=False) if row is not None]
        lines.append(f"<p>Only in {' and '.join(there)}.</p>")
    lines += _waterfalls(comparison, kernel, index, figures)
    lines += _timelines(comparison, kernel, index, firsts)
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


def _timelines(comparison: RunComparison, kernel: KernelFacts, index: int, firsts: Sequence[Mapping[int, int]]) -> list[str]:
    """Return the HTML of a kernel's timelines: one of each run that ran it, from the launch on, all on one zoom.

    `firsts` has for each run {kernel: the block that is drawn at first}.
    """
    lines = [f'<p class="faint">One block of each run, from the launch of the kernel; all zoom together. {EXPLAINED}</p>']
    for number, (letter, run, row, first) in enumerate(zip(LETTERS, comparison.runs, kernel.rows, firsts, strict=False)):
        if row is not None and row in first:
            launch, until = run.recording.timeline.tasks[row].launch, _longest_us(kernel)
            marks = f'id="timeline-{index}-{letter}" data-run="{number}" data-origin="{launch}" data-until="{until}"'
            lines += [
                f"<h3>{letter}: {escape(run.label)}</h3>",
                timeline_part(row, first[row], f"{kernel.name} in {letter}", marks),
            ]
    return lines


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
        cells += shown_difference(fact) if two and differs else ()
        mark = [*(['class="differs"'] if differs else []), *([f'data-kernel="{number}"'] if kernels else [])]
        wrapped = [f'<span class="long">{escape(text)}</span>' if len(text) > _LONG else escape(text) for text in cells]
        found[differs].append((wrapped, " ".join(mark)))
    head = ["kernel" if kernels else "quantity", *(f">{letter}" for letter in LETTERS[: len(comparison.runs)])]
    heads = {True: [*head, *((">B - A", ">relative") if two else ())], False: head}
    tables = {
        differs: table(heads[differs], [cells for cells, _ in rows], marks=[mark for _, mark in rows])
        for differs, rows in found.items()
        if rows
    }
    if False in tables:
        folded = counted(len(found[False]), "equal row")
        tables[False] = f'<details class="equal"><summary>{folded}</summary>{tables[False]}</details>'
    return "\n".join(tables.values())

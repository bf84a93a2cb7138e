"""Parts of a page that `timeline.js` draws: the timeline of a kernel, and tables whose rows it shows there."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from ascend_sim.engine.critical_path import SCALAR_TIME, PathStep
from ascend_sim.engine.timeline import CAUSES, at_work
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import CROSS_WAIT, PIPES, WAIT
from ascend_sim.report.colors import STALL_COLORS
from ascend_sim.report.html import table
from ascend_sim.report.lines import SourceLine, line_table
from ascend_sim.runtime import Recording

_NOTHING_TO_DO = CAUSES.index("nothing to do")


@frozen
class LineCost:
    """Cost of the instructions of one kind from one source line (None: not noted), over all blocks of a kernel; `count` of them
    ran.

    `cycles` occupied their `pipe`. `stalled` are cycles in which the pipe stood still before or in them, other than for lack of
    work; `critical` are those on the critical path. `index` and `row` are the program and row of one of them.
    """

    instruction: str
    pipe: str
    line: SourceLine | None
    count: int
    cycles: int
    stalled: int
    critical: int
    index: int
    row: int


def costs(recording: Recording, task: int, path: Sequence[PathStep]) -> list[LineCost]:
    """Return the costs of the kernel number `task`, one for each (instruction, pipe, source line), most cycles first.

    Waits occupy no cycles, but for those during which the pipe counts as busy (`at_work`). `path` is the run's critical path.
    """
    runs = [(index, run) for index, run in enumerate(recording.timeline.programs) if run.task == task]
    lines, columns = line_table([run.program for _, run in runs])
    critical: dict[int, dict[int, int]] = {}
    for step in path:
        if step.task == task and step.program >= 0 and step.what in (*PIPES, SCALAR_TIME):
            rows = critical.setdefault(step.program, {})
            rows[step.row] = rows.get(step.row, 0) + step.cycles
    found: dict[tuple[str, str, int], list[Any]] = {}
    for (index, run), line in zip(runs, columns, strict=True):
        program = run.program
        kind = program.per_row("kind")
        waits = np.isin(kind, (WAIT, CROSS_WAIT)) & ~at_work(program)
        cycles = np.where(waits, 0, run.end - run.start)
        stalled = np.where(run.cause == _NOTHING_TO_DO, 0, run.stall)
        held = np.zeros(len(program), np.int64)
        for row, length in critical.get(index, {}).items():
            held[row] += length
        keys = np.stack([program.rows[:, 0], line], axis=1)
        unique, first, inverse, count = np.unique(keys, axis=0, return_index=True, return_inverse=True, return_counts=True)
        sums = [
            np.bincount(inverse.ravel(), weights=one, minlength=len(unique)).astype(np.int64) for one in (cycles, stalled, held)
        ]
        for place, (argument, number) in enumerate(unique.tolist()):
            instruction = program.table.instructions[argument]
            name = " ".join(part for part in (instruction.name, instruction.path(), instruction.label()) if part)
            key = (name, PIPES[program.table.pipes[argument]], number)
            into = found.setdefault(key, [0, 0, 0, 0, index, int(first[place])])
            for at, one in enumerate((count, *sums)):
                into[at] += int(one[place])
    made = [LineCost(name, pipe, lines[at] if at >= 0 else None, *totals) for (name, pipe, at), totals in found.items()]
    return sorted(made, key=lambda one: (-one.cycles, -one.stalled, one.instruction, one.line.place if one.line else ""))


EXPLAINED = (
    "Each row is a pipe, each box an instruction; hatched boxes are on the critical path. A thin bar below a row shows that "
    "the pipe waits, a line is a flag from one pipe to another. Where boxes are narrower than a pixel, the height shows how "
    "busy the pipe was. Drag to zoom, or turn the wheel; double-click to go back."
)
"""Words above a timeline."""
_WORDS = {
    "block": "one instance of the kernel; it runs on one core",
    "pipe": "a unit's queue: it runs instructions in order, beside the other pipes",
    "S": "scalar unit: runs the kernel's own code and gives the pipes their instructions",
    "MTE2": "loads from global memory (GM) into the buffers L1 or UB",
    "MTE1": "brings operands of products from L1 to L0A and L0B",
    "M": "cube: multiplies matrices (Mmad) and adds them up in L0C",
    "FIX": "takes results out of L0C to GM",
    "V": "vector unit: computes element by element in UB",
    "MTE3": "stores from UB to GM",
    "flag": "one pipe sets it and another waits for it, so that no access comes too early",
    "stall": "time in which a pipe waits: for a flag, for bandwidth, or for work",
}
"""Words of the pictures of a kernel."""
_COSTS = 12
"""Kinds of instructions in a kernel's table of costs."""
_BUTTONS = (
    ("whole", "whole block", "from its begin to its end"), ("start", "start", "the first instructions"),
    ("middle", "steady state", "instructions in the middle"), ("end", "end", "the last instructions"),
    ("in", "+", "zoom in"), ("out", "&minus;", "zoom out"), ("left", "&larr;", "earlier"), ("right", "&rarr;", "later"),
)  # fmt: skip


def timeline_part(task: int, first: int, name: str, marks: str = "") -> str:
    """Return the HTML element with buttons in which `timeline.js` draws one block of kernel `task`, called `name`; at first
    block `first`.

    `marks` are attributes of the element in place of its id, which is "timeline-TASK" without them.
    """
    marks = marks or f'id="timeline-{task}"'
    buttons = "".join(
        f'<button data-show="{what}"{f" aria-label={title!r}" if title else ""}>{text}</button>'
        for what, text, title in _BUTTONS
    )
    keys = "".join(
        f'<span class="word"><span class="key" style="background: {STALL_COLORS[name]}"></span>{name or "any other"}</span> '
        for name in STALL_COLORS
    )
    return (
        f'<div class="blocks" {marks} data-task="{task}" data-first="{first}">\n'
        '<p><select class="core" aria-label="core"></select><select class="block" aria-label="block"></select></p>\n'
        f"<p>{buttons}</p>\n"
        f'<canvas tabindex="0" role="figure" aria-label="timeline of {escape(name)}"></canvas><div class="tip" hidden></div>\n'
        f'<p class="faint">Thin bars: the pipe waits for{keys}</p></div>'
    )


def words_part() -> str:
    """Return the words of the pictures as a folded HTML table, for a reader who meets them first."""
    rows = [[f"<b>{word}</b>", escape(meaning)] for word, meaning in _WORDS.items()]
    told = table(("word", "meaning"), rows)
    return f'<details id="page-words"><summary>Words: pipes, flags, stalls</summary>{told}</details>'


def costs_part(recording: Recording, task: int, path: Sequence[PathStep]) -> str:
    """Return the HTML table of the 12 kinds of instructions of kernel `task` that cost most (`costs`), each with a button
    that shows one.
    """
    found = costs(recording, task, path)
    cycles: dict[str, int] = {}
    for one in found:
        cycles[one.pipe] = cycles.get(one.pipe, 0) + one.cycles
    rows = [
        [
            f"{escape(one.instruction)}{_source(one.line) if one.line else ''}",
            one.pipe,
            f"{one.count:,}",
            f"{one.cycles:,}",
            f"{100 * one.cycles / cycles[one.pipe]:.1f} %" if cycles[one.pipe] else "-",
            f"{one.stalled:,}",
            f"{one.critical:,}",
            f'<button data-block="{one.index}" data-row="{one.row}">show</button>',
        ]
        for one in found[:_COSTS]
    ]
    head = ("instruction", "pipe", ">times", ">cycles", ">of its pipe", ">waited", ">on critical path", "timeline")
    told = (
        "Cycles are those of all blocks together; waited counts those in which the pipe waits before an instruction or in it."
    )
    if not any(one.line for one in found):
        told += " With --lines, run and kernel add the lines of the source."
    shown = f"{_COSTS} of {len(found)} kinds" if len(found) > _COSTS else f"all {len(found)} kinds"
    summary = f"Instructions that cost most ({shown})"
    return f"<details open><summary>{summary}</summary>{table(head, rows, caption=told, identity=f'costs-{task}')}</details>"


def _source(line: SourceLine) -> str:
    return f'<div class="source"><span class="faint">{escape(line.place)}</span><br><code>{escape(line.text)}</code></div>'

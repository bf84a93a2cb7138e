"""Instructions of a kernel that cost most, by kind, and by source line where lines were noted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.engine.critical_path import SCALAR_TIME, PathStep
from ascend_sim.engine.timeline import CAUSES, at_work
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import CROSS_WAIT, PIPES, WAIT
from ascend_sim.report.lines import SourceLine, line_table
from ascend_sim.runtime import Recording

_NOTHING_TO_DO = CAUSES.index("nothing to do")


@frozen
class LineCost:
    """Cost of the instructions of one kind from one source line, over all blocks of a kernel; `count` of them ran.

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

    Waits occupy no cycles. `path` is the run's critical path.
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
            into[0] += int(count[place])
            for at, one in enumerate(sums, 1):
                into[at] += int(one[place])
    made = [
        LineCost(name, pipe, lines[number] if number >= 0 else None, *totals) for (name, pipe, number), totals in found.items()
    ]
    return sorted(made, key=lambda one: (-one.cycles, -one.stalled, one.instruction, one.line.place if one.line else ""))

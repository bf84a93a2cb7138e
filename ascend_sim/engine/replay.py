"""Values in simulated time: every instruction reads when it starts (`ProgramRun.read_at`) and commits when it retires.

No cost depends on data, so the Timeline is worked out first and the values follow it, event by event: at one instant first
the retirements, then the starts, each in the order (task, block, pipe, row). An atomic adds at its retirement, so K-split
sums arrive in the order of simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from threadpoolctl import threadpool_limits

from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun, Timeline
from ascend_sim.engine.values import BlockShadow, Finding, ProgramValues, raise_fault
from ascend_sim.isa.base import Memory, ValueModel

Row = tuple[int, int]
"""An instruction of a run: the number of its program among all programs, and its row there."""


class Observer(Protocol):
    """Somebody who looks at memory while values come about; it must not change anything."""

    def watch(self, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> Mapping[Row, object]:
        """Told of everything that ran before the first value is computed; returns the rows that it wants to see."""

    def started(self, row: Row, memory: Memory) -> None:
        """A watched instruction has read its operands."""

    def retired(self, row: Row, memory: Memory) -> None:
        """A watched instruction has written its result."""


def replay(
    device: Device,
    tasks: Sequence[Task],
    timeline: Timeline,
    programs: Sequence[ProgramRun],
    model: ValueModel | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    observer: Observer | None = None,
) -> list[Finding]:
    """Give the tensors of `tasks` the values that `programs` leave behind; returns the uninitialised reads.

    A program has memory from its first event to its last. `progress` is told of the programs that are through, `observer`
    of the instructions that it asks for.
    """
    findings: list[Finding] = []
    watched = observer.watch(tasks, programs) if observer is not None else {}
    shadow = BlockShadow()
    values: dict[int, ProgramValues] = {}
    events = [0] * len(programs)
    finished = 0
    times, phases, owners, pipes, rows = [], [], [], [], []
    for owner, run in enumerate(programs):
        table = run.program.table
        matters = np.asarray([i.has_values for i in table.instructions], np.bool_)[run.program.rows[:, 0]]
        index = np.flatnonzero(matters)
        pipe = run.program.per_row("pipe")[index]
        events[owner] = 2 * len(index)
        # An instruction that starts and retires at one instant still reads before it commits, hence phase 2.
        retire, start = run.retire[index], run.read_at()[index]
        for phase, column in ((np.where(retire == start, 2, 0), retire), (np.full(len(index), 1), start)):
            times.append(column)
            phases.append(phase)
            owners.append(np.full(len(index), owner))
            pipes.append(pipe)
            rows.append(index)
    if not times:
        return findings
    time, phase, owner_column = np.concatenate(times), np.concatenate(phases), np.concatenate(owners)
    pipe_column, row_column = np.concatenate(pipes), np.concatenate(rows)
    order = np.lexsort((row_column, pipe_column, owner_column, phase, time))
    pending: dict[tuple[int, int], Any] = {}
    table_rows = [run.program.rows for run in programs]
    # Infinities and NaN are ordinary values of a machine.
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        for event in order.tolist():
            owner, row = int(owner_column[event]), int(row_column[event])
            program = values.get(owner)
            if program is None:
                run = programs[owner]
                program = ProgramValues(tasks[run.task], run.program, device.chip, findings, shadow, model)
                values[owner] = program
            argument, dst, src0, src1, _ = table_rows[owner][row].tolist()
            instruction = program.program.table.instructions[argument]
            key = program.key(argument, dst, src0, src1)
            try:
                if phase[event] == 1:
                    program.at_start(row, key)
                    pending[owner, row] = instruction.read(program.memory, dst, src0, src1)
                else:
                    program.at_retirement(row, key)
                    instruction.commit(program.memory, dst, pending.pop((owner, row)))
            except Exception as error:
                raise_fault(error, program, row)
            if observer is not None and (owner, row) in watched:
                (observer.started if phase[event] == 1 else observer.retired)((owner, row), program.memory)
            events[owner] -= 1
            if not events[owner]:
                del values[owner]
                finished += 1
                if progress is not None:
                    progress("values", finished, len(programs))
    return findings

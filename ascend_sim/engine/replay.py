"""Values in simulated time: every instruction reads when it starts (`ProgramRun.read_at`) and commits when it retires.

No cost depends on data, so the Timeline is worked out first and the values follow it, event by event: at one instant first
the retirements, then the starts, each in the order (task, block, pipe, row). An atomic adds at its retirement, so K-split
sums arrive in the order of simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.compiled.values import Columns, Workspace, events_for_python
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
    engine: str | None = None,
) -> list[Finding]:
    """Give the tensors of `tasks` the values that `programs` leave behind; returns the uninitialised reads.

    A program has memory from its first event to its last. `progress` is told of the programs that are through, `observer`
    of the instructions that it asks for. `engine` as in `Engine`: the compiled one runs in C what moves bytes.
    """
    watched = observer.watch(tasks, programs) if observer is not None else {}
    events, left = _events(programs, watched)
    # Infinities and NaN are ordinary values of a machine.
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        run = _Replay(device.chip, tasks, programs, events, model or ValueModel.of(device.chip), observer, progress)
        if chosen_engine(engine) == "compiled":
            work = Workspace(device.chip, run.model)
            for event in events_for_python(events, left, work, run.begin, run.end):
                run.happen(event)
        else:
            run.all(left)
    return run.findings


def _events(programs: Sequence[ProgramRun], watched: Mapping[Row, object]) -> tuple[Columns, NDArray[np.int64]]:
    """Starts and retirements in their order, and how many of them each program has."""
    left = np.zeros(len(programs), np.int64)
    columns: list[tuple[NDArray[np.int64], ...]] = []
    known = 0
    for owner, run in enumerate(programs):
        table = run.program.table
        matters = np.asarray([i.has_values for i in table.instructions], np.bool_)[run.program.rows[:, 0]]
        index = np.flatnonzero(matters)
        left[owner] = 2 * len(index)
        # An instruction that starts and retires at one instant still reads before it commits, hence phase 2.
        retire, start = run.retire[index], run.read_at()[index]
        pair, pipe, own = known + np.arange(len(index)), run.program.per_row("pipe")[index], np.full(len(index), owner)
        known += len(index)
        for phase, column in ((np.where(retire == start, 2, 0), retire), (np.full(len(index), 1), start)):
            columns.append((index, pipe, own, phase, column, pair))
    if not columns:
        columns.append((np.empty(0, np.int64),) * 6)
    row, pipe, owner_of, phase_of, when, pairs = (np.concatenate(column) for column in zip(*columns, strict=True))
    order = np.lexsort((row, pipe, owner_of, phase_of, when))
    row, owner_of = row[order], owner_of[order]
    looked_at = None
    if watched:
        rows = zip(owner_of.tolist(), row.tolist(), strict=True)
        looked_at = np.fromiter((one in watched for one in rows), np.int8, len(row))
    return Columns(owner_of, row, pairs[order], phase_of[order].astype(np.int8), looked_at), left


class _Replay:
    """The values of a run that is under way."""

    def __init__(
        self,
        chip: ChipSpec,
        tasks: Sequence[Task],
        programs: Sequence[ProgramRun],
        events: Columns,
        model: ValueModel,
        observer: Observer | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self.findings: list[Finding] = []
        self.model = model
        self._chip, self._tasks, self._programs, self._events = chip, tasks, programs, events
        self._observer, self._progress = observer, progress
        self._shadow = BlockShadow()
        self._values: dict[int, ProgramValues] = {}
        self._pending: dict[int, Any] = {}
        self._finished = 0

    def all(self, left: NDArray[np.int64]) -> None:
        """Every event, in numpy; `left` is how many each program has."""
        for event, owner in enumerate(self._events.owner.tolist()):
            if owner not in self._values:
                self.begin(owner)
            self.happen(event)
            left[owner] -= 1
            if not left[owner]:
                self.end(owner)

    def begin(self, owner: int) -> ProgramValues:
        """The memory of a program, before its first event."""
        run = self._programs[owner]
        values = ProgramValues(self._tasks[run.task], run.program, self._chip, self.findings, self._shadow, self.model)
        self._values[owner] = values
        return values

    def end(self, owner: int) -> None:
        """A program has had its last event."""
        del self._values[owner]
        self._finished += 1
        if self._progress is not None:
            self._progress("values", self._finished, len(self._programs))

    def happen(self, event: int) -> None:
        """An instruction reads or commits."""
        columns = self._events
        owner, row, pair, phase = (int(c[event]) for c in (columns.owner, columns.row, columns.pair, columns.phase))
        program = self._values[owner]
        argument, dst, src0, src1, _ = program.program.rows[row].tolist()
        instruction = program.program.table.instructions[argument]
        key = program.key(argument, dst, src0, src1)
        try:
            if phase == 1:
                program.at_start(row, key)
                self._pending[pair] = instruction.read(program.memory, dst, src0, src1)
            else:
                program.at_retirement(row, key)
                instruction.commit(program.memory, dst, self._pending.pop(pair))
        except Exception as error:
            raise_fault(error, program, row)
        if self._observer is not None and columns.watched is not None and columns.watched[event]:
            (self._observer.started if phase == 1 else self._observer.retired)((owner, row), program.memory)

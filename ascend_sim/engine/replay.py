"""Values in simulated time: every instruction reads when it starts (`ProgramRun.read_at`) and commits when it retires.

No cost depends on data, so the Timeline is computed first and the values follow it, event by event (`engine.events`). An atomic
adds at its retirement, so K-split sums arrive in the order of simulated time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.choice import chosen_engine
from ascend_sim.engine.compiled.values import Workspace, events_for_python
from ascend_sim.engine.device import Device
from ascend_sim.engine.events import ValueEvents
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.values import BlockShadow, Finding, ProgramValues, raise_fault
from ascend_sim.isa.memory import Memory, ValueModel

Row = tuple[int, int]
"""One instruction of a run: (number of its program among all programs, its row there)."""


class Observer(Protocol):
    """Interface of an object that looks at memory while values are computed; it must not change anything."""

    def watch(self, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> Mapping[Row, object]:
        """Return the rows to observe; called before the first value is computed, with everything that ran."""

    def started(self, row: Row, memory: Memory) -> None:
        """Look at memory when an observed instruction has read its operands."""

    def retired(self, row: Row, memory: Memory) -> None:
        """Look at memory when an observed instruction has written its result."""


def replay(
    device: Device,
    tasks: Sequence[Task],
    programs: Sequence[ProgramRun],
    model: ValueModel | None = None,
    progress: Callable[[str, int, int], None] | None = None,
    observer: Observer | None = None,
    engine: str | None = None,
) -> list[Finding]:
    """Compute the values that `programs` leave in the tensors of `tasks`; return the findings: reads of unwritten bytes.

    `model` None is the chip's default. A program has buffers from its first event to its last. `progress("values", ended,
    all)` is called as programs end, `observer` for the instructions that it chooses. `engine` as in `Engine`: the compiled one
    moves bytes in C. Raises SimError for a row whose values cannot be computed, ValueError for tensors without bytes.
    """
    watched = observer.watch(tasks, programs) if observer is not None else {}
    events = ValueEvents.of(tasks, programs)
    left = np.bincount(events.owner, minlength=len(programs))
    model = model or ValueModel.of(device.chip)
    # Infinities and NaN are ordinary values of a machine.
    with model.one_order(), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        run = _Replay(device.chip, tasks, programs, events, model, observer, watched, progress)
        if chosen_engine(engine) == "compiled":
            work = Workspace(device.chip, run.model)
            for event in events_for_python(events, _looked_at(events, watched), left, work, run.begin, run.end):
                run.happen(event)
        else:
            run.all(left)
    return run.findings


def _looked_at(events: ValueEvents, watched: Mapping[Row, object]) -> NDArray[np.int8] | None:
    """Return 1 for each event of an observed row, else 0; None if no row is observed."""
    if not watched:
        return None
    rows = zip(events.owner.tolist(), events.row.tolist(), strict=True)
    return np.fromiter((one in watched for one in rows), np.int8, len(events.row))


class _Replay:
    """The values of a run in progress: memory of the programs that are active, and results of instructions not yet retired."""

    def __init__(
        self,
        chip: ChipSpec,
        tasks: Sequence[Task],
        programs: Sequence[ProgramRun],
        events: ValueEvents,
        model: ValueModel,
        observer: Observer | None,
        watched: Mapping[Row, object],
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        self.findings: list[Finding] = []
        self.model = model
        self._chip, self._tasks, self._programs, self._events = chip, tasks, programs, events
        self._observer, self._watched, self._progress = observer, watched, progress
        self._shadow = BlockShadow()
        self._values: dict[int, ProgramValues] = {}
        self._pending: dict[int, Any] = {}
        self._finished = 0

    def all(self, left: NDArray[np.int64]) -> None:
        """Run every event in Python; `left` is the number of events of each program, which is counted down."""
        for event, owner in enumerate(self._events.owner.tolist()):
            if owner not in self._values:
                self.begin(owner)
            self.happen(event)
            left[owner] -= 1
            if not left[owner]:
                self.end(owner)

    def begin(self, owner: int) -> ProgramValues:
        """Create and return the memory of program `owner`, before its first event."""
        run = self._programs[owner]
        values = ProgramValues(self._tasks[run.task], run.program, self._chip, self.findings, self._shadow, self.model)
        self._values[owner] = values
        return values

    def end(self, owner: int) -> None:
        """Release the memory of a program after its last event; lines that its data cache still holds go to GM (assumed)."""
        self._values.pop(owner).memory.cache.clean()
        self._finished += 1
        if self._progress is not None:
            self._progress("values", self._finished, len(self._programs))

    def happen(self, event: int) -> None:
        """Run event number `event`: the instruction reads (a start) or commits (a retirement), and its bytes are checked.

        Then call its observer, if any. Raises as `raise_fault`.
        """
        columns = self._events
        owner, row, pair, starts = (int(c[event]) for c in (columns.owner, columns.row, columns.pair, columns.starts))
        program = self._values[owner]
        argument, dst, src0, src1, _ = program.program.rows[row].tolist()
        instruction = program.program.table.instructions[argument]
        key = program.key(argument, dst, src0, src1)
        try:
            if starts:
                program.at_start(row, key)
                self._pending[pair] = instruction.read(program.memory, dst, src0, src1)
            else:
                program.at_retirement(row, key)
                instruction.commit(program.memory, dst, self._pending.pop(pair))
        except Exception as error:
            raise_fault(error, program, row)
        if self._observer is not None and (owner, row) in self._watched:
            (self._observer.started if starts else self._observer.retired)((owner, row), program.memory)

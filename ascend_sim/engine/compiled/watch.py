"""What C says of programs without their columns, as Python has it; and C looking at programs that are over.

The Python twin is `engine/watch.py`, `ColumnWatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.hazards import HAZARD, LIMIT, Hazards
from ascend_sim.engine.task import Task, order_of
from ascend_sim.engine.timeline import CAUSES, ProgramRun
from ascend_sim.engine.totals import ProgramTotals
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.program import SPACES, InstructionTable, Program

TOUCHED = np.dtype([("touches", np.int64), ("count", np.int64)])
"""`Touched` of machine.h: where the touches of an instruction lie in memory, and how many they are."""


def program_totals(
    found: NDArray[np.void], hazards: Hazards, program: Program, begin: int, finish: int, queue_full: int
) -> ProgramTotals:
    """From a TOTALS of C; busy and stalls with what is known only when the program is over."""
    (one,) = found
    pipes = one["pipes"]
    numbers = {
        name: dict(zip(PIPES, pipes[name].tolist(), strict=True)) for name in ("rows", "busy", "l2_wait", "hbm_wait")
    }
    busy, rows = numbers["busy"], numbers["rows"]
    busy["S"] += program.issue_cycles * (len(program) - rows["S"])
    stalls = {}
    for name, counted, end in zip(PIPES, pipes["stalls"].tolist(), pipes["end"].tolist(), strict=True):
        causes = dict(zip(CAUSES, counted, strict=True))
        if name == "S":
            rest = finish - begin - busy["S"] - queue_full - causes["pipe busy"]
            causes |= {"queue full": queue_full, "nothing to do": rest}
        else:
            causes["nothing to do"] += finish - end
        stalls[name] = {cause: cycles for cause, cycles in causes.items() if cycles}
    buffers: dict[str, tuple[int, int]] = {}
    for name in program.table.chip.cores.kinds[program.core_kind].buffers:  # type: ignore[index]
        place = SPACES.index(name)
        buffers[name] = int(one["peak"][place]), int(one["area"][place])
    return ProgramTotals(
        rows,
        busy,
        stalls,
        numbers["l2_wait"],
        numbers["hbm_wait"],
        int(one["hbm_bytes"]),
        int(one["l2_hits"]),
        int(one["l2_misses"]),
        buffers,
        hazards,
    )


def read_watched(read: Any, handle: Any) -> tuple[NDArray[np.void], Hazards]:
    """What C has seen of one program: `read` is one of its functions that copy it, `handle` what that reads."""
    found, records = np.zeros(1, c.TOTALS), np.zeros(LIMIT, HAZARD)
    count = read(handle, found.ctypes.data, records.ctypes.data)
    return found, Hazards(records[:count].copy(), int(found["hazards"][0]))


def read_gm(gm: Any, tasks: int) -> dict[int, Hazards]:
    """Hazards in GM by the task of the later access, after the last program; MemoryError where C finds none."""
    lib, found = c.load(), {}
    count = c.c_int64()
    failed = lib.gm_end(gm) < 0
    for task in range(tasks):
        records = np.zeros(LIMIT, HAZARD)
        total = lib.gm_read(gm, task, records.ctypes.data, c.byref(count))
        failed = failed or total < 0
        if total:
            found[task] = Hazards(records[: count.value].copy(), total)
    if failed:
        raise MemoryError("the compiled engine found no memory")
    return found


class CompiledColumnWatch:
    """Looks at programs that are over, from their columns, in C."""

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tables: list[InstructionTable] = []
        self._known: dict[int, tuple[int, int, Any]] = {}
        self._tasks = tasks
        self._lib = c.load()
        self._gm = self._lib.gm_new(LIMIT)
        self._held: list[Any] = []
        if not self._gm:
            raise MemoryError

    def _table(self, table: InstructionTable) -> tuple[int, Any, Any]:
        """Its number, its instructions and what they touch, in memory that stays."""
        known = self._known.get(id(table))
        if known is not None and known[1] == len(table.instructions):
            return known[0], *known[2]
        number = known[0] if known is not None else len(self.tables)
        if known is None:
            self.tables.append(table)
        touches = table.touches
        instructions, touched = (
            np.zeros(len(table.instructions), c.INSTRUCTION),
            np.zeros(len(table.instructions), TOUCHED),
        )
        instructions["kind"], instructions["pipe"] = table.kinds, table.pipes
        instructions["stream"] = table.column("at_work")
        touched["touches"] = touches.columns.ctypes.data + touches.first[:-1] * touches.columns.itemsize
        touched["count"] = np.diff(touches.first)
        self._held.append((touches, instructions, touched))
        self._known[id(table)] = number, len(table.instructions), (instructions, touched)
        return number, instructions, touched

    def add(self, run: ProgramRun) -> ProgramTotals:
        """What one program comes to; its accesses to GM wait for `in_gm`."""
        program = run.program
        number, instructions, touched = self._table(program.table)
        bases = np.array([tensor.base for tensor in self._tasks[run.task].tensors], np.int64)
        columns = {name: np.ascontiguousarray(getattr(run, name), np.int64) for name in c.COLUMNS}
        rows = np.ascontiguousarray(program.rows, np.int64)
        whole = c.Program(
            rows=rows.ctypes.data,
            bases=bases.ctypes.data,
            count=len(program),
            tensors=len(bases),
            begin=run.begin,
            issue=program.issue_cycles,
            order=order_of(run.task, program),
            **{name: column.ctypes.data for name, column in columns.items()},
        )
        watch = self._lib.watch_columns(
            c.byref(whole), instructions.ctypes.data, touched.ctypes.data, number, self._gm, LIMIT
        )
        if not watch:
            raise MemoryError("no memory for the totals of a program")
        try:
            found, hazards = read_watched(self._lib.watch_read, watch)
        finally:
            self._lib.watch_drop(watch)
        return program_totals(found, hazards, program, run.begin, run.finish, run.queue_full)

    def in_gm(self) -> dict[int, Hazards]:
        """Hazards between all programs, by the task of the later access."""
        return read_gm(self._gm, len(self._tasks))

    def close(self) -> None:
        """Give the memory back."""
        if self._gm:
            self._lib.gm_free(self._gm)
            self._gm = None

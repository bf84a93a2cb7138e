"""What C says of programs without their columns, as Python has it; and C looking at programs that are over.

The Python twin is `engine/watch.py`, `ColumnWatch`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.engine.compiled import library as c
from ascend_sim.engine.hazards import HAZARD, LIMIT, NO_HAZARDS, Hazards
from ascend_sim.engine.task import Task, order_of
from ascend_sim.engine.timeline import OF_ALL, OF_MOVES, ProgramRun
from ascend_sim.engine.totals import TOTALS, ProgramTotals
from ascend_sim.isa.base import TRANSFER
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.stamp import address_of

TOUCHED = np.dtype([("touches", np.int64), ("count", np.int64)])
"""`Touched` of program.h: where the touches of an instruction lie in memory, and how many they are."""


class Reader:
    """Copies what C has seen of programs."""

    def __init__(self) -> None:
        self._numbers, self._hazards = np.zeros(1, TOTALS), np.zeros(LIMIT, HAZARD)
        self._places = address_of(self._numbers), address_of(self._hazards)

    def read(self, function: Any, *arguments: Any) -> ProgramTotals:
        """What C has seen of one program: `function` is one of its own that copy it."""
        count = function(*arguments, *self._places)
        numbers = self._numbers.copy()
        if not count:
            return ProgramTotals(numbers, NO_HAZARDS)
        return ProgramTotals(numbers, Hazards(self._hazards[:count].copy(), int(numbers["hazards"][0])))


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
        self._known: dict[int, tuple[int, int, tuple[int, int]]] = {}
        self._tasks = tasks
        self._lib = c.load()
        self._gm = self._lib.gm_new(LIMIT)
        self._held: list[Any] = []
        self._reader = Reader()
        if not self._gm:
            raise MemoryError

    def _table(self, table: InstructionTable) -> tuple[int, int, int]:
        """Its number, and where its instructions and what they touch lie, in memory that stays."""
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
        places = instructions.ctypes.data, touched.ctypes.data
        self._known[id(table)] = number, len(table.instructions), places
        return number, *places

    def add(self, run: ProgramRun) -> ProgramTotals:
        """What one program comes to; its accesses to GM wait for `in_gm`."""
        program = run.program
        number, instructions, touched = self._table(program.table)
        bases = np.array([tensor.base for tensor in self._tasks[run.task].tensors], np.int64)
        transfers = np.flatnonzero(program.per_row("kind") == TRANSFER)
        times = np.stack([getattr(run, name) for name in OF_ALL], axis=1).astype(np.int64, copy=False)
        moves = np.stack([transfers, *(getattr(run, name)[transfers] for name in OF_MOVES)], axis=1, dtype=np.int64)
        whole = c.ProgramStruct(
            **program.sheet.addresses(),
            bases=address_of(bases),
            count=len(program),
            tensors=len(bases),
            begin=run.begin,
            issue=program.issue_cycles,
            order=order_of(run.task, program),
            move_count=len(moves),
            times=address_of(times),
            moves=address_of(moves),
        )
        watch = self._lib.watch_columns(c.byref(whole), instructions, touched, number, self._gm, LIMIT)
        if not watch:
            raise MemoryError("no memory for the totals of a program")
        try:
            return self._reader.read(self._lib.watch_read, watch, run.finish, run.queue_full)
        finally:
            self._lib.watch_drop(watch)

    def in_gm(self) -> dict[int, Hazards]:
        """Hazards between all programs, by the task of the later access."""
        return read_gm(self._gm, len(self._tasks))

    def close(self) -> None:
        """Give the memory back."""
        if self._gm:
            self._lib.gm_free(self._gm)
            self._gm = None

"""Regions that the instructions of a table touch in one space, as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen
from ascend_sim.kernel.program import SPACES as _CODES
from ascend_sim.kernel.program import InstructionTable, Program, ranges
from ascend_sim.kernel.touches import Touches
from ascend_sim.memory.regions import Region

LOCAL_SPACES = tuple(space for space in _CODES if space != "GM")
SPACES = (*LOCAL_SPACES, "GM")
_ROWS = 1 << 16
"""Most rows of a stack of several programs."""


@frozen(eq=False)
class RegionColumns:
    """Regions of a table's instructions in one space, as columns: those of instruction `i` from `first[i]` to `first[i + 1]`.

    Reads come before writes. `column` is the column of a row with the address that a region is relative to; `offset` and
    `extent` are in bytes.
    """

    first: NDArray[np.int64]
    regions: list[Region]
    column: NDArray[np.int64]
    offset: NDArray[np.int64]
    extent: NDArray[np.int64]
    writes: NDArray[np.bool_]


@lru_cache(maxsize=64)
def regions_in(touches: Touches, space: str) -> RegionColumns:
    """Return the regions of a table's `touches` that lie in `space` (a buffer or "GM"), as columns. Cached, the latest 64."""
    here = np.flatnonzero(touches.columns["space"] == _CODES.index(space))
    owners = np.repeat(np.arange(len(touches.first) - 1), np.diff(touches.first))[here]
    columns = touches.columns[here]
    return RegionColumns(
        np.searchsorted(owners, np.arange(len(touches.first))),
        [touches.regions[index] for index in here.tolist()],
        columns["column"],
        columns["offset"],
        columns["extent"],
        columns["writes"].astype(np.bool_),
    )


@frozen(eq=False)
class Stack:
    """Rows of several `programs` (numbers) of one table, one after the other, so that short programs are handled together.

    Per row: `number`, its program, and `row`, its place in it.
    """

    table: InstructionTable
    programs: list[int]
    rows: NDArray[np.int64]
    number: NDArray[np.int32]
    row: NDArray[np.int32]

    def accesses(self, space: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return for all accesses to `space`, in order of rows, the row of each in the stack and its region in `regions_in`."""
        first, instruction = regions_in(self.table.touches, space).first, self.rows[:, 0]
        rows = np.flatnonzero(np.diff(first)[instruction])
        counts = np.diff(first)[instruction[rows]]
        return np.repeat(rows, counts), ranges(first[instruction[rows]], counts)


def stacks(programs: Iterable[tuple[int, Program]]) -> Iterator[Stack]:
    """Yield a `Stack` for each run of the numbered programs with one table, up to 65,536 rows or one longer program."""
    waiting: list[tuple[int, Program]] = []
    total = 0
    for number, program in programs:
        total += len(program)
        if waiting and (waiting[0][1].table is not program.table or total > _ROWS):
            yield _stacked(waiting)
            waiting, total = [], len(program)
        waiting.append((number, program))
    if waiting:
        yield _stacked(waiting)


def _stacked(programs: list[tuple[int, Program]]) -> Stack:
    numbers, lengths = [number for number, _ in programs], [len(program) for _, program in programs]
    rows = [program.rows for _, program in programs]
    return Stack(
        programs[0][1].table,
        numbers,
        rows[0] if len(rows) == 1 else np.concatenate(rows),
        np.repeat(np.asarray(numbers, np.int32), lengths),
        ranges(np.zeros(len(rows), np.int64), np.asarray(lengths, np.int64)).astype(np.int32),
    )

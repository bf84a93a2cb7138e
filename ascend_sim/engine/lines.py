"""L2 lines that a strided region touches, computed once per instruction and alignment, and L2 lines that a task's programs
touch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.l2 import Lines
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import TRANSFER
from ascend_sim.kernel.program import InstructionTable, Program, accesses, ranges
from ascend_sim.kernel.sheet import Sheet, moving
from ascend_sim.kernel.stamp import LAID, ROW, Stamp
from ascend_sim.kernel.touches import SPACES
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region, row_starts
from ascend_sim.numerics.distinct import distinct

Numbers = NDArray[np.int64]
Marks = NDArray[np.bool_]
"""One mark per L2 line of GM, from address 0 on."""
_AT_ONCE = 1 << 16
"""Rows, stamps or accesses that are looked at together, so that memory stays small."""


@frozen
class Footprint:
    """Lines of a region, relative to the line of its address.

    `touched` counts lines row by row, as the port and the L2 move them; `lines` are the distinct ones, ascending.
    `tails` are the positions in `lines` of lines that the end of a row covers in part, for rows of at least a line that touch
    several; `partial` those of lines not covered whole. `whole` is (first, end) if no line between is left out, else None.
    """

    touched: int
    lines: NDArray[np.int64]
    tails: NDArray[np.int64]
    partial: NDArray[np.int64]
    whole: tuple[int, int] | None

    def at(self, first: int) -> Lines:
        """Return the L2 line numbers of a region whose address lies in line `first`."""
        return self.lines + first if self.whole is None else slice(first + self.whole[0], first + self.whole[1])


@lru_cache(maxsize=1024)
def footprint(region: Region, phase: int, line: int) -> Footprint:
    """Return the Footprint of `region` at an address `phase` bytes behind the start of an L2 line of `line` bytes; cached."""
    merged = region.simplified()
    if merged.rows == merged.planes == 1:
        return _of_run(merged.offset + phase, merged.row_bytes, line)
    starts = row_starts(merged) + phase
    ends = starts + merged.row_bytes
    first, last = starts // line, (ends - 1) // line
    counts = last - first + 1
    touched = int(counts.sum())
    offsets = np.arange(touched) - np.repeat(np.cumsum(counts) - counts, counts)
    every = np.repeat(first, counts) + offsets
    lines, inverse = np.unique(every, return_inverse=True)
    covered = np.minimum(np.repeat(ends, counts), (every + 1) * line) - np.maximum(np.repeat(starts, counts), every * line)
    bytes_per_line = np.bincount(inverse, weights=covered, minlength=len(lines))
    partial = np.flatnonzero(bytes_per_line < line)
    cut = (counts > 1) & (merged.row_bytes >= line) & (ends % line != 0)
    tails = np.flatnonzero(np.bincount(inverse[(np.cumsum(counts) - 1)[cut]]))
    begin, end = int(lines[0]), int(lines[-1]) + 1
    whole = (begin, end) if end - begin == len(lines) else None
    return Footprint(touched, lines, tails.astype(np.int64), partial.astype(np.int64), whole)


def _of_run(start: int, size: int, line: int) -> Footprint:
    """Return the footprint of `size` contiguous bytes at `start`: the usual region, ten times faster than the general case."""
    end = start + size
    first, behind = start // line, (end - 1) // line + 1
    last = [behind - first - 1] if end % line else []
    partial = sorted({*([0] if start % line else []), *last})
    tails = last if behind - first > 1 and size >= line else []
    lines = np.arange(first, behind)
    return Footprint(len(lines), lines, np.array(tails, np.int64), np.array(partial, np.int64), (first, behind))


class LinesOf:
    """L2 lines below address `end` that transfers in a task's programs read and write, as marks in `read` and `written`.

    Lines of atomic additions are marked in `read` only. `bases` are the addresses of the task's tensors, `line` the bytes of a
    line. Programs wait until some are there, because numpy takes as long for a few stamps as for a thousand.
    """

    def __init__(self, bases: Sequence[int], end: int, line: int) -> None:
        self._bases, self._line = np.array(bases, np.int64), line
        self._read, self._written = (np.zeros(-(-end // line), np.bool_) for _ in range(2))
        self._waiting: dict[int, tuple[InstructionTable, list[Sheet]]] = {}
        self._count = 0

    @property
    def read(self) -> Marks:
        """Return the marks of the lines that are read or added to."""
        self._mark_waiting()
        return self._read

    @property
    def written(self) -> Marks:
        """Return the marks of the lines that are written without being added to."""
        self._mark_waiting()
        return self._written

    def add(self, program: Program) -> None:
        """Mark the lines that the transfers of one more program read and write."""
        sheet = program.sheet
        sheet.close()
        self._waiting.setdefault(id(program.table), (program.table, []))[1].append(sheet)
        self._count += len(sheet.which) + sum([len(stamp.rows) for stamp in sheet.own])
        if self._count > _AT_ONCE:
            self._mark_waiting()

    def _mark_waiting(self) -> None:
        """Mark the lines of all programs that wait, table by table."""
        waiting, self._waiting, self._count = self._waiting, {}, 0
        for table, sheets in waiting.values():
            stamps, which, places = _placed(table, sheets)
            for part in _parts(np.ones(len(which), np.int64)):
                read: list[Numbers] = []
                written: list[Numbers] = []
                for region, address in self._addresses(table, stamps, which[part], places[part]):
                    touch = table.touches.columns[region]
                    only_written = touch["writes"] and not touch["ordered"]
                    (written if only_written else read).extend(self._runs(table.touches.regions[region], address))
                for marks, runs in ((self._read, read), (self._written, written)):
                    for begin, end in _joined(*np.concatenate(runs, axis=1)).T.tolist() if runs else ():
                        marks[begin:end] = True

    def _addresses(
        self, table: InstructionTable, stamps: Sequence[Stamp], which: Numbers, places: Numbers
    ) -> Iterator[tuple[int, Numbers]]:
        """Yield (index of a region in `touches`, addresses in GM at which transfers touch it), for the stamps number `which` at
        their places; a region may come several times.
        """
        order = np.argsort(which, kind="stable")
        used, first, times = np.unique(which[order], return_index=True, return_counts=True)
        sizes = np.array([len(stamps[number].rows) for number in used.tolist()])
        for some in _parts(sizes):
            row, region, operand, steps = _transfers(table, [stamps[number] for number in used[some].tolist()])
            stamp = np.repeat(np.arange(len(used))[some], sizes[some])[row]
            often = np.where(steps.any(1), times[stamp], 1)
            for part in _parts(often):
                access = np.repeat(np.arange(len(often))[part], often[part])
                place = places[order[ranges(first[stamp[part]], often[part])], : steps.shape[1]]
                moved, of = operand[access] + (steps[access] * place).sum(1), region[access]
                address = self._bases[moved >> SLOT_SHIFT] + (moved & OFFSET_MASK)
                for number in distinct(of).tolist():
                    yield number, address[of == number]

    def _runs(self, region: Region, address: Numbers) -> Iterator[Numbers]:
        """Yield arrays [2][run] with (first line, end) of the runs of lines of a region, for some addresses at a time."""
        merged = region.simplified()
        starts = row_starts(merged)
        begin, end = _joined(address, address + merged.row_bytes)
        for part in _parts(np.full(len(begin), len(starts))):
            first, last = ((one[part] + starts[:, None]).reshape(-1) // self._line for one in (begin, end - 1))
            yield _joined(first, last + 1)


def _placed(table: InstructionTable, sheets: Sequence[Sheet]) -> tuple[list[Stamp], Numbers, Numbers]:
    """Return the stamps of a table and of its sheets, and number (among them) and place of each one that stands in a sheet.

    A place has a number for each axis, and any numbers behind its stamp's last axis.
    """
    stamps, own = list(table.stamps.known), {}
    which, where = [], [np.empty(0, np.int64)]
    for sheet in sheets:
        if id(sheet.own) not in own:
            own[id(sheet.own)] = len(stamps)
            stamps += sheet.own
        numbers = np.array(sheet.which, np.int64)
        which.append(np.where(numbers < 0, own[id(sheet.own)] - 1 - numbers, numbers))
        where.append(np.asarray(sheet.where))
    axes = np.append(table.stamps.laid().numbers[:, LAID - 1], np.zeros(len(stamps) - len(table.stamps.known), np.int64))
    numbers = np.concatenate(which)
    counts = axes[numbers]
    most = int(counts.max(initial=0))
    places = np.concatenate((*where, np.zeros(most, np.int64)))
    return stamps, numbers, places[(np.cumsum(counts) - counts)[:, None] + np.arange(most)]


def _transfers(table: InstructionTable, stamps: Sequence[Stamp]) -> tuple[Numbers, Numbers, Numbers, Numbers]:
    """Return for each access of the stamps' transfers to GM: row among all their rows, region, operand, and steps by axis."""
    kinds = np.repeat(table.column("kind"), np.diff(table.touches.first))
    chosen = (table.touches.columns["space"] == SPACES.index("GM")) & (kinds == TRANSFER)
    rows = stamps[0].rows if len(stamps) == 1 else np.concatenate([stamp.rows for stamp in stamps])
    row, region = accesses(table.touches, rows[:, 0], chosen)
    cell = row * ROW + table.touches.columns["column"][region]
    _, moves, by = moving(stamps)
    at = np.searchsorted(moves, cell)
    steps = np.append(by, np.zeros((1, by.shape[1]), np.int64), axis=0)[np.where(np.append(moves, -1)[at] == cell, at, len(by))]
    return row, region, rows.reshape(-1)[cell], steps


def _parts(sizes: Numbers) -> Iterator[slice]:
    """Yield slices that divide a sequence into parts whose `sizes` sum to about _AT_ONCE, or of one entry that is larger."""
    reached = np.cumsum(sizes)
    if len(reached) and reached[-1] < _AT_ONCE:
        return iter((slice(None),))
    part = reached // _AT_ONCE
    first = np.flatnonzero(np.diff(part, prepend=-1)).tolist()
    return map(slice, first, [*first[1:], len(part)])


def _joined(begin: Numbers, end: Numbers) -> Numbers:
    """Return (beginnings, ends) of the union of ranges, in order, as an array [2][range]; those that adjoin are one."""
    begin, end = np.sort(begin), np.sort(end)
    gap = np.ones(len(begin) + 1, np.bool_)
    # A range begins a new part of the union if as many end before it as begin before it.
    gap[1:-1] = begin[1:] > end[:-1]
    return np.array((begin[gap[:-1]], end[gap[1:]]))

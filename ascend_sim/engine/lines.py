"""L2 lines that a strided region touches, computed once per instruction and alignment, and L2 lines that a task's programs
touch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.compiled import library
from ascend_sim.engine.l2 import Lines
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import TRANSFER
from ascend_sim.kernel.program import Program
from ascend_sim.kernel.stamp import address_of
from ascend_sim.kernel.touches import OPERAND_COLUMN
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region, row_starts
from ascend_sim.numerics.distinct import distinct

Marks = NDArray[np.bool_]
"""One mark per L2 line of GM, from address 0 on."""
_AT_ONCE = 1 << 20
"""Most lines that are marked at a time, so that memory stays small."""


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
    line. C marks the lines if it was built, else numpy.
    """

    def __init__(self, bases: Sequence[int], end: int, line: int) -> None:
        self.bases, self.line = np.array(bases, np.int64), line
        self.read, self.written = (np.zeros(-(-end // line), np.bool_) for _ in range(2))
        self._library = library.beside()
        self._in_c = address_of(self.read), address_of(self.written), len(self.read)
        self._bases_in_c = address_of(self.bases)

    def add(self, program: Program) -> None:
        """Mark the lines that the transfers of one more program read and write."""
        (self.add_by_numpy if self._library is None else self.add_by_c)(program)

    def add_by_c(self, program: Program) -> None:
        """Mark the lines of a program's transfers with compiled/lines.c."""
        touches, kinds = program.table.touches, program.table.column("kind")
        whole = library.ProgramStruct(
            **program.sheet.addresses(), count=len(program), bases=self._bases_in_c, tensors=len(self.bases)
        )
        places = (*touches.addresses, address_of(kinds), self.line, *self._in_c)
        library.checked(self._library.mark_lines(library.byref(whole), *places))

    def add_by_numpy(self, program: Program) -> None:
        """Mark the lines that a program's transfers read or add to atomically (in `read`) and write, without the C library."""
        table = program.table
        transfers = np.flatnonzero(table.column("kind") == TRANSFER)
        rows = program.rows[np.isin(program.rows[:, 0], transfers)]
        for argument in distinct(rows[:, 0]).tolist():
            instruction, mine = table.instructions[argument], rows[rows[:, 0] == argument]
            written = self.read if instruction.atomic else self.written
            touched = [(self.read, one) for one in instruction.reads()] + [(written, one) for one in instruction.writes()]
            for marks, region in touched:
                if region.space == "GM":
                    self._mark(marks, region, mine[:, OPERAND_COLUMN[region.operand]])

    def _mark(self, marks: Marks, region: Region, operands: NDArray[np.int64]) -> None:
        """Mark the lines of a region at each of `operands` in GM."""
        address = self.bases[operands >> SLOT_SHIFT] + (operands & OFFSET_MASK)
        first, phase = address // self.line, address % self.line
        for offset in np.flatnonzero(np.bincount(phase)).tolist():
            lines = footprint(region, offset, self.line).lines
            begin = distinct(first[phase == offset])
            for piece in np.array_split(begin, 1 + len(begin) * len(lines) // _AT_ONCE):
                marks[piece[:, None] + lines] = True

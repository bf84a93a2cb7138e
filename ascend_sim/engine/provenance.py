"""Origin of values: bytes followed backwards through the programs that ran.

Inside a program the last writer of a byte is the last row before the reader that writes it. In GM it is the last instruction of
any program that had retired when the reader started, in that cycle at the latest. `engine.flow` finds the source bytes of a
writer. GM addresses are absolute here, so a tensor's name plays no part and reused workspace does no harm.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.flow import CONSTANT, flow_of
from ascend_sim.engine.replay import Row
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction
from ascend_sim.kernel.touches import OPERAND_COLUMN
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.numerics.distinct import distinct

Addresses = NDArray[np.int64]


@frozen
class Hop:
    """One instruction on the way back, program and row in `row`.

    It wrote the addresses at positions `index` of those asked for; each came from byte `source` of `space` (CONSTANT:
    the instruction made it up).
    """

    row: Row
    index: Addresses
    space: str
    source: Addresses


@frozen
class _Writes:
    """Rows that write one space, in the order of writing: first byte and end of their hull and, for GM, their retirement."""

    owner: Addresses
    row: Addresses
    low: Addresses
    high: Addresses
    retire: Addresses


class Provenance:
    """Finder of the writers of bytes in a finished run; a `Row` is (number of the program, row in it)."""

    def __init__(self, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> None:
        self.tasks = tasks
        self.programs = programs
        self._local: dict[tuple[int, str], _Writes] = {}
        self._gm: _Writes | None = None

    def instruction(self, row: Row) -> Instruction:
        """Return the instruction in `row`."""
        program = self.programs[row[0]].program
        return program.table.instructions[int(program.rows[row[1], 0])]

    def address(self, row: Row, operand: str, space: str) -> int:
        """Return the address of an operand of a row: a byte of a buffer, or an absolute byte of GM; 0 for none in a buffer."""
        run = self.programs[row[0]]
        value = int(run.program.rows[row[1], OPERAND_COLUMN[operand]]) if operand else 0
        if space != "GM":
            return value
        return self.tasks[run.task].tensors[value >> SLOT_SHIFT].base + (value & OFFSET_MASK)

    def writers(self, before: Row | None, space: str, low: int, high: int, owner: int | None = None) -> Iterator[Row]:
        """Yield the rows that wrote before a reader and whose hull touches bytes `low` to `high` - 1 of `space`, the last one
        first.

        `before` is the reader; None stands for the end of the run. For a buffer without a reader `owner` is the program's
        number.
        """
        writes = self._writes(space, before[0] if before is not None else owner)
        near = (writes.low < high) & (writes.high > low)
        if before is not None:
            if space == "GM":
                near &= writes.retire <= self.programs[before[0]].start[before[1]]
            else:
                near &= writes.row < before[1]
        for place in np.flatnonzero(near)[::-1].tolist():
            yield int(writes.owner[place]), int(writes.row[place])

    def back(self, reader: Row | None, space: str, addresses: Addresses) -> Iterator[Hop]:
        """Yield a Hop for each instruction that wrote some of `addresses` in `space` last, as `reader` sees them (None: at the
        end).

        An atomic addition counts as the last write. Bytes that no program wrote are in no hop. Raises SimError for a writer
        that computes.
        """
        if not len(addresses):
            return
        order = np.argsort(addresses, kind="stable")
        ordered, missing = addresses[order], np.ones(len(addresses), np.bool_)
        left = len(addresses)
        for row in self.writers(reader, space, int(ordered[0]), int(ordered[-1]) + 1):
            instruction = self.instruction(row)
            flow = flow_of(instruction, self.programs[row[0]].program.table.chip)
            start = self.address(row, "dst", space)
            low, high = np.searchsorted(ordered, (start + flow.touched[0], start + flow.touched[-1] + 1)).tolist()
            asked = low + np.flatnonzero(missing[low:high])
            hit, source = flow.find(ordered[asked] - start)
            if not hit.any():
                continue
            found = asked[hit]
            reads = instruction.reads()
            origin = reads[0].space if reads else space
            if reads:
                source = np.where(source == CONSTANT, CONSTANT, source + self.address(row, "src0", origin))
            yield Hop(row, order[found], origin, source)
            missing[found] = False
            left -= len(found)
            if not left:
                return

    def origins(self, reader: Row | None, space: str, addresses: Addresses) -> Addresses:
        """Return for each of `addresses` the GM byte, written by no program, from which it was copied.

        CONSTANT stands for bytes that an instruction made up, or that nothing wrote in a buffer. Raises SimError as `back`.
        """
        result = np.full(len(addresses), CONSTANT)
        if space == "GM":
            result[:] = addresses
        for hop in self.back(reader, space, addresses):
            moved = hop.source != CONSTANT
            found = np.full(len(hop.index), CONSTANT)
            found[moved] = self.origins(hop.row, hop.space, hop.source[moved])
            result[hop.index] = found
        return result

    def _writes(self, space: str, owner: int | None) -> _Writes:
        """Return the writes to a space in the order of writing, cached: in GM all, in a buffer those of program `owner`."""
        if space == "GM":
            if self._gm is None:
                parts = [self._table(number, "GM") for number in range(len(self.programs))]
                whole = [np.concatenate(columns) for columns in zip(*parts, strict=True)]
                order = np.lexsort((whole[1], whole[0], whole[4]))
                self._gm = _Writes(*(column[order] for column in whole))
            return self._gm
        assert owner is not None
        if (owner, space) not in self._local:
            self._local[owner, space] = _Writes(*self._table(owner, space))
        return self._local[owner, space]

    def _table(self, owner: int, space: str) -> tuple[Addresses, ...]:
        """Return the columns of `_Writes` for one program and space."""
        run = self.programs[owner]
        table, rows = run.program.table, run.program.rows
        extents = np.zeros(len(table.instructions), np.int64)
        for number in distinct(rows[:, 0]).tolist():
            for region in table.instructions[number].writes():
                if region.space == space:
                    extents[number] = region.extent
        extent = extents[rows[:, 0]]
        row = np.flatnonzero(extent)
        low = rows[row, 1]
        if space == "GM":
            bases = np.asarray([tensor.base for tensor in self.tasks[run.task].tensors], np.int64)
            low = bases[low >> SLOT_SHIFT] + (low & OFFSET_MASK)
        return np.full(len(row), owner), row, low, low + extent[row], run.retire[row]

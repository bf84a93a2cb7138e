"""Accesses to bytes, gathered into footprints.

A footprint is the bytes of one kind of access (program, pipe, read or write) at one address; a tile loop touches the same
few again and again, so that few pairs must be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.regions import SPACES, RegionColumns, Stack, regions_in
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows, SyncRows
from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.forms import format_added, reach
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.touches import operand_values
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT, Allocation
from ascend_sim.memory.regions import Region

APART = 44
"""Buffers of different cores lie so far apart (as a power of two) where they are looked at together."""


class Shapes:
    """Registry of the distinct regions that instructions touch, without their addresses; each has a number.

    `small_tile` is the size in bytes of the largest tile of L0C on which products need barriers.
    """

    def __init__(self, chip: ChipSpec) -> None:
        self.small_tile = (chip.cube.interlocked_fractals - 1) * ACCUMULATOR_FRACTAL_BYTES
        self.forms: list[Region] = []
        self.formats: dict[str, int] = {"": 0}
        self._numbers: dict[tuple[int, ...], int] = {}
        self._tables: dict[tuple[int, str], tuple[RegionColumns, Rows, Rows]] = {}
        self._held: list[InstructionTable] = []
        self._extents, self._contiguous = np.empty(0, np.int64), np.empty(0, np.bool_)

    def of(self, table: InstructionTable, space: str) -> tuple[RegionColumns, Rows, Rows]:
        """Return (regions that a table touches in a space, number of each one's shape, number of its instruction's atomic
        operation and format).

        Number 0: not atomic. New shapes and formats get the next numbers.
        """
        known = self._tables.get((id(table), space))
        columns = regions_in(table.touches, space)
        if known is None or known[0] is not columns:
            self._held.append(table)
            numbers = np.asarray([self.number(region) for region in columns.regions], np.int32)
            counts = np.diff(columns.first)
            formats = [self.formats.setdefault(_added(one), len(self.formats)) for one in table.instructions]
            atomic = np.repeat(np.asarray(formats, np.int32), counts)
            known = self._tables[id(table), space] = (columns, numbers, atomic)
        return known

    def number(self, region: Region) -> int:
        """Return the number of a region's shape, regardless of its address; a new shape gets the next number."""
        plain = region.simplified()
        key = (plain.row_bytes, plain.row_stride if plain.rows > 1 else 0, plain.rows,
               plain.plane_stride if plain.planes > 1 else 0, plain.planes)  # fmt: skip
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.forms)
            self.forms.append(Region("dst", "GM", *key))
        return number

    @property
    def extents(self) -> Ints:
        """Return an array of the bytes from the first to the last byte of each shape."""
        if len(self._extents) < len(self.forms):
            self._extents = np.asarray([form.extent for form in self.forms], np.int64)
        return self._extents

    @property
    def contiguous(self) -> NDArray[np.bool_]:
        """Return an array of bool: True for each shape that is one run of bytes without gaps."""
        if len(self._contiguous) < len(self.forms):
            self._contiguous = np.asarray([form.rows == form.planes == 1 for form in self.forms], np.bool_)
        return self._contiguous


def _added(one: Instruction) -> str:
    """Return an atomic instruction's operation and format ("maxfloat16"), of an addition the format alone; "" if not atomic.

    An unknown format is "some".
    """
    if not one.atomic:
        return ""
    return getattr(one, "keep", "") + (format_added(one) or "some")


@mutable
class Accesses:
    """All accesses of a task's programs to one space, sorted by footprint and place in the pipe; all columns are arrays.

    A footprint is the accesses of one pipe of one program to the same bytes, all reads or all writes, of one atomic operation
    or none. Per access: `row`, `place` (in its pipe), `footprint`. Per footprint: `owner` (program * WIDTH + pipe), `form`
    (number of its shape), `start` (bytes), `writes`, `atomic` (number of atomic operation and format, or 0), and `first`, the
    index of its first access. `held` has the row at which each access begins; None where that is its own row.
    """

    space: str
    row: Rows
    place: Rows
    footprint: Rows
    owner: Rows
    form: Rows
    start: Ints
    writes: NDArray[np.bool_]
    atomic: Rows
    first: Ints
    held: Rows | None = None

    @property
    def begin(self) -> Rows:
        """Return the row at which each access begins: before it, others' accesses must be over or come after it."""
        return self.row if self.held is None else self.held

    @property
    def counts(self) -> Ints:
        """Return an array with the number of accesses of every footprint."""
        return np.diff(self.first)

    def program(self, access: Any) -> Any:
        """Return the number of the program of each of the accesses."""
        return self.owner[self.footprint[access]] // WIDTH


def gather(
    lined: Iterable[Stack], synced: Sequence[SyncRows], shapes: Shapes, tensors: Sequence[Allocation] = ()
) -> dict[str, Accesses]:
    """Return {space: all accesses to it} of the programs in the stacks `lined`, whose numbers are indices into `synced`.

    GM addresses are those of `tensors`; buffers of different programs get addresses far apart. Accesses outside their space are
    left out.
    """
    parts: dict[str, list[tuple[Any, ...]]] = {space: [] for space in SPACES}
    for stack in lined:
        place = np.concatenate([synced[one].place for one in stack.programs])
        pipe = np.concatenate([synced[one].pipe for one in stack.programs])
        for space, found in parts.items():
            if len(regions_in(stack.table.touches, space).regions):
                found.append(_in_stack(stack, space, place, pipe, shapes, tensors))
    gathered = {}
    for space in SPACES:
        gathered[space] = by_footprint(space, parts.pop(space), shapes)
    return gathered


def _in_stack(
    stack: Stack, space: str, place: Rows, pipe: NDArray[np.int8], shapes: Shapes, tensors: Sequence[Allocation]
) -> tuple[Any, ...]:
    """Return arrays of row, place, owner, form, start, writes and atomic of every access of a stack to a space.

    Accesses outside the space or its tensors are left out: memcheck reports them.
    """
    columns, forms, atomic = shapes.of(stack.table, space)
    row, region = stack.accesses(space)
    address = operand_values(stack.rows, row, columns.column[region])
    apart: Any
    limit: Any
    if space == "GM":
        slot = address >> SLOT_SHIFT
        slot[(slot < 0) | (slot >= len(tensors))] = -1
        address &= OFFSET_MASK
        apart = np.asarray([*(tensor.base for tensor in tensors), 0], np.int64)[slot]
        limit = np.asarray([*(reach(tensor, stack.table.chip) for tensor in tensors), -1], np.int64)[slot]
    else:
        apart, limit = stack.number[row].astype(np.int64) << APART, stack.table.chip.buffers[space]  # type: ignore[index]
    start = address + columns.offset[region]
    # memcheck reports accesses outside; here they would count for a neighbour.
    inside = (start >= 0) & (address <= limit - columns.extent[region])
    start += apart
    if not inside.all():
        row, region, start = row[inside], region[inside], start[inside]
    owner = stack.number[row] * np.int32(WIDTH) + pipe[row]
    return stack.row[row], place[row], owner, forms[region], start, columns.writes[region], atomic[region]


def by_footprint(space: str, parts: Sequence[tuple[Any, ...]], shapes: Shapes) -> Accesses:
    """Return the accesses of stacks (`parts`: a result of `_in_stack` each) to a space as one Accesses, sorted by footprint."""
    if not parts:
        empty, no = np.empty(0, np.int32), np.empty(0, np.bool_)
        return Accesses(space, *(empty,) * 5, empty.astype(np.int64), no, empty, np.zeros(1, np.int64))
    row, place, owner, form, start, writes, atomic = (
        np.concatenate(column) if len(parts) > 1 else column[0] for column in zip(*parts, strict=True)
    )
    kind = ((owner.astype(np.int64) * 2 + writes) * len(shapes.formats) + atomic) * len(shapes.forms) + form
    order = np.lexsort((start, kind))  # accesses of a footprint stay in order
    kind, start = kind[order], start[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (kind[1:] != kind[:-1]) | (start[1:] != start[:-1])
    del kind
    first = np.flatnonzero(new)
    one = order[first]
    return Accesses(
        space, row[order], place[order], np.cumsum(new, dtype=np.int32) - 1, owner[one], form[one], start[first],
        writes[one], atomic[one], np.append(first, len(order)),
    )  # fmt: skip

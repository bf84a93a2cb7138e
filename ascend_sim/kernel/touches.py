"""The regions that the instructions of a table read and write, as columns that the engines read."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction
from ascend_sim.kernel.stamp import address_of
from ascend_sim.memory.regions import Region

OPERAND_COLUMN = {"dst": 1, "src0": 2, "src1": 3}
PLACED = 0
"""Stands for the column of a region without an operand, which lies where its instruction says."""


def operand_values(rows: NDArray[np.int64], row: Any, column: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the address operand in `column` of each row; 0 where `column` is PLACED, since the region then has no operand."""
    return np.where(column == PLACED, 0, rows[row, column])


SPACES = ("GM", "L1", "L0A", "L0B", "L0C", "UB", "BT", "FB")
"""Spaces that an instruction can read and write; the order is the code in `Touches`."""
_SPACE = {space: code for code, space in enumerate(SPACES)}
TOUCH = np.dtype(
    [(name, np.int64) for name in ("space", "column", "offset", "extent", "writes", "ordered")]
    + [(name, np.int64) for name in ("row_bytes", "row_stride", "rows", "plane_stride", "planes")]
    + [(name, np.int64) for name in ("paced", "tile_rows", "tile_columns", "work", "head")]
)


@frozen(eq=False)
class Touches:
    """Regions that the instructions of a table read and write: those of instruction `i` from `first[i]` to `first[i + 1]`.

    Reads come before writes. `columns` (TOUCH) has for each region, in bytes, the column of a row that holds its
    operand and its shape, with rows merged as far as possible; then the instruction's `Pace`, if it has one (`paced`).
    Accesses with a bit of `ordered` in common are kept in order: 1 atomic writes to GM, 2 products that interlock.
    """

    first: NDArray[np.int64]
    regions: list[Region]
    columns: NDArray[np.void]

    @classmethod
    def of(cls, instructions: Sequence[Instruction], chip: ChipSpec) -> Touches:
        """Return the regions that the instructions touch on a chip, in their order, reads before writes."""
        return cls.together([touched(instruction, chip) for instruction in instructions])

    @classmethod
    def together(cls, found: Sequence[Touched]) -> Touches:
        """Return the regions of several instructions, from `touched`, in their order."""
        first = np.cumsum([0, *[len(regions) for regions, _ in found]])
        columns = np.array([row for _, rows in found for row in rows], TOUCH)
        return cls(first, [region for regions, _ in found for region in regions], columns)

    @cached_property
    def addresses(self) -> tuple[int, int]:
        """Return the memory addresses of `first` and `columns` for C; valid as long as this object lives."""
        return address_of(self.first), address_of(self.columns)

    def of_instruction(self, number: int) -> list[Region]:
        """Return the regions of instruction `number`, reads before writes."""
        return self.regions[self.first[number] : self.first[number + 1]]

    def and_of(self, found: Sequence[Touched]) -> Touches:
        """Return a new Touches with these regions, followed by those of further instructions, from `touched`."""
        more = Touches.together(found)
        first = np.concatenate((self.first, self.first[-1] + more.first[1:]))
        columns = np.empty(len(self.columns) + len(more.columns), TOUCH)  # np.concatenate compares all fields by name
        columns[: len(self.columns)], columns[len(self.columns) :] = self.columns, more.columns
        return Touches(first, self.regions + more.regions, columns)

    def behind(self, known: int) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Return (`first`, counted from 0, `columns`) of the instructions from number `known` on."""
        first = self.first[known:]
        return first - first[0], self.columns[first[0] :]


Touched = tuple[Sequence[Region], Sequence[tuple[int, ...]]]
"""Regions of an instruction, reads before writes, and the columns (TOUCH) of each."""


def touched(instruction: Instruction, chip: ChipSpec) -> Touched:
    """Return the regions that an instruction touches on a chip, reads before writes, with their columns (TOUCH)."""
    regions, rows = [], []
    ordered = int(instruction.atomic) | 2 * instruction.interlocks(chip)
    pace = instruction.pace(chip)
    paced = (0, 0, 0, 0, 0) if pace is None else (1, *pace)
    for writes, some in ((False, instruction.reads()), (True, instruction.writes())):
        for region in some:
            one = region.simplified()
            where = _SPACE[region.space], OPERAND_COLUMN.get(region.operand, PLACED), region.offset, region.extent
            shape = one.row_bytes, one.row_stride, one.rows, one.plane_stride, one.planes
            rows.append((*where, writes, ordered, *shape, *paced))
            regions.append(region)
    return regions, rows


def moves_nothing(region: Region) -> bool:
    """Return True if a region has no bytes, or a negative stride."""
    return min(region.row_bytes, region.rows, region.planes) < 1 or min(region.row_stride, region.plane_stride) < 0

"""Strided byte regions: the exact bytes that an instruction touches (a hull would give false hazards).

A `Region` is relative to the address operand of an instruction: `planes` planes of `rows` rows of `row_bytes` bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Region:
    """Bytes of one operand: `operand` is "dst", "src0" or "src1"; `space` a buffer name or "GM"; strides in bytes.

    `offset` is where the first row begins behind the operand's address. With an empty `operand` the row has no address;
    `offset` is then the place in the buffer.
    """

    operand: str
    space: str
    row_bytes: int
    row_stride: int = 0
    rows: int = 1
    plane_stride: int = 0
    planes: int = 1
    offset: int = 0

    @property
    def extent(self) -> int:
        """Return the bytes from the operand's address to the end of the last byte touched; 0 for a region without rows or
        planes.
        """
        if self.rows == 0 or self.planes == 0:
            return 0
        return self.offset + (self.planes - 1) * self.plane_stride + (self.rows - 1) * self.row_stride + self.row_bytes

    @property
    def total(self) -> int:
        """Return the sum of the bytes of all rows; bytes that several rows touch count several times."""
        return self.row_bytes * self.rows * self.planes

    def simplified(self) -> Region:
        """Return a region of the same bytes, in which rows that adjoin are one row, and planes of one row each are rows."""
        if self.rows == self.planes == 1:
            return self
        row_bytes, row_stride, rows = self.row_bytes, self.row_stride, self.rows
        plane_stride, planes = self.plane_stride, self.planes
        if rows > 1 and row_stride == row_bytes:
            row_bytes, rows = row_bytes * rows, 1
        if planes > 1 and rows == 1:
            row_stride, rows, planes = plane_stride, planes, 1
            if row_stride == row_bytes:
                row_bytes, rows = row_bytes * rows, 1
        return Region(self.operand, self.space, row_bytes, row_stride, rows, plane_stride, planes, self.offset)


def row_starts(region: Region) -> NDArray[np.int64]:
    """Return the byte offset of every row's first byte, relative to the operand's address, planes one after the other."""
    planes = np.arange(region.planes, dtype=np.int64) * region.plane_stride
    rows = np.arange(region.rows, dtype=np.int64) * region.row_stride
    return (planes[:, None] + rows[None, :]).ravel() + region.offset


@lru_cache(maxsize=65536)
def overlap(first: Region, second: Region, distance: int) -> bool:
    """Return True if two regions of one space share a byte; the address of `second` is `distance` bytes above that of `first`.

    Gaps between rows count as not touched. Cached.
    """
    if distance + second.offset >= first.extent or first.offset - distance >= second.extent:
        return False
    a, b = first.simplified(), second.simplified()
    if a.rows == a.planes == b.rows == b.planes == 1:
        return True
    starts_a = np.sort(row_starts(a))
    starts_b = np.sort(row_starts(b)) + distance
    # For each row of b: the last row of a that starts before b's row ends must end after b's row starts. Rows of one
    # region may overlap each other only when identical in length, so looking at that one row is enough.
    index = np.searchsorted(starts_a, starts_b + b.row_bytes, side="left") - 1
    hit = index >= 0
    return bool(np.any(starts_a[index[hit]] + a.row_bytes > starts_b[hit]))

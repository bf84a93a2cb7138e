"""Operands of rows, held against the limits of their buffers and tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

Numbers = NDArray[np.int64]


class Asked(NamedTuple):
    """Arrays of operands to check against their limits.

    Offset in buffer or tensor; bytes from there to the end of the access (0: no operand); size of the buffer or tensor (-1: no
    such tensor); alignment.
    """

    offset: Numbers
    extent: Numbers
    limit: Numbers
    unit: Numbers

    def wrong(self) -> NDArray[np.bool_]:
        """Return an array of bool: True for each operand that is outside its buffer or tensor, or not aligned."""
        outside = (self.offset < 0) | (self.offset > self.limit - self.extent)
        return (self.extent > 0) & (outside | (self.offset % self.unit != 0))


def asked(limits: Numbers, sizes: Sequence[int], address: Numbers) -> Asked:
    """Return the operands to check of instructions with the operand values `address`, an array of any shape.

    `limits` has (extent, capacity, unit) of each along one axis more (`InstructionTable.limits`; a capacity below 0 means GM,
    where the value names tensor and offset), `sizes` the bytes of the task's tensors.
    """
    extent, limit, unit = limits[..., 0], limits[..., 1], limits[..., 2]
    in_gm, slot = limit < 0, np.minimum(address.view(np.uint64) >> SLOT_SHIFT, len(sizes))  # a negative one is beyond all
    limit = np.where(in_gm, np.array((*sizes, -1))[slot], limit)
    return Asked(np.where(in_gm, address & OFFSET_MASK, address), extent, limit, unit)

"""GatherMask: the elements that a mask of bits selects, one behind the other."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.base import (
    VectorInstruction,
    bits_of,
    elements,
    regions_of,
    row_cost,
    rows_of,
    size_of,
    view,
    whole_blocks,
)
from ascend_sim.memory.regions import Region

PATTERNS = ((0, 1), (0, 2), (1, 2), (0, 4), (1, 4), (2, 4), (3, 4), (0, 1))
"""The first element that a pattern takes, and the distance to the next (asc-devkit, GatherMask page: stated); for pattern 0 all
elements, of which bits choose.
"""


@frozen
class GatherMask(VectorInstruction):
    """dst = the elements of src0 whose bit is set, in order, without gaps (asc-devkit, GatherMask: stated).

    `rows` repeats of `count` elements, `src_stride` bytes apart; `blocks` are the bytes from block to block of dst (not used)
    and of src0, () if blocks adjoin. The bits are `pattern` 1 to 7 (PATTERNS), or with pattern 0 those at src1, lowest bit
    first, those of a repeat `bits_stride` bytes behind those of the one before. dst is written as far as elements are selected;
    `writes` has as many with pattern 0 as if all were. Raises SimError for another pattern, `pipe` for strides that are not
    whole blocks.
    """

    dtype: str
    count: int
    pattern: int
    rows: int = 1
    src_stride: int = 0
    bits_stride: int = 0
    blocks: tuple[int, ...] = ()

    name = "gather_mask"

    def __post_init__(self) -> None:
        if not 0 <= self.pattern < len(PATTERNS):
            raise SimError(f"gather_mask: pattern {self.pattern}; patterns are 1 to 7 (asc-devkit, GatherMask page)")

    def pipe(self, chip: ChipSpec) -> str:
        whole_blocks(chip, self.name, self.src_stride, self.bits_stride, *self.blocks)
        return super().pipe(chip)

    def cost(self, chip: ChipSpec) -> Cost:
        return row_cost(chip, self.opcode, self.dtype, self.count * size_of(self.dtype), self.rows)

    @property
    def _layout(self) -> tuple[int, int, int]:
        return self.count, self.rows, self.src_stride

    def reads(self) -> tuple[Region, ...]:
        source = regions_of("src0", self.dtype, self._layout, None, self.blocks)
        if self.pattern:
            return source
        return (*source, Region("src1", "UB", ceil_div(self.count, 8), self.bits_stride, self.rows))

    def writes(self) -> tuple[Region, ...]:
        first, step = PATTERNS[self.pattern]
        return rows_of("dst", self.dtype, self.rows * len(range(first, self.count, step)))

    def chosen(self, memory: Memory, src1: int) -> NDArray[np.bool_]:
        """Return an array of bool [rows, count], True for each element of each repeat that is selected; src1 is read for
        pattern 0 alone.
        """
        if self.pattern:
            first, step = PATTERNS[self.pattern]
            return np.broadcast_to(np.arange(self.count) % step == first, (self.rows, self.count))
        shape, steps = (self.rows, ceil_div(self.count, 8)), (self.bits_stride, 1)
        bits = memory.array("UB", src1, shape, np.uint8, steps)
        return np.unpackbits(bits, axis=1, count=self.count, bitorder="little").astype(np.bool_)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        taken = elements(memory, src0, "src0", bits_of(self.dtype), self._layout, self.blocks)
        return taken.reshape(self.rows, self.count)[self.chosen(memory, src1)]

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, bits_of(self.dtype), len(pending))[...] = pending

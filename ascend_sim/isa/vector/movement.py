"""Instructions of the vector unit that move or fill: duplicate, copy, broadcast, gather."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, REPEAT_BLOCKS
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost
from ascend_sim.isa.memory import Memory, ValueModel
from ascend_sim.isa.moves import Moves, loops, moves
from ascend_sim.isa.vector.arithmetic import immediate
from ascend_sim.isa.vector.base import (
    Mask,
    RowsInstruction,
    VectorInstruction,
    bits_of,
    blocks_fit,
    blocks_of,
    row_cost,
    rows_fit,
    rows_of,
    size_of,
    storage,
    view,
    view_of_blocks,
)
from ascend_sim.memory.regions import Region


@frozen
class Duplicate(RowsInstruction):
    """Set `rows` rows of `count` elements of dst, `dst_stride` bytes apart, to `value`, rounded to a float format.

    `blocks` (of dst), `mask` and refusals are those of element-wise instructions; `pipe` also raises SimError for a `value`
    that is no real number, or that an integer format cannot hold.
    """

    dtype: str
    count: int
    value: float = 0.0
    rows: int = 1
    dst_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()

    name = "duplicate"

    def pipe(self, chip: ChipSpec) -> str:
        immediate(self.dtype, self.value, self.name)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        return ()

    def moves(self, model: ValueModel) -> Moves:
        value = np.asarray(immediate(self.dtype, self.value, self.name), storage(self.dtype))
        return moves(put=self._place("dst", self.dst_stride), fill=value.tobytes())


@frozen
class VectorCopy(RowsInstruction):
    """`rows` rows of `count` elements from src0 to dst, both in UB; a `src_stride` of 0 broadcasts one row to all.

    `mask`, `blocks` and refusals are those of element-wise instructions.
    """

    dtype: str
    count: int
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()

    name = "vector_copy"
    opcode = "copy"

    def _farthest(self) -> int:
        return 0  # its repeat strides have 12 bits, or the gaps of a copy by blocks 16

    def moves(self, model: ValueModel) -> Moves:
        return moves(self._place("src0", self.src_stride), put=self._place("dst", self.dst_stride))


@frozen
class BroadcastColumn(VectorInstruction):
    """dst[r, c] = src0[r]: `rows` elements, one behind the other, each over `count` elements of its row of dst.

    Stands for Brcb (each element over a 32-byte block, eight a repeat) and, where rows are longer than a block, one copy that
    reads each block again and again (a block stride of 0). `pipe` raises SimError for rows of dst that overlap or do not begin
    at blocks.
    """

    dtype: str
    count: int
    rows: int
    dst_stride: int

    name = "broadcast_column"
    opcode = "broadcast"

    def pipe(self, chip: ChipSpec) -> str:
        rows_fit(chip, self.name, self.dtype, self.count, self.rows, self.dst_stride)
        return super().pipe(chip)

    def cost(self, chip: ChipSpec) -> Cost:
        blocks = row_cost(chip, "broadcast", self.dtype, self.rows * chip.alignment.block)
        _, row_bytes = self._cost_key()
        if row_bytes <= chip.alignment.block:
            return blocks
        copy = row_cost(chip, "copy", self.dtype, row_bytes, self.rows)
        return Cost(blocks.head_first, blocks.head_stream, blocks.work + copy.head_stream + copy.work, copy.latency)

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, self.rows)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.count, self.rows, self.dst_stride)

    def moves(self, model: ValueModel) -> Moves:
        item, shape = size_of(self.dtype), (self.rows, self.count)
        take = loops("src0", "UB", shape, (item, 0), item)
        return moves(take, put=loops("dst", "UB", shape, (self.dst_stride, item), item))


@frozen
class Gather(VectorInstruction):
    """dst[i] = the element of src0 at byte offset src1[i] (uint32), for `count` elements; src0 has `source_count` of them.

    An offset outside src0 or between two elements is a SimError when the instruction runs. `mask` leaves elements and
    their offsets out.
    """

    dtype: str
    count: int
    source_count: int
    mask: Mask | None = None

    name = "gather"
    chooses = "src0"

    def reads(self) -> tuple[Region, ...]:
        offsets = rows_of("src1", "uint32", self.count, mask=self.mask)
        return (*rows_of("src0", self.dtype, self.source_count), *offsets)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.count, mask=self.mask)

    def _taken(self) -> Any:
        """Return an index (a slice, or an array of bool) of the elements that the mask selects."""
        return slice(None) if self.mask is None else self.mask.selected(self.count)

    def chosen(self, memory: Memory, src1: int) -> NDArray[np.int64]:
        """Return the byte offsets in src0 of the elements that the mask selects, unchecked."""
        return view(memory, src1, "uint32", self.count)[self._taken()].astype(np.int64)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        index, between = np.divmod(self.chosen(memory, src1), size_of(self.dtype))
        wrong = np.flatnonzero((index >= self.source_count) | (between != 0))
        if wrong.size:
            first = int(wrong[0])
            offset = int(index[first]) * size_of(self.dtype) + int(between[first])
            raise SimError(
                f"gather: offset {first} is {offset} bytes; src0 has {self.source_count} {self.dtype} elements of "
                f"{size_of(self.dtype)} bytes"
            )
        return view(memory, src0, bits_of(self.dtype), self.source_count)[index]

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, bits_of(self.dtype), self.count)[self._taken()] = pending


@frozen
class GatherBlocks(VectorInstruction):
    """Block j of row i of dst = the 32 bytes of src0 at byte offset src1[8 i + j] (uint32), for `rows` repeats of 8 blocks.

    Blocks of dst lie `block` bytes apart, rows `dst_stride` (SimError by `pipe` if they overlap); src0 has `source_bytes`
    (asc-devkit, Gatherb: stated). An offset outside src0 or inside a block is a SimError when the instruction runs.
    """

    dtype: str
    rows: int
    source_bytes: int
    block: int = BLOCK_BYTES
    dst_stride: int = REPEAT_BLOCKS * BLOCK_BYTES

    name = "gather_blocks"
    chooses = "src0"

    def pipe(self, chip: ChipSpec) -> str:
        blocks_fit(chip, self.name, REPEAT_BLOCKS * BLOCK_BYTES, self.rows, (self.dst_stride, self.block))
        return super().pipe(chip)

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.rows * REPEAT_BLOCKS * BLOCK_BYTES

    @property
    def _layout(self) -> tuple[int, int, int]:
        return REPEAT_BLOCKS * BLOCK_BYTES, self.rows, self.dst_stride

    def reads(self) -> tuple[Region, ...]:
        return (*rows_of("src0", "uint8", self.source_bytes), *rows_of("src1", "uint32", REPEAT_BLOCKS * self.rows))

    def writes(self) -> tuple[Region, ...]:
        return blocks_of("dst", "uint8", self._layout, self.block)

    def chosen(self, memory: Memory, src1: int) -> NDArray[np.int64]:
        """Return the byte offsets in src0 of all blocks that are taken, unchecked."""
        return view(memory, src1, "uint32", REPEAT_BLOCKS * self.rows).astype(np.int64)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        offsets = self.chosen(memory, src1)
        wrong = np.flatnonzero((offsets % BLOCK_BYTES != 0) | (offsets + BLOCK_BYTES > self.source_bytes))
        if wrong.size:
            first = int(wrong[0])
            raise SimError(
                f"gather_blocks: offset {first} is {int(offsets[first])} bytes; src0 has {self.source_bytes} bytes in blocks "
                f"of {BLOCK_BYTES}"
            )
        return memory.array("UB", src0, (self.source_bytes,), np.uint8)[offsets[:, None] + np.arange(BLOCK_BYTES)]

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        held = view_of_blocks(memory, dst, "uint8", self._layout, self.block)
        held[...] = pending.reshape(held.shape)

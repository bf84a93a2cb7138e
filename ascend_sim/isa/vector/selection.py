"""Comparison to a mask of bits, and selection by one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.arithmetic import immediate
from ascend_sim.isa.vector.banks import OperandBlocks
from ascend_sim.isa.vector.base import (
    ComputedRows,
    Mask,
    VectorInstruction,
    banked_blocks,
    elements,
    regions_of,
    size_of,
    whole_blocks,
)
from ascend_sim.memory.regions import Region

COMPARISONS: dict[str, Callable[..., Any]] = {
    "lt": np.less,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "le": np.less_equal,
}
"""Mode of the vendor's CMPMODE -> numpy's comparison."""


@frozen
class Compare(VectorInstruction):
    """Bit i of dst = src0[i] `mode` src1[i], or `mode` a scalar; bit i lies in byte i // 8, the lowest bit first.

    `count` elements must fill whole repeats (asc-devkit, Compare page: others take no part). Comparisons with NaN are false,
    but "ne" is true. The bits of `rows` rows of `count` elements lie one behind the other in dst (assumed: the page has no
    stride for them); strides and `blocks` are those of the sources, as for element-wise instructions. Raises SimError for
    another mode, `pipe` for a part of a repeat and for strides that are not whole blocks.
    """

    mode: str
    dtype: str
    count: int
    scalar: float | None = None
    rows: int = 1
    src_stride: int = 0
    src1_stride: int = 0
    blocks: tuple[int, ...] = ()

    name = "compare"

    def __post_init__(self) -> None:
        if self.mode not in COMPARISONS:
            raise SimError(f"compare: no mode {self.mode!r}; there are {', '.join(COMPARISONS)}")

    @property
    def opcode(self) -> str:
        return ("compare" if self.scalar is None else "compares") + ("_eq" if self.mode == "eq" else "")

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.rows * self.count * size_of(self.dtype)

    def pipe(self, chip: ChipSpec) -> str:
        if self.scalar is not None:
            immediate(self.dtype, self.scalar, self.name)
        size, repeat = self.count * size_of(self.dtype), chip.vector.repeat_bytes
        if size % repeat:
            raise SimError(
                f"compare: {self.count} {self.dtype} elements are {size} bytes, not whole repeats of {repeat} "
                f"(asc-devkit, Compare page: what does not fill one takes no part)"
            )
        whole_blocks(chip, self.name, self.src_stride, self.src1_stride, *self.blocks)
        return super().pipe(chip)

    @property
    def _sources(self) -> list[tuple[str, tuple[int, int, int]]]:
        """Return (operand, (count, rows, stride)) of each operand that is a tensor: src0 and, without a scalar, src1."""
        listed = [("src0", self.src_stride)] + ([("src1", self.src1_stride)] if self.scalar is None else [])
        return [(one, (self.count, self.rows, stride)) for one, stride in listed]

    def reads(self) -> tuple[Region, ...]:
        return tuple(
            region for one, layout in self._sources for region in regions_of(one, self.dtype, layout, None, self.blocks)
        )

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", ceil_div(self.rows * self.count, 8)),)

    def banked(self) -> dict[str, OperandBlocks]:
        return {one: banked_blocks(one, self.dtype, layout, self.blocks) for one, layout in self._sources}

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        sides = [
            elements(memory, at, one, self.dtype, layout, self.blocks)
            for at, (one, layout) in zip((src0, src1), self._sources, strict=False)
        ]
        right = sides[1] if self.scalar is None else immediate(self.dtype, self.scalar, self.name)
        return np.packbits(COMPARISONS[self.mode](sides[0], right).astype(np.bool_), axis=None, bitorder="little")

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, pending.shape, np.uint8)[...] = pending


@frozen
class Select(ComputedRows):
    """dst[i] = src0[i] where bit i of the mask is set, else element i of a second tensor, or `scalar`.

    A row has addresses for two sources, this instruction has three: src1 is the lower of the addresses of mask and second
    tensor, and `mask_offset` and `other_offset` say where behind it each begins, at whole blocks (the vendor hands the third
    address over in a register). `rows`, strides, `mask` and `blocks` (of dst, src0 and the second tensor) are those of
    element-wise instructions; the bits of a row lie `bits_stride` bytes behind those of the row before, which is 0 where every
    repeat takes the same bits.
    """

    dtype: str
    count: int
    mask_offset: int = 0
    other_offset: int = 0
    scalar: float | None = None
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    src1_stride: int = 0
    bits_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()

    name = "select"

    def pipe(self, chip: ChipSpec) -> str:
        block = chip.alignment.block
        if self.mask_offset % block or self.other_offset % block:
            raise SimError(
                f"select: the mask or the second tensor does not start at a multiple of {block} bytes "
                f"(chip {chip.name}, alignment.block)"
            )
        if self.scalar is not None:
            immediate(self.dtype, self.scalar, self.name)
        return super().pipe(chip)

    def bits(self) -> Region:
        """Return the region of the mask's bits, relative to src1."""
        return Region("src1", "UB", ceil_div(self.count, 8), self.bits_stride, self.rows, offset=self.mask_offset)

    def reads(self) -> tuple[Region, ...]:
        regions = [*super().reads(), self.bits()]
        if self.scalar is None:
            other = self._bytes("src1", self.src1_stride)
            regions += [replace(one, offset=one.offset + self.other_offset) for one in other]
        return tuple(regions)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        shape, steps = (self.rows, ceil_div(self.count, 8)), (self.bits_stride, 1)
        bits = memory.array("UB", src1 + self.mask_offset, shape, np.uint8, steps)
        first = self._view(memory, src0, "src0", self.src_stride)
        chosen = np.unpackbits(bits, axis=1, count=self.count, bitorder="little").astype(np.bool_).reshape(first.shape)
        return np.where(chosen, first, self._other(memory, src1))

    def _other(self, memory: Memory, src1: int) -> Any:
        """Return a view of the second tensor's elements, or the scalar in their format."""
        if self.scalar is None:
            return self._view(memory, src1 + self.other_offset, "src1", self.src1_stride)
        return immediate(self.dtype, self.scalar, self.name)

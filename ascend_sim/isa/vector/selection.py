"""Comparison to a mask of bits, and selection by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.arithmetic import immediate
from ascend_sim.isa.vector.base import VectorInstruction, rows_of, size_of, view
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
    but "ne" is true.
    """

    mode: str
    dtype: str
    count: int
    scalar: float | None = None

    name = "compare"

    def __post_init__(self) -> None:
        if self.mode not in COMPARISONS:
            raise SimError(f"compare: no mode {self.mode!r}; there are {', '.join(COMPARISONS)}")

    @property
    def opcode(self) -> str:
        return ("compare" if self.scalar is None else "compares") + ("_eq" if self.mode == "eq" else "")

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.count * size_of(self.dtype)

    def pipe(self, chip: ChipSpec) -> str:
        if self.scalar is not None:
            immediate(self.dtype, self.scalar, self.name)
        dtype, size = self._cost_key()
        if size % chip.vector.repeat_bytes:
            raise SimError(
                f"compare: {self.count} {dtype} elements are {size} bytes, not whole repeats of {chip.vector.repeat_bytes} "
                f"(asc-devkit, Compare page: what does not fill one takes no part)"
            )
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        second = rows_of("src1", self.dtype, self.count) if self.scalar is None else ()
        return (*rows_of("src0", self.dtype, self.count), *second)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", ceil_div(self.count, 8)),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        left = view(memory, src0, self.dtype, self.count)
        if self.scalar is None:
            right = view(memory, src1, self.dtype, self.count)
        else:
            right = immediate(self.dtype, self.scalar, self.name)
        return np.packbits(COMPARISONS[self.mode](left, right).astype(np.bool_), bitorder="little")

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, pending.shape, np.uint8)[...] = pending


@frozen
class Select(VectorInstruction):
    """dst[i] = src0[i] where bit i of the mask is set, else element i of a second tensor, or `scalar`.

    A row has addresses for two sources, this instruction needs three: src1 is the lower of the addresses of mask and second
    tensor, and `mask_offset` and `other_offset` are the distances of both from it (the vendor hands the third address over in a
    register).
    """

    dtype: str
    count: int
    mask_offset: int = 0
    other_offset: int = 0
    scalar: float | None = None

    name = "select"

    @property
    def opcode(self) -> str:
        return "select"

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.count * size_of(self.dtype)

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

    def reads(self) -> tuple[Region, ...]:
        regions = [*rows_of("src0", self.dtype, self.count)]
        regions.append(Region("src1", "UB", ceil_div(self.count, 8), offset=self.mask_offset))
        if self.scalar is None:
            regions.append(Region("src1", "UB", self.count * size_of(self.dtype), offset=self.other_offset))
        return tuple(regions)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.count)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        bits = memory.array("UB", src1 + self.mask_offset, (ceil_div(self.count, 8),), np.uint8)
        chosen = np.unpackbits(bits, count=self.count, bitorder="little").astype(np.bool_)
        if self.scalar is None:
            other = view(memory, src1 + self.other_offset, self.dtype, self.count)
        else:
            other = immediate(self.dtype, self.scalar, self.name)
        return np.where(chosen, view(memory, src0, self.dtype, self.count), other)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, self.dtype, self.count)[...] = pending

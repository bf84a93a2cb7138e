"""Vector instructions of the AIV cores; all operands lie in UB and are contiguous unless a stride is named.

A repeat is 256 bytes of the wider operand (asc-devkit, Vector instruction performance page).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Cost, Instruction, Memory, ceil_div
from ascend_sim.memory.regions import Region
from ascend_sim.numerics import cast, numpy_dtype
from ascend_sim.numerics.widen import to_float32

_BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}
_WITH_SCALAR = {"adds": np.add, "muls": np.multiply}


def _size(dtype: str) -> int:
    return int(numpy_dtype(dtype).itemsize)


@dataclass(frozen=True)
class _Vector(Instruction):
    """Cost shared by all: a head and cycles per repeat of `opcode`, plus the tail surcharge for a broken repeat."""

    @property
    def opcode(self) -> str:
        """Row of the chip's vector cost table."""
        raise NotImplementedError

    def _cost_key(self) -> tuple[str, int]:
        """Cost dtype and the bytes that the repeats cover."""
        raise NotImplementedError

    def pipe(self, chip: ChipSpec) -> str:
        return "V"

    def cost(self, chip: ChipSpec) -> Cost:
        dtype, size = self._cost_key()
        head, work = chip.vector.cycles(self.opcode, dtype, size)
        return Cost(head, head, work, chip.vector.latency)


@dataclass(frozen=True)
class VectorBinary(_Vector):
    """dst = src0 op src1 over `count` elements (`operation`: add, sub, mul, max)."""

    operation: str
    dtype: str
    count: int

    name = "vector_binary"

    @property
    def opcode(self) -> str:
        return self.operation

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.count * _size(self.dtype)

    def reads(self) -> tuple[Region, ...]:
        size = self.count * _size(self.dtype)
        return (Region("src0", "UB", size), Region("src1", "UB", size))

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.count * _size(self.dtype)),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        dtype = numpy_dtype(self.dtype)
        left = memory.array("UB", src0, (self.count,), dtype)
        right = memory.array("UB", src1, (self.count,), dtype)
        return memory.model.settled(_BINARY[self.operation](left, right))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.count,), pending.dtype)[...] = pending


@dataclass(frozen=True)
class VectorCast(_Vector):
    """dst = src0 in another format; `rounding` is a cast mode of the vector unit (RINT is nearest even).

    A pair of formats or a mode that the chip lacks is refused when the instruction is made (chip file, vector.casts).
    """

    source: str
    target: str
    count: int
    rounding: str

    name = "vector_cast"

    def pipe(self, chip: ChipSpec) -> str:
        chip.vector.cast_mode(self.source, self.target, self.rounding)
        return super().pipe(chip)

    @property
    def opcode(self) -> str:
        return "cast"

    def _cost_key(self) -> tuple[str, int]:
        wide = self.source if _size(self.source) >= _size(self.target) else self.target
        return wide, self.count * _size(wide)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "UB", self.count * _size(self.source)),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.count * _size(self.target)),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        values = memory.array("UB", src0, (self.count,), numpy_dtype(self.source))
        saturate = memory.model.saturate
        if self.target == "float32" and self.source in ("float16", "bfloat16") and not saturate:
            return to_float32(values)
        return cast(values, self.target, self.rounding, saturate, source=self.source)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.count,), pending.dtype)[...] = pending


@dataclass(frozen=True)
class Duplicate(_Vector):
    """`count` elements of dst become `value`."""

    dtype: str
    count: int
    value: float = 0.0

    name = "duplicate"

    @property
    def opcode(self) -> str:
        return "duplicate"

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.count * _size(self.dtype)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.count * _size(self.dtype)),)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.count,), numpy_dtype(self.dtype))[...] = self.value


@dataclass(frozen=True)
class ReduceRows(_Vector):
    """dst[r] = sum of row r of src0: `rows` rows of `columns` fp32 elements, `row_stride` bytes apart.

    Stands for a sequence of WholeReduceSum repeats; sums pairwise in fp32 like the instruction's adder tree.
    """

    rows: int
    columns: int
    row_stride: int

    name = "reduce_rows"

    @property
    def opcode(self) -> str:
        return "reduce_sum"

    def cost(self, chip: ChipSpec) -> Cost:
        repeats = self.rows * ceil_div(self.columns * 4, chip.vector.repeat_bytes)  # a row begins a new one
        head, work = chip.vector.cycles(self.opcode, "float32", repeats * chip.vector.repeat_bytes)
        return Cost(head, head, work, chip.vector.latency)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "UB", self.columns * 4, self.row_stride, self.rows),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.rows * 4),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        rows = memory.array("UB", src0, (self.rows, self.columns), np.float32, (self.row_stride, 4))
        return memory.model.settled(rows.sum(axis=1, dtype=np.float32))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (self.rows,), np.float32)[...] = pending


@dataclass(frozen=True)
class TransposeBlocks(_Vector):
    """Turn between [channels][pixels] and [pixels][C0] (TransDataTo5HD): `to_c0` says which way.

    `channels` rows of `pixels` elements lie `row_stride` bytes apart on the plain side; on the C0 side each pixel is a
    32-byte block, `block_stride` bytes apart, and row 0 is element `first` of a block. Elements of a block that belong
    to no row become zero on the way to C0 and are dropped on the way back (the unit takes one address per row, so such
    a row comes from zeros or goes to waste). All of it `repeats` times, `plain_step` and `block_step` bytes apart. Rows
    that do not start on a 32-byte block are first copied to such, 32 bytes at a time.
    """

    to_c0: bool
    itemsize: int
    channels: int
    pixels: int
    row_stride: int
    block_stride: int = 32
    first: int = 0
    repeats: int = 1
    plain_step: int = 0
    block_step: int = 0

    name = "transpose_blocks"

    def pipe(self, chip: ChipSpec) -> str:
        last, c0 = self.first + self.channels, 32 // self.itemsize
        if not 0 <= self.first < last <= c0:
            raise SimError(f"transpose_blocks: rows {self.first} to {last} of a block of {c0}")
        return super().pipe(chip)

    @property
    def opcode(self) -> str:
        return "transpose"

    def _cost_key(self) -> tuple[str, int]:
        return ("float16" if self.itemsize == 2 else "float32"), self.repeats * self.pixels * 32

    def cost(self, chip: ChipSpec) -> Cost:
        if self.row_stride % 32 == 0 and (self.repeats == 1 or self.plain_step % 32 == 0):
            return super().cost(chip)
        if self.pixels == 1:  # nothing to turn
            head, work = chip.vector.cycles("copy", self._cost_key()[0], self.repeats * 32)
            return Cost(head, head, work, chip.vector.latency)
        # One instruction turns 16 rows of 32 bytes, after one that copies them.
        times = ceil_div(self.repeats * self.channels * ceil_div(self.pixels * self.itemsize, 32), 16)
        dtype, _ = self._cost_key()
        head, work = map(sum, zip(*(chip.vector.cycles(op, dtype, 512) for op in ("copy", "transpose")), strict=True))
        return Cost(head, head, (times - 1) * head + times * work, chip.vector.latency)

    def _plain(self, operand: str) -> Region:
        row_bytes = self.pixels * self.itemsize
        return Region(operand, "UB", row_bytes, self.row_stride, self.channels, self.plain_step, self.repeats)

    def _blocks(self, operand: str) -> Region:
        return Region(operand, "UB", 32, self.block_stride, self.pixels, self.block_step, self.repeats)

    def reads(self) -> tuple[Region, ...]:
        return (self._plain("src0") if self.to_c0 else self._blocks("src0"),)

    def writes(self) -> tuple[Region, ...]:
        return (self._blocks("dst") if self.to_c0 else self._plain("dst"),)

    def _plain_view(self, memory: Memory, address: int) -> Any:
        shape = (self.repeats, self.channels, self.pixels)
        strides = (self.plain_step, self.row_stride, self.itemsize)
        return memory.array("UB", address, shape, f"u{self.itemsize}", strides)

    def _blocks_view(self, memory: Memory, address: int) -> Any:
        shape = (self.repeats, self.pixels, 32 // self.itemsize)
        strides = (self.block_step, self.block_stride, self.itemsize)
        return memory.array("UB", address, shape, f"u{self.itemsize}", strides)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        taken = slice(self.first, self.first + self.channels)
        if self.to_c0:
            blocks = np.zeros((self.repeats, self.pixels, 32 // self.itemsize), f"u{self.itemsize}")
            blocks[:, :, taken] = self._plain_view(memory, src0).transpose(0, 2, 1)
            return blocks
        return np.ascontiguousarray(self._blocks_view(memory, src0)[:, :, taken].transpose(0, 2, 1))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        if self.to_c0:
            self._blocks_view(memory, dst)[...] = pending
        else:
            self._plain_view(memory, dst)[...] = pending


@dataclass(frozen=True)
class Interleave(_Vector):
    """dst[2 * i] = src0[i] and dst[2 * i + 1] = src1[i], for `count` elements of `itemsize` bytes each."""

    itemsize: int
    count: int

    name = "interleave"

    @property
    def opcode(self) -> str:
        return "interleave"

    def _cost_key(self) -> tuple[str, int]:
        return ("float16" if self.itemsize == 2 else "float32"), 2 * self.count * self.itemsize

    def reads(self) -> tuple[Region, ...]:
        size = self.count * self.itemsize
        return (Region("src0", "UB", size), Region("src1", "UB", size))

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", 2 * self.count * self.itemsize),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        sources = [memory.array("UB", address, (self.count,), f"u{self.itemsize}") for address in (src0, src1)]
        return np.stack(sources, axis=1)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, pending.shape, pending.dtype)[...] = pending

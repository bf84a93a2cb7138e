"""The vector unit's mask register: a comparison or a load sets its 128 bits, and a selection chooses by them in every repeat.

The register is not a buffer: no region names it, so that a check does not look at it. A program that uses it
sets it before.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost
from ascend_sim.isa.memory import MASK_REGISTER_BYTES, Memory
from ascend_sim.isa.vector.base import ComputedRows, Mask, VectorInstruction, elements, regions_of, row_cost, size_of
from ascend_sim.isa.vector.selection import COMPARISONS, Select
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.integers import storage

_BITS = "uint16"
"""Format whose cost a load and a store of the register have."""


def _fits_repeat(name: str, chip: ChipSpec, dtype: str, count: int) -> None:
    """Raise SimError for more elements than a repeat holds, since the register has bits for one repeat."""
    most = chip.vector.repeat_bytes // size_of(dtype)
    if count > most:
        raise SimError(f"{name}: {count} {dtype} elements; the mask register has the bits of one repeat, {most}")


@frozen
class CompareToRegister(VectorInstruction):
    """Bit i of the mask register = src0[i] `mode` src1[i], for `count` elements of one repeat; others become 0 (assumed).

    Raises SimError for another mode than those of COMPARISONS, `pipe` for more elements than a repeat.
    """

    mode: str
    dtype: str
    count: int
    blocks: tuple[int, ...] = ()

    name = "compare_to_register"

    def __post_init__(self) -> None:
        if self.mode not in COMPARISONS:
            raise SimError(f"compare_to_register: no mode {self.mode!r}; there are {', '.join(COMPARISONS)}")

    def pipe(self, chip: ChipSpec) -> str:
        _fits_repeat(self.name, chip, self.dtype, self.count)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        layout = self.count, 1, 0
        return tuple(one for side in ("src0", "src1") for one in regions_of(side, self.dtype, layout, None, self.blocks))

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        layout = self.count, 1, 0
        left, right = (
            elements(memory, at, side, self.dtype, layout, self.blocks) for at, side in ((src0, "src0"), (src1, "src1"))
        )
        held = np.zeros(8 * MASK_REGISTER_BYTES, np.bool_)
        held[: self.count] = COMPARISONS[self.mode](left, right).reshape(-1)
        return np.packbits(held, bitorder="little")

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.mask_register[:] = pending


class _Whole(VectorInstruction):
    """Base of the instructions that move the whole register between unit and Unified Buffer, at the cost of one repeat."""

    opcode = "mask_register"

    def _cost_key(self) -> tuple[str, int]:
        return _BITS, MASK_REGISTER_BYTES

    def cost(self, chip: ChipSpec) -> Cost:
        return row_cost(chip, self.opcode, _BITS, chip.vector.repeat_bytes)


@frozen
class LoadMaskRegister(_Whole):
    """The mask register = the 128 bits at src0 (asc-devkit, SetCmpMask)."""

    name = "load_mask_register"

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "UB", MASK_REGISTER_BYTES),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return memory.array("UB", src0, (MASK_REGISTER_BYTES,), np.uint8).copy()

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.mask_register[:] = pending


@frozen
class StoreMaskRegister(_Whole):
    """dst = the 128 bits of the mask register (asc-devkit, GetCmpMask)."""

    name = "store_mask_register"

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", MASK_REGISTER_BYTES),)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return memory.mask_register.copy()

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        memory.array("UB", dst, (MASK_REGISTER_BYTES,), np.uint8)[:] = pending


@frozen
class SelectRegisterScalar(Select):
    """dst[i] = src0[i] where bit i of the mask at src1 is set, else the number that begins the mask register.

    Source: asc-devkit, Select with a scalar and without a mask; SetCmpMask loads its scalar.
    """

    name = "select_register_scalar"
    opcode = "select"

    def _other(self, memory: Memory, src1: int) -> Any:
        return memory.mask_register[: size_of(self.dtype)].view(storage(self.dtype))[0]

    def reads(self) -> tuple[Region, ...]:
        return (*self._bytes("src0", self.src_stride), self.bits())


@frozen
class SelectByRegister(ComputedRows):
    """dst[i] = src0[i] where bit i of the mask register is set, else src1[i]; every repeat, a row here, takes the same bits.

    `count` elements of a row fit one repeat (else SimError by `pipe`); strides, `mask` and `blocks` are those of element-wise
    instructions.
    """

    dtype: str
    count: int
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    src1_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()

    name = "select_by_register"

    def pipe(self, chip: ChipSpec) -> str:
        _fits_repeat(self.name, chip, self.dtype, self.count)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        return (*super().reads(), *self._bytes("src1", self.src1_stride))

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        first = self._view(memory, src0, "src0", self.src_stride)
        other = self._view(memory, src1, "src1", self.src1_stride)
        bits = np.unpackbits(memory.mask_register, bitorder="little")[: self.count].astype(np.bool_)
        return np.where(np.broadcast_to(bits, (self.rows, self.count)).reshape(first.shape), first, other)

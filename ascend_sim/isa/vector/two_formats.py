"""Element-wise arithmetic between two formats: the sources have one, dst another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.arithmetic import BINARY, immediate
from ascend_sim.isa.vector.base import Mask, TwoFormats, store
from ascend_sim.memory.regions import Region
from ascend_sim.numerics import cast
from ascend_sim.numerics.integers import INTEGERS, to_integers

CASTING = ("add_relu", "sub_relu", "mul")
"""Operations whose result may be cast on its way (asc-devkit, AddReluCast, SubReluCast and MulCast: stated)."""


class _Arithmetic(TwoFormats):
    """Base of element-wise arithmetic on two sources of one format into dst of another."""

    src1_stride: int

    def _values(self, memory: Memory, address: int, operand: str, stride: int) -> NDArray[Any]:
        """Return the elements of an operand as [rows, count]."""
        return self._view(memory, address, operand, stride).reshape(self.rows, self.count)

    def reads(self) -> tuple[Region, ...]:
        return (*super().reads(), *self._bytes("src1", self.src1_stride))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        held = self._view(memory, dst, "dst", self.dst_stride)
        store(held, pending.reshape(held.shape), self.mask)


@frozen
class VectorBinaryCast(_Arithmetic):
    """dst = (src0 operation src1) in another format; `operation` is one of `CASTING` (else SimError).

    The result has the rounding of the sources' format, then that of the cast, to nearest even; integers take the nearest of
    their range (asc-devkit, rules of conversions without a mode: stated).
    """

    operation: str
    source: str
    target: str
    count: int
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()
    src1_stride: int = 0

    name = "vector_binary_cast"

    def __post_init__(self) -> None:
        if self.operation not in CASTING:
            raise SimError(f"{self.name}: no operation {self.operation!r} here; there are {', '.join(CASTING)}")

    @property
    def opcode(self) -> str:
        return f"{self.operation}_cast"

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        left = self._values(memory, src0, "src0", self.src_stride)
        right = self._values(memory, src1, "src1", self.src1_stride)
        values = memory.model.settled(BINARY[self.operation].function(left, right))
        if self.target in INTEGERS:
            return to_integers(values.astype(np.float64), self.target, "RINT")
        return cast(values, self.target, None, memory.model.saturate)


@frozen
class VectorMulAddWide(_Arithmetic):
    """dst = src0 * src1 + dst, or src0 * scalar + dst: dst of float32, the others of float16 (asc-devkit, MulAddDst and Axpy).

    The scalar is rounded to float16. A product of two float16 is exact; the sum is rounded once (assumed).
    """

    count: int
    scalar: float | None = None
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()
    src1_stride: int = 0

    name = "vector_mul_add_wide"
    source = "float16"
    target = "float32"

    @property
    def opcode(self) -> str:
        return "mul_add_wide" if self.scalar is None else "axpy_wide"

    def reads(self) -> tuple[Region, ...]:
        right = self._bytes("src1", self.src1_stride) if self.scalar is None else ()
        return (*self._bytes("src0", self.src_stride), *right, *self.writes())

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        left = self._values(memory, src0, "src0", self.src_stride).astype(np.float32)
        right: Any
        if self.scalar is None:
            right = self._values(memory, src1, "src1", self.src1_stride).astype(np.float32)
        else:
            right = np.float32(immediate(self.source, self.scalar, self.name))
        held = self._values(memory, dst, "dst", self.dst_stride)
        return memory.model.settled(left * right + held)

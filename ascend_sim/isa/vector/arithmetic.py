"""Element-wise arithmetic of the vector unit: one source, two sources, or a source and a scalar.

Each operation is a row of a table. Floating-point results are rounded to the format of the operands, once, but products that
are then added also before the sum: fp16 and bf16 lose bits with every instruction. Integers wrap around. `max` and `min` hand
NaN on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.base import Elementwise, whole_blocks
from ascend_sim.memory.regions import Region
from ascend_sim.numerics import cast
from ascend_sim.numerics.integers import INTEGERS, like_float64, storage

Array = NDArray[Any]


@frozen
class Operation:
    """Row of a table of operations: its function in numpy.

    Formats and costs are in the chip file (vector.ops). A `rounded` function has one operand and is computed in float64 and
    rounded once, so that no host's library shows; the unit's own functions may be off by some units in the last place (nothing
    is published).
    """

    function: Callable[..., Any]
    rounded: bool = False


UNARY = {
    "abs": Operation(np.abs),
    "relu": Operation(lambda x: np.maximum(x, x.dtype.type(0))),
    "not": Operation(np.invert),
    "exp": Operation(np.exp, rounded=True),
    "ln": Operation(np.log, rounded=True),
    "sqrt": Operation(np.sqrt, rounded=True),
    "rsqrt": Operation(lambda x: 1 / np.sqrt(x), rounded=True),
    "reciprocal": Operation(lambda x: 1 / x, rounded=True),
}

BINARY = {
    "add": Operation(np.add),
    "sub": Operation(np.subtract),
    "mul": Operation(np.multiply),
    "div": Operation(np.divide),
    "max": Operation(np.maximum),
    "min": Operation(np.minimum),
    "and": Operation(np.bitwise_and),
    "or": Operation(np.bitwise_or),
    "add_relu": Operation(lambda x, y: np.maximum(x + y, x.dtype.type(0))),
    "sub_relu": Operation(lambda x, y: np.maximum(x - y, x.dtype.type(0))),
}

RUNNING = ("add", "sub", "mul", "max", "min", "add_relu", "sub_relu")
RUNNING_FORMATS = ("float16", "int32", "float32")
"""Operations, and their formats, each of whose repeats may continue from the result of the one before (asc-devkit: stated)."""

MULTIPLY_ADD = {
    "mul_add": Operation(lambda x, y, held: x * y + held),
    "fused_mul_add": Operation(lambda x, y, held: x * held + y),
    "fused_mul_add_relu": Operation(lambda x, y, held: np.maximum(x * held + y, x.dtype.type(0))),
}
"""`held` is what stands in dst. That the product is rounded too is assumed, as for `axpy`."""

WITH_SCALAR = {
    "adds": Operation(np.add),
    "muls": Operation(np.multiply),
    "maxs": Operation(np.maximum),
    "mins": Operation(np.minimum),
    "leaky_relu": Operation(lambda x, slope: np.where(x > 0, x, x * slope)),
    "axpy": Operation(lambda x, scalar, total: x * scalar + total),
    "shift_left": Operation(np.left_shift),
    "shift_right": Operation(np.right_shift),
    "shift_right_round": Operation(lambda x, bits: x.astype(np.int64) + ((1 << int(bits)) >> 1) >> int(bits)),
}
"""The scalar is an immediate of the format of the operands; `axpy` adds to what stands in dst and rounds the product too.

A shift to the right of signed numbers keeps the sign; `shift_right_round` adds half of the last place before it (asc-devkit,
ShiftRight).
"""


def _apply(operation: Operation, dtype: str, *operands: Any) -> Array:
    """Return the operation's result in the format of the operands; overflow and division by zero of floats result in inf and
    NaN.

    A `rounded` operation takes the first operand alone. The engines silence numpy's warnings.
    """
    if operation.rounded:
        return cast(operation.function(operands[0].astype(np.float64)), dtype)
    return np.asarray(operation.function(*operands), storage(dtype))


def _listed(table: dict[str, Operation], operation: str) -> None:
    """Raise SimError if `table` has no operation of that name."""
    if operation not in table:
        raise SimError(f"no vector operation {operation!r} here; there are {', '.join(table)}")


@frozen
class VectorUnary(Elementwise):
    """dst = operation(src0), element by element; `operation` is a row of `UNARY` (else SimError)."""

    name = "vector_unary"

    def __post_init__(self) -> None:
        _listed(UNARY, self.operation)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        return memory.model.settled(_apply(UNARY[self.operation], self.dtype, self.source(memory, src0)))


@frozen
class VectorBinary(Elementwise):
    """dst = src0 operation src1, element by element; `operation` is a row of `BINARY` (else SimError), `src_stride` that of
    src0.

    With a `src1_stride` of 0 and src1 at dst each row of a RUNNING operation and format reads what the rows before it wrote.
    """

    src1_stride: int = 0

    name = "vector_binary"

    def __post_init__(self) -> None:
        _listed(BINARY, self.operation)

    def _fit(self, chip: ChipSpec) -> None:
        if self.runs_on and self.dst_stride == 0:
            whole_blocks(chip, self._what, self.src_stride)
        else:
            super()._fit(chip)

    @property
    def runs_on(self) -> bool:
        """Return True if rows may read at src1 what earlier ones wrote: several rows of a RUNNING operation and format, with
        src1 rows 0 apart and no block strides.
        """
        known = self.operation in RUNNING and self.dtype in RUNNING_FORMATS
        return known and self.rows > 1 and self.src1_stride == 0 and not self.blocks

    def reads(self) -> tuple[Region, ...]:
        return (*super().reads(), *self._bytes("src1", self.src1_stride))

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        left, right = self.source(memory, src0), self._view(memory, src1, "src1", self.src1_stride)
        if not (self.runs_on and dst == src1):
            return memory.model.settled(_apply(BINARY[self.operation], self.dtype, left, right))
        total, results = right[0], []
        for row in left:
            results.append(memory.model.settled(_apply(BINARY[self.operation], self.dtype, row, total)))
            total = results[-1 if self.dst_stride == 0 else 0]
        return np.stack(results)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        last = self.runs_on and self.dst_stride == 0
        super().commit(memory, dst, pending[-1:] if last else pending)


@frozen
class VectorMulAdd(VectorBinary):
    """dst = operation(src0, src1, dst), element by element; `operation` is a row of `MULTIPLY_ADD` (else SimError)."""

    name = "vector_mul_add"

    def __post_init__(self) -> None:
        _listed(MULTIPLY_ADD, self.operation)

    def reads(self) -> tuple[Region, ...]:
        return (*super().reads(), *self.writes())

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        right = self._view(memory, src1, "src1", self.src1_stride)
        held = self._view(memory, dst, "dst", self.dst_stride)
        operands = self.source(memory, src0), right, held
        return memory.model.settled(_apply(MULTIPLY_ADD[self.operation], self.dtype, *operands))


@frozen
class VectorScalar(Elementwise):
    """dst = operation(src0, scalar), for axpy plus dst; `operation` is a row of `WITH_SCALAR` (else SimError).

    The scalar is rounded to a float format; `pipe` raises SimError for one that an integer format cannot hold.
    """

    scalar: float = 0.0

    name = "vector_scalar"

    def __post_init__(self) -> None:
        _listed(WITH_SCALAR, self.operation)

    @property
    def _adds_up(self) -> bool:
        """Return True for axpy, which also reads dst."""
        return self.operation == "axpy"

    def pipe(self, chip: ChipSpec) -> str:
        immediate(self.dtype, self.scalar, self._what)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        before = self.writes() if self._adds_up else ()
        return (*super().reads(), *before)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        operands = [self.source(memory, src0), immediate(self.dtype, self.scalar, self.name)]
        if self._adds_up:
            operands.append(self._view(memory, dst, "dst", self.dst_stride))
        return memory.model.settled(_apply(WITH_SCALAR[self.operation], self.dtype, *operands))


class _NegativeZero(float):
    """-0.0 that, unlike Python's, does not equal 0.0."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NegativeZero)

    def __hash__(self) -> int:
        return hash(_NegativeZero)


_NEGATIVE_ZERO = _NegativeZero(-0.0)


def scalar_field(value: float) -> float:
    """Return a scalar operand as a field of an instruction: itself, but -0.0 as a number that is not equal to 0.0.

    Instructions with equal fields are one, so that the sign of a zero would be lost.
    """
    return _NEGATIVE_ZERO if isinstance(value, float | np.floating) and not value and math.copysign(1.0, value) < 0 else value


def immediate(dtype: str, value: float, what: str) -> Any:
    """Return the scalar operand `value` as a number of `dtype`, rounded once to a float format.

    Raises SimError, begun by `what`, for what is not a real number, and if an integer format cannot hold it.
    """
    held = storage(dtype)
    if not isinstance(value, Real | np.bool_):
        raise SimError(f"{what}: the scalar is {value!r}; a number is allowed")
    if dtype not in INTEGERS:
        return cast(like_float64(value), dtype)[()]
    limits = np.iinfo(held)
    if not limits.min <= value <= limits.max or value != int(value):
        allowed = f"whole numbers from {limits.min} to {limits.max}"
        raise SimError(f"{what}: scalar {value} does not fit {dtype}; allowed are {allowed}")
    return held.type(int(value))

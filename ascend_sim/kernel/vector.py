"""The vector methods of a `KernelBuilder`: one for each operation, on tensors in the Unified Buffer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import (
    BroadcastColumn,
    Compare,
    Duplicate,
    Gather,
    Mask,
    ReduceBlocks,
    ReduceRows,
    ReduceWithIndex,
    Select,
    Transpose,
    VectorBinary,
    VectorCast,
    VectorCopy,
    VectorMulAdd,
    VectorScalar,
    VectorUnary,
    scalar_field,
)
from ascend_sim.isa.vector.base import size_of, whole_blocks
from ascend_sim.isa.vector.named import named
from ascend_sim.kernel.described import Key
from ascend_sim.kernel.field_types import real_number
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.tensor import Tensor as GlobalTensor
from ascend_sim.kernel.tensor import dtype_name
from ascend_sim.memory.sizes import whole_number

Tensor = LocalTensor


class VectorMethods:
    """Methods of a builder for vector instructions on tensors in the Unified Buffer; the result comes first.

    The result of an element-wise method, unless it is a cast to a wider format, and of a reduction may begin where an operand
    begins. That of gather, compare, broadcast_column and transpose (other than 16 x 16) must lie apart; `isa/vector/overlap.py`
    has all rules.

    Element-wise methods take one shape and, but for cast, one format for all operands; a source of one row stands for every row
    of the result. `mask` is the vendor's bitwise mask: an integer whose bit i is 1 if element i of every repeat (256 bytes)
    takes part. Raises SimError at once for shapes or formats that do not go together, for rows that do not lie whole 32-byte
    blocks apart and for what the chip lacks; addresses and overlaps are checked when the program is finished.
    """

    if TYPE_CHECKING:
        chip: ChipSpec

        def _emit(self, key: Key, dst: int = 0, src0: int = 0, src1: int = 0) -> None: ...
        def allocate(self, buffer: str, size: int, name: str, unit: int = 0, *, keep: bool = True) -> int: ...

    def local_tensor(self, shape: int | tuple[int, ...], dtype: str, name: str) -> LocalTensor:
        """Return a fresh tensor in the Unified Buffer; its rows start at whole 32-byte blocks.

        Raises SimError as `allocate`, for more than two dimensions, and for a dtype that tensors cannot have.
        """
        listed = isinstance(shape, Sequence) or np.ndim(shape) > 0
        given: Iterable[int] = shape if listed else (shape,)  # type: ignore[assignment]
        sizes = tuple(whole_number(size, f"local tensor {name} of shape {shape!r}: a size", 1) for size in given)
        block = self.chip.alignment.block
        dtype = dtype_name(dtype)
        probe = LocalTensor(0, sizes, dtype)
        tensor = LocalTensor(0, sizes, dtype, -(-probe.row_bytes // block) * block)
        address = self.allocate("UB", tensor.rows * tensor.row_stride, name)
        return LocalTensor(address, sizes, dtype, tensor.row_stride)

    # -- one element from the elements in its place ----------------------------------------------------------------------

    def add(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left + right."""
        self._binary("add", dst, left, right, mask)

    def sub(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left - right."""
        self._binary("sub", dst, left, right, mask)

    def mul(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left * right."""
        self._binary("mul", dst, left, right, mask)

    def div(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left / right."""
        self._binary("div", dst, left, right, mask)

    def mul_add(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left * right + dst; the product is rounded too."""
        self._binary("mul_add", dst, left, right, mask, VectorMulAdd)

    def fused_mul_add(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left * dst + right; the product is rounded too."""
        self._binary("fused_mul_add", dst, left, right, mask, VectorMulAdd)

    def fused_mul_add_relu(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = max(left * dst + right, 0); the product is rounded too."""
        self._binary("fused_mul_add_relu", dst, left, right, mask, VectorMulAdd)

    def add_relu(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = max(left + right, 0)."""
        self._binary("add_relu", dst, left, right, mask)

    def sub_relu(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = max(left - right, 0)."""
        self._binary("sub_relu", dst, left, right, mask)

    def max(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = the larger of left and right, NaN if one is."""
        self._binary("max", dst, left, right, mask)

    def min(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = the smaller of left and right, NaN if one is."""
        self._binary("min", dst, left, right, mask)

    def bitwise_and(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left & right, bit by bit."""
        self._binary("and", dst, left, right, mask)

    def bitwise_or(self, dst: Tensor, left: Tensor, right: Tensor, *, mask: int | None = None) -> None:
        """dst = left | right, bit by bit."""
        self._binary("or", dst, left, right, mask)

    def bitwise_not(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = ~src, bit by bit."""
        self._unary("not", dst, src, mask)

    def adds(self, dst: Tensor, src: Tensor, scalar: float, *, mask: int | None = None) -> None:
        """dst = src + scalar."""
        self._scalar("adds", dst, src, scalar, mask)

    def muls(self, dst: Tensor, src: Tensor, scalar: float, *, mask: int | None = None) -> None:
        """dst = src * scalar."""
        self._scalar("muls", dst, src, scalar, mask)

    def maxs(self, dst: Tensor, src: Tensor, scalar: float, *, mask: int | None = None) -> None:
        """dst = the larger of src and scalar, NaN if one is. Bit i of `mask`: element i of every repeat; None: all."""
        self._scalar("maxs", dst, src, scalar, mask)

    def mins(self, dst: Tensor, src: Tensor, scalar: float, *, mask: int | None = None) -> None:
        """dst = the smaller of src and scalar, NaN if one is. Bit i of `mask`: element i of every repeat; None: all."""
        self._scalar("mins", dst, src, scalar, mask)

    def axpy(self, dst: Tensor, src: Tensor, scalar: float, *, mask: int | None = None) -> None:
        """dst = dst + src * scalar; the product is rounded too."""
        self._scalar("axpy", dst, src, scalar, mask)

    def leaky_relu(self, dst: Tensor, src: Tensor, slope: float, *, mask: int | None = None) -> None:
        """dst = src where that is positive, else src * slope."""
        self._scalar("leaky_relu", dst, src, slope, mask)

    def abs(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = |src|."""
        self._unary("abs", dst, src, mask)

    def exp(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = e to the power of src."""
        self._unary("exp", dst, src, mask)

    def ln(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = the natural logarithm of src."""
        self._unary("ln", dst, src, mask)

    def sqrt(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = the square root of src."""
        self._unary("sqrt", dst, src, mask)

    def rsqrt(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = 1 / the square root of src."""
        self._unary("rsqrt", dst, src, mask)

    def reciprocal(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = 1 / src."""
        self._unary("reciprocal", dst, src, mask)

    def relu(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = the larger of src and 0; a NaN stays."""
        self._unary("relu", dst, src, mask)

    def cast(self, dst: Tensor, src: Tensor, rounding: str | None = None) -> None:
        """dst = src in the format of dst; `rounding` None is the chip's own mode for that pair (chip file, vector.casts).

        Raises SimError for a pair or a mode that the chip lacks.
        """
        _check_local("cast", dst, src)
        mode = self.chip.vector.cast_mode(src.dtype, dst.dtype, rounding)
        count, rows, (at, stride) = self._layout("cast", dst, (src,))
        self._emit((VectorCast, src.dtype, dst.dtype, count, mode, rows, at, stride), dst.address, src.address)

    # -- fewer elements, more elements, other places ---------------------------------------------------------------------

    def reduce_sum(self, dst: Tensor, src: Tensor) -> None:
        """dst[r] = the sum of row r of src, rounded at each addition; dst has an element for each row (else SimError)."""
        self._reduce("sum", dst, src)

    def reduce_max(self, dst: Tensor, src: Tensor) -> None:
        """dst[r] = the largest of row r of src, NaN if one is; dst has an element for each row (else SimError)."""
        self._reduce("max", dst, src)

    def reduce_min(self, dst: Tensor, src: Tensor) -> None:
        """dst[r] = the smallest of row r of src, NaN if one is; dst has an element for each row (else SimError)."""
        self._reduce("min", dst, src)

    def reduce_max_index(self, dst: Tensor, src: Tensor) -> None:
        """dst[2 r] = the largest of row r of src, dst[2 r + 1] = its first index there, unsigned and as wide as an element."""
        self._reduce("max", dst, src, index=True)

    def reduce_min_index(self, dst: Tensor, src: Tensor) -> None:
        """dst[2 r] = the smallest of row r of src, dst[2 r + 1] = its first index there, unsigned and as wide as an element."""
        self._reduce("min", dst, src, index=True)

    def pair_reduce_sum(self, dst: Tensor, src: Tensor) -> None:
        """dst[i] = src[2 i] + src[2 i + 1]; src has twice the elements of dst (else SimError)."""
        self.vector("pair_reduce_sum", dst, src)

    def block_reduce_sum(self, dst: Tensor, src: Tensor) -> None:
        """dst[b] = the sum of the 32-byte block b of src; the last block may be shorter."""
        self._reduce_blocks("sum", dst, src)

    def block_reduce_max(self, dst: Tensor, src: Tensor) -> None:
        """dst[b] = the largest of the 32-byte block b of src, NaN if one is; the last block may be shorter."""
        self._reduce_blocks("max", dst, src)

    def block_reduce_min(self, dst: Tensor, src: Tensor) -> None:
        """dst[b] = the smallest of the 32-byte block b of src, NaN if one is; the last block may be shorter."""
        self._reduce_blocks("min", dst, src)

    def duplicate(self, dst: Tensor, value: float = 0.0, *, mask: int | None = None) -> None:
        """Set every element of dst, or those that the mask selects, to `value`.

        Raises SimError for a value that is no number, or that an integer format cannot hold.
        """
        count, rows, (at,) = self._layout("duplicate", dst, ())
        number = scalar_field(real_number("duplicate", value))
        self._emit((Duplicate, dst.dtype, count, number, rows, at, self._mask(dst, mask)), dst.address)

    def copy(self, dst: Tensor, src: Tensor, *, mask: int | None = None) -> None:
        """dst = src, within the Unified Buffer; a src of one row goes to every row of dst.

        Fields of copy_ubuf_to_ubuf, vcopy (UB->UB; more: docs/instructions.md):
        - `shape[0]`: n_burst 0 to 4,095
        - `*`: no limit by vcopy (dav-2201, dav-3510)
        - `shape[1]` and `dtype`: len_burst 0 to 65,535 32-byte blocks
        - `shape[1]`, `dtype` and `dst.row_stride`: dst_gap 0 to 65,535 32-byte blocks
        - `shape[1]`, `dtype` and `src.row_stride`: src_gap 0 to 65,535 32-byte blocks
        """
        self._same_format("copy", dst, src)
        count, rows, (at, stride) = self._layout("copy", dst, (src,))
        self._emit((VectorCopy, dst.dtype, count, rows, at, stride, self._mask(dst, mask)), dst.address, src.address)

    def broadcast_row(self, dst: Tensor, src: Tensor) -> None:
        """dst[r, c] = src[c].

        Raises SimError unless src is one row as long as those of dst.
        """
        _check_local("broadcast_row", dst, src)
        if src.rows != 1 or src.columns != dst.columns:
            raise SimError(f"broadcast_row: src must be one row of {dst.columns} elements; it is {src}, dst {dst}")
        self.copy(dst, src)

    def broadcast_column(self, dst: Tensor, src: Tensor) -> None:
        """dst[r, c] = src[r]; src has as many elements as dst has rows, one behind the other.

        Raises SimError for another number of elements or gaps between them.
        """
        self._same_format("broadcast_column", dst, src)
        if src.rows * src.columns != dst.rows or not src.packed:
            raise SimError(f"broadcast_column: src must be {dst.rows} elements without gaps; it is {src}, dst {dst}")
        self._emit((BroadcastColumn, dst.dtype, dst.columns, dst.rows, dst.row_stride), dst.address, src.address)

    def gather(self, dst: Tensor, src: Tensor, offsets: Tensor) -> None:
        """dst[i] = the element `offsets[i]` bytes behind the start of src; offsets are uint32, tensors without gaps.

        Raises SimError unless there is an offset for each element of dst. An offset outside src is an error of the run.
        """
        self._same_format("gather", dst, src)
        count, source = self._run("gather", dst), self._run("gather", src)
        if self._run("gather", offsets) != count or offsets.dtype != "uint32":
            raise SimError(f"gather: offsets must be {count} uint32 elements; they are {offsets}")
        self._emit((Gather, dst.dtype, count, source), dst.address, src.address, offsets.address)

    def transpose(self, dst: Tensor, src: Tensor) -> None:
        """Transpose src into dst: dst[c, r] = src[r, c].

        The rest of the last 32-byte block of each row of dst becomes zero. Raises SimError for two formats, and unless dst has
        as many rows as src has columns, and the reverse.
        """
        self._same_format("transpose", dst, src)
        if (dst.rows, dst.columns) != (src.columns, src.rows):
            raise SimError(f"transpose: dst must be {src.columns} x {src.rows}; it is {dst}, src {src}")
        key = (Transpose, src.dtype, src.rows, src.columns, dst.row_stride, src.row_stride)
        self._emit(key, dst.address, src.address)

    # -- comparison and selection ----------------------------------------------------------------------------------------

    def compare(self, dst: Tensor, mode: str, left: Tensor, right: Tensor | float) -> None:
        """Bit i of dst (uint8) = left[i] `mode` right[i] or a scalar; `mode` is lt, gt, ge, eq, ne or le.

        Raises SimError for operands of different sizes or formats or with gaps, for elements that do not fill whole repeats
        (256 bytes), for fewer bits in dst than elements, and for a dst that is not uint8.
        """
        count = self._run("compare", left)
        self._bits("compare", dst, count)
        if isinstance(right, LocalTensor):
            self._same_format("compare", left, right)
            if self._run("compare", right) != count:
                raise SimError(f"compare: left and right must have the same shape; they are {left} and {right}")
            self._emit((Compare, mode, left.dtype, count), dst.address, left.address, right.address)
        else:
            self._emit((Compare, mode, left.dtype, count, real_number("compare", right)), dst.address, left.address)

    def select(self, dst: Tensor, mask: Tensor, on_true: Tensor, on_false: Tensor | float) -> None:
        """dst[i] = on_true[i] where bit i of `mask` (uint8, from `compare`) is set, else on_false[i] or a scalar.

        Raises SimError for operands of another size or format than dst or with gaps, and for fewer bits than elements.
        """
        self._same_format("select", dst, on_true)
        count = self._run("select", dst)
        self._bits("select", mask, count)
        if self._run("select", on_true) != count:
            raise SimError(f"select: on_true must have the shape of dst; they are {on_true} and {dst}")
        if not isinstance(on_false, LocalTensor):
            other = scalar_field(real_number("select", on_false))
            return self._emit((Select, dst.dtype, count, 0, 0, other), dst.address, on_true.address, mask.address)
        self._same_format("select", dst, on_false)
        if self._run("select", on_false) != count:
            raise SimError(f"select: on_false must have the shape of dst; they are {on_false} and {dst}")
        base = min(mask.address, on_false.address)
        key = (Select, dst.dtype, count, mask.address - base, on_false.address - base)
        return self._emit(key, dst.address, on_true.address, base)

    # -- instructions of a file each -------------------------------------------------------------------------------------

    def vector(self, name: str, dst: Tensor, *sources: Tensor | float) -> None:
        """Append the vector instruction of that name (`isa/vector/named`); its sources follow in order.

        Raises SimError for an unknown name, for another number of sources than the instruction has, and for shapes that do not
        fit.
        """
        kind = named().get(name)
        if kind is None:
            raise SimError(f"vector: no instruction {name!r}; there are {', '.join(named())}")
        if len(sources) != len(kind.example) - 1:
            raise SimError(f"vector: {name} takes {len(kind.example) - 1} operands besides dst, not {len(sources)}")
        _check_local(name, dst)
        instruction = kind.of(dst, *sources)
        places = [source.address for source in sources if isinstance(source, LocalTensor)]
        self._emit((kind, *vars(instruction).values()), dst.address, *places)

    # -- how operands become the fields of an instruction ----------------------------------------------------------------

    def _unary(self, operation: str, dst: Tensor, src: Tensor, mask: int | None) -> None:
        self._same_format(operation, dst, src)
        count, rows, (at, stride) = self._layout(operation, dst, (src,))
        key = (VectorUnary, operation, dst.dtype, count, rows, at, stride, self._mask(dst, mask))
        self._emit(key, dst.address, src.address)

    def _binary(
        self,
        operation: str,
        dst: Tensor,
        left: Tensor,
        right: Tensor,
        mask: int | None,
        instruction: type[VectorBinary] = VectorBinary,
    ) -> None:
        self._same_format(operation, dst, left)
        self._same_format(operation, dst, right)
        count, rows, (at, first, second) = self._layout(operation, dst, (left, right))
        key = (instruction, operation, dst.dtype, count, rows, at, first, self._mask(dst, mask), (), second)
        self._emit(key, dst.address, left.address, right.address)

    def _scalar(self, operation: str, dst: Tensor, src: Tensor, scalar: float, mask: int | None) -> None:
        self._same_format(operation, dst, src)
        value = scalar_field(real_number(operation, scalar))
        count, rows, (at, stride) = self._layout(operation, dst, (src,))
        key = (VectorScalar, operation, dst.dtype, count, rows, at, stride, self._mask(dst, mask), (), value)
        self._emit(key, dst.address, src.address)

    def _reduce(self, operation: str, dst: Tensor, src: Tensor, *, index: bool = False) -> None:
        what, elements = (f"reduce_{operation}_index", "two elements") if index else (f"reduce_{operation}", "an element")
        self._same_format(what, dst, src)
        if self._run(what, dst) != src.rows * (1 + index):
            raise SimError(f"{what}: dst must have {elements} for each of {src.rows} rows; it is {dst}, src {src}")
        if src.rows > 1:
            whole_blocks(self.chip, what, src.row_stride)
        kind = ReduceWithIndex if index else ReduceRows
        self._emit((kind, src.rows, src.columns, src.row_stride, operation, src.dtype), dst.address, src.address)

    def _reduce_blocks(self, operation: str, dst: Tensor, src: Tensor) -> None:
        what = f"block_reduce_{operation}"
        self._same_format(what, dst, src)
        count = self._run(what, src)
        blocks = -(-count * size_of(src.dtype) // self.chip.alignment.block)
        if self._run(what, dst) != blocks:
            raise SimError(f"{what}: dst must have an element for each of {blocks} blocks; it is {dst}, src {src}")
        self._emit((ReduceBlocks, operation, src.dtype, count), dst.address, src.address)

    def _layout(self, what: str, dst: Tensor, sources: tuple[Tensor, ...]) -> tuple[int, int, tuple[int, ...]]:
        """Return (elements of a row, rows, strides of dst and sources in bytes) of an element-wise instruction.

        Tensors without gaps become one row with strides of 0; a source of one row for several has stride 0. Raises SimError for
        a source that has neither the shape of dst nor that of one of its rows.
        """
        _check_local(what, dst, *sources)
        for source in sources:
            if source.shape != dst.shape and source.shape not in ((dst.columns,), (1, dst.columns)):
                raise SimError(f"{what}: a source must have the shape of dst, or of one of its rows; it is {source}, dst {dst}")
        if dst.packed and all(source.packed and source.rows == dst.rows for source in sources):
            return dst.rows * dst.columns, 1, (0,) * (1 + len(sources))
        strides = (dst.row_stride, *(source.row_stride if source.rows == dst.rows else 0 for source in sources))
        return dst.columns, dst.rows, strides

    def _mask(self, dst: Tensor, bits: int | None) -> Mask | None:
        return None if bits is None else Mask(bits, self.chip.vector.repeat_bytes // size_of(dst.dtype))

    @staticmethod
    def _same_format(what: str, dst: Tensor, source: Tensor) -> None:
        _check_local(what, dst, source)
        if source.dtype != dst.dtype:
            raise SimError(f"{what}: operands must have one format; they are {dst} and {source}")

    @staticmethod
    def _run(what: str, tensor: Tensor) -> int:
        """Return the number of elements of a tensor. Raises SimError if there are gaps between its rows, or it is not in UB."""
        _check_local(what, tensor)
        if not tensor.packed:
            raise SimError(f"{what}: takes elements one behind the other; there are gaps between the rows of {tensor}")
        return tensor.rows * tensor.columns

    def _bits(self, what: str, mask: Tensor, count: int) -> None:
        needed = -(-count // 8)
        if self._run(what, mask) < needed or mask.dtype != "uint8":
            raise SimError(f"{what}: the mask must be uint8 with at least {needed} elements for {count} bits; it is {mask}")


def _check_local(what: str, *tensors: object) -> None:
    for tensor in tensors:
        if not isinstance(tensor, LocalTensor):
            where = f"{tensor} is in GM" if isinstance(tensor, GlobalTensor) else f"{tensor!r} is not a tensor"
            raise SimError(
                f"{what}: {where}; a vector instruction works on tensors in UB: k.local_tensor, and k.gm_to_ub brings them in"
            )

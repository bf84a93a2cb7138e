"""Tensors in GM as a kernel sees them: shape, dtype and address, and pieces of them.

    a[row : row + 64, column : column + 128].address    # where that piece begins: an operand of the builder's transfers

Only places are computed here; a piece costs nothing until an instruction moves it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.kernel.tracked import Tracked, slice_of
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics import FORMATS, canonical, numpy_dtype
from ascend_sim.numerics.integers import INTEGERS


def dtype_name(dtype: Any) -> str:
    """Return the canonical name of a dtype that is given as a name, a numpy or an ml_dtypes dtype.

    Raises SimError for one that tensors cannot have.
    """
    try:
        return canonical(dtype)
    except SimError:
        pass
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = str(dtype)
    if name not in INTEGERS:
        raise SimError(f"dtype {name!r}: a tensor is one of {', '.join((*FORMATS, *INTEGERS))}")
    return name


@cache
def storage_dtype(name: str) -> np.dtype[Any]:
    """Return the numpy dtype in which elements of a tensor dtype are stored; uint8 codes for hifloat8."""
    return np.dtype(name) if name in INTEGERS else numpy_dtype(name)


@cache
def item_bytes(name: str) -> int:
    """Return the bytes of one element of the dtype with this name."""
    return int(storage_dtype(name).itemsize)


@dataclass(
    eq=False, slots=True
)  # not frozen: a kernel makes as many pieces as instructions, and that would cost it half its time
class Tensor:
    """A tensor of the launch in GM, or a strided piece of one: `strides` in bytes, `address` an operand of the builder.

    Indexing with whole numbers and slices gives pieces, as numpy does; a slice that reaches beyond the end is cut off there, so
    that the last tile of a row has the shape that is left. A tensor may stand wherever the builder takes an
    address (`int(tensor)` is it).
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    address: int
    strides: tuple[int, ...]

    @classmethod
    def at(cls, slot: int, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """Return the tensor of that shape at the start of GM slot `slot` of the task, in row-major order without gaps."""
        sizes = tuple(shape)
        itemsize = item_bytes(dtype)
        strides = tuple(itemsize * prod(sizes[axis + 1 :]) for axis in range(len(sizes)))
        return cls(name, sizes, dtype, gm_operand(slot, 0), strides)

    def __index__(self) -> int:
        return operator.index(self.address)

    def __len__(self) -> int:
        if not self.shape:
            raise SimError(f"{self}: has no dimensions, and so no length")
        return self.shape[0]

    def __str__(self) -> str:
        return f"{self.name}{list(self.shape)} {self.dtype}"

    @property
    def ndim(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Return the bytes of one element."""
        return item_bytes(self.dtype)

    @property
    def nbytes(self) -> int:
        """Return the bytes of all elements together, without gaps."""
        return self.size * self.itemsize

    @property
    def contiguous(self) -> bool:
        """Return True if the elements lie in row-major order without gaps; axes of size 1 do not count."""
        step = self.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True

    def __getitem__(self, index: Any) -> Tensor:
        """Return a piece of the tensor by whole numbers and slices; a number drops its axis, negative ones count from the end.

        A slice is cut off at the ends of its axis. Raises SimError for a number outside, a step below 1, too many indices and a
        piece without elements.
        """
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) > len(self.shape):
            raise SimError(f"{self}: {len(parts)} indices for {self.ndim} dimensions")
        shape, strides, offset = [], [], 0
        for axis, part in enumerate(parts):
            size, stride = self.shape[axis], self.strides[axis]
            if isinstance(part, slice):
                first, count, step = self._places(part, size, axis)
                offset += first * stride
                shape.append(count)
                strides.append(step * stride)
            else:
                offset += self._place(part, size, axis) * stride
        left = len(parts)
        shape += self.shape[left:]
        if 0 in shape:
            raise SimError(f"{self}: the piece {_written(parts)} has no elements")
        return Tensor(self.name, tuple(shape), self.dtype, self.address + offset, (*strides, *self.strides[left:]))

    def _places(self, part: slice, size: int, axis: int) -> tuple[int, int, int]:
        """Return (first index, number of elements, step) of a slice of axis `axis`, which has `size`; the number may be 0.

        Raises SimError for a step below 1 and for bounds that are not whole numbers.
        """
        try:
            first, count, step = slice_of(part, size)
        except (TypeError, ValueError):
            raise SimError(f"{self}: slice {part} of dimension {axis}: allowed are whole numbers, with a step from 1") from None
        if step < 0:
            raise SimError(f"{self}: a slice of dimension {axis} steps by {step}; steps are 1 or more")
        return first, count, step

    def _place(self, part: Any, size: int, axis: int) -> Any:
        """Return a whole-number index of axis `axis`, counted from the beginning. Raises SimError outside the axis and for
        other types.
        """
        if type(part) is Tracked and -size <= part < size:
            return part if part >= 0 else part + size
        try:
            place = operator.index(part)
        except TypeError:
            raise SimError(f"{self}: index {part!r} of dimension {axis}: whole numbers and slices are allowed") from None
        if not -size <= place < size:
            raise SimError(f"{self}: index {place} of dimension {axis}, which has {size} places")
        return place % size

    def reshape(self, *shape: int) -> Tensor:
        """Return a tensor of the same bytes in another shape; one size may be -1, for all the rest.

        Raises SimError where there are gaps between the elements, and for a shape that does not hold exactly them.
        """
        if shape.count(-1) == 1:
            known = -prod(shape)
            shape = tuple(self.size // max(known, 1) if size == -1 else size for size in shape)
        if not self.contiguous or min(shape, default=0) < 0 or prod(shape) != self.size:
            raise SimError(f"{self}: cannot be {list(shape)}; that needs contiguous elements, and the same number of them")
        whole = Tensor.at(0, self.name, shape, self.dtype)
        return Tensor(self.name, whole.shape, self.dtype, self.address, whole.strides)

    def rows(self, what: str) -> tuple[int, int, int]:
        """Return the piece as rows of contiguous elements: (number of rows, elements in a row, bytes from row to row).

        Axes before the last are one axis of rows; a tensor of one dimension is one row. `what` names the instruction that asks.
        Raises SimError for more than two dimensions with gaps, and for gaps inside a row.
        """
        if len(self.shape) == 2 and self.strides[1] == item_bytes(self.dtype):
            return self.shape[0], self.shape[1], self.strides[0]
        if self.contiguous:
            columns = self.shape[-1] if self.ndim else 1
            return self.size // columns, columns, columns * self.itemsize
        if self.ndim > 2 or self.strides[-1] != self.itemsize:
            raise SimError(
                f"{what}: {self} with strides of {list(self.strides)} bytes; it moves rows of contiguous elements, so "
                f"give it one or two dimensions, the last without gaps"
            )
        return self.shape[0], self.shape[1], self.strides[0]


def rows_in_gm(what: str, tensor: Tensor) -> tuple[int, int, int]:
    """Return a tensor as rows (`Tensor.rows`) for the move `what`. Raises SimError for what is not a tensor in GM."""
    if not isinstance(tensor, Tensor):
        raise SimError(f"{what}: {tensor!r} is not a tensor in GM; it moves rows of a tensor of the launch")
    return tensor.rows(what)


def _written(parts: Sequence[Any]) -> str:
    """Return an index of a tensor as it is written in Python: "[0:4, 2]"."""

    def one(part: Any) -> str:
        return f"{part.start}:{part.stop}" if isinstance(part, slice) else str(part)

    return f"[{', '.join(one(part) for part in parts)}]"

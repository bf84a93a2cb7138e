"""A tensor in a core's own memory, as the vector methods of a `KernelBuilder` take it."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

from ascend_sim.errors import SimError
from ascend_sim.isa.vector.base import size_of
from ascend_sim.kernel.tracked import slice_of

Index = int | slice


@dataclass(frozen=True, slots=True)
class LocalTensor:
    """Tensor in the Unified Buffer: `shape` (columns,) or (rows, columns) of `dtype` at a byte address.

    Rows lie `row_stride` bytes apart (given 0: the bytes of a row). `tensor[2:4]` and `tensor[:, 16:32]` are pieces of the same
    memory, `tensor[i]` is a row; steps are allowed on rows only. Raises SimError for a shape, dtype, row_stride or index that
    is impossible or selects nothing.
    """

    address: int
    shape: tuple[int, ...]
    dtype: str
    row_stride: int = 0

    def __post_init__(self) -> None:
        try:
            if len(self.shape) not in (1, 2) or min(self.shape) < 1:
                raise SimError(f"a local tensor has one or two dimensions of at least 1, not {self.shape}")
            size = self.shape[-1] * size_of(self.dtype)
            if not self.row_stride:
                object.__setattr__(self, "row_stride", size)
            elif self.row_stride < (size if len(self.shape) == 2 else 0):
                raise SimError(f"rows of {size} bytes do not fit into a row_stride of {self.row_stride}")
        except TypeError:
            raise SimError(
                f"a local tensor of shape {self.shape!r}, dtype {self.dtype!r}, row_stride {self.row_stride!r}; it takes whole "
                f"numbers in a tuple, a name in quotes, a whole number of bytes"
            ) from None

    @property
    def columns(self) -> int:
        """Return the number of elements in a row."""
        return self.shape[-1]

    @property
    def rows(self) -> int:
        """Return the number of rows; 1 for a tensor of one dimension."""
        return self.shape[0] if len(self.shape) == 2 else 1

    @property
    def row_bytes(self) -> int:
        """Return the bytes of a row's elements, without the gap to the next row."""
        return self.columns * size_of(self.dtype)

    @property
    def packed(self) -> bool:
        """Return True if there are no gaps between the rows; also for a single row."""
        return self.rows == 1 or self.row_stride == self.row_bytes

    @property
    def nbytes(self) -> int:
        """Return the bytes from the first element to the end of the last, gaps between rows included."""
        return (self.rows - 1) * self.row_stride + self.row_bytes

    def __getitem__(self, index: Index | tuple[Index, ...]) -> LocalTensor:
        picked = index if isinstance(index, tuple) else (index,)
        if len(picked) > len(self.shape):
            raise SimError(f"{self}: {len(picked)} indices for {len(self.shape)} dimensions")
        if len(self.shape) == 1:
            return self._columns(picked[0])
        across = picked[1] if len(picked) == 2 else slice(None)
        return self._rows(picked[0])._columns(across)

    def _rows(self, index: Index) -> LocalTensor:
        start, count, step = self._range(index, self.rows)
        at = self.address + start * self.row_stride
        if not isinstance(index, slice):
            return LocalTensor(at, (self.columns,), self.dtype)
        return LocalTensor(at, (count, self.columns), self.dtype, self.row_stride * step)

    def _columns(self, index: Index) -> LocalTensor:
        start, count, step = self._range(index, self.columns)
        if step != 1:
            raise SimError(f"{self}: a step of {step} between columns; only rows have steps")
        at = self.address + start * size_of(self.dtype)
        stride = self.row_stride if len(self.shape) == 2 else 0
        return LocalTensor(at, (*self.shape[:-1], count), self.dtype, stride)

    def _range(self, index: Index, size: int) -> tuple[int, int, int]:
        """Return (first index, number, step) of a slice or number in an axis of `size`; a number is one element.

        Raises SimError for no elements, a step below 1, and bounds that are not whole numbers.
        """
        try:
            whole = index if isinstance(index, slice | int) else operator.index(index)
            part = whole if isinstance(whole, slice) else slice(whole, whole + 1 or None)
            start, count, step = slice_of(part, size)
        except (TypeError, ValueError):
            raise SimError(f"{self}: index {index!r}; whole numbers and slices of them are allowed") from None
        if not count or step < 1:
            raise SimError(f"{self}: {index} selects no elements of {size}, or has a step below 1")
        return start, count, step

    def view(self, dtype: str) -> LocalTensor:
        """Return a tensor of the same bytes as elements of another dtype, with as many rows.

        Raises SimError where rows, or their distance, are not whole elements of it.
        """
        size = size_of(dtype)
        if self.row_bytes % size or self.row_stride % size:
            raise SimError(f"{self}: rows are not whole elements of {dtype}")
        return LocalTensor(self.address, (*self.shape[:-1], self.row_bytes // size), dtype, self.row_stride)

    def reshape(self, *shape: int) -> LocalTensor:
        """Return a tensor of the same elements in another shape.

        Raises SimError for gaps between rows, another number of elements, or more than two dimensions.
        """
        count = 1
        for size in shape:
            count *= size
        if not self.packed or count != self.rows * self.columns:
            raise SimError(f"{self}: no {shape} of it, which needs {count} elements without gaps between rows")
        return replace(self, shape=shape, row_stride=0)

    def __str__(self) -> str:
        apart = "" if self.packed else f", rows {self.row_stride} bytes apart"
        return f"{' x '.join(map(str, self.shape))} {self.dtype} at UB+{self.address:#x}{apart}"

"""Description of one tensor argument of a call (shape, dtype, strides, no data), and tests for dtypes and whole numbers."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from operator import index
from typing import Any

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.numerics import canonical

IntArray = tuple[int, ...]
EIGHT_BIT = ("hifloat8", "float8_e4m3fn")
"""The formats whose tensors are uint8 codes."""


@frozen
class TensorArg:
    """One aclTensor without its data.

    `shape`, `strides`, `offset` in elements; `dtype` a canonical name ("float32", "float16", "bfloat16", "hifloat8",
    "float8_e4m3fn"; any other name is kept so that a check can refuse it); `format` the label that the caller gave ("NCL",
    "NCHW", "NCDHW", "ND", ...). `strides=None`: contiguous; `storage_shape=None`: as large as the view. Nothing is checked but
    that shapes and strides hold integers (TypeError); they become tuples of Python ints.
    """

    shape: IntArray
    dtype: str
    format: str = "ND"
    strides: IntArray | None = None
    offset: int = 0
    storage_shape: IntArray | None = None

    def __post_init__(self) -> None:
        for name in ("shape", "strides", "storage_shape"):
            freeze_integers(self, name)

    @property
    def rank(self) -> int:
        """Return the number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Return the number of elements (1 for rank 0)."""
        return prod(self.shape)

    @property
    def is_empty(self) -> bool:
        """Return True if some dimension is 0."""
        return 0 in self.shape

    @property
    def is_contiguous(self) -> bool:
        """Return True if the elements stand in row-major order without gaps, or are none; a size of 1 may have any stride, and
        the offset does not count. Else False, also where there is not one stride for each axis.
        """
        if self.strides is None or self.is_empty:
            return True
        if len(self.strides) != len(self.shape):
            return False
        expected = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True


def freeze_integers(owner: object, name: str) -> None:
    """Replace field `name` of `owner` (also of a frozen one), an iterable of integers (numpy's too), by a tuple of Python ints;
    None stays. TypeError for other items.
    """
    value: Iterable[int] | None = getattr(owner, name)
    if value is not None:
        object.__setattr__(owner, name, tuple(index(item) for item in value))


def dtype_name(dtype: Any) -> str:
    """Return the canonical name of a dtype; for an unknown one `str(dtype)`, so that the checks can refuse it."""
    try:
        return canonical(dtype)
    except SimError:
        return str(dtype)


def is_whole_number(value: Any) -> bool:
    """Return True for a Python or numpy integer; False for booleans."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

"""The effect of an instruction that moves bytes, as data: the items that it takes, their conversion, and the places for them.

Numpy (`effect`) and C (engine/compiled/values.c) interpret it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen


@frozen(eq=False)
class Place:
    """Ordered items of `itemsize` bytes of an operand: those of nested loops, the last one innermost, or those of a list.

    `shape` and `strides` (bytes) are those of the loops, `packed` the strides in the bytes taken, `offset` (bytes) is where
    they begin behind the operand's address. A list has the byte offset of every item behind that address, or a number below
    zero for an item that is not read: the fill of `Moves`, or zeros.
    """

    operand: str
    space: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    offset: int = 0
    listed: NDArray[np.int64] | None = None

    @property
    def count(self) -> int:
        """Return the number of items."""
        return math.prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """Return (first byte, end) of the items, relative to the operand's address; (0, 0) for a list without an item that is
        read.
        """
        if self.listed is not None:
            real = self.listed[self.listed >= 0]
            return (int(real.min()), int(real.max()) + self.itemsize) if len(real) else (0, 0)
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(far, 0) for far in reach)
        return low, self.offset + sum(max(far, 0) for far in reach) + self.itemsize

    @cached_property
    def indices(self) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
        """Return two index arrays of a list: its offsets counted in items (0 for one below zero), and the positions of those
        below zero.

        The first is None if an offset lies inside an item, the second if no offset is below zero. Cached.
        """
        assert self.listed is not None
        outside = np.flatnonzero(self.listed < 0)
        index, inside = np.divmod(np.maximum(self.listed, 0).astype(np.int64), self.itemsize)
        return None if inside.any() else index, outside if len(outside) else None

    @property
    def is_apart(self) -> bool:
        """Return True if no two items share a byte, so the order of writing does not matter; False also if strides do not show
        it.
        """
        if self.listed is not None:
            return bool((np.diff(np.sort(self.listed)) >= self.itemsize).all())
        covered = self.itemsize
        for stride, size in sorted((abs(stride), size) for size, stride in zip(self.shape, self.strides, strict=True)):
            if stride < covered:
                return False
            covered += (size - 1) * stride
        return True


def loops(
    operand: str,
    space: str,
    shape: Sequence[int],
    strides: Sequence[int],
    itemsize: int,
    offset: int = 0,
    packed: Sequence[int] | None = None,
) -> Place:
    """Return a Place of nested loops (last one innermost), with loops merged where one continues another; itemsize may grow so.

    In the bytes taken, items adjoin in the order of the loops, or lie `packed` bytes apart along each. A shape with 0 has no
    items.
    """
    if min(shape, default=1) < 1:
        return Place(operand, space, itemsize, (0,), (itemsize,), (itemsize,), offset)
    if packed is None:
        packed = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    merged: list[tuple[int, int, int]] = []
    for size, stride, apart in reversed(list(zip(shape, strides, packed, strict=True))):
        inner, step, inner_apart = merged[-1] if merged else (1, itemsize, itemsize)
        if size == 1:
            continue
        if stride != inner * step or apart != inner * inner_apart:
            merged.append((size, stride, apart))
        elif merged:
            merged[-1] = inner * size, step, inner_apart
        else:
            itemsize *= size
    columns = tuple(zip(*reversed(merged), strict=True)) or ((), (), ())
    return Place(operand, space, itemsize, columns[0], columns[1], columns[2], offset)


def listed(operand: str, space: str, offsets: NDArray[Any], itemsize: int) -> Place:
    """Return a Place of items at the byte offsets in `offsets`, in their order; a negative one stands for fill or zeros."""
    flat = offsets.ravel()
    return Place(operand, space, itemsize, flat.shape, listed=np.ascontiguousarray(flat))


def offsets_of(shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    """Return an array of `shape` with each element's offset from the first: the sum of index times stride, in the strides'
    unit.
    """
    found = np.zeros(tuple(shape), np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found


@frozen(eq=False)
class Product:
    """Matrix product of an effect: left factor [m, held_k] times the transpose of [n, held_k], both of `dtype`; only the first
    `k` columns count.

    `starts`: a third place has n numbers (bias) with which every row begins.
    """

    m: int
    n: int
    held_k: int
    k: int
    dtype: str
    starts: bool = False


@frozen(eq=False)
class Moves:
    """Effect of an instruction: at its start it takes the items of the places `takes`, at its retirement it puts them at `put`.

    Items are converted from the format `source` to `target` (empty: moved as bytes). Those of a second place stand behind those
    of the first; items beyond the room of `put` are dropped. With a `product` two places are its factors, a third has the
    numbers that its rows begin with. The bytes `fill`, zeros if empty, are repeated over `put` where `takes` is empty, and
    stand at the negative places of a list.

    `rounding` is a mode of the target, None its first; `bits` of the mantissa stay in hf32. `saturate`: the conversion turns
    overflow, infinities and NaN into finite numbers. `adds`: the format in which numbers are added to what is there; `keeps`:
    "max" or "min", by which one of both stays instead (`adds` has the format then too). `settles`: the result there then
    saturates, if the value model does. `scaling`: the arithmetic before the conversion (`quantisation.Scaling`).
    """

    takes: tuple[Place, ...]
    put: Place
    source: str = ""
    target: str = ""
    rounding: str | None = None
    bits: int = 0
    saturate: bool = False
    adds: str = ""
    keeps: str = ""
    settles: bool = False
    product: Product | None = None
    fill: bytes = b""
    scaling: Any = None


def moves(*takes: Place, put: Place, **how: Any) -> Moves:
    """Return a `Moves` from the places `takes` to the place `put`; other fields by keyword."""
    return Moves(takes, put, **how)

"""Moves: the effect of an instruction on bytes as data; which items it takes from where, and where it puts them.

C runs it (engine/compiled/values.c). `read` and `commit` of the instruction say the same in numpy, for people to read and for
where no C was built.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_LOOPS = 5
"""As in moves.h."""


@dataclass(frozen=True, eq=False)
class Place:
    """Items of `itemsize` bytes of an operand in an order: that of nested loops, the last one innermost, or of a list.

    `shape` and `strides` (bytes) are those of the loops, `packed` the strides of what is on its way, `offset` (bytes) is where
    they begin behind the operand's address. A list has the byte offset of every item behind that address, or a number below
    zero for an item of zeros. Addresses are multiples of `unit`; others are left to Python.
    """

    operand: str
    space: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] = ()
    packed: tuple[int, ...] = ()
    offset: int = 0
    listed: NDArray[np.int32] | None = None
    unit: int = 1

    @property
    def count(self) -> int:
        """How many items there are."""
        return math.prod(self.shape)

    @property
    def span(self) -> tuple[int, int]:
        """The first byte and past the last one, behind the operand's address."""
        if self.listed is not None:
            real = self.listed[self.listed >= 0]
            return (int(real.min()), int(real.max()) + self.itemsize) if len(real) else (0, 0)
        reach = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        low = self.offset + sum(min(far, 0) for far in reach)
        return low, self.offset + sum(max(far, 0) for far in reach) + self.itemsize

    @property
    def is_apart(self) -> bool:
        """Return True if no byte belongs to two items, as far as the strides say: then their order does not matter."""
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
) -> Place | None:
    """A place of nested loops, with loops merged that go on where an inner one ends; None for one without items.

    What is on its way lies in the order of the loops, or `packed` bytes apart along each.
    """
    if min(shape, default=1) < 1:
        return None
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
    if len(merged) > MOST_LOOPS:
        return None
    columns = tuple(zip(*reversed(merged), strict=True)) or ((), (), ())
    return Place(operand, space, itemsize, columns[0], columns[1], columns[2], offset)


def listed(operand: str, space: str, offsets: NDArray[Any], itemsize: int, unit: int = 1) -> Place | None:
    """A place of items at byte `offsets`, in their order; None where they are too far apart for the list."""
    flat = offsets.ravel()
    if not flat.size or flat.max() >= 1 << 31:
        return None
    return Place(operand, space, itemsize, flat.shape, listed=np.ascontiguousarray(flat, np.int32), unit=unit)


def offsets_of(shape: Sequence[int], strides: Sequence[int]) -> NDArray[np.int64]:
    """Where the elements of an array of such strides lie, behind its first one; in the unit of the strides."""
    found = np.zeros(tuple(shape), np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        found += (np.arange(size) * stride).reshape(-1, *(1,) * (len(shape) - axis - 1))
    return found


@dataclass(frozen=True, eq=False)
class Product:
    """The factors [m, held_k] and [n, held_k] that two places give, of which the first `k` columns count."""

    m: int
    n: int
    held_k: int
    k: int


@dataclass(frozen=True, eq=False)
class Moves:
    """Items of `takes` are taken at the start, converted from `source` to `target` (formats; empty: as they are), and put at
    retirement; those behind the last that fits are dropped. Two places are the factors of a `product` in float32, none means
    zeros.

    `bits` are those of the mantissa that stay in hf32. `saturate`: overflow, infinities and NaN leave the conversion as finite
    numbers. `adds`: float32 are added to what is there. `settles`: what is there then saturates.
    """

    takes: tuple[Place, ...]
    put: Place
    source: str = ""
    target: str = ""
    bits: int = 0
    saturate: bool = False
    adds: bool = False
    settles: bool = False
    product: Product | None = None


def moves(*takes: Place | None, put: Place | None, **how: Any) -> Moves | None:
    """`Moves` of these places; None (all is left to Python) where one of them is none or `put` would write a byte twice."""
    if put is None or not put.is_apart or any(place is None for place in takes):
        return None
    return Moves(tuple(place for place in takes if place is not None), put, **how)

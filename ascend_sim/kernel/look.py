"""Looking at a sheet in C (engine/compiled/ways.c, where it was built): its operands, and how far it may move."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from ctypes import c_int64, c_void_p
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.built import built_file, opened
from ascend_sim.errors import SimError
from ascend_sim.kernel.stamp import Place, address_of

_AXES, _SPANS = 8, 64
"""Axes of a span in C, and spans that there is room for; with more, numpy looks."""
_NO_MEMORY, _WRONG, _TOO_MANY = -1, -3, -4


class NotInC(Exception):
    """There is no C, or it leaves this sheet to numpy."""


class FreeSpan(NamedTuple):
    """What moves by `steps` and stays on multiples of `unit` may go on by `low` to `high`."""

    steps: Place
    unit: int
    low: int
    high: int


class Question(ctypes.Structure):
    """`Sheet` of ways.h."""

    _fields_ = [
        *((name, c_void_p) for name in ("stamps", "own", "which", "where")),
        *((name, c_int64) for name in ("puts", "stamp_count", "own_count")),
        ("looked", c_void_p), ("limits", c_void_p), ("kinds", c_int64), ("sizes", c_void_p), ("tensors", c_int64),
        ("spans", c_void_p), ("room", c_int64),
    ]  # fmt: skip


@cache
def _library() -> Any:
    path = built_file()
    if path is None:
        return None
    try:
        library = opened(path)
    except SimError:  # the engine says so, unless it is the one that does without
        return None
    library.sheet_look.restype, library.sheet_look.argtypes = c_int64, [ctypes.POINTER(Question)]
    return library


def look(
    places: Mapping[str, int],
    counts: tuple[int, int, int],
    looked: NDArray[np.uint8],
    limits: NDArray[np.int64],
    sizes: Sequence[int],
) -> list[FreeSpan] | None:
    """How far the stamps may move together from where they stand; None where an operand is wrong there.

    `places` are addresses of the sheet's stamps and places (`Sheet.addresses`), `counts` how many stamps it has one after the
    other, how many its task knows and how many are its own, `looked` whether the resting rows of those its task knows were
    found right; the others as of `Sheet.is_right`. Raises `NotInC`.
    """
    library = _library()
    if library is None:
        raise NotInC
    spans, bytes_of = np.empty((_SPANS, _AXES + 3), np.int64), np.array(sizes, np.int64)
    question = Question(
        *(places[name] for name in ("stamps", "own", "which", "where")),
        *counts,
        address_of(looked),
        address_of(limits),
        limits.shape[2],
        address_of(bytes_of),
        len(bytes_of),
        address_of(spans),
        _SPANS,
    )
    found = library.sheet_look(question)
    if found == _NO_MEMORY:
        raise MemoryError("no memory to look at a program")
    if found == _TOO_MANY:
        raise NotInC
    if found == _WRONG:
        return None
    return [FreeSpan(tuple(row[:_AXES]), *row[_AXES:]) for row in spans[:found].tolist()]

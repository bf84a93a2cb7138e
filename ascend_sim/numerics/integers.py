"""Conversions between integers and floats: one rounding, by a cast mode of the vector unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.numerics.formats import numpy_dtype

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Integer formats."""
_TO_WHOLE: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "RINT": np.rint,
    "NONE": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "ROUND": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}
"""Cast mode -> function that rounds floats to whole numbers by it."""


@lru_cache(maxsize=64)
def storage(dtype: str) -> np.dtype[Any]:
    """Return the numpy dtype that holds numbers of an integer or float format. Raises SimError for an unknown name."""
    return np.dtype(dtype) if dtype in INTEGERS else numpy_dtype(dtype)


def within_64_bits(value: Any) -> Any:
    """Return a number as it is, but an int of magnitude 2^63 or more as a float: infinite beyond a float's range."""
    if not isinstance(value, int) or abs(value) < 1 << 63:
        return value
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def from_integers(values: NDArray[Any], target: str, rounding: str | None) -> NDArray[Any]:
    """Return integers converted to float16 or float32, rounded once: to nearest, ties to even, unless `rounding` is FLOOR,
    CEIL, TRUNC or ROUND (ties away from zero).

    Only here float32 has rounding modes other than nearest. bfloat16 would be rounded twice; no chip converts integers to it.
    """
    wide = _wide(values)
    nearest = wide.astype(numpy_dtype(target))
    below = np.where(nearest > wide, np.nextafter(nearest, nearest.dtype.type(-np.inf)), nearest)
    above = np.where(nearest < wide, np.nextafter(nearest, nearest.dtype.type(np.inf)), nearest)
    inward, outward = np.where(wide < 0, above, below), np.where(wide < 0, below, above)
    ties_away = np.where(np.abs(outward - wide) <= np.abs(wide - inward), outward, inward)
    chosen = {"FLOOR": below, "CEIL": above, "TRUNC": inward, "ROUND": ties_away}
    return np.asarray(chosen.get(rounding or "", nearest))


def _wide(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return integers as float64 that compare with every float32 as the integers do: int64 beyond 2**53 keep their upper 52
    bits, and half of the last one stands for all bits below.
    """
    if values.dtype != np.int64:
        return values.astype(np.float64)
    low = values & 0xFFF
    return np.where(values + (1 << 53) >> 54 != 0, values - low + 0x800 * (low != 0), values).astype(np.float64)


def to_whole(values: NDArray[np.float32], rounding: str) -> NDArray[np.float32]:
    """Return float32 numbers rounded to whole ones by a cast mode of the vector unit but ODD; infinities and NaN stay."""
    return np.asarray(_TO_WHOLE[rounding](values), np.float32)


def to_integers(values: NDArray[Any], target: str, rounding: str | None) -> NDArray[Any]:
    """Return floats as integers of dtype `target`, rounded by `rounding` and clipped to its range; NaN becomes 0 (assumed).

    NONE rounds as RINT; without a known mode the fraction is cut off.
    """
    limits = np.iinfo(storage(target))
    wide = values.astype(np.float64)  # holds every integer of 32 bits
    whole = _TO_WHOLE[rounding](wide) if rounding in _TO_WHOLE else wide
    limit = 2.0**63 if target == "int64" else limits.max + 1.0  # float64 holds it, and not int64's largest number
    found = np.where(np.isnan(wide) | (whole >= limit), 0, np.maximum(whole, limits.min)).astype(storage(target))
    return np.where(whole >= limit, storage(target).type(limits.max), found)

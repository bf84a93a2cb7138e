"""Conversions between integers and floats: one rounding, by a cast mode of the vector unit."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from numbers import Rational
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.numerics.casting import as_values, cast, quiet_cast, round_directed
from ascend_sim.numerics.formats import format_of, numpy_dtype

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


def like_float64(value: Any) -> float:
    """Return a float that each format with fewer digits rounds as it rounds the number; infinite beyond a float's range.

    An inexact one has an odd last bit, so it can neither look like a tie nor cross one.
    """
    if not isinstance(value, Rational) or (isinstance(value, int) and abs(value) < 1 << 53):
        return float(value)
    from fractions import Fraction  # such a number alone needs it

    exact = Fraction(int(value.numerator), int(value.denominator))
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf
    rest = exact - Fraction(nearest)
    even = math.ldexp(math.frexp(nearest)[0], 53) % 2 == 0
    return math.nextafter(nearest, math.copysign(math.inf, rest)) if rest and even else nearest


def from_integers(values: NDArray[Any], target: str, rounding: str | None) -> NDArray[Any]:
    """Return integers converted to a float format, rounded once: to nearest, ties to even, unless `rounding` is FLOOR, CEIL,
    TRUNC or ROUND (ties away from zero).

    Only here float32 has rounding modes other than nearest.
    """
    if rounding in (None, "RINT", "NONE"):
        return cast(values, target)
    return quiet_cast(round_directed(as_values(values), format_of(target), rounding.lower()), numpy_dtype(target))


def to_whole(values: NDArray[np.float32], rounding: str) -> NDArray[np.float32]:
    """Return float32 numbers rounded to whole ones by RINT, NONE (as RINT), FLOOR, CEIL, TRUNC or ROUND, in upper case;
    infinities and NaN stay. Raises KeyError for any other mode.
    """
    return np.asarray(_TO_WHOLE[rounding](values.astype(np.float64)), np.float32)  # float32 would round + 0.5


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

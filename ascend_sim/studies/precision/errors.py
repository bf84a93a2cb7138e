"""Errors of arrays in figures: effective bits, mean error, a histogram, and the effect of rounding an operand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.numerics import FORMATS

Array = NDArray[Any]
HISTOGRAM_LOW, HISTOGRAM_HIGH = -40, 8
"""Binades of |error| / |reference| that the error histogram covers; the outer bins hold what lies beyond."""


def rounding_effect(before: Array, after: Array) -> dict[str, Any]:
    """Return a dict on what rounding changed between `before` and `after`.

    "elements"; "changed", the share of elements with another value, NaN not counted; "overflowed", the number of finite
    elements that became infinite or NaN, or that float16 saturated to its largest value; "to_zero", the number of elements that
    became 0.
    """
    old, new = before.astype(np.float64), after.astype(np.float64)
    lost = np.abs(new - old)
    largest = FORMATS["float16"].max_finite if after.dtype == np.float16 else math.inf
    beyond = np.isfinite(old) & (~np.isfinite(new) | ((np.abs(new) == largest) & (np.abs(old) > largest)))
    return {
        "elements": old.size,
        "changed": float(np.count_nonzero(lost > 0) / max(old.size, 1)),
        "overflowed": int(np.count_nonzero(beyond)),
        "to_zero": int(np.count_nonzero((old != 0) & (new == 0))),
    }


def _finite(result: Array, reference: Array) -> tuple[Array, Array]:
    """Return both arrays where both are finite; as they are, without a copy, where everything is."""
    both = np.isfinite(result) & np.isfinite(reference)
    return (result, reference) if both.all() else (result[both], reference[both])


def effective_bits(result: Array, reference: Array) -> float:
    """Return -log2(mean |error| / mean |reference|) over the elements finite in both.

    Infinity without an error, also where no element is finite; minus infinity for an error where the reference is 0.
    """
    result, reference = _finite(result, reference)
    error, size = np.abs(result - reference).sum(), np.abs(reference).sum()
    if not error:
        return math.inf
    return -math.log2(error / size) if size else -math.inf


def mean_error(result: Array, reference: Array) -> float:
    """Return the mean signed error (result - reference) divided by the mean |reference|, over the elements finite in both.

    0 where the reference is 0 or no element is finite.
    """
    result, reference = _finite(result, reference)
    size = np.abs(reference).sum()
    return float((result - reference).sum() / size) if size else 0.0


def error_histogram(result: Array, reference: Array) -> dict[str, Any]:
    """Return a dict with the histogram of |error| / |reference| by binade, over the elements finite in both.

    "counts"[i] is the number of elements with an error and floor(log2(ratio)) = "low" + i, the outer bins holding what lies
    beyond; "exact" counts the elements without error, "undefined" those that are not finite in both.
    """
    elements = result.size
    result, reference = _finite(result, reference)
    error, size = np.abs(result - reference), np.abs(reference)
    wrong = error > 0
    with np.errstate(divide="ignore"):
        binades = np.floor(np.log2(error[wrong] / size[wrong]))
    clipped = np.clip(binades, HISTOGRAM_LOW, HISTOGRAM_HIGH).astype(np.int64) - HISTOGRAM_LOW
    counts = np.bincount(clipped, minlength=HISTOGRAM_HIGH - HISTOGRAM_LOW + 1)
    return {
        "low": HISTOGRAM_LOW,
        "counts": counts.tolist(),
        "exact": int(np.count_nonzero(~wrong)),
        "undefined": int(elements - result.size),
    }

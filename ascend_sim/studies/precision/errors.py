"""Errors of arrays in figures: effective bits, mean error, a histogram, and the effect of rounding an operand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.numerics import FORMATS

__all__ = ["effective_bits", "error_histogram", "mean_error", "rounding_effect"]

Array = NDArray[Any]
HISTOGRAM_LOW, HISTOGRAM_HIGH = -40, 8
"""Binades of |error| / |reference| that the error histogram covers; the outer bins hold what lies beyond."""


def rounding_effect(before: Array, after: Array) -> dict[str, Any]:
    """Return the effect of rounding an operand as a dict.

    "elements"; "changed", the share of them that changed; "overflowed", the number of finite ones that did; "to_zero",
    the number of new zeros.
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


def effective_bits(result: Array, reference: Array) -> float:
    """Return -log2(mean |error| / mean |reference|) over the elements finite in both; infinite without error."""
    both = np.isfinite(result) & np.isfinite(reference)
    error, size = np.abs(result[both] - reference[both]).sum(), np.abs(reference[both]).sum()
    if not error:
        return math.inf
    return -math.log2(error / size) if size else -math.inf


def mean_error(result: Array, reference: Array) -> float:
    """Return the mean signed error over the mean size of the reference, of the elements finite in both; 0 of none."""
    both = np.isfinite(result) & np.isfinite(reference)
    size = np.abs(reference[both]).sum()
    return float((result[both] - reference[both]).sum() / size) if size else 0.0


def error_histogram(result: Array, reference: Array) -> dict[str, Any]:
    """Return a dict: "counts" of elements by floor(log2(|error| / |reference|)), from "low" on.

    "exact" counts the elements without error, "undefined" the non-finite ones.
    """
    both = np.isfinite(result) & np.isfinite(reference)
    error, size = np.abs(result[both] - reference[both]), np.abs(reference[both])
    wrong = error > 0
    with np.errstate(divide="ignore"):
        binades = np.floor(np.log2(error[wrong] / size[wrong]))
    clipped = np.clip(binades, HISTOGRAM_LOW, HISTOGRAM_HIGH).astype(np.int64) - HISTOGRAM_LOW
    counts = np.bincount(clipped, minlength=HISTOGRAM_HIGH - HISTOGRAM_LOW + 1)
    return {
        "low": HISTOGRAM_LOW,
        "counts": counts.tolist(),
        "exact": int(np.count_nonzero(~wrong)),
        "undefined": int(result.size - np.count_nonzero(both)),
    }

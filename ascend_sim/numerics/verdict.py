"""Verdict on a result: every element against float64 sums of the rounded operands, with a bound of its own.

The bound has three parts: what float32 accumulation of K products can lose, half the smallest float32 for each product (whose
rounding is not relative below the normal range), and half an ULP for each rounding on the way out. It is tight enough that
one wrong element, tap or channel fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.numerics.casting import as_values, quiet_cast
from ascend_sim.numerics.formats import Format, format_of, half_ulp

SAFETY = 4.0  # sequential float32 sums need at most 1.4 at any K tried (measured)
_CHUNK = 1 << 14  # elements per step, so that the temporaries stay in the cache and small beside large gradients

Float64 = npt.NDArray[np.float64]


@frozen
class WrongElement:
    """One wrong element, without its place: its value, the right value, and its error divided by its bound."""

    got: float
    expected: float
    error_over_bound: float


@frozen
class Verdict:
    """Result of `check_correct`: the worst ratio of error to bound (above 1 is wrong) and the number of `wrong` elements.

    `first_wrong` is the index of the first wrong element, `first` its values; both are None without one. An error of NaN (a
    wrong inf or NaN) counts as infinite.
    """

    correct: bool
    worst_error_over_bound: float
    max_abs_error: float
    wrong: int
    first_wrong: tuple[int, ...] | None
    first: WrongElement | None = None

    @classmethod
    def of(cls, values: Float64, expected: Float64, error: Float64, tolerance: Float64) -> Verdict:
        """Return the verdict from each element's error and tolerance: wrong if the error is larger or either is NaN."""
        bad = ~(error <= tolerance)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.where(error == 0, 0.0, error / tolerance)
        ratio[bad & ~(ratio > 1)] = np.inf  # NaN: nothing to divide
        place = first = None
        if bad.any():
            place = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), values.shape))
            first = WrongElement(float(values[place]), float(expected[place]), float(ratio[place]))
        most = float(np.where(np.isnan(error), np.inf, error).max(initial=0.0))
        return cls(place is None, float(ratio.max(initial=0.0)), most, int(bad.sum()), place, first)

    def wrong_figures(self) -> dict[str, Any]:
        """Return {"wrong": number of wrong elements, "first_wrong": index of the first, "first": its values} as plain values;
        {} if none is wrong. Values that are not finite are texts.
        """
        if self.first is None:
            return {}
        first = {key: value if math.isfinite(value) else str(value) for key, value in asdict(self.first).items()}
        return {"wrong": self.wrong, "first_wrong": list(self.first_wrong or ()), "first": first}

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as plain values for JSON without `first`; infinite ones become None, the index a list."""
        plain = {
            key: None if isinstance(value, float) and not math.isfinite(value) else value
            for key, value in asdict(self).items()
            if key != "first"
        }
        plain["first_wrong"] = None if self.first_wrong is None else list(self.first_wrong)
        return plain


def accumulation_bound(
    sum_ab: npt.ArrayLike, sum_ab2: npt.ArrayLike, k: npt.ArrayLike, *, precision: object = "float32", exact_terms: bool = False
) -> Float64:
    """Return the largest loss of adding k products in `precision`: 4 u sqrt(k) (|sum ab| + sqrt(sum (ab)^2)) + k q,
    elementwise.

    u is half an ULP of 1 (2^-24 in float32), q half the smallest positive value (2^-150). The first part is probabilistic, not
    a proof: roundings act like a random walk, whose steps are as large as the partial sums. A bound in sum |ab| would let
    zeros pass at large k. The second part is for products below the normal range. No product loses more than itself, so the
    part is never more than sqrt(k) times the partial sums. With `exact_terms` (plain sums of a tensor) it is zero: sums of
    subnormals are exact.
    """
    count = np.asarray(k, np.float64)
    partial_sums = np.abs(np.asarray(sum_ab, np.float64)) + np.sqrt(np.asarray(sum_ab2, np.float64))
    reach = np.sqrt(count) * partial_sums
    return SAFETY * _half_ulp_of(1.0, precision) * reach + _underflow(reach, count, precision, exact_terms)


def rigorous_bound(
    sum_abs: npt.ArrayLike, k: npt.ArrayLike, *, precision: object = "float32", exact_terms: bool = False
) -> Float64:
    """Return the proven bound k u sum |ab| + min(k q, sum |ab|) on the loss of adding k products, for inputs built to cancel.

    u, q, `precision` and `exact_terms` as in `accumulation_bound`.
    """
    count, reach = np.asarray(k, np.float64), np.asarray(sum_abs, np.float64)
    return count * _half_ulp_of(1.0, precision) * reach + _underflow(reach, count, precision, exact_terms)


@cache
def _half_ulp_of(value: float, precision: object) -> float:
    return float(half_ulp(np.asarray(value), precision))


def _underflow(reach: Float64, count: Float64, precision: object, exact_terms: bool) -> Float64 | float:
    """Return the most that products lose below the normal range: k q, at most `reach`, which is at least the sum of their
    magnitudes.

    0 with `exact_terms`.
    """
    return 0.0 if exact_terms else np.minimum(count * _half_ulp_of(0.0, precision), reach)


def rounded_bound(reference64: npt.ArrayLike, bound: npt.ArrayLike, roundings: Sequence[object]) -> Float64:
    """Return the largest loss of a sum after rounding it to each format in order, elementwise; `bound` is its loss before that.

    Each rounding adds half an ULP at the largest value that the sum may have, nothing where that is 0.
    """
    size, lost = np.abs(np.asarray(reference64, np.float64)), np.asarray(bound, np.float64).copy()
    for name in roundings:
        reach = size + lost
        lost += np.where(reach > 0, half_ulp(reach, format_of(name)), 0.0)
    return lost


def beyond_range(
    reference64: npt.ArrayLike,
    bound: npt.ArrayLike,
    roundings: Sequence[object],
    *,
    saturate: bool,
    infinite: npt.NDArray[np.bool_],
) -> tuple[Float64, Float64]:
    """Return (sum, loss) of a partial sum that was rounded to `roundings`, in which it may overflow, before more terms are
    added.

    `bound` is its loss without overflow (`rounded_bound`). With `saturate` the sum is clamped. Otherwise it becomes infinite,
    with loss 0, if it must overflow, or if it may and `infinite` marks the element as infinite in the result.
    """
    sums, lost = np.asarray(reference64, np.float64), np.asarray(bound, np.float64)
    formats = [format_of("float32"), *map(format_of, roundings)]
    size = np.abs(sums)
    if saturate:
        largest = min(fmt.max_finite for fmt in formats)
        left = np.where(size > largest, np.maximum(largest - (size - lost), 0.0), lost)
        return np.clip(sums, -largest, largest), left
    narrowest = min(formats, key=lambda fmt: fmt.overflow_threshold)
    gone = narrowest.overflows(size - lost) | (narrowest.overflows(size + lost) & infinite)
    return np.where(gone, np.copysign(np.inf, sums), sums), np.where(gone, 0.0, lost)


class SumFacts(TypedDict, total=False):
    """Optional keywords of `check_correct`, where they are explained; a None, or one left out, means not given."""

    sum_abs: npt.ArrayLike | None
    carried: npt.ArrayLike | None
    doubtful: npt.ArrayLike | None
    partial: npt.ArrayLike | None
    precision: object
    exact_terms: bool
    saturate: bool


def check_correct(
    result: npt.ArrayLike,
    reference64: npt.ArrayLike,
    sum_ab2: npt.ArrayLike,
    k: npt.ArrayLike,
    roundings: Sequence[object],
    **known: Unpack[SumFacts],
) -> Verdict:
    """Return the verdict on a result against the float64 sums of products of its rounded operands.

    `result`, `reference64` (sum ab) and `sum_ab2` (sum (ab)^2) have one shape; `k`, the number of products, is a number or
    broadcasts to it. `roundings` names the formats that the float32 sum passes through, in order (["float16"], or ["float16",
    "float32"]); uint8 results of "hifloat8" are codes. `sum_abs` (sum |ab|) chooses the rigorous bound. `carried` is an error
    that a part of the sum was allowed before the rest was added (see `rounded_bound`). `precision` and `exact_terms` are those
    of `accumulation_bound`.

    An infinite element is correct only if reference and bound together reach the overflow threshold of the accumulator or of a
    format on the way (NaN likewise, for e4m3fn); NaN only where the reference is NaN, and where `doubtful` marks that a zero of
    padding may have met an infinity. Where the products are so large that a part of the sum may overflow (`sum_abs`, or else
    sqrt(k sum (ab)^2), which is no less, beyond float32), any of inf and NaN is right.

    With `saturate` every step clamps: the reference is clamped to the largest finite value and nothing infinite is correct. NaN
    becomes 0 on the way, and all terms added before it are lost. The order of additions is not known, so such elements can be
    any part of their finite sum, at most `partial` (None: as for overflow above), or the largest value on the reference's side,
    on both where that is NaN; with k = 1 there is no way, and NaN is 0. Where the sum may overflow on the way any finite value
    is right. Where there is nothing to add (k = 0, or all products zero) the element must be exactly zero. Raises `SimError`
    where `result`, the reference, the sums or `doubtful` differ in shape; others that do not broadcast are numpy's ValueError.
    """
    if unknown := known.keys() - SumFacts.__annotations__:
        raise TypeError(f"check_correct() got an unexpected keyword argument {min(unknown)!r}")
    sum_abs, carried, saturate = known.get("sum_abs"), known.get("carried"), known.get("saturate", False)
    doubtful, partial = known.get("doubtful"), known.get("partial")
    precision, exact_terms = known.get("precision", "float32"), known.get("exact_terms", False)
    actual, reference = np.asarray(result), np.asarray(reference64)
    weights = np.asarray(sum_ab2 if sum_abs is None else sum_abs)
    before = None if carried is None else np.asarray(carried, np.float64).reshape(-1)
    parts = None if partial is None else np.asarray(partial, np.float64).reshape(-1)
    doubts = np.zeros(reference.shape, np.bool_) if doubtful is None else np.asarray(doubtful)
    if not actual.shape == reference.shape == weights.shape == doubts.shape:
        raise SimError(
            f"check_correct: result {actual.shape}, reference {reference.shape}, sums {weights.shape} and doubts "
            f"{doubts.shape}: equal shapes"
        )
    accumulator = format_of("float32")
    formats = [format_of(name) for name in roundings]
    codes = bool(formats) and formats[-1].name == "hifloat8" and actual.dtype == np.uint8
    counts = np.asarray(k, np.float64)
    per_element = None if counts.ndim == 0 else np.broadcast_to(counts, reference.shape).reshape(-1)
    flat, flat_reference, flat_weights = actual.reshape(-1), reference.reshape(-1), weights.reshape(-1)
    flat_doubts = doubts.reshape(-1)
    worst = max_abs = 0.0
    wrong, place, first = 0, None, None
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        expected = quiet_cast(flat_reference[part], np.float64)
        products = counts if per_element is None else per_element[part]
        if sum_abs is None:
            bound = accumulation_bound(expected, flat_weights[part], products, precision=precision, exact_terms=exact_terms)
            most = np.sqrt(products * np.asarray(flat_weights[part], np.float64))
        else:
            bound = rigorous_bound(flat_weights[part], products, precision=precision, exact_terms=exact_terms)
            most = np.asarray(flat_weights[part], np.float64)
        parts_overflow = (products > 1) & np.isfinite(most) & accumulator.overflows(most)
        if before is not None:
            bound = bound + before[part]
        values = quiet_cast(as_values(flat[part], "hifloat8" if codes else None), np.float64)
        error, tolerance = _error_and_tolerance(values, expected, bound, products, formats, saturate)
        if saturate:
            largest = min((fmt.max_finite for fmt in formats), default=accumulator.max_finite)
            reach = most if parts is None else parts[part]
            free = flat_doubts[part] | (np.isnan(expected) & (products > 1))
            reach = np.nan_to_num(reach + sum(half_ulp(reach, fmt) for fmt in formats), nan=np.inf)  # not finite: says nothing
            free &= _cut_short(values, expected, reach, largest)
            free = (free | parts_overflow) & (np.abs(values) <= largest)
        else:
            free = (flat_doubts[part] & np.isnan(values)) | (parts_overflow & np.isfinite(expected) & ~np.isfinite(values))
        error[free], tolerance[free] = 0.0, np.inf
        found = Verdict.of(values, expected, error, tolerance)
        worst, max_abs = max(worst, found.worst_error_over_bound), max(max_abs, found.max_abs_error)
        if first is None and found.first_wrong is not None:
            first = found.first
            place = tuple(int(i) for i in np.unravel_index(start + found.first_wrong[0], reference.shape))
        wrong += found.wrong
    return Verdict(wrong == 0, worst, max_abs, wrong, place, first)


def _cut_short(values: Float64, expected: Float64, reach: Float64, largest: float) -> npt.NDArray[np.bool_]:
    """Return True for values that can be a saturated sum which lost the terms before a NaN.

    They lie within `reach` of zero, or of the largest value with the sign of `expected` (of either sign, if that is NaN).
    """
    unknown = np.isnan(expected)
    top, bottom = unknown | (expected >= 0), unknown | (expected <= 0)
    within: npt.NDArray[np.bool_] = np.abs(values) <= reach
    return within | (top & (values >= largest - reach)) | (bottom & (values <= reach - largest))


def _error_and_tolerance(
    values: Float64, expected: Float64, bound: Float64, products: Float64, formats: list[Format], saturate: bool
) -> tuple[Float64, Float64]:
    """Return (error, tolerance) of each element; the error is 0 for a right inf or NaN, NaN for a wrong one.

    The tolerance is `bound` plus half an ULP for each of `formats`; with `saturate` an overflowing element should be the
    formats' largest number, a NaN 0. Without products the element must be exactly zero.
    """
    accumulator = format_of("float32")
    size = np.abs(expected)
    tolerance = np.where(products > 0, bound, 0.0)
    overflows = accumulator.overflows(size + tolerance)
    for fmt in formats:
        # The value before this rounding may be as large as the reference plus all that was lost so far.
        reach = size + tolerance
        overflows |= fmt.overflows(reach)
        tolerance += np.where(reach > 0, half_ulp(reach, fmt), 0.0)
    finite = np.isfinite(expected)
    tolerance[finite & ~np.isfinite(tolerance)] = np.nan  # sums that are not finite bound nothing
    overflows &= ~np.isnan(tolerance)
    if saturate:
        largest = min((fmt.max_finite for fmt in formats), default=accumulator.max_finite)
        target = np.where(np.isnan(expected), 0.0, np.clip(expected, -largest, largest))
        error = np.where(np.isfinite(values), np.abs(values - target), np.nan)
        # Beyond the range only what the bound lets back inside may differ from the largest value; inf and NaN nothing.
        with np.errstate(invalid="ignore"):
            tolerance = np.where(size > largest, np.maximum(largest - (size - tolerance), 0.0), tolerance)
        tolerance[~finite] = 0.0
    else:
        with np.errstate(invalid="ignore"):
            error = np.abs(values - expected)
        if all(fmt.has_infinity for fmt in formats):
            overflowed = np.isinf(values) & (np.signbit(values) == np.signbit(expected))
        else:
            overflowed = np.isnan(values)
        right = (overflowed & overflows & ~np.isnan(expected)) | (np.isnan(values) & np.isnan(expected))
        error = np.where(right, 0.0, np.where(np.isfinite(values) & finite, error, np.nan))
        tolerance[right] = np.inf
    empty = products == 0
    error = np.where(empty & ((values != 0) | (expected != 0)), np.nan, error)
    return error, tolerance

"""Error metrics of a result against a float64 reference: the vendor's criteria and plain statistics, in one record.

The vendor's standards are informative: against an unrounded reference a perfect hf32 or float16 machine does not reach
the 99 % of the mixed standard. The verdict on correctness is `verdict.check_correct`.
"""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.keywords import near_names
from ascend_sim.numerics.casting import as_values, cast, decode, quiet_cast
from ascend_sim.numerics.formats import canonical, numpy_dtype, ulp


@frozen
class Threshold:
    """One column of the vendor's precision standards.

    `rtol`, `atol`, `max_abs`: mixed standard, |a - g| <= atol + rtol |g| for 99 % of the elements, and no error above
    `max_abs` "or 32 ULP". `mean_relative`: the standard before it, MERE < this and MARE < 10 times this.
    """

    rtol: float
    atol: float
    max_abs: float
    mean_relative: float


THRESHOLDS: dict[str, Threshold] = {
    "float16": Threshold(2.0**-9, 2.0**-9, 1e-1, 2.0**-10),
    "bfloat16": Threshold(2.0**-6, 2.0**-6, 1.0, 2.0**-7),
    "float32": Threshold(2.0**-10, 2.0**-16, 1e-2, 2.0**-13),
    "hf32": Threshold(2.0**-9, 2.0**-10, 1e-1, 2.0**-11),
    "float8_e4m3fn": Threshold(2.0**-2, 2.0**-4, 1.0, 2.0**-3),
    "float8_e5m2": Threshold(2.0**-1, 2.0**-3, 1e-1, 2.0**-2),  # max_abs below its own atol: doubtful in the source
}
"""Sources: opbase, docs/zh/ops_precision_standard/experimental_standard.md, mixed standard of 2026-07-15 and the
relative-error standard of 2026-04-09 (stated). No standard has a row for hifloat8."""

REQUIRED_MATCHED_RATIO = 0.99  # same page (stated)
MAX_ABS_ULPS = 32  # same page; read as "whichever of the two is larger, for each element" (inferred)
MARE_FACTOR = 10  # the 2026-04-09 standard (stated)
RELATIVE_ERROR_FLOOR = 1e-7  # added to |g| in MERE and MARE, same standard (stated)
ABSOLUTE_PRECISION = 1e-8  # errors below it never count as "over 1e-3": conv backward test tables of ops-nn (stated)
_CHUNK = 1 << 14  # elements per step: the temporaries stay in the cache


@frozen
class Comparison:
    """Error metrics of one result (`compare`); shares and ratios are in 0 .. 1.

    `nonfinite` counts inf and NaN in the result, `nonfinite_mismatch` the elements where result and reference are not both
    finite and not the same inf or NaN: they never match and make the two maxima infinite. Means and sums are over the elements
    that are finite in both. `mere` and `mare` are the mean and the largest of |error| / (|reference| + 1e-7). `share_over_1e_3`
    is the share of elements with an error above 1e-3 |reference| (and above 1e-8) or a mismatch. `effective_bits` is -log2(mean
    |error| / mean |reference|), infinite without error. `vendor_*` and `relative_pass` are None where the vendor has no
    threshold (hifloat8).
    """

    dtype: str
    compute_dtype: str | None
    standard: str | None
    elements: int
    vendor_matched_ratio: float | None
    vendor_pass: bool | None
    relative_pass: bool | None
    max_abs_error: float
    mere: float
    mare: float
    rmse: float
    cosine: float
    effective_bits: float
    bit_equal_share: float
    share_over_1e_3: float
    share_over_1e_4: float
    nonfinite: int
    nonfinite_mismatch: int

    def __str__(self) -> str:
        judged = {None: "none", True: "passed", False: "failed"}[self.vendor_pass]
        return (
            f"{self.elements:,} elements of {self.dtype}: equal bits {100 * self.bit_equal_share:.1f} %, effective bits "
            f"{self.effective_bits:.1f}, largest error {self.max_abs_error:.3g}, inf or NaN {self.nonfinite:,}, "
            f"vendor's threshold {judged}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics as plain values for JSON; an infinite or undefined figure becomes None."""
        return {
            key: None if isinstance(value, float) and not math.isfinite(value) else value for key, value in asdict(self).items()
        }


def standard_of(dtype: object, compute_dtype: object = None) -> str | None:
    """Return the vendor's threshold column for a result: that of the coarser of output and compute dtype; None if one has no
    column.

    HiFLOAT32 is such a compute dtype with float32 output; that float16 compute is judged in this way is inferred.
    """
    names = [canonical(dtype)] + ([] if compute_dtype is None else [canonical(compute_dtype)])
    if any(name not in THRESHOLDS for name in names):
        return None
    return max(names, key=lambda name: THRESHOLDS[name].rtol)


@near_names
def compare(
    result: npt.ArrayLike, reference: npt.ArrayLike, *, dtype: object = None, compute_dtype: object = None
) -> Comparison:
    """Return the error metrics of a result against a float64 reference of the same shape.

    `dtype` is the result's format (default: that of its array, but float32 for float64; uint8 codes need "hifloat8"),
    `compute_dtype` the one its operands were rounded to. Bit-equal means: the pattern that the reference rounded to `dtype`
    has; any two NaNs are. Works in chunks, float64 inside. Raises `SimError` for different shapes, an unknown format
    (integers have none, so they need `dtype`), and values that are not real numbers.
    """
    try:
        actual, golden = np.asarray(result), np.asarray(reference)
    except ValueError as error:
        raise SimError("compare: rows of different lengths make no array of numbers") from error
    if actual.dtype.kind in "USO":
        raise SimError(f"compare: {result!r} is no array of numbers; compare_runs lays cases, runs and folders side by side")
    if actual.shape != golden.shape:
        raise SimError(f"compare: result has shape {actual.shape}, reference {golden.shape}; they must be equal")
    if dtype is None:
        dtype = "float32" if actual.dtype == np.float64 else actual.dtype  # no machine gives float64
    name = canonical(dtype)
    standard = standard_of(name, compute_dtype)
    total = _Totals()
    flat, flat_golden = actual.reshape(-1), golden.reshape(-1)
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        total.add(flat[part], quiet_cast(as_values(flat_golden[part]), np.float64), name, standard)
    return total.comparison(name, None if compute_dtype is None else canonical(compute_dtype), standard)


def vendor_matched_ratio(result: npt.NDArray[Any], reference: npt.NDArray[Any], dtype: str) -> float | None:
    """Return the `vendor_matched_ratio` that `compare` returns for arrays of values, not codes, of equal shape, in a quarter of
    its time: None if the vendor has no threshold for `dtype`, 1 for empty arrays.
    """
    standard, flat, golden = standard_of(dtype), result.reshape(-1), reference.reshape(-1)
    if standard is None or not flat.size:
        return None if standard is None else 1.0
    parts = (slice(start, start + _CHUNK) for start in range(0, flat.size, _CHUNK))
    return sum(_matched(quiet_cast(flat[part], np.float64), golden[part], standard) for part in parts) / flat.size


def _matched(actual: npt.NDArray[np.float64], golden: npt.NDArray[np.float64], standard: str) -> int:
    """Return the number of elements that match by the vendor's mixed standard: |a - g| <= atol + rtol |g|, or the same inf or
    NaN.
    """
    row = THRESHOLDS[standard]
    with np.errstate(invalid="ignore"):
        within = np.isfinite(golden) & (np.abs(actual - golden) <= row.atol + row.rtol * np.abs(golden))
    return int(np.count_nonzero(within | (actual == golden) | (np.isnan(actual) & np.isnan(golden))))


class _Totals:
    """Counts and sums of one comparison, added chunk by chunk; `comparison` makes the metrics of them."""

    def __init__(self) -> None:
        self.elements = self.finite = self.matched = self.bit_equal = self.over_3 = self.over_4 = 0
        self.nonfinite = self.mismatch = 0
        self.within_limit = True
        self.max_abs = self.max_relative = 0.0
        self.relative = self.error = self.error2 = self.dot = self.golden = self.golden2 = self.actual2 = 0.0

    def add(self, codes: npt.NDArray[Any], golden: npt.NDArray[np.float64], name: str, standard: str | None) -> None:
        actual = quiet_cast(as_values(codes, name if codes.dtype == np.uint8 else None), np.float64)
        held = codes if codes.dtype == numpy_dtype(name) else cast(actual, name)
        self.elements += actual.size
        self.bit_equal += _bit_equal(held, cast(golden, name), name)
        self.nonfinite += int((~np.isfinite(actual)).sum())
        both = np.isfinite(actual) & np.isfinite(golden)
        same = ~both & ((actual == golden) | (np.isnan(actual) & np.isnan(golden)))
        self.mismatch += int((~both & ~same).sum())
        self.matched += _matched(actual, golden, standard) if standard is not None else 0
        if not both.all():
            actual, golden = actual[both], golden[both]
        if not golden.size:
            return
        error, size = np.abs(actual - golden), np.abs(golden)
        relative = error / (size + RELATIVE_ERROR_FLOOR)
        self.finite += error.size
        self.max_abs = max(self.max_abs, float(error.max()))
        self.max_relative = max(self.max_relative, float(relative.max()))
        self.relative += float(relative.sum())
        self.error += float(error.sum())
        self.error2 += float((error * error).sum())
        self.golden += float(size.sum())
        self.golden2 += float((size * size).sum())
        self.actual2 += float((actual * actual).sum())
        self.dot += float((actual * golden).sum())
        counted = error > ABSOLUTE_PRECISION
        self.over_3 += int((counted & (error > 1e-3 * size)).sum())
        self.over_4 += int((counted & (error > 1e-4 * size)).sum())
        if standard is not None:
            limit = np.maximum(THRESHOLDS[standard].max_abs, MAX_ABS_ULPS * ulp(golden, standard))
            self.within_limit &= bool((error <= limit).all())

    def comparison(self, name: str, compute: str | None, standard: str | None) -> Comparison:
        elements, finite = max(self.elements, 1), max(self.finite, 1)
        wrong = self.mismatch > 0
        mere = self.relative / finite
        mare = math.inf if wrong else self.max_relative
        ratio = passed = relative_pass = None
        if standard is not None:
            ratio = self.matched / elements if self.elements else 1.0
            passed = ratio >= REQUIRED_MATCHED_RATIO and self.within_limit and not wrong
            limit = THRESHOLDS[standard].mean_relative
            relative_pass = mere < limit and mare < MARE_FACTOR * limit
        norms = math.sqrt(self.actual2) * math.sqrt(self.golden2)
        cosine = self.dot / norms if norms else float(self.actual2 == self.golden2)
        bits = math.inf
        if self.error:
            bits = -math.log2(self.error / self.golden) if self.golden else -math.inf
        return Comparison(
            dtype=name,
            compute_dtype=compute,
            standard=standard,
            elements=self.elements,
            vendor_matched_ratio=ratio,
            vendor_pass=passed,
            relative_pass=relative_pass,
            max_abs_error=math.inf if wrong else self.max_abs,
            mere=mere,
            mare=mare,
            rmse=math.sqrt(self.error2 / finite),
            cosine=cosine,
            effective_bits=bits,
            bit_equal_share=self.bit_equal / elements if self.elements else 1.0,
            share_over_1e_3=(self.over_3 + self.mismatch) / elements,
            share_over_1e_4=(self.over_4 + self.mismatch) / elements,
            nonfinite=self.nonfinite,
            nonfinite_mismatch=self.mismatch,
        )


def _bit_equal(held: npt.NDArray[Any], expected: npt.NDArray[Any], name: str) -> int:
    unsigned = np.dtype(f"u{held.dtype.itemsize}")
    equal = held.view(unsigned) == expected.view(unsigned)
    if name != "hifloat8":  # it has one NaN pattern; elsewhere any NaN will do
        other, wanted = (decode(one.view(unsigned)[~equal], name) for one in (held, expected))
        return int(equal.sum()) + int((np.isnan(other) & np.isnan(wanted)).sum())
    return int(equal.sum())

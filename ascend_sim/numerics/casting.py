"""Casts between the formats on arrays: the value side of the vector unit's Cast, of Fixpipe and of HF32.

Sources are float16, bfloat16, float32 and fp8 arrays (bfloat16 and fp8 widen to float32 exactly), hifloat8 codes announced by
`source="hifloat8"`, float64, and integers as plain numbers (`integers` has the unit's own conversions). Every cast rounds once,
except that the hybrid mode takes a float64 as its nearest float32. `reference` computes the same one value at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ascend_sim.errors import SimError
from ascend_sim.numerics.formats import CastOptions, Format, all_options, canonical, format_of, rounding_mode, ulp
from ascend_sim.numerics.hf32 import round_hf32
from ascend_sim.numerics.hifloat8 import decode_hifloat8, encode_hybrid, encode_round

Array = npt.NDArray[Any]
_CHUNK = 1 << 14


def cast(
    x: npt.ArrayLike,
    dtype: object,
    rounding: str | None = None,
    saturate: bool = False,
    *,
    source: object = None,
    mantissa_bits: int = 11,
    **options: Unpack[CastOptions],
) -> Array:
    """Return `x` in another format, same shape, as a new array of `numpy_dtype(dtype)` (hifloat8: uint8 codes; hf32: float32).

    `rounding` is a mode of the target (`FORMATS[name].roundings`, the first is the default; case does not matter, and rne / rna
    / rtz also name rint / round / trunc). `saturate`: overflow and inf become the largest finite value, NaN becomes 0 (CTRL[48]
    = 0). Otherwise overflow becomes inf (e4m3fn: NaN), but the largest finite value in trunc, odd, and floor or ceil toward
    zero. `source="hifloat8"` says that `x` holds its codes; other uint8 arrays are numbers. `mantissa_bits` is for hf32;
    `options` are those of `CAST_OPTIONS`. Raises SimError for an unknown format, for a mode, width or option value that it
    lacks, and for values that are not real numbers.
    """
    fmt = format_of(dtype, mantissa_bits if canonical(dtype) == "hf32" else None)
    mode = rounding_mode(fmt, rounding)
    how = all_options(options)
    exact, overflow = how["hybrid_exact"], how["hybrid_overflow"]
    given = as_values(x, source)
    values = np.atleast_1d(given)
    result: Array
    if fmt.name == "hifloat8":
        if mode == "round":
            result = encode_round(_sticky_float32(values), saturate)
        else:
            if values.dtype == np.float64:
                values = quiet_cast(values, np.float32)  # hybrid looks at the pattern of a float32 or float16
            result = _in_chunks(
                lambda part: encode_hybrid(part, saturate, hybrid_exact=exact, hybrid_overflow=overflow), values, fmt.storage
            )
        return result.reshape(given.shape)
    if fmt.name == "hf32":
        result = round_hf32(_sticky_float32(values), fmt.mantissa_bits, mode)
    elif mode == "rint":
        # numpy rounds float64 to float16 and float32 once; ml_dtypes is given a float32 that remembers inexactness.
        direct = fmt.name in ("float16", "float32")
        result = quiet_cast(values if direct else _sticky_float32(values), fmt.storage, copy=True)
        if how["e4m3_overflow"] == "given" and fmt.name == "float8_e4m3fn":
            result[np.abs(values) > fmt.max_finite] = np.nan
    else:
        result = _in_chunks(lambda part: quiet_cast(round_directed(part, fmt, mode), fmt.storage), values, fmt.storage)
    if saturate:
        result = _saturated(result, values, fmt)
    return result.reshape(given.shape)


def round_to(
    x: npt.ArrayLike,
    fmt: object,
    mantissa_bits: int = 11,
    rounding: str | None = None,
    saturate: bool = False,
    *,
    source: object = None,
    **options: Unpack[CastOptions],
) -> npt.NDArray[np.float32]:
    """Return `x` rounded to a format, as float32 of the same shape; `mantissa_bits` (11 or 10) is for hf32. Arguments and
    errors are those of `cast`.
    """
    result = cast(x, fmt, rounding, saturate, source=source, mantissa_bits=mantissa_bits, **options)
    if canonical(fmt) == "hifloat8":
        return decode_hifloat8(result)
    return quiet_cast(result, np.float32)


def encode(
    x: npt.ArrayLike,
    fmt: object,
    rounding: str | None = None,
    saturate: bool = False,
    *,
    source: object = None,
    mantissa_bits: int = 11,
    **options: Unpack[CastOptions],
) -> Array:
    """Return the codes of `x` in a format as patterns in uint8, 16 or 32 (hf32: of its float32); arguments as in `cast`."""
    result = cast(x, fmt, rounding, saturate, source=source, mantissa_bits=mantissa_bits, **options)
    return result.view(np.dtype(f"u{result.dtype.itemsize}"))


def decode(codes: npt.ArrayLike, fmt: object) -> npt.NDArray[np.float32]:
    """Return the float32 values of a format's codes (unsigned integers of its width, for hf32 float32 patterns), same shape;
    exact.
    """
    entry = format_of(fmt)
    if entry.name == "hifloat8":
        return decode_hifloat8(codes)
    patterns = np.asarray(codes, dtype=np.dtype(f"u{entry.storage.itemsize}"))
    return quiet_cast(patterns.view(entry.storage), np.float32)


def as_values(x: npt.ArrayLike, source: object = None) -> Array:
    """Return `x` as a float16, float32 or float64 array of equal values, itself if it is one.

    64-bit integers beyond 2^53 become float64 that every format rounds as it rounds the integers.

    Codes of hifloat8 need `source="hifloat8"`; integers and bool become float64, narrower formats float32. Raises SimError for
    other dtypes.
    """
    values = np.asarray(x)
    if source is not None and canonical(source) == "hifloat8":
        return decode_hifloat8(values)
    if values.dtype in (np.float16, np.float32, np.float64):
        return values
    if values.dtype.kind in "iub":
        return _sticky_float64(values)
    if values.dtype.kind == "c" or values.dtype.kind in "OSUM":
        raise SimError(f"cast of {values.dtype} values: real numbers are needed")
    canonical(values.dtype)  # refuses what is not a format of these machines
    return quiet_cast(values, np.float32)


def quiet_cast(values: Array, dtype: npt.DTypeLike, copy: bool = False) -> Array:
    """Return `values.astype(dtype)` without numpy's warnings: overflow and (signalling) NaN are ordinary values here.

    Without `copy` it may be `values` itself.
    """
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return values.astype(dtype, copy=copy)


def _in_chunks(function: Callable[[Array], Array], values: Array, dtype: npt.DTypeLike) -> Array:
    """Return `function` applied to the flat array piece by piece, in the shape of `values`; temporaries fit the cache (twice as
    fast).
    """
    flat = values.reshape(-1)
    result = np.empty(flat.shape, dtype)
    for start in range(0, flat.size, _CHUNK):
        result[start : start + _CHUNK] = function(flat[start : start + _CHUNK])
    return result.reshape(values.shape)


def _sticky_float32(values: Array) -> npt.NDArray[np.float32]:
    """Return a contiguous float32 array that rounds to any narrower format exactly as `values` would; `values` itself if it is
    one.

    From float64 this is round-to-odd: an inexact value gets an odd last bit, so it can neither look like a tie nor cross one
    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
    """
    if values.dtype != np.float64:
        return np.ascontiguousarray(quiet_cast(values, np.float32))
    nearest = np.ascontiguousarray(quiet_cast(values, np.float32))
    outward = np.abs(nearest) > np.abs(values)
    patterns = nearest.view(np.uint32)
    patterns -= outward
    patterns |= (nearest != values) & ~np.isnan(values)
    return nearest


def _sticky_float64(values: Array) -> npt.NDArray[np.float64]:
    """Return integers as float64; beyond 2^53 one bit stands for the last 12, set unless all are 0."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    low = values & 0xFFF
    large = (values >> 53 != 0) & (values >> 53 != -1) if values.dtype.kind == "i" else values >> 53 != 0
    return np.where(large, values - low + 0x800 * (low != 0).astype(values.dtype), values).astype(np.float64)


def round_directed(values: Array, fmt: Format, mode: str) -> npt.NDArray[np.float64]:
    """Return `values` rounded to values of `fmt` by floor, ceil, round (half away), trunc or odd, as exact float64.

    A mode that rounds toward zero stops at the largest finite value (IEEE 754; for the vector unit: inferred).
    """
    wide = quiet_cast(values, np.float64)
    step = ulp(wide, fmt)
    finite = np.isfinite(wide)
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = np.where(finite, wide / step, 0.0)
    units = np.trunc(scaled)
    away = np.copysign(1.0, scaled)
    if mode == "round":
        units += np.where(np.abs(scaled - units) >= 0.5, away, 0.0)
    elif mode == "odd":
        units += np.where((scaled != units) & (np.mod(units, 2.0) == 0), away, 0.0)
    elif mode in ("floor", "ceil"):
        units = np.floor(scaled) if mode == "floor" else np.ceil(scaled)
    rounded = np.copysign(units * step, wide)
    if mode in ("trunc", "odd", "floor"):
        np.minimum(rounded, fmt.max_finite, out=rounded)
    if mode in ("trunc", "odd", "ceil"):
        np.maximum(rounded, -fmt.max_finite, out=rounded)
    return np.where(finite, rounded, wide)


def _saturated(result: Array, values: Array, fmt: Format) -> Array:
    """Return `result` with overflow and inf replaced by the largest finite value of their sign, and NaN of `values` by +0.

    Source: CTRL[48] = 0, stated.
    """
    was_nan = np.isnan(values)
    lost = ~np.isfinite(result) & ~was_nan
    largest = np.array(fmt.max_finite).astype(fmt.storage)
    result = np.where(lost, np.where(values < 0, -largest, largest), result)
    result[was_nan] = 0
    return result

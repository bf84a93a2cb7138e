"""hifloat8 on arrays: uint8 codes, decoded by a table and encoded by one (round half away) or by bit fields (hybrid).

Both ways of encoding use the *rank* of a value: 0 for zero, then the positive values in order of magnitude, 127 for
infinity. Rounding up is the next rank. Numbers and rules: `formats.FORMATS["hifloat8"]` and `reference`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from ascend_sim.numerics.formats import check_options, format_of

NAN, INFINITY, LARGEST = 0x80, 0x6F, 0x6E
_CHUNK = 1 << 15  # elements per step: indices and codes stay in the second-level cache (measured)


@lru_cache(maxsize=1)
def decode_table() -> npt.NDArray[np.float32]:
    """Return the read-only float32 values of the 256 codes, by code."""
    from ascend_sim.numerics.reference import decode as decode_one  # exact fractions, which nothing else of a run needs

    table = np.array([decode_one(code, "hifloat8") for code in range(256)], dtype=np.float32)
    table.flags.writeable = False
    return table


def decode_hifloat8(codes: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the float32 values of uint8 codes, same shape."""
    return decode_table()[np.asarray(codes, dtype=np.uint8)]


@lru_cache(maxsize=1)
def _code_of_rank() -> npt.NDArray[np.uint8]:
    return np.argsort(decode_table()[:128], kind="stable").astype(np.uint8)


@lru_cache(maxsize=2)
def _round_table(saturate: bool) -> npt.NDArray[np.uint8]:
    """Return the code for each value of the upper 13 bits of a float32 (sign, exponent, 4 mantissa bits), rounded half away.

    Half a step is never finer than the fourth mantissa bit, and a tie rounds as all values above it do. The caller must handle
    NaN patterns whose upper 13 bits look like infinity.
    """
    patterns = np.arange(1 << 13, dtype=np.uint32) << 19
    with np.errstate(invalid="ignore"):  # signalling NaN patterns
        magnitude = np.abs(patterns.view(np.float32)).astype(np.float64)
    rungs = decode_table()[_code_of_rank()].astype(np.float64)
    fmt = format_of("hifloat8")
    rungs[127] = fmt.max_finite + 2.0 ** fmt.quantum_exponent(fmt.max_exponent)  # where inf stands: the next rung up
    ties = (rungs[:-1] + rungs[1:]) / 2
    codes = _code_of_rank()[np.searchsorted(ties, magnitude, side="right")]
    return _finish(codes, patterns >> 31 == 1, np.isnan(magnitude), saturate)


def _finish(
    codes: npt.NDArray[np.uint8], negative: npt.NDArray[np.bool_], is_nan: npt.NDArray[np.bool_], saturate: bool
) -> npt.NDArray[np.uint8]:
    """Set the signs of magnitude codes (zero has none) and NaN, in place, and return them; `saturate`: inf becomes +-32768 and
    NaN 0.
    """
    if saturate:
        codes[codes == INFINITY] = LARGEST
    codes[negative & (codes != 0)] |= 0x80
    codes[is_nan] = 0 if saturate else NAN
    return codes


def encode_round(x: npt.NDArray[np.float32], saturate: bool = False) -> npt.NDArray[np.uint8]:
    """Return a float32 array's codes, rounded half away from zero (CAST_ROUND, QF322HIF8_PRE); `saturate` as in `cast`."""
    table = _round_table(saturate)
    flat = x.reshape(-1)
    patterns = flat.view(np.uint32)
    codes = np.empty(flat.shape, np.uint8)
    index = np.empty(min(_CHUNK, flat.size), np.intp)
    for start in range(0, flat.size, _CHUNK):
        part = slice(start, start + _CHUNK)
        here = index[: flat[part].size]
        np.right_shift(patterns[part], np.uint32(19), out=here, casting="unsafe")
        table.take(here, out=codes[part], mode="clip")
        if np.isnan(flat[part].max()):
            codes[part][np.isnan(flat[part])] = 0 if saturate else NAN
    return codes.reshape(x.shape)


@lru_cache(maxsize=1)
def _binades() -> tuple[npt.NDArray[np.int32], ...]:
    """Return three arrays, indexed by a float32's exponent field: the exponent e, the mantissa bits that hifloat8 keeps there,
    and the rank of 2^e among hifloat8's values (zero has rank 0).

    Below the smallest value -1 bits are kept: there the whole significand lies below one step of the format.
    """
    fmt = format_of("hifloat8")
    magnitudes = decode_table()[_code_of_rank()]
    exponents = range(-127, 129)
    kept = [fmt.mantissa_bits_at(e) if e >= fmt.min_exponent else -1 for e in exponents]
    ranks = [int(np.searchsorted(magnitudes, 2.0**e)) if e >= fmt.min_exponent else 0 for e in exponents]
    return tuple(np.array(column, np.int32) for column in (exponents, kept, ranks))


def encode_hybrid(
    x: npt.NDArray[Any], saturate: bool = False, *, hybrid_exact: str = "up", hybrid_overflow: str = "rule"
) -> npt.NDArray[np.uint8]:
    """Return the codes of a float32 or float16 array under CAST_HYBRID; the options are those of `formats.CAST_OPTIONS`.

    |e| <= 3 rounds half away. Elsewhere the bits after the kept mantissa (frac) are compared with the tail of the source's
    mantissa (thr), a deterministic stand-in for a random number: up where frac >= thr.
    """
    check_options(hybrid_exact=hybrid_exact, hybrid_overflow=hybrid_overflow)
    fmt = format_of("hifloat8")
    half = x.dtype == np.float16
    fields, width = (10, 2) if half else (23, 14)
    with np.errstate(invalid="ignore"):  # signalling NaN patterns
        patterns = np.ascontiguousarray(x, dtype=np.float32).view(np.int32)  # a float16 subnormal becomes normal
    exponent, kept, first_rank = (table[patterns >> 23 & 0xFF] for table in _binades())
    full = (patterns & 0x7FFFFF | 0x800000) >> (23 - fields)  # 1.f as an integer with `fields` bits after the point
    thr = full & (1 << width) - 1
    if half:
        thr = (np.ascontiguousarray(x).view(np.uint16).astype(np.int32) & 1) << 1 | 1
    below = fields - kept  # bits of the significand that are not kept
    up = (full >> (below - width) & (1 << width) - 1) >= thr
    if hybrid_exact == "keep":
        up &= full & (1 << below) - 1 != 0
    up = np.where(np.abs(exponent) <= fmt.taper[0][0], full >> (below - 1) & 1 == 1, up)
    up &= exponent >= fmt.min_exponent - 1
    inside = (full >> below) - (kept >= 0) * (1 << np.maximum(kept, 0))  # rungs above 2^e; the leading 1 taken off
    rank = first_rank + inside + up
    too_large = exponent > fmt.max_exponent
    if hybrid_overflow == "inf":
        too_large |= np.abs(patterns.view(np.float32)) >= fmt.overflow_threshold
    rank[too_large | (rank > 127)] = 127
    return _finish(_code_of_rank()[rank], patterns < 0, np.isnan(x), saturate)

"""The scalar truth: every format, cast mode and code in exact rational arithmetic, one value at a time.

Slow and meant to be read. The array functions of this package are tested against it. A value is a Python float or a
`Fraction`; a code is the integer that the bits spell.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Unpack

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.numerics.formats import CastOptions, Format, all_options, format_of, rounding_mode

Number = float | Fraction


@frozen
class Split:
    """A value in the spacing of a format around it: |x| = (units + remainder) * 2^quantum_exponent, 0 <= remainder < 1.

    `exponent` is floor(log2 |x|), for 0 the format's lowest.
    """

    negative: bool
    exponent: int
    quantum_exponent: int
    units: int
    remainder: Fraction


@lru_cache(maxsize=1024)
def power_of_two(exponent: int) -> Fraction:
    """Return 2^exponent, exactly."""
    return Fraction(2) ** exponent


def floor_log2(magnitude: Fraction) -> int:
    """Return the exponent e with 2^e <= magnitude < 2^(e+1), for magnitude > 0."""
    guess = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    return guess if power_of_two(guess) <= magnitude else guess - 1


def split(x: Number, fmt: Format) -> Split:
    """Return sign, exponent, and whole and fractional steps of a finite value in the spacing that `fmt` has there, exactly."""
    value = Fraction(x)
    magnitude = abs(value)
    exponent = floor_log2(magnitude) if magnitude else fmt.min_exponent
    quantum = fmt.quantum_exponent(exponent)
    scaled = magnitude / power_of_two(quantum)
    units = scaled.numerator // scaled.denominator
    return Split(value < 0, exponent, quantum, units, scaled - units)


def goes_up(parts: Split, mode: str) -> bool:
    """Return True if a value between two neighbours of a format is rounded away from zero, by a mode that needs the value
    alone.

    An exact value is not. rint: nearest, ties to even; round: nearest, ties away from zero; rnz: nearest, ties toward zero;
    floor, ceil, trunc: toward -inf, +inf, zero; odd: to the neighbour whose last bit is 1 (round-to-odd, not nearest). Modes
    are in lower case; any other text counts as trunc.
    """
    rest, odd = parts.remainder, parts.units % 2 == 1
    if rest == 0:
        return False
    tie = Fraction(1, 2)
    match mode:
        case "rint":
            return rest > tie or (rest == tie and odd)
        case "round":
            return rest >= tie
        case "rnz":
            return rest > tie
        case "floor":
            return parts.negative
        case "ceil":
            return not parts.negative
        case "odd":
            return not odd
        case _:  # trunc
            return False


def hybrid_window(x: Number, source: str) -> tuple[int, int]:
    """Return (frac, thr) of CAST_HYBRID for a nonzero `x`: the bits after the kept mantissa, and the pseudo-random bits with
    which they are compared.

    From float32 both have 14 bits and thr is the tail of the mantissa; from float16 they have 2 bits and thr is the last bit of
    the pattern followed by a 1. One exponent below the smallest value, -23, the window starts at the leading 1, as if -1 bits
    were kept. Raises SimError if `x` is not a value of `source`. Source: asc-devkit, Reg Cast.md, float and half to hifloat8_t
    (stated). That a float16 subnormal is normalised first, but gives its own last bit to thr, is inferred.
    """
    fields, width = {"float32": (23, 14), "float16": (10, 2)}[source]
    magnitude = abs(Fraction(x))
    exponent = floor_log2(magnitude)
    significand = magnitude / power_of_two(exponent) * 2**fields
    if significand.denominator != 1:
        raise SimError(f"CAST_HYBRID is defined on {source} patterns; {float(x)!r} is not a {source} value")
    fmt = format_of("hifloat8")
    kept = -1 if exponent == fmt.min_exponent - 1 else fmt.mantissa_bits_at(exponent)
    frac = (significand.numerator >> (fields - kept - width)) % 2**width
    last = split(x, format_of(source)).units
    thr = last % 2**width if source == "float32" else 2 * (last % 2) + 1
    return frac, thr


def _hybrid_goes_up(x: Number, parts: Split, source: str, exact: str, overflow: str) -> bool:
    """Return True if CAST_HYBRID rounds a nonzero value below 2^16 away from zero; `exact`, `overflow`: the options
    hybrid_exact, hybrid_overflow.

    Within |e| <= 3 it rounds half away, more than one binade below the smallest value never up, with `overflow` "inf" from
    40960 on to infinity; elsewhere `hybrid_window` decides.
    """
    fmt = format_of("hifloat8")
    if parts.exponent < fmt.min_exponent - 1:
        return False
    if abs(parts.exponent) <= fmt.taper[0][0]:
        return goes_up(parts, "round")
    if overflow == "inf" and abs(Fraction(x)) >= Fraction(fmt.overflow_threshold):
        return parts.units * power_of_two(parts.quantum_exponent) <= fmt.max_finite
    frac, thr = hybrid_window(x, source)
    return frac >= thr and not (exact == "keep" and parts.remainder == 0)


def round_value(
    x: Number,
    fmt: object,
    rounding: str | None = None,
    saturate: bool = False,
    *,
    mantissa_bits: int | None = None,
    source: str = "float32",
    **options: Unpack[CastOptions],
) -> float:
    """Return `x` cast to a format, as a Python float; `source` is the format of `x` for CAST_HYBRID.

    Options as in `ascend_sim.numerics.cast`.
    """
    entry = format_of(fmt, mantissa_bits)
    mode = rounding_mode(entry, rounding)
    how = all_options(options)
    if isinstance(x, float) and math.isnan(x):
        return 0.0 if saturate else math.nan
    sign = math.copysign(1.0, x) if isinstance(x, float) else (-1.0 if x < 0 else 1.0)
    if isinstance(x, float) and math.isinf(x):
        return _overflow(entry, sign, saturate)
    parts = split(x, entry)
    if mode != "hybrid":
        up = goes_up(parts, mode)
    elif x == 0 or parts.exponent > entry.max_exponent:
        up = False
    else:
        up = _hybrid_goes_up(x, parts, source, how["hybrid_exact"], how["hybrid_overflow"])
    rounded = (parts.units + up) * power_of_two(parts.quantum_exponent)
    given_too_large = entry.name == "float8_e4m3fn" and how["e4m3_overflow"] == "given" and abs(Fraction(x)) > entry.max_finite
    if rounded > Fraction(entry.max_finite) or given_too_large:
        inward = mode in ("trunc", "odd") or mode == ("ceil" if sign < 0 else "floor")
        # IEEE 754: a mode that rounds toward zero stops at the largest finite value (for these units: inferred).
        return sign * entry.max_finite if inward else _overflow(entry, sign, saturate)
    if rounded == 0 and not entry.has_negative_zero:
        return 0.0
    return sign * float(rounded)


def _overflow(entry: Format, sign: float, saturate: bool) -> float:
    if saturate:
        return sign * entry.max_finite
    return sign * math.inf if entry.has_infinity else math.nan


def encode(
    x: Number,
    fmt: object,
    rounding: str | None = None,
    saturate: bool = False,
    *,
    mantissa_bits: int | None = None,
    source: str = "float32",
    **options: Unpack[CastOptions],
) -> int:
    """Return the code of `x` cast to a format; hf32 gives the float32 pattern, NaN the quiet one without payload.

    Arguments as in `round_value`.
    """
    entry = format_of(fmt, mantissa_bits)
    value = round_value(x, fmt, rounding, saturate, mantissa_bits=mantissa_bits, source=source, **options)
    if entry.name == "hifloat8":
        return _hifloat8_code(value)
    if entry.name == "hf32":
        entry = format_of("float32")
    sign = (math.copysign(1.0, value) < 0) << (entry.bits - 1)
    ones = (2**entry.exponent_bits - 1) << entry.mantissa_bits
    if math.isnan(value):
        return ones | (1 << (entry.mantissa_bits - 1) if entry.has_infinity else 2**entry.mantissa_bits - 1)
    if math.isinf(value):
        return sign | ones
    parts = split(value, entry)
    subnormal = parts.exponent < entry.min_exponent or value == 0
    field = 0 if subnormal else parts.exponent - entry.min_exponent + 1
    return sign | field << entry.mantissa_bits | parts.units % 2**entry.mantissa_bits


def decode(code: int, fmt: object) -> float:
    """Return the exact value of a code of format `fmt`; codes of hf32 are float32 patterns."""
    entry = format_of(fmt)
    if entry.name == "hifloat8":
        return _hifloat8_value(code)
    if entry.name == "hf32":
        entry = format_of("float32")
    sign = -1.0 if code >> (entry.bits - 1) else 1.0
    field = code >> entry.mantissa_bits & 2**entry.exponent_bits - 1
    mantissa = code % 2**entry.mantissa_bits
    if field == 2**entry.exponent_bits - 1:
        if entry.has_infinity:
            return math.nan if mantissa else sign * math.inf
        if mantissa == 2**entry.mantissa_bits - 1:
            return math.nan
    units = mantissa + (2**entry.mantissa_bits if field else 0)
    return sign * units * 2.0 ** (max(field, 1) - 1 + entry.min_exponent - entry.mantissa_bits)


# The prefixes of hifloat8, longest first: (prefix, prefix bits, exponent bits); the mantissa takes what is left of 7.
# 0000 (denormal) and 0001 (exponent 0) carry no exponent bits. asc-devkit, built-in data types, table 6 (stated).
HIFLOAT8_PREFIXES = ((0b0000, 4, None), (0b0001, 4, 0), (0b001, 3, 1), (0b01, 2, 2), (0b10, 2, 3), (0b11, 2, 4))


def hifloat8_fields(code: int) -> tuple[int, int, int | None, int, int]:
    """Return (prefix, prefix bits, exponent bits or None for denormal, exponent field, mantissa field) of a code."""
    body = code & 0x7F
    for prefix, prefix_bits, exponent_bits in HIFLOAT8_PREFIXES:
        if body >> (7 - prefix_bits) == prefix:
            mantissa_bits = 7 - prefix_bits - (exponent_bits or 0)
            field = body >> mantissa_bits & (1 << (exponent_bits or 0)) - 1
            return prefix, prefix_bits, exponent_bits, field, body & (1 << mantissa_bits) - 1
    raise AssertionError("the prefixes cover every code")


def _hifloat8_value(code: int) -> float:
    special = {0x00: 0.0, 0x80: math.nan, 0x6F: math.inf, 0xEF: -math.inf}
    if code in special:
        return special[code]
    sign = -1.0 if code & 0x80 else 1.0
    _, prefix_bits, exponent_bits, field, mantissa = hifloat8_fields(code)
    if exponent_bits is None:
        return sign * 2.0 ** (mantissa - 23)
    exponent = 0
    if exponent_bits:
        # Sign-magnitude: the top bit of the field is the exponent's sign, a 1 in its place leads the magnitude.
        top = 1 << (exponent_bits - 1)
        exponent = (field & top - 1) | top
        exponent = -exponent if field & top else exponent
    return sign * (1 + mantissa / 2 ** (7 - prefix_bits - exponent_bits)) * 2.0**exponent


def _hifloat8_code(value: float) -> int:
    if math.isnan(value):
        return 0x80
    if value == 0:
        return 0x00
    sign = 0x80 if value < 0 else 0
    if math.isinf(value):
        return sign | 0x6F
    fmt = format_of("hifloat8")
    parts = split(value, fmt)
    exponent = parts.exponent
    if exponent < -fmt.taper[-1][0]:
        return sign | exponent + 23
    exponent_bits = abs(exponent).bit_length()
    prefix, prefix_bits, _ = next(row for row in HIFLOAT8_PREFIXES if row[2] == exponent_bits)
    mantissa_bits = 7 - prefix_bits - exponent_bits
    field = 0
    if exponent:
        top = 1 << (exponent_bits - 1)
        field = abs(exponent) - top | (top if exponent < 0 else 0)
    return sign | (prefix << exponent_bits | field) << mantissa_bits | parts.units % 2**mantissa_bits

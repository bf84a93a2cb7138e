"""The page that explains a number format: its layout, range, special codes, spacing, and one value rounded in bits.

All figures come from `numerics.formats`, all rounding from the scalar truth in `numerics.reference`.
"""

from __future__ import annotations

import math
import re
from fractions import Fraction

from ascend_sim.errors import SimError
from ascend_sim.keywords import near_names
from ascend_sim.numerics import reference
from ascend_sim.numerics.formats import Format, format_of, rounding_mode

_WORDS = {
    "rint": "nearest, a tie goes to the even neighbour",
    "round": "nearest, a tie goes away from zero",
    "rnz": "nearest, a tie goes toward zero",
    "floor": "toward -infinity",
    "ceil": "toward +infinity",
    "trunc": "toward zero",
    "odd": "an inexact value takes the neighbour whose last bit is 1",
    "hybrid": "half away near 1, elsewhere the dropped bits against the tail of the source mantissa",
}


@near_names
def explain_format(
    name: object, value: str | float | None = None, *, rounding: str | None = None, mantissa_bits: int | None = None
) -> str:
    """Return a text about a format; with `value` (a decimal such as "0.1", "inf", "nan") first its rounding step by step.

    The value is rounded to float32 first, as the machine holds it, then to the format. `rounding` is a mode of the format (its
    default if None), `mantissa_bits` (11 or 10) is for hf32. Raises SimError for an unknown format or mode and for a value that
    is not a number.
    """
    fmt = format_of(name, mantissa_bits)
    rounding_mode(fmt, rounding)  # refuses a wrong one also where there is nothing to round
    bits = f"{fmt.bits}: sign 1, exponent {fmt.exponent_bits} (bias {fmt.bias}), mantissa {fmt.mantissa_bits}"
    if fmt.taper:
        bits = f"{fmt.bits}: sign 1, prefix 2-4, exponent 0-4 (sign-magnitude, no bias), mantissa 1-3"
    begin = "from " if fmt.overflows_at_threshold else "above"
    lines = [
        f"{fmt.name}  ({', '.join(fmt.aliases)})",
        f"  layout   {fmt.layout}",
        f"  bits     {bits}",
        f"  source   {fmt.source}",
        "",
        "Range",
        f"  largest finite    {_power(fmt.max_finite)}",
        f"  overflows {begin}   {_power(fmt.overflow_threshold)}  (rounding to nearest)",
        f"  smallest normal   {_power(fmt.smallest_normal)}",
        f"  smallest positive {_power(fmt.smallest)}",
        "",
        "Special codes",
        *(f"  {line}" for line in fmt.specials),
        "",
        *_spacing_table(fmt),
        "",
        f"Roundings: {', '.join(fmt.roundings)}  (default: {fmt.roundings[0]})",
    ]
    if fmt.name == "hifloat8":
        lines[4:4] = ["", *_prefix_table()]
    if value is not None:
        lines[:0] = [*_rounding_steps(fmt, value, rounding), ""]
    return "\n".join(lines) + "\n"


def _prefix_table() -> list[str]:
    rows = ["Prefixes (the exponent's first bit is its sign, an implicit 1 leads its magnitude)"]
    for prefix, bits, exponent_bits in reference.HIFLOAT8_PREFIXES:
        mantissa = 7 - bits - (exponent_bits or 0)
        text = f"{prefix:0{bits}b}"
        if exponent_bits is None:
            meaning = "denormal: 2^(M - 23), M = 1..7"
        elif exponent_bits == 0:
            meaning = "exponent 0"
        else:
            low, high = 2 ** (exponent_bits - 1), 2**exponent_bits - 1
            meaning = f"exponent +-{low}" if low == high else f"exponent +-{low} .. +-{high}"
        rows.append(f"  S {text:<4}  E {exponent_bits or 0} bits  M {mantissa} bits  {meaning}")
    return rows


def _spacing_table(fmt: Format) -> list[str]:
    """Return lines with the gap between neighbours per binade: every group of equal mantissa length in hifloat8, seven
    binades at most elsewhere.
    """
    rows = ["Spacing (the gap to the next value)"]
    if fmt.taper:
        groups: list[tuple[int, int]] = []
        for exponent in range(fmt.min_exponent, fmt.max_exponent + 1):
            if groups and fmt.mantissa_bits_at(groups[-1][0]) == fmt.mantissa_bits_at(exponent):
                groups[-1] = (groups[-1][0], exponent)
            else:
                groups.append((exponent, exponent))
        for low, high in groups:
            kept = fmt.mantissa_bits_at(low)
            gap = "2^e" if kept == 0 else f"2^(e-{kept})"
            rows.append(f"  2^{low} .. 2^{high + 1}: {gap}, relative {2.0**-kept:g}")
        return rows
    shown = sorted({e for e in (fmt.min_exponent, -6, -1, 0, 1, 6, fmt.max_exponent) if e >= fmt.min_exponent})
    rows.append(f"  0 .. 2^{fmt.min_exponent}: {_power(fmt.smallest)} (subnormal)")
    for exponent in (e for e in shown if e <= fmt.max_exponent):
        rows.append(f"  2^{exponent} .. 2^{exponent + 1}: {_power(2.0 ** fmt.quantum_exponent(exponent))}")
    return rows


def _rounding_steps(fmt: Format, value: str | float, rounding: str | None) -> list[str]:
    mode = rounding_mode(fmt, rounding)
    exact = _parse(value)
    title = f"Rounding {value} to {fmt.name} ({mode}: {_WORDS[mode]})"
    if isinstance(exact, float):
        return [title, f"  {_result_line(fmt, exact, mode)}"]
    if fmt.name == "float32":
        return [title, *_one_rounding(fmt, exact, mode, 1)]
    source = reference.round_value(exact, "float32")
    lines = [title, "  1. The machine holds it as float32 first:"]
    lines.append(f"     {_pattern(format_of('float32'), source)} = {source!r}" + ("" if source == exact else " (inexact)"))
    if not math.isfinite(source):
        return [*lines, f"  2. {_result_line(fmt, source, mode)}"]
    return [*lines, *_one_rounding(fmt, Fraction(source), mode, 2)]


def _one_rounding(fmt: Format, value: Fraction, mode: str, step: int) -> list[str]:
    if value == 0:
        return [f"  {step}. Zero is exact.", f"  {step + 1}. {_result_line(fmt, 0.0, mode)}"]
    parts = reference.split(value, fmt)
    if parts.exponent > fmt.max_exponent:
        return [
            f"  {step}. |x| = 1.xxx * 2^{parts.exponent}: beyond the last binade of {fmt.name}, {fmt.max_exponent}.",
            f"  {step + 1}. {_result_line(fmt, value, mode)}",
        ]
    kept = parts.exponent - parts.quantum_exponent
    below = f"2^{parts.quantum_exponent}"
    lines = [
        f"  {step}. |x| = 1.xxx * 2^{parts.exponent}: here {fmt.name} keeps {max(kept, 0)} bits after the point,"
        f" its values are {below} apart.",
        f"  {step + 1}. In units of {below}, kept | dropped: {parts.units:b} | {_fraction_bits(parts.remainder)}",
    ]
    low, high = (float(n * reference.power_of_two(parts.quantum_exponent)) for n in (parts.units, parts.units + 1))
    if parts.remainder:
        where = "a tie between" if parts.remainder == Fraction(1, 2) else "between"
        lines.append(f"     {where} {low!r} and {high!r}, {float(parts.remainder):.6g} of the way up")
    else:
        lines.append("     nothing is dropped: the value is exact")
    return [*lines, _decision(fmt, value, mode, parts, step + 2), f"  {step + 3}. {_result_line(fmt, value, mode)}"]


def _decision(fmt: Format, value: Fraction, mode: str, parts: reference.Split, step: int) -> str:
    rounded = abs(reference.round_value(value, fmt, mode))
    low = parts.units * reference.power_of_two(parts.quantum_exponent)
    up = not math.isfinite(rounded) or Fraction(rounded) > low
    moves = "the magnitude goes up" if up else "the magnitude stays below"
    if mode == "hybrid" and abs(parts.exponent) > fmt.taper[0][0] and parts.exponent >= fmt.min_exponent - 1:
        frac, thr = reference.hybrid_window(value, "float32")
        return f"  {step}. hybrid: frac {frac:014b} {'>=' if frac >= thr else '<'} thr {thr:014b}: {moves}"
    return f"  {step}. {mode}: {moves}" if parts.remainder else f"  {step}. Nothing to round."


def _result_line(fmt: Format, value: float | Fraction, mode: str) -> str:
    result = reference.round_value(value, fmt, mode)
    line = f"Result {_pattern(fmt, result)} = {result!r}"
    if math.isfinite(result) and value:
        error = Fraction(result) - Fraction(value)
        spacing = reference.power_of_two(reference.split(value, fmt).quantum_exponent)
        line += f", error {float(error):.4g} = {float(error / spacing):.4g} ULP"
    elif not math.isfinite(result) and not (isinstance(value, float) and not math.isfinite(value)):
        line += f" (overflow; {-fmt.max_finite if value < 0 else fmt.max_finite!r} when saturating)"
    return line


def _pattern(fmt: Format, value: float) -> str:
    """Return a value's code in the format as bits, with a blank between sign, prefix, exponent and mantissa, and in
    hexadecimal; hf32 as float32.
    """
    stored = format_of("float32") if fmt.name == "hf32" else fmt
    code = reference.encode(value, stored)
    text = f"{code:0{stored.bits}b}"
    if not fmt.taper:
        cut = 1 + stored.exponent_bits
        fields = [text[0], text[1:cut], text[cut : cut + fmt.mantissa_bits], text[cut + fmt.mantissa_bits :]]
    else:
        _, prefix_bits, exponent_bits, _, _ = reference.hifloat8_fields(code)
        cut = 1 + prefix_bits + (exponent_bits or 0)
        fields = [text[0], text[1 : 1 + prefix_bits], text[1 + prefix_bits : cut], text[cut:]]
    return f"{' '.join(field for field in fields if field)} (0x{code:0{stored.bits // 4}X})"


def _fraction_bits(remainder: Fraction) -> str:
    """Return the binary digits of a fraction below 1, at most 32 of them with "..." where it does not end there."""
    if not remainder:
        return "0"
    digits = ""
    while remainder and len(digits) < 32:
        remainder *= 2
        digits += "1" if remainder >= 1 else "0"
        remainder -= int(remainder)
    return digits + ("..." if remainder else "")


def _power(value: float) -> str:
    mantissa, exponent = math.frexp(value)
    power = f"2^{exponent - 1}" if mantissa == 0.5 else f"{2 * mantissa!r} * 2^{exponent - 1}"
    return f"{value!r} = {power}"


_LONGEST = 400
_HIGHEST_EXPONENT = 5000


def _parse(value: str | float) -> Fraction | float:
    """Return the exact number as a Fraction, or a float for an infinity, NaN and -0.

    Raises SimError for text that is not a decimal, over 400 characters long, or with an exponent above 5,000 or below -5,000.
    """
    exponent = re.search(r"[eE][-+]?([0-9]+)", str(value))
    if len(str(value)) > _LONGEST or (exponent and int(exponent[1]) > _HIGHEST_EXPONENT):
        raise SimError(f"value: at most {_LONGEST} characters and an exponent of {_HIGHEST_EXPONENT} are read")
    try:
        if isinstance(value, str) and not (value.isascii() and "_" not in value):
            raise ValueError  # Python reads 1_000 and digits of all scripts
        number = float(value)
        if not math.isfinite(number) and not _is_finite_text(value):
            return number
        exact = Fraction(value)
        return number if exact == 0 and math.copysign(1.0, number) < 0 else exact
    except (ValueError, OverflowError) as error:
        raise SimError(f"value {value!r} is not a number: write a decimal such as 0.1, inf or nan") from error


def _is_finite_text(value: str | float) -> bool:
    """Return True if `value`, which `float` accepts, is text of a finite number: not inf or nan. "1e400" counts as finite,
    though Python reads it as infinity.
    """
    return isinstance(value, str) and not value.strip().lower().lstrip("+-").startswith(("inf", "nan"))

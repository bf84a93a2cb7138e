"""Integers, scalar operands and whole numbers are rounded once: against exact rational arithmetic, one value at a time."""

from __future__ import annotations

from fractions import Fraction
from math import floor, inf

import numpy as np
import pytest

from ascend_sim.isa.scalar import bits_of_number
from ascend_sim.isa.vector.arithmetic import immediate
from ascend_sim.numerics import reference
from ascend_sim.numerics.casting import cast, decode
from ascend_sim.numerics.formats import format_of
from ascend_sim.numerics.integers import from_integers, like_float64, to_whole

FLOATS = ("float16", "bfloat16", "float32", "float8_e4m3fn", "float8_e5m2")


def exactly(value: Fraction | float, name: str, mode: str) -> float:
    """Round a value to a format in fractions: `reference.round_value`, and for float32 the modes that only integers have."""
    if name != "float32":
        return reference.round_value(value, name, mode)
    parts = reference.split(value, format_of(name))
    units = parts.units + reference.goes_up(parts, mode)
    return float((-1 if parts.negative else 1) * units * reference.power_of_two(parts.quantum_exponent))


def beside_ties(name: str, bits: int) -> list[int]:
    """Return integers of up to `bits` bits on and beside the ties of a format: a format between both may lose the last bit."""
    digits, found = format_of(name).mantissa_bits + 1, []
    for length in range(digits + 2, bits + 1):
        step = 1 << (length - digits)
        for first in (1 << (length - 1), (1 << length) - 3 * step, (1 << (length - 1)) + step):
            found += [first + step // 2 + off for off in (-1, 0, 1)]
    return found


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("mode", ["RINT", "NONE", "FLOOR", "CEIL", "TRUNC", "ROUND", None])
@pytest.mark.parametrize("dtype", ["int16", "int32", "int64", "uint64"])
def test_integers_are_rounded_once(name: str, mode: str | None, dtype: str) -> None:
    limits = np.iinfo(dtype)
    numbers = [0, 1, limits.max, limits.min, *beside_ties(name, int(limits.max).bit_length())]
    numbers = [sign * one for one in numbers for sign in (1, -1) if limits.min <= sign * one <= limits.max]
    found = from_integers(np.array(numbers, dtype), name, mode).astype(np.float64)
    word = {"NONE": "rint", None: "rint"}.get(mode, str(mode).lower())
    assert found.tolist() == [exactly(Fraction(one), name, word) for one in numbers]


@pytest.mark.parametrize("name", [*FLOATS, "hifloat8"])
def test_a_cast_of_64_bits_rounds_once(name: str) -> None:
    numbers = [one for one in beside_ties(name, 64) if one < 1 << 64]
    mode = "round" if name == "hifloat8" else "rint"
    found = cast(np.array(numbers, np.uint64), name, mode)
    assert decode(found.view(f"u{found.itemsize}"), name).tolist() == pytest.approx(
        [reference.round_value(Fraction(one), name, mode) for one in numbers], rel=0, abs=0, nan_ok=True
    )


def operands(name: str) -> list[Fraction]:
    """Numbers on and beside the ties of a format, down to its subnormals: by less than a float32, or a float64, can hold."""
    fmt, found = format_of(name), []
    for exponent in (0, 3, fmt.max_exponent, fmt.min_exponent, fmt.min_exponent - 1):
        step = Fraction(2) ** fmt.quantum_exponent(exponent)
        for units in (4, 5, 7):
            tie = (units + Fraction(1, 2)) * step
            found += [sign * (tie + off * step) for sign in (1, -1) for off in (0, *FAR)]
    return found


FAR = [sign * Fraction(1, 2**bits) for sign in (1, -1) for bits in (20, 28, 40, 70)]


@pytest.mark.parametrize("name", FLOATS)
def test_a_scalar_operand_is_rounded_once(name: str) -> None:
    """It is given as a fraction, and as the nearest Python float, whose own value counts then."""
    for exact in operands(name):
        for given in (exact, float(exact)):
            wanted = reference.encode(given, name)
            held = immediate(name, given, "adds")
            assert int(np.asarray(held).view(f"u{held.itemsize}")) == wanted, given
            assert bits_of_number(given, name) % (1 << 8 * held.itemsize) == wanted, given


def test_a_float_like_a_number() -> None:
    """Exact where it can be; else it lies on the side of the number, with an odd last bit."""
    for exact in (0, 5, -(2**60), Fraction(3, 8), 0.1, -0.0):
        assert Fraction(like_float64(exact)) == Fraction(exact)
    for number in (2**60 + 1, 2**60 - 1, -(2**64) + 3, Fraction(1, 3), -Fraction(2**80 + 1, 7), 10**300 + 1):
        found = like_float64(number)
        assert Fraction(found) != number and int(float.hex(found).split(".")[1].split("p")[0][-1], 16) % 2
        assert abs(Fraction(found) - number) < abs(Fraction(found)) / 2**52
    assert (like_float64(10**400), like_float64(-(10**400))) == (inf, -inf)


def test_ties_of_whole_numbers_go_away_and_nothing_else_does() -> None:
    """The sum of a float32 and a half need not be a float32."""
    numbers = np.array([0.5, 1.5, -2.5, np.nextafter(np.float32(0.5), np.float32(0)), 2**23 + 1, 2**22 + 1.5], np.float32)
    wanted = [floor(abs(Fraction(float(one))) + Fraction(1, 2)) * (1 if one > 0 else -1) for one in numbers]
    assert to_whole(numbers, "ROUND").tolist() == wanted

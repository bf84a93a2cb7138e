"""float16, bfloat16 and fp8 against numpy and ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from ascend_sim.numerics import cast, decode, encode, numpy_dtype, round_to

pytestmark = pytest.mark.fast

TARGETS = ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]
HALVES = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
PATTERNS = np.random.default_rng(3).integers(0, 1 << 32, 300_000, dtype=np.uint32).view(np.float32)


def plain(x, dtype):
    with np.errstate(all="ignore"):
        return x.astype(dtype)


def assert_same(got, expected):
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(plain(got, np.float32), plain(expected, np.float32))
    signs = np.signbit(plain(got, np.float32)) == np.signbit(plain(expected, np.float32))
    assert (signs | np.isnan(plain(got, np.float32))).all()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("x", [HALVES, PATTERNS, plain(HALVES, ml_dtypes.bfloat16)], ids=["fp16", "fp32", "bf16"])
def test_round_to_nearest_even(name, x):
    assert_same(cast(x, name), plain(plain(x, np.float32), numpy_dtype(name)))


@pytest.mark.parametrize("name", TARGETS)
def test_decode_every_code(name):
    dtype = numpy_dtype(name)
    codes = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    np.testing.assert_array_equal(decode(codes, name), plain(codes.view(dtype), np.float32))


@pytest.mark.parametrize("name", TARGETS)
def test_codes_survive_a_round_trip(name):
    dtype = numpy_dtype(name)
    codes = np.arange(2 ** (8 * dtype.itemsize)).astype(f"u{dtype.itemsize}")
    values = decode(codes, name)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(encode(values[number], name), codes[number])


def test_e4m3_between_448_and_464():
    x = np.float32([448, 448.5, 464, 464.25, np.inf, -460])
    np.testing.assert_array_equal(round_to(x, "e4m3"), [448, 448, 448, np.nan, np.nan, -448])
    given = round_to(x, "e4m3", e4m3_overflow="given")
    np.testing.assert_array_equal(given, [448, np.nan, np.nan, np.nan, np.nan, np.nan])


def test_float64_rounds_once():
    """Just above a tie, and the excess is below a float32: through float32 it would go to the even neighbour."""
    x = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-4 + 2.0**-40])
    assert cast(x[0], "bfloat16") == 1 + 2.0**-7
    assert cast(x[1], "float16") == 1 + 2.0**-10
    assert cast(x[2], "e4m3") == 1.125
    below = np.array([1 + 2.0**-4 - 2.0**-40])
    assert decode(encode(below, "hifloat8"), "hifloat8") == 1.0
    assert round_to(1 + 2.0**-12 + 2.0**-40, "hf32") == 1 + 2.0**-11

"""The format table against numpy, ml_dtypes and the published figures of hifloat8."""

import math

import ml_dtypes
import numpy as np
import pytest

from ascend_sim.errors import SimError
from ascend_sim.numerics import FORMATS, canonical, decode, format_of, half_ulp, numpy_dtype, ulp
from ascend_sim.numerics.reference import round_value

pytestmark = pytest.mark.fast

IEEE_LIKE = ["float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"]


@pytest.mark.parametrize("name", IEEE_LIKE)
def test_range_is_that_of_finfo(name):
    fmt, info = FORMATS[name], ml_dtypes.finfo(numpy_dtype(name))
    assert fmt.max_finite == float(info.max)
    assert fmt.smallest_normal == float(info.smallest_normal)
    assert fmt.smallest == float(info.smallest_subnormal)
    assert fmt.mantissa_bits == info.nmant
    assert fmt.bits == info.bits


@pytest.mark.parametrize("name", FORMATS)
def test_the_tie_above_the_largest_value(name):
    """Exact fractions say where it goes: in e4m3fn to the even 448, elsewhere beyond the largest value."""
    fmt = FORMATS[name]
    assert fmt.overflows_at_threshold != math.isfinite(round_value(fmt.overflow_threshold, name))
    assert not math.isfinite(round_value(math.nextafter(fmt.overflow_threshold, math.inf), name))


def test_hifloat8_range():
    fmt = FORMATS["hifloat8"]
    assert (fmt.max_finite, fmt.overflow_threshold) == (32768.0, 40960.0)
    assert (fmt.smallest, fmt.smallest_normal) == (2.0**-22, 2.0**-15)


def test_hf32_has_two_widths():
    assert format_of("hf32").mantissa_bits == 11
    narrow = format_of("hf32", 10)
    assert (narrow.mantissa_bits, narrow.bits, narrow.max_finite) == (10, 19, (2 - 2.0**-10) * 2.0**127)
    for wrong in (("hf32", 12), ("float16", 11)):
        with pytest.raises(SimError, match="mantissa_bits"):
            format_of(*wrong)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("half", "float16"),
        ("FP16", "float16"),
        ("float", "float32"),
        ("bf16", "bfloat16"),
        (np.float16, "float16"),
        (np.dtype(np.float32), "float32"),
        (ml_dtypes.bfloat16, "bfloat16"),
        (np.dtype(ml_dtypes.float8_e4m3fn), "float8_e4m3fn"),
        ("e5m2", "float8_e5m2"),
        ("hif8", "hifloat8"),
        ("HFLOAT32", "hf32"),
    ],
)
def test_canonical_names(given, name):
    assert canonical(given) == name


@pytest.mark.parametrize("given", ["float64", np.int8, "fp4", None, object()])
def test_unknown_formats_are_refused_with_the_known_ones(given):
    with pytest.raises(SimError, match="known: float32, float16"):
        canonical(given)


@pytest.mark.parametrize("name", [*IEEE_LIKE, "hifloat8"])
def test_ulp_is_the_gap_to_the_next_value(name):
    """Oracle: the sorted list of all positive finite values (float32: a random sample and its neighbours)."""
    if name == "float32":
        values = np.abs(np.random.default_rng(1).integers(0, 0x7F800000, 3000, dtype=np.uint32).view(np.float32))
        values = np.concatenate([values, np.float32([0, 2.0**-149, 2.0**-126, 1])])
        gaps = np.nextafter(values, np.float32(np.inf)).astype(np.float64) - values
        keep = np.isfinite(gaps)
        np.testing.assert_array_equal(ulp(values[keep], name), gaps[keep])
        return
    bits = FORMATS[name].bits
    values = decode(np.arange(2 ** (bits - 1)), name)
    values = np.sort(values[np.isfinite(values)].astype(np.float64))
    gaps = np.diff(values)
    np.testing.assert_array_equal(ulp(values[:-1], name), gaps)
    np.testing.assert_array_equal(ulp(-(values[:-1] + gaps / 2), name), gaps)
    assert ulp(values[-1], name) == 2 * (FORMATS[name].overflow_threshold - values[-1])


def test_ulp_outside_the_numbers():
    np.testing.assert_array_equal(ulp([np.inf, 1e9, np.nan], "float16"), [32.0, 32.0, np.nan])
    assert ulp(1.0, "hf32") == 2.0**-11 and ulp(1.0, "hf32", 10) == 2.0**-10
    assert ulp(np.zeros((2, 0, 3)), "float16").shape == (2, 0, 3)
    assert half_ulp(1.0, "float16") == 2.0**-11

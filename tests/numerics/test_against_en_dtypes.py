"""hifloat8 against en_dtypes 0.0.4 (round half away, no saturation): another's implementation."""

import numpy as np
import pytest

from ascend_sim.numerics import decode, encode

hifloat8 = pytest.importorskip("en_dtypes", reason="pip install en_dtypes==0.0.4").hifloat8


def theirs(x):
    with np.errstate(invalid="ignore"):
        return x.astype(hifloat8).view(np.uint8)


def test_all_codes():
    expected = np.arange(256, dtype=np.uint8).view(hifloat8).astype(np.float32)
    np.testing.assert_array_equal(decode(np.arange(256), "hifloat8"), expected)


def test_every_float16():
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    with np.errstate(invalid="ignore"):
        floats = halves.astype(np.float32)
    np.testing.assert_array_equal(encode(halves, "hifloat8"), theirs(floats))


def test_random_float32_patterns():
    x = np.random.default_rng(2).integers(0, 1 << 32, 1_000_000, dtype=np.uint32).view(np.float32)
    np.testing.assert_array_equal(encode(x, "hifloat8"), theirs(x))


def test_every_exponent_and_upper_mantissa_with_its_neighbours():
    upper = np.arange(1 << 13, dtype=np.uint32) << 19
    x = np.concatenate([upper, upper + 1, upper - 1]).view(np.float32)
    np.testing.assert_array_equal(encode(x, "hifloat8"), theirs(x))

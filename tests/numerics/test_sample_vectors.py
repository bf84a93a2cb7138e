"""Sample vectors of hifloat8 and hf32 (tests/data), for the array functions and for the scalar truth."""

import json
import math
from functools import cache

import numpy as np
import pytest

from ascend_sim.numerics import decode, encode, reference, round_to
from tests.support.places import DATA

pytestmark = pytest.mark.fast


@cache
def load(name):
    table = json.loads((DATA / name).read_text())
    columns = dict(zip(table["columns"], zip(*table["cases"], strict=True), strict=True))
    return columns, np.array(columns["fp32_bits"], dtype=np.uint32).view(np.float32)


def scalar(x):
    return math.nan if np.isnan(x) else float(x)


def test_hifloat8_table():
    values = json.loads((DATA / "hifloat8_decode.json").read_text())["values"]
    expected = np.array([float.fromhex(text) for text in values])
    assert expected.shape == (256,)
    np.testing.assert_array_equal(decode(np.arange(256), "hifloat8"), expected)
    np.testing.assert_array_equal([reference.decode(code, "hifloat8") for code in range(256)], expected)


@pytest.mark.parametrize("saturate", [False, True])
@pytest.mark.parametrize(("rounding", "column"), [("round", "ta"), ("hybrid", "hybrid")])
def test_hifloat8_encode(rounding, column, saturate):
    columns, x = load("hifloat8_encode_cases.json")
    expected = columns[f"{column}_{'sat' if saturate else 'nosat'}"]
    np.testing.assert_array_equal(encode(x, "hifloat8", rounding=rounding, saturate=saturate), expected)
    assert [reference.encode(scalar(v), "hifloat8", rounding, saturate) for v in x] == list(expected)


def test_hifloat8_golden_script_reading_of_hybrid_overflow():
    """With the second caveat's option, 40960 .. 49152 is infinite and nothing else changes."""
    columns, x = load("hifloat8_encode_cases.json")
    literal = np.array(columns["hybrid_nosat"])
    changed = encode(x, "hifloat8", "hybrid", hybrid_overflow="inf") != literal
    magnitude = np.abs(x)
    np.testing.assert_array_equal(changed, (magnitude >= 40960) & (magnitude < 49152) & (literal & 0x7F == 0x6E))
    assert changed.sum() == 2


@pytest.mark.parametrize("mantissa_bits", [11, 10])
@pytest.mark.parametrize("rounding", ["rne", "rna", "rnz", "rtz"])
def test_hf32(rounding, mantissa_bits):
    columns, x = load("hf32_cases.json")
    expected = columns[f"{rounding}{mantissa_bits}"]
    got = round_to(x, "hf32", mantissa_bits=mantissa_bits, rounding=rounding)
    for value, one, bits in zip(x, got, expected, strict=True):
        truth = reference.round_value(scalar(value), "hf32", rounding, mantissa_bits=mantissa_bits)
        if bits is None:
            assert np.isnan(one) and math.isnan(truth)
        else:
            assert int(one.view(np.uint32)) == bits == reference.encode(truth, "float32")


@pytest.mark.parametrize("mantissa_bits", [11, 10])
def test_hf32_ties_away_is_the_vendor_golden_arithmetic(mantissa_bits):
    columns, x = load("hf32_cases.json")
    golden = np.array(columns[f"vendor_golden{mantissa_bits}"], dtype=np.uint32)
    got = round_to(x, "hf32", mantissa_bits=mantissa_bits, rounding="rna").view(np.uint32)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(got[number], golden[number])

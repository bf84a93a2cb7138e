"""Sample vectors of hifloat8 and hf32 (tests/data), for the array functions and for the scalar truth."""

import json
from functools import cache

import numpy as np
import pytest

from ascend_sim.numerics import encode, round_to
from tests.support.places import DATA

pytestmark = pytest.mark.fast


@cache
def load(name):
    table = json.loads((DATA / name).read_text())
    columns = dict(zip(table["columns"], zip(*table["cases"], strict=True), strict=True))
    return columns, np.array(columns["fp32_bits"], dtype=np.uint32).view(np.float32)


def test_hifloat8_golden_script_reading_of_hybrid_overflow():
    """With the second caveat's option, 40960 .. 49152 is infinite and nothing else changes."""
    columns, x = load("hifloat8_encode_cases.json")
    literal = np.array(columns["hybrid_nosat"])
    changed = encode(x, "hifloat8", "hybrid", hybrid_overflow="inf") != literal
    magnitude = np.abs(x)
    np.testing.assert_array_equal(changed, (magnitude >= 40960) & (magnitude < 49152) & (literal & 0x7F == 0x6E))
    assert changed.sum() == 2


@pytest.mark.parametrize("mantissa_bits", [11, 10])
def test_hf32_ties_away_is_the_vendor_golden_arithmetic(mantissa_bits):
    columns, x = load("hf32_cases.json")
    golden = np.array(columns[f"vendor_golden{mantissa_bits}"], dtype=np.uint32)
    got = round_to(x, "hf32", mantissa_bits=mantissa_bits, rounding="rna").view(np.uint32)
    number = ~np.isnan(x)
    np.testing.assert_array_equal(got[number], golden[number])

"""hf32: float32 with 11 bits of mantissa."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest

from ascend_sim.numerics import FORMATS, cast, reference, round_hf32, round_to
from tests.support.places import DATA

pytestmark = pytest.mark.fast


def test_hf32_in_place():
    x = np.random.default_rng(6).standard_normal(1000).astype(np.float32)
    for mode in FORMATS["hf32"].roundings:
        expected = round_hf32(x, rounding=mode)
        y = x.copy()
        assert round_hf32(y, rounding=mode, out=y) is y
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("bits", [11, 10])
def test_hf32_rounds_ties_to_even_unless_told_otherwise(bits):
    step = 2.0**-bits
    ties = np.float32([1 + step / 2, 1 + 1.5 * step, -1 - step / 2, -1 - 1.5 * step])
    even = [1, 1 + 2 * step, -1, -1 - 2 * step]
    assert cast(ties, "hf32", mantissa_bits=bits).tolist() == even
    assert round_hf32(ties, bits).tolist() == even


@cache
def load(name):
    table = json.loads((DATA / name).read_text())
    columns = dict(zip(table["columns"], zip(*table["cases"], strict=True), strict=True))
    return columns, np.array(columns["fp32_bits"], dtype=np.uint32).view(np.float32)


def scalar(x):
    return math.nan if np.isnan(x) else float(x)


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

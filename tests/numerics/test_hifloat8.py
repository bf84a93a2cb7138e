"""hifloat8 against the vendor's sample vectors."""

from __future__ import annotations

import json
import math
from functools import cache

import numpy as np
import pytest

from ascend_sim.numerics import decode, encode, reference
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

"""Which dtype the cube computes in, against the vendor's table."""

from __future__ import annotations

import itertools

import pytest

from ascend_sim.numerics.cube_math import promote

pytestmark = pytest.mark.fast


def test_promotion_is_the_vendors_table():
    table = {"float32": 0, "float16": 1, "bfloat16": 1}
    for left, right in itertools.product(table, repeat=2):
        assert promote(left, right) == (left if left == right else "float32")
    assert promote("float16", "bfloat16", "float16") == "float32"
    assert promote("hifloat8", "hifloat8") == "hifloat8"
    assert promote("hifloat8", "float32") is None and promote("float16", "hifloat8", "float16") is None

"""grad_input of dav-3510: calls of each template of the procedure, with values against torch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.ops.ranked_calls import RankedCall
from tests.support.sampling import part_of_cases

CHIP = "ascend950pr_9589"
ONE, NONE, DEEP = (1, 1), (0, 0), (1, 1, 1)
CASES = {
    # a task is two whole rows of dx, fewer pixels than the block's five fractals
    "small shape": (RankedCall((13, 37), (3, 3), ONE, ONE, ONE, c_in=20, c_out=24), {"baseM": 80, "singleCoreM": 74}),
    "inner product": (RankedCall((80, 3, 7), (3, 3, 3), DEEP, DEEP, DEEP, c_in=20, c_out=24), {"singleCoreM": 32}),
    # weights stay in L1 while a core walks over several blocks of pixels, the last one shorter, and over depths
    "full load": (
        RankedCall((2, 27, 40), (1, 3, 3), DEEP, (0, 1, 1), DEEP, n=32, c_in=16, c_out=8),
        {"baseM": 512, "singleCoreM": 1080, "singleCoreDin": 2, "enableFullLoad": 1},
    ),
    "full load of one tap": (
        RankedCall((24, 25), ONE, ONE, NONE, ONE, n=82, c_in=50, c_out=18),
        {"baseM": 512, "singleCoreM": 600, "enableFullLoad": 1},
    ),
}
DTYPES = ("float16", "bfloat16", "float32")
QUICK = [pytest.param(name, DTYPES[i % 3]) for i, name in enumerate(CASES)]
REST = [pytest.param(name, dtype, marks=pytest.mark.slow) for name in CASES for dtype in DTYPES]


@part_of_cases(2)
@pytest.mark.parametrize(("name", "dtype"), QUICK + REST)
def test_values_of_each_template(name: str, dtype: str) -> None:
    call, expected = CASES[name]
    got = replace(call, dtype=dtype).check(CHIP)
    assert {field: got.get(field) for field in expected} == expected


@pytest.mark.parametrize("allowed", [0, pytest.param(1, marks=pytest.mark.slow)], ids=["float32", "hf32"])
def test_values_of_segments_of_odd_blocks(allowed: int) -> None:
    """40 output channels at a time, five blocks of 8: not a whole number of fractals."""
    call = RankedCall((80, 4, 7), (2, 7, 7), DEEP, (0, 3, 3), DEEP, c_out=44, dtype="float32")
    assert call.check(CHIP, cube_math_type=allowed)["kSegment"] == 40

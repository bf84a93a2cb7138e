"""Tiling data made on the host."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ascend_c.matmul_tilings import layer_norm_tiling, matmul_tiling, rms_norm_tiling, softmax_tiling
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError

CHIP = load_chip("ascend910b3")
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "int8": 1}


@given(shape=st.tuples(*[st.integers(1, 5000)] * 3), dtype=st.sampled_from(sorted(SIZES)), cores=st.integers(1, 24))
def test_a_matmul_tiling_fits_and_covers_the_product(shape: tuple[int, int, int], dtype: str, cores: int) -> None:
    t, size = matmul_tiling(CHIP, shape, dtype, cores), SIZES[dtype]
    m, n, k = shape
    assert ceil(m / t["singleCoreM"]) * ceil(n / t["singleCoreN"]) == t["usedCoreNum"] <= cores
    assert t["singleCoreK"] == k and not [one for one in ("baseM", "baseN", "baseK") if t[one] % 16 or t[one] * size % 32]
    assert max(t["baseM"], t["baseN"]) * t["baseK"] * size * 2 <= 65_536
    assert t["baseM"] * t["baseN"] * 4 <= 131_072
    assert (t["baseM"] * t["depthA1"] + t["baseN"] * t["depthB1"]) * t["baseK"] * size <= 524_288


def test_four_cores_share_a_square() -> None:
    t = matmul_tiling(CHIP, (512, 512, 256), cores=4, bias=True)
    assert (t["singleCoreM"], t["singleCoreN"], t["usedCoreNum"], t["isBias"]) == (256, 256, 4, 1)


def test_tilings_of_rows_have_their_shapes() -> None:
    assert softmax_tiling(4, 64) == {"srcM": 4, "srcK": 64, "srcSize": 256}
    assert layer_norm_tiling(1, 8, 64, 60)["originalHLength"] == 60
    assert rms_norm_tiling(2, 8, 64) == {"bLength": 2, "sLength": 8, "hLength": 64, "originalHLength": 64}


def test_a_shape_below_one_is_refused() -> None:
    with pytest.raises(SimError, match="K = 0; allowed is 1 or more"):
        matmul_tiling(CHIP, (16, 16, 0))
    with pytest.raises(SimError, match="rows = 0"):
        softmax_tiling(0, 8)

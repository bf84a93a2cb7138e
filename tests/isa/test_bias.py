"""Numbers on their way to the bias table."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.isa.base import Cost
from ascend_sim.isa.bias import LoadBias
from tests.support.isa.refusals import refusal
from tests.support.isa.workbench import CHIP, Workbench

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
def test_float16_is_widened_and_others_stay(dtype: str) -> None:
    bench, values = Workbench(), np.array([3, -2, 65504, 0] * 8).astype(dtype)
    bench.put("L1", 96, values)
    bench.do(LoadBias(32, dtype), 128, 96)
    wide = np.dtype(np.float32) if dtype == "float16" else values.dtype
    assert bench.get("BT", 128, wide, 32).tolist() == values.tolist()


def test_the_way_takes_the_bytes_that_leave_l1() -> None:
    """Cube page: 32 bytes a cycle, 20 cycles until it is through."""
    assert [LoadBias(64, dtype).cost(CHIP) for dtype in ("float16", "float32")] == [Cost(0, 0, 4, 20), Cost(0, 0, 8, 20)]


def test_what_no_word_says_is_refused() -> None:
    for chip in ("ascend910a", "ascend310p3"):
        assert "L1->BT" in refusal(chip, lambda k: k.load_bias(0, 0, 32, "float32"))
    assert "dtype bfloat16" in refusal("ascend910b3", lambda k: k.load_bias(0, 0, 32, "bfloat16"))
    assert "len_burst counts 64-byte units" in refusal("ascend910b3", lambda k: k.load_bias(0, 0, 16, "float16"))
    assert "len_burst" in refusal("ascend950pr_9589", lambda k: k.load_bias(0, 0, 32768 * 16, "float32"))

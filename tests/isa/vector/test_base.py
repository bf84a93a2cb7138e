"""Rows, repeats and masks of the vector instructions."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import Mask, VectorCopy
from ascend_sim.isa.vector.arithmetic import VectorUnary
from ascend_sim.isa.vector.base import Elementwise
from tests.support.isa.workbench import CHIP


@given(st.integers(1, (1 << 64) - 1), st.integers(0, 64))
def test_runs_of_a_mask_are_its_bits(bits: int, count: int) -> None:
    runs = Mask(bits, 64).runs(count)
    assert sorted(i for first, past in runs for i in range(first, past)) == [i for i in range(count) if bits >> i & 1]
    assert all(later[0] > earlier[1] for earlier, later in pairwise(runs))


@pytest.mark.parametrize("bits", [0, -1, 1 << 64])
def test_a_mask_selects_from_a_repeat(bits: int) -> None:
    with pytest.raises(SimError, match="does not select from a repeat of 64 elements: it must be from 1 to 0xffffffffffffffff"):
        Mask(bits, 64)


@pytest.mark.parametrize("bits", ["0x5", (5, 0), 5.0, None], ids=repr)
def test_a_mask_is_a_whole_number(bits: Any) -> None:
    with pytest.raises(SimError, match=r"mask .*; a whole number whose bits select elements is allowed"):
        Mask(bits, 64)


pytestmark = pytest.mark.fast


def test_rows_may_touch_and_not_overlap() -> None:
    assert Elementwise("add", "float16", 64, 2, 128, 128).pipe(CHIP) == "V"
    with pytest.raises(SimError, match="64 bytes apart, over each other"):
        Elementwise("add", "float16", 64, 2, 64, 128).pipe(CHIP)


@pytest.mark.parametrize(
    ("count", "dst_stride", "blocks", "said"),
    [
        (64, 512, (64, 0), ""),
        (64, 32, (64, 32), ""),
        (64, 256, (64, 32), "blocks of dst 64 bytes and 2 rows 256 bytes apart would be written over each other"),
        (64, 256, (0, 32), "would be written over each other"),
        (64, 512, (48, 32), "multiple of 32 bytes"),
        (72, 1024, (64, 32), "rows of 288 bytes with a block stride"),
        (12, 512, (64, 32), "rows of 48 bytes with a block stride"),
    ],
)
def test_blocks_that_do_not_adjoin(count: int, dst_stride: int, blocks: tuple[int, int], said: str) -> None:
    one = VectorUnary("abs", "float32", count, 2, dst_stride, 256, None, blocks)
    if said:
        with pytest.raises(SimError, match=said):
            one.pipe(CHIP)
    else:
        assert one.pipe(CHIP) == "V"


@pytest.mark.parametrize("blocks", [255, 256])
@pytest.mark.parametrize("operand", ["dst", "src"])
def test_rows_farther_apart_than_a_repeat_stride_holds_are_an_instruction_each(blocks: int, operand: str) -> None:
    """8 bits of blocks; the 950 loops over rows by itself."""
    near, far = 256, 32 * blocks
    strides = (far, near) if operand == "dst" else (near, far)
    for chip in (CHIP, load_chip("ascend910a"), load_chip("ascend950pr_9589")):
        close = VectorUnary("abs", "float16", 128, 5, near, near).cost(chip)
        apart = VectorUnary("abs", "float16", 128, 5, *strides).cost(chip)
        more = 4 if blocks == 256 and chip.vector.row_overhead is None else 0
        assert apart.work == close.work + more * close.head_stream
    copy = VectorCopy("float16", 128, 2, 32 * 256, 32 * 256)
    assert copy.cost(CHIP) == VectorCopy("float16", 128, 2, near, near).cost(CHIP)

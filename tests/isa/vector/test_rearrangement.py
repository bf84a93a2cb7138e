"""Instructions that turn what UB holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.vector import Transpose, TransposeBlocks
from ascend_sim.isa.vector.rearrangement import Interleave
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "uint16": 2}


def words(bench: Workbench, dtype: str) -> np.ndarray[Any, Any]:
    """The whole of UB as bit patterns of the format's width: what moves is bits."""
    view: np.ndarray[Any, Any] = bench.memory.buffers["UB"].view(f"u{SIZES[dtype]}")
    return view


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZES)), st.integers(1, 20), st.integers(1, 20), st.integers(0, 4), st.integers(0, 3))
def test_transpose(dtype: str, rows: int, columns: int, gap: int, dst_gap: int) -> None:
    size = SIZES[dtype]
    src_stride, dst_stride = (columns + gap) * size, (-(-rows * size // 32) + dst_gap) * 32
    bench = Workbench(rows)
    before = words(bench, dtype).copy()
    wanted = before.copy()
    for c in range(columns):
        for r in range(-(-rows * size // 32) * 32 // size):  # whole blocks
            wanted[(4096 + c * dst_stride) // size + r] = before[(r * src_stride) // size + c] if r < rows else 0
    bench.do(Transpose(dtype, rows, columns, dst_stride, src_stride), 4096, 0)
    np.testing.assert_array_equal(words(bench, dtype), wanted)


pytestmark = pytest.mark.fast


@sampled(30, 120)
@given(
    st.booleans(), st.sampled_from([2, 4]), st.integers(1, 16), st.integers(1, 9), st.integers(0, 7), st.integers(0, 3),
    st.integers(0, 15), st.integers(1, 3), st.integers(0, 40), st.integers(0, 64),
)  # fmt: skip
def test_transpose_blocks(
    to_c0: bool,
    itemsize: int,
    channels: int,
    pixels: int,
    row_gap: int,
    block_gap: int,
    first: int,
    repeats: int,
    plain_gap: int,
    step_gap: int,
) -> None:
    c0 = 32 // itemsize
    first %= c0
    channels = min(channels, c0 - first)
    on_blocks = row_gap % 2 == 0
    row_stride = -(-pixels * itemsize // 32) * 32 if on_blocks else pixels * itemsize + row_gap * itemsize
    plain_gap = plain_gap % 8 * c0 if on_blocks else plain_gap
    filled = on_blocks or row_stride % 32 == 0
    block_stride = 32 + 32 * block_gap
    plain_step, block_step = row_stride * channels + plain_gap * itemsize, block_stride * pixels + step_gap * itemsize
    filled &= repeats == 1 or plain_step % 32 == 0
    bench = Workbench(4)
    plain, blocks = 0, 4096
    before = bench.memory.buffers["UB"].view(f"u{itemsize}").copy()
    wanted = before.copy()
    for r in range(repeats):
        for p in range(pixels):
            block = (blocks + r * block_step + p * block_stride) // itemsize
            if to_c0:
                wanted[block : block + c0] = 0
            for c in range(channels):
                row = (plain + r * plain_step + c * row_stride) // itemsize + p
                if to_c0:
                    wanted[block + first + c] = before[row]
                else:
                    wanted[row] = before[block + first + c]
        for c in range(0 if to_c0 or not filled else channels):  # the rest of the last block of a row
            row = (plain + r * plain_step + c * row_stride) // itemsize
            wanted[row + pixels : row + -(-pixels * itemsize // 32) * c0] = 0
    source, target = (plain, blocks) if to_c0 else (blocks, plain)
    bench.do(
        TransposeBlocks(to_c0, itemsize, channels, pixels, row_stride, block_stride, first, repeats, plain_step, block_step),
        target,
        source,
    )
    np.testing.assert_array_equal(bench.memory.buffers["UB"].view(f"u{itemsize}"), wanted)


def test_more_channels_than_a_block_holds_are_refused() -> None:
    with pytest.raises(SimError, match=r"transpose_blocks: rows 4 to 20 given; allowed are rows 0 to 16 of a block"):
        TransposeBlocks(True, 2, 16, 4, 32, first=4).pipe(CHIP)


@pytest.mark.parametrize(("pixels", "stride", "whole"), [(17, 32, 64), (9, 18, 0), (16, 32, 0), (20, 36, 40)])
def test_plain_rows_over_each_other_are_refused(pixels: int, stride: int, whole: int) -> None:
    """Rows on blocks of 32 bytes need whole ones; others, which are copied before, their pixels."""
    turn = TransposeBlocks(False, 2, 16, pixels, stride)
    if not whole:
        assert turn.pipe(CHIP) == "V"
        return
    wanted = rf"row_stride {stride} given; at least {whole} bytes are allowed, which {pixels} pixels take .* TransDataTo5HD"
    with pytest.raises(SimError, match=wanted):
        turn.pipe(CHIP)
    assert TransposeBlocks(True, 2, 16, pixels, stride).pipe(CHIP) == "V"  # rows that are read may lie over each other


def work(instruction: Instruction) -> int:
    return instruction.cost(CHIP).work


def test_a_transpose_turns_whole_squares() -> None:
    assert work(Transpose("float16", 1, 32, 32, 64)) == work(Transpose("float16", 16, 32, 32, 64))


def test_a_turn_of_blocks_takes_whole_squares_of_each_repeat() -> None:
    """16 pixels of 16 rows are one instruction, so 17 cost as much as 32, and every repeat begins anew."""
    assert work(TransposeBlocks(True, 2, 16, 17, 64)) == work(TransposeBlocks(True, 2, 3, 32, 64))
    assert work(TransposeBlocks(False, 2, 16, 1, 32, 32, 0, 6, 512, 32)) == work(TransposeBlocks(False, 2, 16, 96, 192))


def test_an_interleave_begins_with_the_first_source() -> None:
    bench = Workbench()
    bench.put("UB", 0, np.arange(16, dtype=np.uint16))
    bench.put("UB", 64, np.arange(100, 116, dtype=np.uint16))
    bench.do(Interleave(2, 16), 256, 0, 64)
    found = bench.get("UB", 256, np.uint16, 32)
    assert found[:4].tolist() == [0, 100, 1, 101] and found[-2:].tolist() == [15, 115]


def test_rows_that_are_not_aligned_are_copied_before_they_turn() -> None:
    """Four rows of 16 elements are one copy and one turn of 512 bytes."""
    (head, copied), (turn_head, turned) = (CHIP.vector.cycles(one, "float16", 512) for one in ("copy", "transpose"))
    aligned, apart = (TransposeBlocks(True, 2, 4, 16, stride).cost(CHIP) for stride in (64, 48))
    assert (apart.head_first, apart.work) == (head + turn_head, copied + turned)
    assert (aligned.head_first, aligned.work) == (turn_head, turned)
    assert TransposeBlocks(True, 2, 16, 16, 48).cost(CHIP) == apart  # 16 rows of 32 bytes are still one
    twice = TransposeBlocks(True, 2, 16, 17, 48).cost(CHIP)  # and of 34 bytes two, of which the second pays its head as work
    assert (twice.head_first, twice.work) == (head + turn_head, 2 * (copied + turned) + head + turn_head)


def test_a_turn_takes_the_channels_of_one_block() -> None:
    assert TransposeBlocks(True, 2, 12, 16, 32, first=4).pipe(CHIP) == "V"
    with pytest.raises(SimError, match=r"rows 5 to 17 given; allowed are rows 0 to 16 of a block$"):
        TransposeBlocks(True, 2, 12, 16, 32, first=5).pipe(CHIP)


@pytest.mark.parametrize("size", [0, 3, 16])
def test_interleave_has_items_of_the_vendors_sizes(size: int) -> None:
    assert [Interleave(itemsize, 64).itemsize for itemsize in (1, 2, 4, 8)] == [1, 2, 4, 8]
    with pytest.raises(SimError, match=f"interleave: items of {size} bytes; it has 1, 2, 4 or 8"):
        Interleave(size, 64)

"""Copies, broadcasts, gather and transpose against Python lists."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import BroadcastColumn, Duplicate, Gather, GatherBlocks, Mask, Transpose, TransposeHalves, VectorCopy
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

TYPES: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int32": np.int32, "uint16": np.uint16,
}  # fmt: skip
SIZES = {"float16": 2, "bfloat16": 2, "float32": 4, "int32": 4, "uint16": 2}


def words(bench: Workbench, dtype: str) -> np.ndarray[Any, Any]:
    """The whole of UB as bit patterns of the format's width: what moves is bits."""
    view: np.ndarray[Any, Any] = bench.memory.buffers["UB"].view(f"u{SIZES[dtype]}")
    return view


@sampled(25, 100)
@given(
    st.sampled_from(sorted(SIZES)), st.integers(1, 150), st.integers(1, 5), st.integers(0, 4), st.integers(0, 4),
    st.booleans(), st.integers(0, 9), st.none() | st.integers(1, (1 << 64) - 1),
)  # fmt: skip
def test_copy(dtype: str, count: int, rows: int, gap: int, src_gap: int, same_row: bool, seed: int, bits: int | None) -> None:
    size = SIZES[dtype]
    period = 256 // size
    dst_stride, src_stride = (count + gap) * size, 0 if same_row else (count + src_gap) * size
    bench = Workbench(seed)
    before = words(bench, dtype).copy()
    wanted = before.copy()
    for r in range(rows):
        for i in range(count):
            if bits is None or bits >> (i % period) & 1:
                wanted[(4096 + r * dst_stride) // size + i] = before[(64 + r * src_stride) // size + i]
    mask = None if bits is None else Mask(bits, period)
    bench.do(VectorCopy(dtype, count, rows, dst_stride, src_stride, mask), 4096, 64)
    np.testing.assert_array_equal(words(bench, dtype), wanted)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZES)), st.integers(1, 40), st.integers(1, 9), st.integers(0, 4), st.integers(0, 9))
def test_broadcast_of_a_column(dtype: str, count: int, rows: int, gap: int, seed: int) -> None:
    size = SIZES[dtype]
    stride = (count + gap) * size
    bench = Workbench(seed)
    before = words(bench, dtype).copy()
    wanted = before.copy()
    for r in range(rows):
        for i in range(count):
            wanted[(4096 + r * stride) // size + i] = before[64 // size + r]
    bench.do(BroadcastColumn(dtype, count, rows, stride), 4096, 64)
    np.testing.assert_array_equal(words(bench, dtype), wanted)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SIZES)), st.integers(1, 100), st.integers(1, 100), st.integers(0, 99))
def test_gather(dtype: str, count: int, source_count: int, seed: int) -> None:
    size = SIZES[dtype]
    index = np.random.default_rng(seed).integers(0, source_count, count)
    bench = Workbench(seed)
    bench.put("UB", 2048, (index * size).astype(np.uint32))
    source = words(bench, dtype)[:source_count].copy()
    bench.do(Gather(dtype, count, source_count), 4096, 0, 2048)
    assert words(bench, dtype)[4096 // size :][:count].tolist() == [int(source[i]) for i in index]


def test_a_gather_leaves_out_what_its_mask_does_not_select() -> None:
    """Offsets of elements that it leaves out count nothing, whatever they are."""
    bench = Workbench(3)
    before = words(bench, "float16")[:64].copy()
    bench.put("UB", 2048, np.uint32([0, 9999, 4, 6, 9999, 2]))
    held = words(bench, "float16")[2048:2054].copy()
    one = Gather("float16", 6, 64, Mask(0b101101, 128))
    bench.do(one, 4096, 0, 2048)
    wanted = [before[0], held[1], before[2], before[3], held[4], before[1]]
    assert words(bench, "float16")[2048:2054].tolist() == [int(value) for value in wanted]
    assert sum(region.total for region in one.writes()) == 8
    assert sum(region.total for region in one.reads() if region.operand == "src1") == 16


@pytest.mark.parametrize(("block", "stride"), [(32, 256), (64, 512), (96, 32)])
def test_gather_of_blocks(block: int, stride: int) -> None:
    """Block after block, from offsets that continue from repeat to repeat."""
    bench = Workbench(5)
    offsets = np.random.default_rng(0).integers(0, 24, 16) * 32
    bench.put("UB", 2048, offsets.astype(np.uint32))
    ub = bench.memory.buffers["UB"]
    wanted = ub.copy()
    for number, offset in enumerate(offsets):
        at = 4096 + number // 8 * stride + number % 8 * block
        wanted[at : at + 32] = ub[offset : offset + 32]
    bench.do(GatherBlocks("uint16", 2, 768, block, stride), 4096, 0, 2048)
    np.testing.assert_array_equal(ub, wanted)
    for wrong in (16, 768):
        bench.put("UB", 2048, np.uint32([0, wrong]))
        with pytest.raises(SimError, match=f"gather_blocks: offset 1 is {wrong} bytes; src0 has 768 bytes in blocks of 32"):
            bench.do(GatherBlocks("uint16", 1, 768), 4096, 0, 2048)


def test_the_formats_and_the_cost_of_a_gather_of_blocks() -> None:
    assert GatherBlocks("uint32", 3, 768).cost(CHIP).work == 24
    with pytest.raises(SimError, match="has no gather_blocks of float16; it has uint16, uint32"):
        GatherBlocks("float16", 1, 768).pipe(CHIP)
    with pytest.raises(SimError, match="would be written over each other"):
        GatherBlocks("uint16", 2, 768, 32, 128).pipe(CHIP)


@pytest.mark.parametrize(
    ("offset", "line"), [(40, "offset 2 is 40 bytes; src0 has 10 float32 elements of 4 bytes"), (6, "offset 2 is 6 bytes")]
)
def test_a_gather_out_of_its_source_is_found_when_it_runs(offset: int, line: str) -> None:
    bench = Workbench()
    bench.put("UB", 2048, np.uint32([0, 36, offset, 99]))
    with pytest.raises(SimError, match=f"gather: {line}"):
        bench.do(Gather("float32", 4, 10), 4096, 0, 2048)


@pytest.mark.parametrize("dtype", sorted(TYPES))
def test_duplicate_in_rows_and_under_a_mask(dtype: str) -> None:
    size = SIZES[dtype]
    bench = Workbench()
    before = words(bench, dtype).copy()
    bench.do(Duplicate(dtype, 40, 3, 2, 128, Mask(0b101, 256 // size)), 64)
    wanted = before.copy()
    pattern = np.array([3], TYPES[dtype]).view(f"u{size}")[0]
    for row in range(2):
        for i in (0, 2):
            wanted[(64 + row * 128) // size + i] = pattern
    np.testing.assert_array_equal(words(bench, dtype), wanted)


@pytest.mark.parametrize("value", ["x", None, 1j, [1.0]])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_a_value_that_is_no_number(dtype: str, value: Any) -> None:
    with pytest.raises(SimError, match=r"duplicate: the scalar is .*; a number is allowed"):
        Duplicate(dtype, 8, value).pipe(CHIP)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_an_integer_format_has_no_infinity(value: float) -> None:
    with pytest.raises(SimError, match="does not fit int32; allowed are whole numbers from"):
        Duplicate("int32", 8, value).pipe(CHIP)


def test_a_value_that_an_integer_format_lacks() -> None:
    with pytest.raises(SimError, match=r"duplicate: scalar 1\.5 does not fit int32"):
        Duplicate("int32", 8, 1.5).pipe(CHIP)


@pytest.mark.parametrize(
    "instruction",
    [
        Duplicate("float32", 16, 0, 2, 32), VectorCopy("float32", 16, 2, 32), BroadcastColumn("float32", 16, 2, 32),
        Transpose("float32", 16, 2, 32, 64),
    ],
    ids=lambda instruction: instruction.name,
)  # fmt: skip
def test_rows_that_would_lie_over_each_other(instruction: Any) -> None:
    with pytest.raises(SimError, match=f"{instruction.name}: rows of 16 float32 elements would be written 32 bytes apart"):
        instruction.pipe(CHIP)


@pytest.mark.parametrize(
    ("chip", "instruction", "line"),
    [
        ("ascend910a", BroadcastColumn("float16", 16, 2, 32), "has no broadcast; it has "),
        ("ascend910a", Gather("float16", 16, 16), "has no gather; it has "),
        ("ascend310p3", Gather("bfloat16", 16, 16), "has no gather of bfloat16; it has "),
        ("ascend910b3", Transpose("bfloat16", 16, 16, 32, 32), "has no transpose of bfloat16; it has "),
    ],
)
def test_what_a_chip_lacks(chip: str, instruction: Any, line: str) -> None:
    with pytest.raises(SimError) as refusal:
        instruction.pipe(load_chip(chip))
    assert line in str(refusal.value) and "asc-devkit" in str(refusal.value)


def test_costs_on_paper() -> None:
    """A cycle a repeat; gather 5 elements a cycle; Brcb's bytes are those of the blocks that it writes."""
    assert VectorCopy("float32", 128).cost(CHIP).work == 2
    assert VectorCopy("float32", 40, 5, 256, 0).cost(CHIP).work == 5
    assert Gather("float32", 64, 64).cost(CHIP).work == 13
    assert BroadcastColumn("float32", 8, 16, 32).cost(CHIP).work == 2  # 16 blocks of 32 bytes
    assert BroadcastColumn("float32", 64, 16, 256).cost(CHIP).work == 2 + 23 + 16  # and a copy of 16 rows
    assert Transpose("float16", 16, 16, 32, 32).cost(CHIP).work == 2
    assert Transpose("float32", 17, 16, 128, 64).cost(CHIP).work == 2 * 4 * 2
    assert TransposeHalves("int8", 32, 32).cost(CHIP).work == 2  # as of the 16 blocks of 16-bit elements

"""Compare and select against Python's comparisons, one element and one bit at a time."""

from __future__ import annotations

import operator
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import Compare, Select
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "int32": np.int32}
MODES = {name: getattr(operator, name) for name in ("lt", "gt", "ge", "eq", "ne", "le")}


@sampled(20, 80)
@given(
    st.sampled_from(sorted(MODES)), st.sampled_from(sorted(TYPES)), st.integers(1, 4), st.none() | st.integers(-2, 2),
    st.integers(0, 99),
)  # fmt: skip
def test_compare(mode: str, dtype: str, repeats: int, scalar: int | None, seed: int) -> None:
    """The lowest bit of a byte belongs to the first element; NaN compares as in Python."""
    held = np.dtype(TYPES[dtype])
    count = repeats * 256 // held.itemsize
    rng = np.random.default_rng(seed)
    left, right = (rng.integers(-2, 3, count).astype(held) for _ in range(2))
    if dtype != "int32":
        left[:3] = [np.nan, -0.0, np.inf]
        right[:2] = [np.nan, 0.0]
    bench = Workbench()
    bench.put("UB", 0, left)
    bench.put("UB", 2048, right)
    instruction = Compare(mode, dtype, count, scalar)
    bench.do(instruction, 4096, 0, 2048)
    got = bench.get("UB", 4096, np.uint8, count // 8)
    other = right.tolist() if scalar is None else [scalar] * count
    wanted = [MODES[mode](a, b) for a, b in zip(left.tolist(), other, strict=True)]
    assert [bool(got[i // 8] >> (i % 8) & 1) for i in range(count)] == wanted


@sampled(20, 80)
@given(
    st.sampled_from(sorted(TYPES)),
    st.integers(1, 200),
    st.sampled_from(["mask first", "tensor first", "scalar"]),
    st.integers(0, 99),
)
def test_select(dtype: str, count: int, order: str, seed: int) -> None:
    held = np.dtype(TYPES[dtype])
    rng = np.random.default_rng(seed)
    first, second = (rng.integers(-99, 99, count).astype(held) for _ in range(2))
    bits = rng.integers(0, 256, -(-count // 8), dtype=np.uint8)
    mask, other = (2048, 4096) if order == "mask first" else (4096, 2048)
    bench = Workbench()
    bench.put("UB", 0, first)
    bench.put("UB", mask, bits)
    if order == "scalar":
        bench.do(Select(dtype, count, scalar=-7), 6144, 0, mask)
        second = np.full(count, -7, held)
    else:
        bench.put("UB", other, second)
        bench.do(Select(dtype, count, mask - 2048, other - 2048), 6144, 0, 2048)
    wanted = [a if bits[i // 8] >> (i % 8) & 1 else b for i, (a, b) in enumerate(zip(first, second, strict=True))]
    np.testing.assert_array_equal(bench.get("UB", 6144, held, count), np.array(wanted, held))


@pytest.mark.parametrize(
    ("chip", "instruction", "line"),
    [
        ("ascend910b3", Compare("lt", "int32", 64), "compare: ascend910b3 (dav-2201) has no compare of int32; it has "),
        ("ascend910b3", Select("int32", 64), "has no select of int32; it has float16, float32 ("),
        ("ascend910a", Compare("lt", "float32", 64, 1.0), "compare: ascend910a (dav-1001) has no compares; it has "),
        ("ascend910a", Select("float32", 64), "select: ascend910a (dav-1001) has no select; it has "),
    ],
)  # fmt: skip
def test_what_a_chip_lacks(chip: str, instruction: Any, line: str) -> None:
    with pytest.raises(SimError) as refusal:
        instruction.pipe(load_chip(chip))
    assert line in str(refusal.value) and "asc-devkit" in str(refusal.value)


def test_the_910b_compares_int32_for_equality_alone() -> None:
    assert Compare("eq", "int32", 64).pipe(CHIP) == "V"
    assert Compare("eq", "int32", 64, 3).pipe(CHIP) == "V"
    assert Compare("lt", "int32", 64).pipe(load_chip("ascend950pr_9589")) == "V"


def test_elements_that_fill_no_repeat_are_refused() -> None:
    with pytest.raises(SimError, match=r"compare: 65 float32 elements are 260 bytes, not whole repeats of 256 .*Compare page"):
        Compare("lt", "float32", 65).pipe(CHIP)
    with pytest.raises(SimError, match=r"compare: 8 float32 elements are 32 bytes, not whole repeats of 256"):
        Compare("lt", "float32", 8, rows=4, src_stride=32, src1_stride=32).pipe(CHIP)


def test_a_mode_that_there_is_not() -> None:
    with pytest.raises(SimError, match="no mode 'above'; there are lt, gt, ge, eq, ne, le"):
        Compare("above", "float32", 64)


def test_operands_start_at_blocks() -> None:
    with pytest.raises(SimError, match=r"select: the mask or the second tensor does not start at a multiple of 32 bytes"):
        Select("float32", 64, 8, 0).pipe(CHIP)

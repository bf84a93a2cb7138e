"""Row and block reductions against exact sums, one addition at a time."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import Mask, ReduceBlocks, ReduceRows, ReduceWithIndex
from ascend_sim.isa.vector.named.pair_reduce_sum import PairReduceSum
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.numerics import reference
from tests.support.isa.workbench import CHIP, Workbench
from tests.support.sampling import sampled

TYPES = {"float16": np.float16, "float32": np.float32, "int32": np.int32}


@sampled(20, 80)
@given(
    st.sampled_from(["sum", "max", "min"]), st.sampled_from(sorted(TYPES)), st.integers(1, 7), st.integers(1, 140),
    st.integers(0, 9), st.integers(0, 99),
)  # fmt: skip
def test_rows_of_small_integers(operation: str, dtype: str, rows: int, columns: int, gap: int, seed: int) -> None:
    """Whose sums are exact in every order and every format."""
    held = np.dtype(TYPES[dtype])
    stride = -(-(columns + gap) * held.itemsize // 32) * 32
    bench = Workbench()
    whole = np.random.default_rng(seed).integers(-7, 8, (rows, columns)).astype(held)
    for row in range(rows):
        bench.put("UB", row * stride, whole[row])
    bench.do(ReduceRows(rows, columns, stride, operation, dtype), 7168, 0)
    wanted = [{"sum": sum, "max": max, "min": min}[operation](line) for line in whole.astype(int).tolist()]
    assert bench.get("UB", 7168, held, rows).astype(int).tolist() == wanted


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(["sum", "max", "min"]), st.sampled_from(["float16", "float32"]), st.integers(1, 200), st.integers(0, 9))
def test_blocks(operation: str, dtype: str, count: int, seed: int) -> None:
    held = np.dtype(TYPES[dtype])
    block = 32 // held.itemsize
    values = np.random.default_rng(seed).integers(-9, 10, count).astype(held)
    bench = Workbench()
    bench.put("UB", 64, values)
    bench.do(ReduceBlocks(operation, dtype, count), 4096, 64)
    parts = [values[i : i + block].astype(int).tolist() for i in range(0, count, block)]
    wanted = [{"sum": sum, "max": max, "min": min}[operation](part) for part in parts]
    assert bench.get("UB", 4096, held, len(parts)).astype(int).tolist() == wanted


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 130), st.integers(0, 99))
def test_a_sum_of_halves_rounds_at_every_node_of_the_tree(columns: int, seed: int) -> None:
    """Neighbours first (asc-devkit, ReduceDataBlock page), every partial sum a float16."""
    values = (np.random.default_rng(seed).standard_normal(columns) * 8).astype(np.float16)
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(ReduceRows(1, columns, 512, "sum", "float16"), 1024, 0)
    level = [Fraction(float(value)) for value in values]
    while len(level) > 1:
        pairs = [
            Fraction(reference.round_value(float(a + b), "float16", "rint"))
            for a, b in zip(level[::2], level[1::2], strict=False)
        ]
        level = pairs + level[2 * len(pairs) :]
    assert Fraction(float(bench.get("UB", 1024, np.float16, 1)[0])) == level[0]


def test_integers_wrap_around_and_nan_is_handed_on() -> None:
    bench = Workbench()
    bench.put("UB", 0, np.int32([1 << 30, 1 << 30, 1 << 30, 5]))
    bench.do(ReduceRows(1, 4, 16, "sum", "int32"), 1024, 0)
    assert bench.get("UB", 1024, np.int32, 1)[0] == 3 * (1 << 30) + 5 - (1 << 32)
    bench.put("UB", 0, np.float32([1, np.nan, 3]))
    for operation in ("sum", "max", "min"):
        bench.do(ReduceRows(1, 3, 16, operation), 1024, 0)
        assert np.isnan(bench.get("UB", 1024, np.float32, 1)[0])


@pytest.mark.parametrize("kind", [ReduceRows, partial(ReduceWithIndex, operation="max")])
@pytest.mark.parametrize("stride", [4, 16, 48, 2**20 + 4])
def test_rows_begin_at_whole_blocks(kind: Callable[..., ReduceRows], stride: int) -> None:
    with pytest.raises(
        SimError, match=rf"rows lie {stride} bytes apart; a repeat begins at a whole block of 32 bytes .*srcRepStride"
    ):
        kind(2, 1, stride)
    assert kind(1, 1, stride).row_stride == stride  # one row has no next one


def test_a_sum_of_float32_against_float64() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((4, 296)).astype(np.float32)
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(ReduceRows(4, 296, 1184), 7168, 0)
    exact = values.astype(np.float64).sum(axis=1)
    bound = 9 * 2.0**-24 * np.abs(values.astype(np.float64)).sum(axis=1)  # nine levels of additions
    assert (np.abs(bench.get("UB", 7168, np.float32, 4) - exact) <= bound).all()


def test_rows_of_float32_are_summed_in_float32() -> None:
    """A number that a float32 cannot hold beside its neighbour is lost, though it would come back in a wider sum."""
    bench = Workbench()
    bench.put("UB", 0, np.float32([2.0**30, 1.0, -(2.0**30)]))
    bench.do(ReduceRows(1, 3, 12), 1024, 0)
    assert bench.get("UB", 1024, np.float32, 1)[0] == 0.0


@pytest.mark.parametrize("make", [lambda o: ReduceRows(1, 8, 32, o), lambda o: ReduceBlocks(o, "float32", 8)])
def test_a_reduction_that_there_is_not(make: Any) -> None:
    with pytest.raises(SimError, match="no reduction 'product' here; there are sum, max, min"):
        make("product")


@pytest.mark.parametrize(
    ("chip", "instruction", "line"),
    [
        ("ascend910b3", ReduceRows(1, 8, 32, "sum", "int32"), "has no reduce_sum of int32; it has float16, float32 ("),
        ("ascend910a", ReduceRows(1, 8, 32, "max"), "has no reduce_max of float32; it has float16 ("),
        ("ascend950pr_9589", ReduceBlocks("sum", "int32", 8), "has no block_reduce_sum of int32; it has float16, float32 ("),
    ],
)
def test_formats_that_a_chip_lacks(chip: str, instruction: Any, line: str) -> None:
    with pytest.raises(SimError) as refusal:
        instruction.pipe(load_chip(chip))
    assert line in str(refusal.value) and "asc-devkit" in str(refusal.value)


def test_costs_on_paper() -> None:
    """Seven cycles a repeat; blocks of fp32 one (Vector page; msKPP agrees)."""
    assert ReduceRows(3, 65, 512, "max").cost(CHIP).work == 3 * 2 * 7
    assert ReduceRows(3, 128, 256, "min", "float16").cost(CHIP).work == 3 * 7
    assert ReduceBlocks("max", "float32", 256).cost(CHIP).work == 4
    assert ReduceBlocks("sum", "float16", 256).cost(CHIP).work == 2 * 7


@pytest.mark.parametrize("order", ["value index", "index value", "index"])
def test_an_extreme_with_its_index(order: str) -> None:
    bench, rng = Workbench(), np.random.default_rng(1)
    rows = rng.standard_normal((3, 64)).astype(np.float32)
    bench.put("UB", 1024, rows)
    bench.do(ReduceWithIndex(3, 64, 256, "max", "float32", order), 0, 1024)
    each = len(order.split())
    found = bench.get("UB", 0, np.uint32, 3 * each).reshape(3, each)
    for number, name in enumerate(order.split()):
        wanted = rows.argmax(1) if name == "index" else rows.max(1).view(np.uint32)
        assert (found[:, number] == wanted).all()


def test_the_index_of_an_extreme_counts_what_a_mask_leaves_out() -> None:
    bench = Workbench()
    bench.put("UB", 1024, np.array([9, 1, 7, 0, 8, 5], np.float16))
    bench.do(ReduceWithIndex(1, 6, 12, "min", "float16", "value index", Mask(0b110101, 128)), 0, 1024)
    assert bench.get("UB", 0, np.float16, 1)[0] == 5 and bench.get("UB", 2, np.uint16, 1)[0] == 5


def test_sums_of_pairs() -> None:
    bench = Workbench()
    values = np.arange(1, 41, dtype=np.float16)
    bench.put("UB", 1024, values)
    bench.do(PairReduceSum("float16", 20), 0, 1024)
    assert (bench.get("UB", 0, np.float16, 20) == values[::2] + values[1::2]).all()


@pytest.mark.parametrize(
    ("instruction", "unit"),
    [
        (ReduceRows(2, 64, 256), 4),
        (ReduceRows(2, 64, 256, "max", "float16"), 2),
        (ReduceWithIndex(1, 64, 256, "max"), 8),
        (ReduceBlocks("sum", "float16", 128), 16),
        (ReduceBlocks("sum", "float32", 64), 32),
    ],
)
def test_results_begin_where_the_unit_can_write_them(instruction: Any, unit: int) -> None:
    """asc-devkit, ReduceRepeat and ReduceDataBlock."""
    table = InstructionTable(load_chip("ascend910b3"))
    table.add((type(instruction), *vars(instruction).values()))
    assert table.limits()[0, 0, 2] == unit


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ReduceWithIndex(1, 8, 32, "sum"), "operation 'sum'; allowed are max and min"),
        (lambda: ReduceWithIndex(1, 8, 32, "max", "float32", "place"), "order 'place'; allowed are value index"),
    ],
)
def test_reductions_that_do_not_exist(make: Any, said: str) -> None:
    with pytest.raises(SimError, match=said):
        make()

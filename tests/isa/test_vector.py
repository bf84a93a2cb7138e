"""Vector instructions against plain loops, one element at a time."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.isa.vector import Duplicate, ReduceRows, VectorBinary, VectorCast
from tests.support.isa.workbench import CHIP, Workbench

pytestmark = pytest.mark.fast

OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "max": lambda a, b: a if a > b else b,
}  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(sorted(OPERATIONS)), st.sampled_from(["float16", "float32"]), st.integers(1, 90), st.integers(0, 99),
    st.sampled_from([(0, 1024, 2048), (0, 0, 1024), (0, 1024, 0), (64, 64, 64)]),
)  # fmt: skip
def test_binary(operation: str, dtype: str, count: int, seed: int, places: tuple[int, int, int]) -> None:
    """Also in place."""
    rng = np.random.default_rng(seed)
    bench = Workbench()
    left, right, dst = places
    for place in (left, right):
        bench.put("UB", place, (rng.standard_normal(count) * 8).astype(dtype))
    a, b = bench.get("UB", left, dtype, count), bench.get("UB", right, dtype, count)
    wanted = [OPERATIONS[operation](x, y) for x, y in zip(a, b, strict=True)]  # numpy scalars round once per operation
    bench.do(VectorBinary(operation, dtype, count), dst, left, right)
    np.testing.assert_array_equal(bench.get("UB", dst, dtype, count), np.array(wanted, dtype))


TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}


@pytest.mark.parametrize(
    ("source", "target"), [("float32", "float16"), ("float32", "bfloat16"), ("float16", "float32"), ("bfloat16", "float32")]
)
def test_cast_to_nearest(source: str, target: str) -> None:
    bench = Workbench()
    values = np.linspace(-70000, 70000, 301).astype(np.float32)
    values[:6] = [0.0, -0.0, np.inf, -np.inf, 1 + 2.0**-11, 1 + 3 * 2.0**-11]
    with np.errstate(over="ignore"):
        stored = values.astype(TYPES[source])
        wanted = stored.astype(np.float32).astype(TYPES[target])
    bench.put("UB", 0, stored)
    bench.do(VectorCast(source, target, len(values), CHIP.vector.cast_mode(source, target)), 4096, 0)
    got = bench.get("UB", 4096, TYPES[target], len(values))
    np.testing.assert_array_equal(got.view(np.uint8), wanted.view(np.uint8))


@pytest.mark.parametrize("value", [0.0, 1.5, -np.inf])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_duplicate(dtype: str, value: float) -> None:
    bench = Workbench()
    bench.do(Duplicate(dtype, 33, value), 64)
    assert bench.get("UB", 64, TYPES[dtype], 33).astype(np.float32).tolist() == [value] * 33


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 9), st.integers(1, 100), st.integers(0, 9), st.integers(0, 99))
def test_reduce_rows(rows: int, columns: int, gap: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    bench = Workbench()
    stride = -(-(columns + gap) * 4 // 32) * 32
    whole = rng.integers(-1000, 1000, (rows, columns)).astype(np.float32)
    for row in range(rows):
        bench.put("UB", row * stride, whole[row])
    bench.do(ReduceRows(rows, columns, stride), 7168, 0)
    assert bench.get("UB", 7168, np.float32, rows).tolist() == [sum(line) for line in whole.tolist()]


def test_reduce_rows_rounds_like_a_tree() -> None:
    """64 numbers of which most are below half an ulp of the first: one after the other they would vanish."""
    bench = Workbench()
    values = np.full(64, 2.0**-24, np.float32)
    values[0] = 1.0
    bench.put("UB", 0, values)
    bench.do(ReduceRows(1, 64, 256), 1024, 0)
    got = float(bench.get("UB", 1024, np.float32, 1)[0])
    assert abs(got - float(values.sum(dtype=np.float64))) < 2**-21
    assert got > 1.0


def test_costs_on_paper() -> None:
    """A head of 23, a cycle per repeat of 256 bytes, 16 more for a broken repeat (Vector page, pto-isa)."""
    assert VectorBinary("add", "float16", 256).cost(CHIP).work == 2
    assert VectorBinary("add", "float32", 100).cost(CHIP).work == 2 + 16
    assert ReduceRows(3, 65, 512).cost(CHIP).work == 3 * 2 * 7
    assert VectorCast("float32", "float16", 64, "RINT").cost(CHIP).work == 1
    assert {VectorBinary("mul", "float16", 128).cost(CHIP).head_first} == {23}

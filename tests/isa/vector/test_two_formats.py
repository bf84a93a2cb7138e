"""Arithmetic between two formats, element by element, and what a chip lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import Mask, VectorBinaryCast, VectorMulAddWide
from tests.support.isa.workbench import CHIP, Workbench

DST, SRC0, SRC1 = 0, 2048, 4096
PAIRS = [
    ("add_relu", "float16", "int8"),
    ("sub_relu", "int16", "int8"),
    ("add_relu", "float32", "float16"),
    ("mul", "float16", "uint8"),
]


def sources(bench: Workbench, dtype: str, count: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(1)
    found = tuple((rng.standard_normal(count) * 12).astype(dtype) for _ in range(2))
    for at, values in zip((SRC0, SRC1), found, strict=True):
        bench.put("UB", at, values)
    return found


@pytest.mark.parametrize(("operation", "source", "target"), PAIRS)
@pytest.mark.parametrize("bits", [None, 0x5A5A])
def test_a_result_is_rounded_to_its_format_and_cast(operation: str, source: str, target: str, bits: int | None) -> None:
    """Rows of 40 elements; integers take the nearest of their range, ties to even."""
    bench, count, rows = Workbench(), 40, 3
    step, apart = np.dtype(source).itemsize * 48, np.dtype(target).itemsize * 64
    left, right = sources(bench, source, 48 * rows)
    before = bench.get("UB", DST, np.dtype(target), 64 * rows).copy()
    mask = None if bits is None else Mask(bits, 256 // np.dtype(source).itemsize)
    bench.do(VectorBinaryCast(operation, source, target, count, rows, apart, step, mask, (), step), DST, SRC0, SRC1)
    got = bench.get("UB", DST, np.dtype(target), 64 * rows)
    for row in range(rows):
        for i in range(64):
            if i >= count or (bits is not None and not bits >> i & 1):
                assert got[64 * row + i].tobytes() == before[64 * row + i].tobytes()
                continue
            x, y = left[48 * row + i], right[48 * row + i]
            value = x * y if operation == "mul" else max(x + y if operation == "add_relu" else x - y, np.dtype(source).type(0))
            if "int" in target:
                limits = np.iinfo(target)
                assert got[64 * row + i] == min(max(round(float(value)), limits.min), limits.max)
            else:
                assert got[64 * row + i] == np.dtype(target).type(value)


@pytest.mark.parametrize("scalar", [None, -2.5])
def test_a_sum_of_float32_onto_a_product_of_float16(scalar: float | None) -> None:
    bench = Workbench()
    left, right = sources(bench, "float16", 100)
    held = np.random.default_rng(2).standard_normal(100).astype(np.float32)
    bench.put("UB", DST, held)
    bench.do(VectorMulAddWide(100, scalar), DST, SRC0, SRC1)
    for x, y, z, got in zip(left, right, held, bench.get("UB", DST, np.float32, 100), strict=True):
        assert got == np.float32(float(x) * float(y if scalar is None else scalar) + float(z))


def test_what_it_reads_and_costs() -> None:
    one = VectorBinaryCast("mul", "float16", "int8", 256)
    assert [region.row_bytes for region in (*one.reads(), *one.writes())] == [512, 512, 256]
    assert one.cost(CHIP).work == 2  # two repeats of 128
    summed, scaled = VectorMulAddWide(128), VectorMulAddWide(128, 2.0)
    assert [len(each.reads()) for each in (summed, scaled)] == [3, 2]
    assert (summed.cost(CHIP).work, scaled.cost(CHIP).work) == (4, 2)  # two repeats of 64


def test_what_there_is_not() -> None:
    with pytest.raises(SimError, match="no operation 'div' here; there are add_relu, sub_relu, mul"):
        VectorBinaryCast("div", "float16", "int8", 64)
    with pytest.raises(SimError, match="has no mul_cast of float32; it has float16"):
        VectorBinaryCast("mul", "float32", "float16", 64).pipe(CHIP)
    with pytest.raises(SimError, match="has no axpy_wide"):
        VectorMulAddWide(64, 1.0).pipe(load_chip("ascend950pr_9589"))
    with pytest.raises(SimError, match="over each other"):
        VectorMulAddWide(64, None, 2, 128, 128).pipe(CHIP)

"""Casts to and from integers, and casts of rows that lie apart, against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.vector import VectorCast
from tests.support.isa.workbench import CHIP, Workbench

TYPES: dict[str, Any] = {
    "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "hifloat8": np.uint8,
    **{name: np.dtype(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
}  # fmt: skip
CHIPS = ("ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589")
MANTISSA = {"float16": 11, "float32": 24}
PAIRS = sorted(
    {(pair, mode) for name in CHIPS for pair, modes in load_chip(name).vector.casts.items() for mode in modes if "int" in pair}
)
TO_WHOLE = {
    "RINT": round, "FLOOR": math.floor, "CEIL": math.ceil, "TRUNC": math.trunc, "NONE": round,
    "ROUND": lambda x: int(math.copysign(math.floor(abs(x) + Fraction(1, 2)), x)),
}  # fmt: skip


@pytest.mark.parametrize(("pair", "mode"), PAIRS)
def test_every_mode_of_every_pair_with_integers(pair: str, mode: str) -> None:
    source, target = pair.split("->")
    rng = np.random.default_rng(2)
    if "int" in source:
        limits = np.iinfo(TYPES[source])
        values = rng.integers(limits.min, limits.max, 200, endpoint=True).astype(TYPES[source])
        values[:4] = [limits.min, limits.max, max(limits.min, -1), 0]
        values[4:100] >>= limits.bits // 2  # some fit into every format
        if source == "int64":  # beside a tie of float32 that float64 does not tell from it
            tie = (1 << 60) + (1 << 36)
            values[100:106] = [tie - 1, tie, tie + 1, -tie - 1, -tie, 1 - tie]
    else:
        wide = np.concatenate(
            [rng.standard_normal(150) * 50, np.arange(-10, 10) / 2, [4e9, -4e9, 7e4, -7e4, 0.4999, 1e19, -1e19]]
        )
        with np.errstate(over="ignore"):
            values = wide.astype(np.float32).astype(TYPES[source])
        values = values[np.isfinite(values.astype(np.float32))]
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(VectorCast(source, target, len(values), mode), 4096, 0)
    got = bench.get("UB", 4096, TYPES[target], len(values))
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        if "int" in target:
            low, high = np.iinfo(TYPES[target]).min, np.iinfo(TYPES[target]).max
            assert result == min(max(TO_WHOLE[mode](Fraction(value)), low), high), value
        else:
            step = 2 ** max(value.bit_length() - MANTISSA[target], 0)
            nearest = TO_WHOLE[mode](Fraction(value, step)) * step
            beyond = target == "float16" and abs(nearest) > 65504
            assert result == (math.copysign(math.inf, nearest) if beyond else nearest), value


@pytest.mark.parametrize("mode", ["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"])
def test_float32_becomes_whole_in_float32(mode: str) -> None:
    values = np.float32([0.5, 1.5, -0.5, -2.5, 2.49999, -7.75, 8388607.5, 3e38, np.inf, -np.inf, np.nan, -0.25])
    bench = Workbench()
    bench.put("UB", 0, values)
    bench.do(VectorCast("float32", "float32", len(values), mode), 4096, 0)
    got = bench.get("UB", 4096, np.float32, len(values))
    for value, result in zip(values.tolist(), got.tolist(), strict=True):
        if math.isfinite(value):
            assert result == TO_WHOLE[mode](Fraction(value)), value
        else:
            assert result == value or (math.isnan(result) and math.isnan(value))


def test_what_is_no_number_becomes_zero_and_infinity_the_limit() -> None:
    bench = Workbench()
    bench.put("UB", 0, np.float32([np.nan, np.inf, -np.inf]))
    bench.do(VectorCast("float32", "int32", 3, "RINT"), 64, 0)
    assert bench.get("UB", 64, np.int32, 3).tolist() == [0, 2**31 - 1, -(2**31)]


def test_int32_is_scaled_on_its_way_to_float16() -> None:
    """The product is rounded once, from the exact number; a scale of 1 is none."""
    values = np.int32([0, 1, -3, 2049, 1 << 20, (1 << 24) + 1, -(1 << 31), 2**31 - 1])
    for scale in (0.0999755859375, -0.25, 2.0**-20):
        bench = Workbench()
        bench.put("UB", 0, values)
        one = VectorCast("int32", "float16", len(values), "NONE", scale=scale)
        assert one.parameters()["scale"] == scale
        bench.do(one, 4096, 0)
        with np.errstate(over="ignore"):
            wanted = (values.astype(np.float64) * scale).astype(np.float16)
        np.testing.assert_array_equal(bench.get("UB", 4096, np.float16, len(values)), wanted)
    assert "scale" not in VectorCast("int32", "float16", 8, "NONE").parameters()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 60), st.integers(1, 5), st.integers(0, 4), st.integers(0, 4))
def test_rows_that_lie_apart(count: int, rows: int, gap: int, src_gap: int) -> None:
    bench = Workbench()
    values = np.random.default_rng(1).standard_normal((rows, count + src_gap)).astype(np.float32)
    bench.put("UB", 0, values)
    before = bench.memory.buffers["UB"].copy()
    bench.do(VectorCast("float32", "float16", count, "RINT", rows, (count + gap) * 2, (count + src_gap) * 4), 4096, 0)
    wanted = before.view(np.float16).copy()
    for row in range(rows):
        start = 2048 + row * (count + gap)
        wanted[start : start + count] = [np.float16(value) for value in values[row, :count]]
    np.testing.assert_array_equal(bench.memory.buffers["UB"].view(np.uint16), wanted.view(np.uint16))


def test_the_910_has_no_way_from_float32_to_int32() -> None:
    with pytest.raises(SimError, match="does not cast float32 to int32; it casts float32->float16, "):
        VectorCast("float32", "int32", 8, "RINT").pipe(load_chip("ascend910a"))


def test_rows_that_would_lie_over_each_other() -> None:
    with pytest.raises(SimError, match="vector_cast: rows of 64 float16 elements would be written 64 bytes apart"):
        VectorCast("float32", "float16", 64, "RINT", 2, 64, 256).pipe(CHIP)

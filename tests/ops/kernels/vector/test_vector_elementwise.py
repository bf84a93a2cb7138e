"""Cast, MemSet and ViewCopy against plain numpy, bit by bit, in both modes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import product

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.cast import cast_task
from ascend_sim.ops.kernels.vector.dilation import Spread
from ascend_sim.ops.kernels.vector.mem_set import mem_set_task
from ascend_sim.ops.kernels.vector.strided import StridedCopy
from ascend_sim.ops.kernels.vector.view_copy import view_copy_task
from tests.support.ops.vector_runs import both_modes, chip, codes, execute, useless_waits

TYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}
PAIRS = [(a, b) for a in TYPES for b in TYPES if a != b]


class Cast:
    def __init__(self, count: int, before: str, after: str) -> None:
        self.arguments = count, before, after

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        return cast_task(on, source, target, *self.arguments, disarm=disarm)


def numbers(count: int, dtype: str) -> np.ndarray:
    """Every bit pattern of a 16-bit format in turn; for fp32 patterns that fill the range of the 16-bit formats and beyond."""
    if dtype != "float32":
        return np.resize(np.arange(1 << 16, dtype=np.uint16), count).view(TYPES[dtype])
    rng = np.random.default_rng(count)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-40, 40, count))
    return values.astype(np.float32)


@pytest.mark.fast
@pytest.mark.parametrize(("before", "after"), PAIRS)
@pytest.mark.parametrize("count", [1, 17, 70_001, 700_001])
def test_cast_rounds_once(before: str, after: str, count: int) -> None:
    x = numbers(count, before)
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(np.float32).astype(TYPES[after])  # ml_dtypes and numpy round to nearest even
    got = both_modes(Cast(count, before, after), x, expected.nbytes).view(TYPES[after])
    real = ~np.isnan(expected.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), ~real)
    np.testing.assert_array_equal(got[real].view(np.uint8), expected[real].view(np.uint8))


@pytest.mark.parametrize(("before", "after"), [("float32", "float16"), ("float16", "bfloat16")])
def test_every_wait_of_cast_matters(before: str, after: str) -> None:
    count = 16384 * 40 * 4
    x = np.random.default_rng(0).standard_normal(count).astype(TYPES[before])
    known = x.astype(np.float32).astype(TYPES[after]).view(np.uint8)
    assert useless_waits(Cast(count, before, after), x, known.nbytes, known) == []


@pytest.mark.fast
@pytest.mark.parametrize(("count", "blocks"), [(32, 1), (160, 1), (16384, 1), (16385, 2), (10**7, 40)])
def test_cast_blocks(count: int, blocks: int) -> None:
    space = Allocation(0, 10**9, "x", None)
    assert cast_task(chip(), space, space, count, "float32", "float16").block_dim == blocks


@pytest.mark.parametrize("pair", [("float16", "float16"), ("float32", "int8")])
def test_cast_refuses(pair: tuple[str, str]) -> None:
    space = Allocation(0, 100, "x", None)
    with pytest.raises(SimError, match="it converts from"):
        cast_task(chip(), space, space, 4, *pair)


def mem_set(nbytes: int):  # type: ignore[no-untyped-def]
    return lambda on, source, target, disarm: mem_set_task(on, target, nbytes, disarm=disarm)


@pytest.mark.parametrize("nbytes", [1, 31, 512, 513, 40 * 512, 100_000, 40 * 49152 * 2 + 5])
def test_mem_set_clears_that_much(nbytes: int) -> None:
    before = np.full(nbytes + 40, 7, np.uint8)
    got = both_modes(mem_set(nbytes), np.zeros(1, np.uint8), before)
    assert not got[:nbytes].any()
    np.testing.assert_array_equal(got[nbytes:], before[nbytes:])


def test_every_wait_of_mem_set_matters() -> None:
    nbytes = 100_000
    assert useless_waits(mem_set(nbytes), np.zeros(1, np.uint8), nbytes, np.zeros(nbytes, np.uint8)) == []


@pytest.mark.parametrize(("nbytes", "blocks"), [(250_000, 48), (3_500_000, 48), (100, 1)])
def test_mem_set_takes_every_core(nbytes: int, blocks: int) -> None:
    space = Allocation(0, 10**7, "x", None)
    assert mem_set_task(load_chip("ascend910b2"), space, nbytes).block_dim == blocks


class ViewCopy:
    def __init__(
        self, shape: Sequence[int], src: Sequence[int], dst: Sequence[int], size: int, a: int = 0, b: int = 0
    ) -> None:
        self.copy = StridedCopy(shape, src, dst, size, a, b)

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        return view_copy_task(on, source, target, self.copy, disarm=disarm)


@st.composite
def views(draw: st.DrawFn) -> tuple[list[int], list[int], int, list[int], int, int]:
    """(shape, source strides and offset, target strides and offset, itemsize): permuted, sliced, expanded, reversed."""
    shape = draw(st.lists(st.integers(1, 7), min_size=1, max_size=5))

    def strides(shape: list[int], source: bool) -> tuple[list[int], int]:
        steps, step, offset = [0] * len(shape), draw(st.sampled_from([1, 1, 1, 2])), draw(st.integers(0, 3))
        for axis in draw(st.permutations(range(len(shape)))) if draw(st.booleans()) else range(len(shape) - 1, -1, -1):
            kind = draw(st.sampled_from(["plain", "plain", "plain", "gap", "reversed", "expanded"]))
            if kind == "expanded" and source:
                continue
            steps[axis], step = step, step * (shape[axis] + (kind == "gap"))
            if kind == "reversed":
                steps[axis] *= -1
                offset += -steps[axis] * (shape[axis] - 1)
        return steps, offset

    src, src_offset = strides(shape, True)
    dst, dst_offset = strides(shape, False)
    return shape, src, src_offset, dst, dst_offset, draw(st.sampled_from([2, 4]))


def check_view(
    shape: list[int], src: list[int], src_offset: int, dst: list[int], dst_offset: int, itemsize: int
) -> None:
    grid = np.indices(shape).reshape(len(shape), -1)
    places_src = np.asarray(src) @ grid + src_offset
    places_dst = np.asarray(dst) @ grid + dst_offset
    source = codes(np.random.default_rng(1), (int(places_src.max()) + 1,), itemsize)
    target = codes(np.random.default_rng(2), (int(places_dst.max()) + 3,), itemsize)
    expected = target.copy()
    expected[places_dst] = source[places_src]
    got = both_modes(ViewCopy(shape, src, dst, itemsize, src_offset, dst_offset), source, target)
    np.testing.assert_array_equal(got.view(source.dtype), expected)


@settings(max_examples=60, deadline=None)
@given(views())
def test_any_view(view: tuple[list[int], list[int], int, list[int], int, int]) -> None:
    check_view(*view)


@pytest.mark.parametrize(
    ("shape", "src", "dst"),
    [
        ([100_003], [1], [1]),  # one run in several tiles
        ([300, 1000], [1000, 1], [1001, 1]),  # rows that lie together on one side only
        ([70, 90], [1, 70], [90, 1]),  # a transposed copy, element by element
        ([1], [5], [0]),
        ([3, 9000], [0, 1], [9000, 1]),
    ],
)
def test_large_views(shape: list[int], src: list[int], dst: list[int]) -> None:
    check_view(shape, src, 0, dst, 0, 2)


@pytest.mark.fast
def test_neighbouring_dimensions_are_one_run() -> None:
    space = Allocation(0, 10**6, "x", None)
    task = view_copy_task(chip(), space, space, StridedCopy([4, 5, 1, 6], [30, 6, 77, 1], [30, 6, 1, 1], 4))
    copies = [str(row) for row in task.build(0)[0] if row.instruction.name == "data_copy"]
    assert len(copies) == 2 and all("row_bytes=480, rows=1," in text for text in copies)


def test_every_wait_of_view_copy_matters() -> None:
    count = 24576 * 40 * 4
    x = codes(np.random.default_rng(0), (count,), 2)
    assert useless_waits(ViewCopy([count], [1], [1], 2), x, x.nbytes, x.view(np.uint8)) == []


def test_a_target_stride_of_zero_is_refused() -> None:
    x = codes(np.random.default_rng(0), (8,), 2)
    with pytest.raises(SimError, match="target stride is 0"):
        execute(ViewCopy([8], [1], [0], 2), x, 16, "functional")


def test_an_empty_tensor_is_refused() -> None:
    space = Allocation(0, 100, "x", None)
    with pytest.raises(SimError, match="elements is 0"):
        view_copy_task(chip(), space, space, StridedCopy([0, 3], [3, 1], [3, 1], 2))


@pytest.mark.fast
def test_pixels_of_a_spread_map_are_those_whose_place_is_in_the_tile() -> None:
    """Also where the map begins before its target, and tiles that begin between two pixels."""
    spread = Spread(1, 1, 1, 1, 1, 1)
    for first, count, stride, start, size in product(range(6), (1, 4), (1, 2, 3), (-4, -1, 0, 2), (1, 5)):
        inside = [i for i in range(size) if first <= i * stride + start < first + count]
        assert list(spread.inside(first, count, stride, start, size)) == inside

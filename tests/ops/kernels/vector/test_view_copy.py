"""Cast, MemSet and ViewCopy against plain numpy, bit by bit, in both modes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.view_copy import StridedCopy, view_copy_work
from tests.support.ops.vector_runs import both_modes, chip, codes, execute, useless_waits
from tests.support.sampling import sampled


@pytest.mark.fast
def test_neighbouring_dimensions_are_one_run() -> None:
    space = Allocation(0, 10**6, "x", None)
    work = view_copy_work(chip(), StridedCopy([4, 5, 1, 6], [30, 6, 77, 1], [30, 6, 1, 1], 4), "ViewCopy")
    task = work_task(chip(), TaskWords("ViewCopy", "ViewCopy"), work, [space, space])
    copies = [str(row) for row in task.build(0)[0] if row.instruction.name == "data_copy"]
    assert len(copies) == 2 and all("row_bytes=480, rows=1," in text for text in copies)


class ViewCopy:
    def __init__(self, *copy: Any) -> None:
        self.copy = StridedCopy(*copy)

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        launch, work = TaskWords("ViewCopy", "ViewCopy", disarm), view_copy_work(on, self.copy, "ViewCopy")
        return work_task(on, launch, work, [source, target])


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


def check_view(shape: list[int], src: list[int], src_offset: int, dst: list[int], dst_offset: int, itemsize: int) -> None:
    grid = np.indices(shape).reshape(len(shape), -1)
    places_src = np.asarray(src) @ grid + src_offset
    places_dst = np.asarray(dst) @ grid + dst_offset
    source = codes(np.random.default_rng(1), (int(places_src.max()) + 1,), itemsize)
    target = codes(np.random.default_rng(2), (int(places_dst.max()) + 3,), itemsize)
    expected = target.copy()
    expected[places_dst] = source[places_src]
    got = both_modes(ViewCopy(shape, src, dst, itemsize, src_offset, dst_offset), source, target)
    np.testing.assert_array_equal(got.view(source.dtype), expected)


@sampled(15, 60)
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


@pytest.mark.parametrize("run", [1, 3, 15, 16, 17])
@pytest.mark.parametrize("gap", [0, 1, 40])
@pytest.mark.parametrize("behind", [0, 1, 40])
def test_copies_of_whole_blocks_leave_gaps_and_what_follows(run: int, gap: int, behind: int) -> None:
    """Rows of 910A copies that are shorter than a block, of one, and longer."""
    rows = 5
    source = codes(np.random.default_rng(1), (rows, run), 2)
    target = codes(np.random.default_rng(2), (rows * (run + gap) - gap + behind,), 2)
    copy = ViewCopy([rows, run], [run, 1], [run + gap, 1], 2, 0, 0, behind > 0)
    got, findings, _ = execute(copy, source, target, "functional", load_chip("ascend910a"))
    for row in range(rows):
        target[row * (run + gap) :][:run] = source[row]
    np.testing.assert_array_equal(got.view(np.uint16), target)
    assert findings == []


def test_every_wait_of_view_copy_matters() -> None:
    count = 24576 * 40 * 4
    x = codes(np.random.default_rng(0), (count,), 2)
    assert useless_waits(ViewCopy([count], [1], [1], 2), x, x.nbytes, x.view(np.uint8)) == []


def test_a_target_stride_of_zero_is_refused() -> None:
    x = codes(np.random.default_rng(0), (8,), 2)
    with pytest.raises(SimError, match="target stride is 0"):
        execute(ViewCopy([8], [1], [0], 2), x, 16, "functional")


def test_an_empty_tensor_is_refused() -> None:
    with pytest.raises(SimError, match="elements is 0"):
        view_copy_work(chip(), StridedCopy([0, 3], [3, 1], [3, 1], 2), "ViewCopy")

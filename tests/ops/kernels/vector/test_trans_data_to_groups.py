"""TransData of weights from FRACTAL_Z of all filters to that of merged groups, against an element-by-element FRACTAL_Z."""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.engine.task import Task
from ascend_sim.isa.vector import TransposeBlocks
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape
from ascend_sim.ops.kernels.vector.trans_data_groups import ungrouped_bytes
from ascend_sim.ops.kernels.vector.trans_data_to_groups import group_work
from ascend_sim.ops.layouts.blocked import FractalZ
from tests.support.ops.vector_runs import both_modes, codes, fractal_z, useless_waits
from tests.support.sampling import part_of_cases, sampled

Shape = tuple[int, int, int, int]
"""(output channels, input channels of a group, planes, positions of a plane)."""


class GroupLaunch:
    def __init__(self, shape: Shape, groups: int, itemsize: int) -> None:
        c_out, c_in, k_d, taps = shape
        c0, of_group = 32 // itemsize, c_out // groups
        self.extension = min(math.lcm(math.lcm(c_in, c0) // c_in, math.lcm(of_group, FRACTAL) // of_group), groups)
        cin1, cout1 = -(-self.extension * c_in // c0), -(-self.extension * of_group // FRACTAL)
        self.shape, self.merged = FilterShape(*shape, groups), FractalZ(k_d, cin1, taps, cout1, itemsize, c0)

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str] = ()) -> Task:
        work = group_work(on, self.shape, self.merged, self.extension)
        return work_task(on, TaskWords("TransData", "TransData_groups", disarm), work, [source, target])


def check(shape: Shape, groups: int, itemsize: int) -> None:
    make, plain = GroupLaunch(shape, groups, itemsize), codes(np.random.default_rng(0), shape, itemsize)
    source, wanted = fractal_z(plain, 1, 32 // itemsize), fractal_z(plain, groups, 32 // itemsize)
    assert source.nbytes == ungrouped_bytes(make.shape, make.merged)
    assert wanted.nbytes == make.merged.total_bytes(-(-groups // make.extension))
    found = both_modes(make, source, np.zeros(wanted.size, wanted.dtype))
    np.testing.assert_array_equal(found.view(wanted.dtype), wanted.ravel())


@sampled(12, 60)
@given(
    st.integers(2, 24), st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(1, 9), st.sampled_from([2, 4])
)  # fmt: skip
def test_random_groups(groups: int, of_group: int, c_in: int, k_d: int, taps: int, itemsize: int) -> None:
    check((groups * of_group, c_in, k_d, taps), groups, itemsize)


@part_of_cases(4)
@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((64, 1, 1, 1), 64),  # depthwise: every core has two groups
        ((50, 1, 1, 25), 50),  # the last merged group is not full
        ((40, 24, 1, 9), 2),  # a group begins in the middle of a block, and ends in the one behind it
        ((40, 40, 1, 2), 2),  # three blocks, of which the last ends where it began
        ((6, 20, 3, 2), 3),  # several planes
        ((64, 96, 1, 1), 2),  # whole blocks are copied
        ((8400, 5, 1, 1), 2),  # more output channels than a buffer holds
        ((96, 5, 1, 1), 3),  # an even number of blocks of filters
    ],
)
@pytest.mark.parametrize("itemsize", [2, 4])
def test_shapes_with_a_story(shape: Shape, groups: int, itemsize: int) -> None:
    check(shape, groups, itemsize)


@part_of_cases(3)
@pytest.mark.parametrize(("shape", "groups"), [((64, 1, 1, 9), 64), ((48, 40, 1, 9), 2), ((300, 1, 1, 1), 300)])
def test_every_wait_matters(shape: Shape, groups: int) -> None:
    make, plain = GroupLaunch(shape, groups, 2), codes(np.random.default_rng(0), shape, 2)
    source, wanted = fractal_z(plain, 1, 16), fractal_z(plain, groups, 16)
    zeros = np.zeros(wanted.size, wanted.dtype)
    assert useless_waits(make, source, zeros, both_modes(make, source, zeros)) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "groups", "blocks"),
    [
        ((256, 1, 1, 25), 256, 43),  # groups, six each
        ((32, 16, 3, 81), 2, 48),  # positions, of 2 groups of 3 planes: 8 parts of each
        ((32, 40, 1, 9), 2, 30),  # positions, of 2 groups of 3 blocks: two of 9 at a time, as 8 parts would have
        ((32, 16, 1, 1), 2, 2),  # fewer than cores: one each
    ],
)
def test_axes_are_dealt_out_from_the_first(shape: Shape, groups: int, blocks: int) -> None:
    space = Allocation(0, 10**9, "weights", None)
    assert GroupLaunch(shape, groups, 2)(load_chip("ascend910b2"), space, space).block_dim == blocks


@pytest.mark.fast
@pytest.mark.parametrize(("of_group", "blocks"), [(1, 1), (16, 1), (17, 3), (48, 3), (49, 5)])
def test_lines_have_an_odd_number_of_blocks(of_group: int, blocks: int) -> None:
    """Blocks have 32 bytes, so lines do not lie in the same bank."""
    space = Allocation(0, 10**9, "weights", None)
    task = GroupLaunch((3 * of_group, 5, 1, 1), 3, 2)(load_chip("ascend910b2"), space, space)
    rows = [row.instruction for block in range(task.block_dim) for row in task.build(block)[0]]
    assert {row.row_stride for row in rows if isinstance(row, TransposeBlocks)} == {32 * blocks}

"""TransData of dW from FRACTAL_Z of merged groups to that of all filters, against an element-by-element FRACTAL_Z."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.engine.task import Task
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape
from ascend_sim.ops.kernels.vector.trans_data_groups import ungroup_work, ungrouped_bytes
from ascend_sim.ops.layouts.blocked import FractalZ
from tests.support.ops.vector_runs import both_modes, codes, fractal_z, useless_waits
from tests.support.sampling import sampled

GARBAGE = 99
Shape = tuple[int, int, int, int]
"""(output channels, input channels of a group, planes, positions of a plane)."""


class UngroupLaunch:
    def __init__(self, shape: Shape, groups: int, c0: int) -> None:
        c_out, c_in, k_d, taps = shape
        of_group = c_out // groups
        self.extension = min(math.lcm(math.lcm(c_in, c0) // c_in, math.lcm(of_group, FRACTAL) // of_group), groups)
        cin1, cout1 = -(-self.extension * c_in // c0), -(-self.extension * of_group // FRACTAL)
        self.shape, self.merged = FilterShape(*shape, groups), FractalZ(k_d, cin1, taps, cout1, 4, c0)

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str] = ()) -> Task:
        work = ungroup_work(on, self.shape, self.merged, self.extension)
        return work_task(on, TaskWords("TransData", "TransData_groups", disarm), work, [source, target])


def tensors(shape: Shape, groups: int, c0: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """FRACTAL_Z of merged groups as the cube leaves it, with products of two groups between the groups; and of all filters."""
    plain = codes(np.random.default_rng(0), shape, 4)
    merged = fractal_z(plain, groups, c0)
    merged[merged == 0] = GARBAGE
    return merged, fractal_z(plain, 1, c0)


def check(shape: Shape, groups: int, c0: int) -> None:
    make, (merged, wanted) = UngroupLaunch(shape, groups, c0), tensors(shape, groups, c0)
    assert merged.nbytes == make.merged.total_bytes(-(-groups // make.extension))
    assert wanted.nbytes == ungrouped_bytes(make.shape, make.merged)
    found = both_modes(make, merged, wanted.nbytes).view(wanted.dtype)
    there = wanted.ravel() != 0
    np.testing.assert_array_equal(found[there], wanted.ravel()[there])


@sampled(12, 40)
@given(
    st.integers(2, 24), st.integers(1, 20), st.integers(1, 40), st.integers(1, 3), st.integers(1, 20), st.sampled_from([8, 16])
)  # fmt: skip
def test_random_groups(groups: int, of_group: int, c_in: int, k_d: int, taps: int, c0: int) -> None:
    check((groups * of_group, c_in, k_d, taps), groups, c0)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((64, 1, 1, 1), 64),  # depthwise: four merged groups, each a block of the launch
        ((50, 1, 1, 25), 50),  # the last merged group is not full; more than 16 positions
        ((40, 24, 1, 9), 2),  # a group begins in the middle of a block, and ends in the one behind it
        ((6, 20, 20, 2), 3),  # planes are the lines
        ((64, 96, 1, 1), 2),  # whole blocks are copied, blocks are the lines
        ((400, 5, 1, 4), 2),  # more output channels than a line holds
    ],
)
@pytest.mark.parametrize("c0", [8, 16])
def test_shapes_with_a_story(shape: Shape, groups: int, c0: int) -> None:
    check(shape, groups, c0)


@pytest.mark.parametrize("shape", [(64, 1, 1, 9), (48, 24, 1, 9)])
def test_every_wait_matters(shape: Shape) -> None:
    groups = 16 if shape[1] == 1 else 2
    make, (merged, wanted) = UngroupLaunch(shape, groups, 16), tensors(shape, groups, 16)
    result = both_modes(make, merged, wanted.nbytes)
    assert useless_waits(make, merged, wanted.nbytes, result) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "groups", "blocks"),
    [
        ((64, 1, 1, 1), 64, 4),  # merged groups
        ((32, 40, 1, 9), 2, 3),  # channel blocks of a group: its positions are lines
        ((32, 16, 3, 81), 2, 6),  # runs of positions
    ],
)
def test_one_axis_is_dealt_out(shape: Shape, groups: int, blocks: int) -> None:
    space = Allocation(0, 10**9, "dw", None)
    assert UngroupLaunch(shape, groups, 16)(load_chip("ascend910b2"), space, space).block_dim == blocks


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ((6, 20, 20, 2), 16),  # planes
        ((6, 20, 2, 20), 16),  # positions of a plane
        ((6, 96, 1, 2), 6),  # channel blocks, of which none is moved
        ((6, 100, 1, 2), 2),  # 7 blocks, of which some are
    ],
)
def test_lines_lie_along_the_longest_axis(shape: Shape, most: int) -> None:
    space = Allocation(0, 10**9, "dw", None)
    task = UngroupLaunch(shape, 3, 16)(load_chip("ascend910b2"), space, space)
    copies = [row.instruction for row in task.build(0)[0] if isinstance(row.instruction, DataCopy)]
    assert max(copy.rows for copy in copies) == most

"""TransData of filters against an element-by-element FRACTAL_Z, bit by bit, in both modes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape, filter_work
from tests.support.ops.vector_runs import both_modes, chip, codes, fractal_z, useless_waits
from tests.support.sampling import part_of_cases, sampled

LAYOUTS = st.sampled_from([(2, 16), (4, 8), (4, 16)])


class FilterLaunch:
    def __init__(self, there: bool, shape: tuple[int, ...], groups: int, itemsize: int, c0: int) -> None:
        self.arguments = FilterShape(*shape, groups), BlockLayout.of(itemsize, c0), there

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        launch = TaskWords("TransData", "TransData_weight", disarm)
        return work_task(on, launch, filter_work(on, *self.arguments), [source, target])


def check(shape: tuple[int, int, int, int], groups: int, itemsize: int, c0: int, seed: int = 0) -> None:
    plain = codes(np.random.default_rng(seed), shape, itemsize)
    fractal = fractal_z(plain, groups, c0)
    there = both_modes(FilterLaunch(True, shape, groups, itemsize, c0), plain, fractal.nbytes)
    np.testing.assert_array_equal(there.view(plain.dtype), fractal.ravel())
    # Whatever stands in the padding and between the diagonal blocks must not come back.
    fractal[fractal == 0] = 99
    back = both_modes(FilterLaunch(False, shape, groups, itemsize, c0), fractal, plain.nbytes)
    np.testing.assert_array_equal(back.view(plain.dtype), plain.ravel())


@sampled(10, 30)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(1, 12), LAYOUTS, st.integers(0, 9))
def test_one_group(c_out: int, c_in: int, k_d: int, taps: int, layout: tuple[int, int], seed: int) -> None:
    check((c_out, c_in, k_d, taps), 1, *layout, seed)


@sampled(6, 20)
@given(st.integers(2, 20), st.integers(1, 20), st.integers(1, 28), st.integers(1, 2), st.integers(1, 9), LAYOUTS)
def test_groups(groups: int, cout: int, cin: int, k_d: int, taps: int, layout: tuple[int, int]) -> None:
    check((groups * cout, cin, k_d, taps), groups, *layout)


@part_of_cases(4)
@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "groups"),
    [
        ((50, 1, 1, 9), 50),  # depthwise, the last real group is not full
        ((34, 1, 2, 1), 17),  # depthwise with a channel multiplier
        ((4, 200, 1, 49), 1),  # channel blocks in several tiles
        ((5, 5, 1, 2000), 1),  # kernel positions in several tiles
        ((4, 3, 3, 900), 2),  # the same, cut inside and between kernel planes
        ((6, 60, 1, 81), 3),  # channel blocks in several tiles, of which some hold nothing of a group
        ((64, 512, 1, 1), 2),  # aligned groups
        ((90, 5, 1, 49), 1),  # more output channels than cores, the last of a kernel that is turned once
        ((3, 2, 1, 4000), 1),  # more positions than a line of half of UB has
        ((3, 17, 2, 2000), 1),  # the same, over planes
        ((40, 21, 1, 9), 1),  # 3 output channels share a line on the way back
        ((1500, 3, 1, 4), 1),  # several lines of a core
        ((40, 48, 1, 9), 1),  # the first that do not
        ((20, 90, 5, 25), 1),  # runs of positions on the way back, over planes
        ((8, 4, 1, 511), 1),  # the last of them on a core of its own, and no whole 32 bytes
        ((50, 64, 1, 1), 1),  # one position: blocks of channels are picked, and the last output channels are padding
        ((20, 4096, 1, 1), 1),  # the same, with more channels than a unit has
        ((1000, 16, 1, 1), 1),  # a channel block is all that there is
    ],
)
@pytest.mark.parametrize(("itemsize", "c0"), [(2, 16), (4, 8), (4, 16)])
def test_shapes_with_a_story(shape: tuple[int, int, int, int], groups: int, itemsize: int, c0: int) -> None:
    check(shape, groups, itemsize, c0)


@part_of_cases(3)
@pytest.mark.parametrize(
    ("there", "shape", "layout"),
    [
        (True, (40, 20, 1, 1500), (2, 16)),  # a tile is one output channel and one channel block
        (False, (40, 20, 1, 1500), (2, 16)),
        (True, (40, 40, 1, 9), (2, 16)),  # turned twice
        (True, (1600, 32, 1, 1), (2, 16)),  # not turned at all
        (False, (40, 200, 1, 9), (4, 16)),
    ],
)
def test_every_wait_matters(there: bool, shape: tuple[int, int, int, int], layout: tuple[int, int]) -> None:
    plain = codes(np.random.default_rng(0), shape, layout[0])
    pair = plain, fractal_z(plain, 1, layout[1])
    source, target = pair if there else pair[::-1]
    make = FilterLaunch(there, shape, 1, *layout)
    assert useless_waits(make, source, target.nbytes, target.ravel().view(np.uint8)) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [((192, 64, 1, 25), 39), ((256, 256, 1, 9), 43), ((256, 384, 1, 9), 43), ((384, 192, 1, 9), 43), ((64, 3, 1, 121), 8)],
)
def test_published_block_counts(shape: tuple[int, int, int, int], blocks: int) -> None:
    """AlexNet filters on a 910B2 (Ascend/msinsight test data)."""
    for there in (True, False):
        assert filter_work(load_chip("ascend910b2"), FilterShape(*shape, 1), BlockLayout.of(4), there).blocks == blocks


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "itemsize", "blocks"),
    [
        ((63, 63, 1, 9), 4, 8),  # runs of 8 output channels are 256 bytes
        ((32, 64, 1, 3), 4, 4),
        ((20, 3, 1, 9), 4, 4),  # 32 with the padding
        ((40, 8, 1, 9), 4, 6),
        ((272, 64, 1, 25), 4, 28),  # 55 tiles of 5, which are all that a quarter of UB holds; two for a block
        ((700, 64, 1, 9), 4, 44),  # 88 runs, two for a block
        ((100, 1024, 1, 9), 4, 38),  # a channel of 64 KB is more than a tile: 112 tiles of one, three for a block
    ],
)
def test_blocks_of_other_filters(shape: tuple[int, int, int, int], itemsize: int, blocks: int) -> None:
    for there in (True, False):
        work = filter_work(load_chip("ascend910b2"), FilterShape(*shape, 1), BlockLayout.of(itemsize), there)
        assert work.blocks == blocks


@pytest.mark.fast
@pytest.mark.parametrize(
    ("there", "shape", "tiles"),
    [
        (True, (256, 256, 1, 9), [2, 2, 2]),  # of 6 output channels a quarter of UB holds 2 on whole 32 bytes
        (False, (256, 256, 1, 9), [3, 3]),  # as many as UB holds
        (True, (16, 64, 1, 25), [4]),  # 5 would fit, and leave a block with one
    ],
)
def test_output_channels_of_tiles(there: bool, shape: tuple[int, int, int, int], tiles: list[int]) -> None:
    space = Allocation(0, 10**9, "weight", None)
    task = FilterLaunch(there, shape, 1, 4, 8)(load_chip("ascend910b2"), space, space, ())
    moved = [row.instruction for row in task.build(0)[0] if isinstance(row.instruction, DataCopy)]
    plain = [move for move in moved if (move.source if there else move.destination) == "GM"]
    channel = 4 * shape[1] * shape[3]
    assert [move.row_bytes * move.rows // channel for move in plain] == tiles


def test_what_a_report_needs() -> None:
    task = filter_work(chip(), FilterShape(192, 64, 1, 25, 1), BlockLayout.of(4, 8), False, "float32")
    assert task.info["formats"] == {"input": "FRACTAL_Z", "output": "NCHW"}
    assert task.info["shapes"] == {"input": [200, 12, 16, 8], "output": [192, 64, 25]}  # as a profiler prints it
    assert task.info["dtypes"] == {"input": "float32", "output": "float32"}


@pytest.mark.parametrize("on", ["ascend910a", "ascend310p3"])
@pytest.mark.parametrize(("groups", "filters", "channels"), [(3, 8, 16), (5, 4, 16), (3, 8, 32)])
def test_channel_blocks_that_the_last_group_lacks_are_not_read(on, groups, filters, channels):
    """Deterministic dW writes none of them: the last merged group has fewer groups than the others."""
    tensors = [
        TensorSpec(shape, "float16")
        for shape in ((1, groups * filters, 6), (1, groups * channels, 10), (groups * filters, channels, 5))
    ]
    arguments = [None, [1], [0], [1], False, [0], groups, [False, True, False]]
    found = convolution_backward(*tensors, *arguments, chip=on, mode="timing", deterministic=True, check=True)
    assert not found.report.findings

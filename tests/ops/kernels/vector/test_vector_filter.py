"""TransData of filters against an element-by-element FRACTAL_Z, bit by bit, in both modes."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_runs import both_modes, chip, codes, fractal_z, useless_waits

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_filter import (
    FilterShape,
    filter_from_fractal_z_task,
    filter_to_fractal_z_task,
)

LAYOUTS = st.sampled_from([(2, 16), (4, 8), (4, 16)])


class Make:
    def __init__(self, there: bool, shape: tuple[int, ...], groups: int, itemsize: int, c0: int) -> None:
        self.function: Any = filter_to_fractal_z_task if there else filter_from_fractal_z_task
        self.arguments = FilterShape(*shape, groups), BlockLayout.of(itemsize, c0)

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        task: Task = self.function(on, source, target, *self.arguments, disarm=disarm)
        return task


def check(shape: tuple[int, int, int, int], groups: int, itemsize: int, c0: int, seed: int = 0) -> None:
    plain = codes(np.random.default_rng(seed), shape, itemsize)
    fractal = fractal_z(plain, groups, c0)
    there = both_modes(Make(True, shape, groups, itemsize, c0), plain, fractal.nbytes)
    np.testing.assert_array_equal(there.view(plain.dtype), fractal.ravel())
    # Whatever stands in the padding and between the diagonal blocks must not come back.
    fractal[fractal == 0] = 99
    back = both_modes(Make(False, shape, groups, itemsize, c0), fractal, plain.nbytes)
    np.testing.assert_array_equal(back.view(plain.dtype), plain.ravel())


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.integers(1, 12), LAYOUTS, st.integers(0, 9))
def test_one_group(c_out: int, c_in: int, k_d: int, taps: int, layout: tuple[int, int], seed: int) -> None:
    check((c_out, c_in, k_d, taps), 1, *layout, seed)


@settings(max_examples=20, deadline=None)
@given(st.integers(2, 20), st.integers(1, 20), st.integers(1, 28), st.integers(1, 2), st.integers(1, 9), LAYOUTS)
def test_groups(groups: int, cout: int, cin: int, k_d: int, taps: int, layout: tuple[int, int]) -> None:
    check((groups * cout, cin, k_d, taps), groups, *layout)


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
    ],
)
@pytest.mark.parametrize(("itemsize", "c0"), [(2, 16), (4, 8), (4, 16)])
def test_shapes_with_a_story(shape: tuple[int, int, int, int], groups: int, itemsize: int, c0: int) -> None:
    check(shape, groups, itemsize, c0)


@pytest.mark.parametrize("there", [True, False])
def test_every_wait_matters(there: bool) -> None:
    shape = (40, 20, 1, 1500)  # a tile is one output channel and one channel block
    plain = codes(np.random.default_rng(0), shape, 2)
    pair = plain, fractal_z(plain, 1, 16)
    source, target = pair if there else pair[::-1]
    make = Make(there, shape, 1, 2, 16)
    assert useless_waits(make, source, target.nbytes, target.ravel().view(np.uint8)) == []


@pytest.mark.fast
@pytest.mark.parametrize(
    ("shape", "blocks"),
    [
        ((192, 64, 1, 25), 39),
        ((256, 256, 1, 9), 43),
        ((256, 384, 1, 9), 43),
        ((384, 192, 1, 9), 43),
        ((64, 3, 1, 121), 8),
    ],
)
def test_published_block_counts(shape: tuple[int, int, int, int], blocks: int) -> None:
    """AlexNet filters on a 910B2 (Ascend/msinsight test data)."""
    space = Allocation(0, 10**9, "weight", None)
    for function in (filter_to_fractal_z_task, filter_from_fractal_z_task):
        assert (
            function(load_chip("ascend910b2"), space, space, FilterShape(*shape, 1), BlockLayout.of(4)).block_dim
            == blocks
        )


def test_what_a_report_needs() -> None:
    space = Allocation(0, 10**6, "grad_weight", None)
    task = filter_from_fractal_z_task(
        chip(), space, space, FilterShape(192, 64, 1, 25, 1), BlockLayout.of(4, 8), dtype="float32"
    )
    assert (task.name, task.op_type) == ("TransData_grad_weight", "TransData")
    assert task.info["formats"] == {"input": "FRACTAL_Z", "output": "NCHW"}
    assert task.info["shapes"] == {"input": [200, 12, 16, 8], "output": [192, 64, 25]}  # as a profiler prints it
    assert task.info["dtypes"] == {"input": "float32", "output": "float32"}

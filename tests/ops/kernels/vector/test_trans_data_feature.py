"""TransData of feature maps against plain numpy, bit by bit, in both modes."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_work
from tests.support.ops.vector_runs import both_modes, chip, codes, execute, nc1hwc0, useless_waits
from tests.support.sampling import part_of_cases, sampled

SHAPES = st.tuples(st.integers(1, 3), st.integers(1, 40), st.integers(1, 3), st.integers(1, 50))
LAYOUTS = st.sampled_from([(2, 16), (4, 8), (4, 16)])  # (bytes, C0); the last is fp32 in blocks of a 16-bit operand


class FeatureLaunch:
    def __init__(self, to_c0: bool, shape: tuple[int, ...], itemsize: int, c0: int) -> None:
        self.arguments = FeatureShape(*shape), BlockLayout.of(itemsize, c0), to_c0

    def __call__(self, on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        launch = TaskWords("TransData", "TransData_map", disarm)
        return work_task(on, launch, feature_work(on, *self.arguments), [source, target])


def check(shape: tuple[int, int, int, int], itemsize: int, c0: int, seed: int = 0) -> None:
    plain = codes(np.random.default_rng(seed), shape, itemsize)
    blocks = nc1hwc0(plain, c0)
    there = both_modes(FeatureLaunch(True, shape, itemsize, c0), plain, blocks.nbytes)
    np.testing.assert_array_equal(there.view(plain.dtype), blocks.ravel())
    # Whatever stands in the padding must not come back.
    blocks[blocks == 0] = 99
    back = both_modes(FeatureLaunch(False, shape, itemsize, c0), blocks, plain.nbytes)
    np.testing.assert_array_equal(back.view(plain.dtype), plain.ravel())


@sampled(8, 25)
@given(SHAPES, LAYOUTS, st.integers(0, 9))
def test_both_ways(shape: tuple[int, int, int, int], layout: tuple[int, int], seed: int) -> None:
    check(shape, *layout, seed)


@part_of_cases(4)
@pytest.mark.parametrize(
    "shape", [(1, 3, 1, 5000), (1, 100, 1, 901), (41, 17, 1, 1), (1, 1, 1, 1), (2, 16, 1, 3 * 1536), (1, 2000, 1, 1)]
)
@pytest.mark.parametrize(("itemsize", "c0"), [(2, 16), (4, 8), (4, 16)])
def test_more_than_one_tile_or_wave(shape: tuple[int, int, int, int], itemsize: int, c0: int) -> None:
    check(shape, itemsize, c0)


@part_of_cases(2)
@pytest.mark.parametrize("to_c0", [True, False])
def test_every_wait_matters(to_c0: bool) -> None:
    # 200 images on 40 cores: five tiles each.
    shape = (200, 16, 1, 64)
    plain = codes(np.random.default_rng(0), shape, 2)
    pair = plain, nc1hwc0(plain, 16)
    source, target = pair if to_c0 else pair[::-1]
    make = FeatureLaunch(to_c0, shape, 2, 16)
    assert useless_waits(make, source, target.nbytes, target.ravel().view(np.uint8)) == []


@pytest.mark.fast
@pytest.mark.parametrize(("images", "blocks"), [(32, 32), (48, 48), (100, 48), (25, 25)])
def test_one_block_per_image(images: int, blocks: int) -> None:
    on = load_chip("ascend910b2")
    assert feature_work(on, FeatureShape(images, 64, 1, 3025), BlockLayout.of(4), True).blocks == blocks


@pytest.mark.fast
def test_a_single_image_is_shared() -> None:
    shape = (1, 64, 1, 3136)
    plain = codes(np.random.default_rng(0), shape, 2)
    _, _, task = execute(FeatureLaunch(True, shape, 2, 16), plain, plain.nbytes, "functional")
    assert task.block_dim == 12  # 4 channel blocks x 3 pieces of 1536 pixels at most


def test_what_a_report_needs() -> None:
    space, work = (
        Allocation(0, 10**6, "x", None),
        feature_work(chip(), FeatureShape(2, 20, 1, 9), BlockLayout.of(2), True, "float16"),
    )
    task = work_task(chip(), TaskWords("TransData", "TransData_x"), work, [space, space])
    assert (task.name, task.op_type, task.core_kind) == ("TransData_x", "TransData", "AIV")
    assert task.info["formats"] == {"input": "NCHW", "output": "NC1HWC0"}
    assert task.info["dtypes"] == {"input": "float16", "output": "float16"}
    assert task.info["shapes"] == {"input": [2, 20, 9], "output": [2, 2, 9, 16]}
    back = feature_work(chip(), FeatureShape(2, 20, 3, 9), BlockLayout.of(2), False)
    assert back.info["formats"] == {"input": "NDC1HWC0", "output": "NCDHW"}


@pytest.mark.fast
@pytest.mark.parametrize(("itemsize", "c0"), [(2, 8), (1, 32), (4, 32)])
def test_unknown_blocks_are_refused(itemsize: int, c0: int) -> None:
    with pytest.raises(SimError, match="C0 = "):
        BlockLayout.of(itemsize, c0)


def test_a_short_tensor_is_refused() -> None:
    shape = (1, 16, 1, 64)
    plain = codes(np.random.default_rng(0), shape, 2)
    with pytest.raises(SimError, match="covers bytes"):
        execute(FeatureLaunch(True, shape, 2, 16), plain, plain.nbytes - 2, "functional")

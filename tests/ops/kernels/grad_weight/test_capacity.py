"""Contents of the buffers for a weight gradient."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.capacity import b1_pixels, b1_slices, check_grad_weight, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_IMAGES
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from tests.support.ops.tight_tilings import LAYER
from tests.support.ops.tiling_problems import conv2d, on_910b, on_950

pytestmark = pytest.mark.fast


WHOLE = {"template": SPLIT_STREAM_K, "single_core_k": 14 * 14}
"""A deterministic task of all pixels."""


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"single_core_m": 0}, "singleCoreM = 0 is not a multiple of 16"),
        ({"single_core_n": 32}, r"singleCoreN = 32 is not a multiple of kh\*kw\*C0 = 3\*3\*16"),
        ({"single_core_k": 15}, "singleCoreK = 15 is not a multiple of W_out = 14: tasks are whole rows"),
        (
            {"template": SPLIT_STREAM_K, "single_core_k": 182},
            r"singleCoreK = 182; allowed from H_out\*W_out = 14\*14 = 196: deterministic tasks take all of K",
        ),
        (
            {"template": SPLIT_STREAM_K, "single_core_k": 216, "split_wo": 8},
            r"singleCoreK = 216; allowed from rows of all strips\*splitWo = 28\*8 = 224: deterministic tasks take all of K",
        ),
        (WHOLE | {"single_core_batch": 1}, "deterministic tasks take all N.D_out = 2 images"),
        (
            WHOLE | {"single_core_batch": 2, "stream_k_type": STREAM_IMAGES, "block_dim": 21},
            "usedCoreNum = 21 > 20 cores: StreamK cores meet at a barrier",
        ),
    ],
)
def test_a_task_of_grad_weight_is_whole_blocks_rows_and_images(changes: dict[str, int], told: str) -> None:
    tiling = GradWeightQuestion(LAYER).tiling()
    check_grad_weight(tiling, LAYER)
    with pytest.raises(TilingError, match=told):
        check_grad_weight(tiling.but(**changes), LAYER)


def test_l1_holds_no_channel_block_that_does_not_exist() -> None:
    """But the host code for dav-3510 counts one."""
    problem = conv2d(2, 16, 16, 14, 1)
    tiling = GradWeightQuestion(LAYER).tiling().but(base_n=32, step_n=1, bl1_buffers=1)
    for inp, slices in ((on_910b(problem), 1), (on_950(problem), 2)):
        pixels = b1_pixels(inp, tiling.base_k * tiling.step_kb, clipped=True)
        assert grad_weight_l1(tiling, inp, clipped=True)[1] == pixels * slices * 16 * 2


def test_l1_holds_gradient_of_every_buffer() -> None:
    tiling = GradWeightQuestion(LAYER).tiling().but(step_ka=3, step_m=2, al1_buffers=1)
    one, _ = grad_weight_l1(tiling, LAYER)
    assert one == 3 * tiling.base_k * 2 * tiling.base_m * 2
    assert grad_weight_l1(tiling.but(al1_buffers=2), LAYER)[0] == 2 * one


@given(st.integers(1, 40), st.integers(1, 7))
def test_slices_of_b1_hold_every_place_of_the_columns(blocks: int, side: int) -> None:
    """Tiles begin at multiples of their own width: as many channel blocks as one of them touches have to lie in L1."""
    inp = on_910b(conv2d(1, 16, 16, 16, side))
    taps = side * side
    touched = [((start + blocks - 1) // taps) - start // taps + 1 for start in range(0, blocks * taps, blocks)]
    held = b1_slices(inp, blocks * inp.c0)
    assert max(touched) <= held <= max(touched) + 1

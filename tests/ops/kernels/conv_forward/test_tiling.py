"""Tiles of the forward kernel where no tile of 128 channels fits L1: what they are, what they read, and what they give."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim import TensorSpec, convolution
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.conv_forward.ladder import answer_conv_forward
from ascend_sim.ops.kernels.conv_forward.tiling import BUFFERS, input_rows, l1_bytes
from tests.support.ops.tiling_problems import conv2d, on_910b

PATCH = conv2d(8, 3, 768, 224, 16, 16)


def test_a_worked_example() -> None:
    """The patch embedding of ViT-B/16 on the 910B: y is 14 x 14, K is 4096 and a row of x takes 7 KiB of L1.

    A fractal of pixels touches three rows of y at worst and so 48 rows of x, 336 KiB; with 16 channels of weights, 128 KiB, one
    buffer fits, and beside a row of y (112 KiB) at most 48 channels. Loads to L0 for the map, in rows of K: 13 x 48 tiles of
    16 + 16; one row of y and 48 channels 14 x 16 of 16 + 48; two rows and 32 channels 7 x 24 of 32 + 32, which is the least.
    """
    inp = on_910b(PATCH)
    tiling = answer_conv_forward(inp).tiling
    assert (tiling.base_m, tiling.base_n, tiling.slices, tiling.l1_buffers) == (28, 32, 1, 1)
    assert 13 * 48 * 32 > 14 * 16 * 64 > 7 * 24 * 64
    assert l1_bytes(inp, 28, 32, 1, 1) == (32 * 224 * 32, 256 * 16 * 32 * 2)
    assert tiling.base_k == 32768 // 32 // 2


def test_a_tile_of_128_channels_comes_first() -> None:
    tiling = answer_conv_forward(on_910b(conv2d(8, 64, 256, 56, 3, pad=1))).tiling
    assert (tiling.base_m, tiling.base_n, tiling.l1_buffers) == (128, 128, BUFFERS)


def test_whole_rows_leave_room_for_more_channels() -> None:
    """1x1, 512 -> 256 on 32x32: a tile is 4 rows of 32 pixels, and L1 holds these of all 32 C_in blocks twice, beside weights.

    Counted as if a tile could begin inside a row, a fifth row would leave room for 28.
    """
    inp = on_910b(conv2d(8, 512, 256, 32, 1))
    tiling = answer_conv_forward(inp).tiling
    assert (tiling.base_m, tiling.base_n, tiling.slices, tiling.l1_buffers) == (128, 128, 32, BUFFERS)
    assert sum(l1_bytes(inp, 128, 128, 32, BUFFERS)) == 2 * 32 * 32 * (128 + 128)


def test_a_strip_holds_a_fractal_of_pixels() -> None:
    """14x14 by 7 on 512 x 512: strips of 48 columns fit one row of theirs alone, and took twice as long as those of 16."""
    assert answer_conv_forward(on_910b(conv2d(2, 3, 64, 512, 14, 7))).tiling.split_wo == FRACTAL


def test_one_buffer_where_two_fit_no_tile() -> None:
    """Patches of 17 x 17: 17 rows of 238 pixels (127 KiB) and weights of 16 channels (145 KiB) fit L1 once, not twice."""
    assert answer_conv_forward(on_910b(conv2d(1, 3, 32, 238, 17, 17))).tiling.l1_buffers == 1


@settings(max_examples=200)
@given(st.integers(1, 40), st.integers(1, 90), st.sampled_from([1, 2, 3, 5]), st.integers(1, 3), st.integers(0, 2))
def test_rows_that_a_tile_needs(size: int, pixels: int, kernel: int, stride: int, pad: int) -> None:
    """The count is that of the tile that needs most, row by row; whole rows and parts of one exactly so."""
    if kernel > size + 2 * pad:
        return
    p = conv2d(1, 16, 16, size, kernel, stride, pad)
    needed = 0
    for start in range(0, p.h_out * p.w_out, pixels):
        end = min(start + pixels, p.h_out * p.w_out)
        rows = {y * stride + k - pad for y in range(start // p.w_out, (end - 1) // p.w_out + 1) for k in range(kernel)}
        seen = [row for row in rows if 0 <= row < size]
        needed = max(needed, max(seen) - min(seen) + 1 if seen else 0)
    assert needed <= input_rows(on_910b(p), pixels)
    if pixels % p.w_out == 0 and not pad and stride * (p.h_out - 1) + kernel <= size:
        assert input_rows(on_910b(p), pixels) == needed


@pytest.mark.parametrize(
    ("chip", "dtype"),
    [("ascend910b3", "float16"), ("ascend910b3", "float32"), ("ascend910a", "float16"), ("ascend950pr_9579", "bfloat16")],
)
def test_patches_are_products(chip: str, dtype: str) -> None:
    """Windows that do not overlap: y is a product of matrices, which numpy knows."""
    rng = np.random.default_rng(5)
    stored = np.dtype(getattr(ml_dtypes, dtype, dtype))
    x, weight = (rng.integers(-2, 3, shape).astype(stored) for shape in ((2, 3, 112, 224), (40, 3, 16, 16)))
    result = convolution(x, weight, None, (16, 16), (0, 0), (1, 1), False, (0, 0), 1, chip=chip, probe=False)
    tiling = next(one["tiling"] for one in result.report.kernels if one["name"] == "output")
    assert tiling["baseM"] % 14 == 0
    patches = x.astype(np.float64).reshape(2, 3, 7, 16, 14, 16).transpose(0, 2, 4, 1, 3, 5).reshape(2, 98, 768)
    expected = (patches @ weight.astype(np.float64).reshape(40, 768).T).transpose(0, 2, 1).reshape(2, 40, 7, 14)
    assert np.array_equal(np.asarray(result.outputs["output"]).astype(np.float64), expected.astype(np.float32).astype(stored))


def test_whole_rows_bring_less_to_l0() -> None:
    """The time of ViT's forward patches on the 910B3 is that of its loads to L0A, which come with a stride of 16."""
    maps = TensorSpec([8, 3, 224, 224], "float16"), TensorSpec([768, 3, 16, 16], "float16")
    window = (16, 16), (0, 0), (1, 1), False, (0, 0), 1
    result = convolution(*maps, None, *window, chip="ascend910b3", mode="timing", timeline=False)
    kernel = next(one for one in result.report.kernels if one["name"] == "output")
    # Each of 24 passes over the channels brings every pixel, in whole fractals.
    assert kernel["counts"]["bytes"]["L1->L0A"] == 24 * 8 * 7 * 32 * 4096 * 2

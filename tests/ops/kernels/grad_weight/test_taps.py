"""Taps: a kernel's places one after the other."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given

from ascend_sim.errors import TilingError
from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.parts import met, walk
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.family import BLOCKED_SPLIT, PLAIN_SPLIT, Family
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import BUFFERS, L2_BYTES, LOAD3D, conv2d, on_910b, problems
from tests.support.sampling import sampled


@given(problems())
@sampled(25, 100)
def test_taps_have_every_product_once(p: ConvProblem) -> None:
    tiling = GradWeightTiling(16, 16, 16, split_kernel=1)
    found = set()
    for tap in range(p.k_h * p.k_w):
        for strip, first, rows in walk(p, tiling, tap, 0, p.h_out):
            for row, i in product(range(first, first + rows), range(strip.problem.w_out)):
                pixel = met(p, tap, Span(row, 1), Span(strip.column + i, 1)).first
                found.add((tap, row, strip.column + i, *divmod(pixel, p.w_in)))
    whole = {
        (ky * p.k_w + kx, row, column, y, x)
        for ky, kx, row, column in product(range(p.k_h), range(p.k_w), range(p.h_out), range(p.w_out))
        for y in [row * p.stride_h - p.pad_up + ky * p.dilation_h]
        for x in [column * p.stride_w - p.pad_left + kx * p.dilation_w]
        if 0 <= y < p.h_in and 0 <= x < p.w_in
    }
    assert found == whole


LONG = replace(conv2d(1, 64, 64, 8, 3), h_in=1, k_h=1, h_out=1, w_in=65536, w_out=65536, pad_left=1, pad_right=1)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("fields", "family", "message"),
    [
        ({"isSplitKernelHW": 2}, PLAIN_SPLIT, "isSplitKernelHW = 2; allowed 0 or 1"),
        ({"isSplitKernelHW": 1}, BLOCKED_SPLIT, "isSplitKernelHW = 1: only the kernel of dav-3510"),
        ({"isSplitKernelHW": 1, "splitWo": 16}, PLAIN_SPLIT, "splitWo = 16 with isSplitKernelHW = 1"),
    ],
)
def test_taps_that_cannot_be(fields: dict[str, int], family: Family, message: str) -> None:
    inp = TilingInput(
        conv2d(1, 64, 64, 56, 3, pad=1), 2, 20, BUFFERS, L2_BYTES, layout=family.layout, family=family, load3d=LOAD3D
    )
    with pytest.raises(TilingError, match=message):
        GradWeightQuestion(inp, fields).tiling()


def test_taps_come_where_rows_of_one_pixel_do_not_fit() -> None:
    wide = replace(LONG, k_w=255, dilation_w=255, w_out=65536 - 254 * 255, pad_left=0, pad_right=0)
    inp = replace(on_910b(wide), layout=PLAIN_SPLIT.layout, family=PLAIN_SPLIT)
    tiling = GradWeightQuestion(inp).tiling()
    assert (tiling.split_kernel, tiling.split_wo, tiling.source) == (1, 0, "stand-in")
    with pytest.raises(TilingError, match="L1: A1"):
        GradWeightQuestion(inp, {"isSplitKernelHW": 0}).tiling()

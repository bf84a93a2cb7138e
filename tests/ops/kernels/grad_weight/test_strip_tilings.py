"""Strips of gradOutput columns and single taps: what they cover, and when they are taken."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.capacity import b1_pixels, check_grad_weight, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.parts import stacked, strips
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import input_rows
from tests.support.ops.tiling_problems import BUFFERS, L2_BYTES, LOAD3D, conv2d, inputs, on_910b, problems
from tests.support.sampling import sampled


def products(p: ConvProblem, column: int = 0, first: int = 0) -> list[tuple[int, int, int]]:
    """(gradOutput column, input column, kernel column) of every product along a row; `column` and `first` are added."""
    return [
        (column + out, first + out * p.stride_w - p.pad_left + tap * p.dilation_w, tap)
        for out in range(p.w_out)
        for tap in range(p.k_w)
        if 0 <= out * p.stride_w - p.pad_left + tap * p.dilation_w < p.w_in
    ]


@given(problems(), st.data())
@sampled(25, 100)
def test_strips_have_every_product_once(p: ConvProblem, data: st.DataObject) -> None:
    width = data.draw(st.integers(0, p.w_out))
    cut = strips(p, width)
    found = [product for strip in cut for product in products(strip.problem, strip.column, strip.source)]
    assert sorted(found) == sorted(products(p))
    widest = stacked(on_910b(p), width).problem
    assert widest.w_in == max(1, *(strip.problem.w_in for strip in cut))
    assert widest.w_out == max(strip.problem.w_out for strip in cut)


@given(problems(), st.data())
@sampled(25, 100)
def test_l1_holds_the_rows_of_every_load(p: ConvProblem, data: st.DataObject) -> None:
    width, span = data.draw(st.integers(1, p.w_out)), 16 * data.draw(st.integers(1, 6))
    held = b1_pixels(stacked(on_910b(p), width), span, clipped=True)
    for strip in strips(p, width):
        pixels = p.h_out * strip.problem.w_out
        for start in range(0, pixels, span):
            _, rows, _ = input_rows(strip.problem, start, min(start + span, pixels))
            assert rows * strip.problem.w_in <= held


LONG = replace(conv2d(1, 64, 64, 8, 3), h_in=1, k_h=1, h_out=1, w_in=65536, w_out=65536, pad_left=1, pad_right=1)


@pytest.mark.fast
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("itemsize", [2, 4])
def test_strips_come_where_whole_rows_do_not_fit(itemsize: int, deterministic: bool) -> None:
    """With the block that there would be without a limit of L1, in two buffers: all cores have work."""
    inp = on_910b(LONG, itemsize, deterministic=deterministic)
    tiling = GradWeightQuestion(inp).tiling()
    assert tiling.source == "stand-in" and tiling.split_wo % 16 == 0 and 0 < tiling.split_wo < LONG.w_out
    assert tiling.al1_buffers == tiling.bl1_buffers == 2 and tiling.block_dim > 15
    assert sum(grad_weight_l1(tiling, stacked(inp, tiling.split_wo), clipped=True)) <= BUFFERS["L1"]
    with pytest.raises(TilingError, match="L1: A1"):
        GradWeightQuestion(inp, {"splitWo": 0}).tiling()
    again = GradWeightQuestion(inp, {"splitWo": tiling.split_wo}).tiling()
    assert again == tiling.but(source="manual", bl1_bound=again.bl1_bound)
    assert (
        "splitWo" in tiling.to_vendor()
        and "splitWo" not in GradWeightQuestion(on_910b(conv2d(1, 64, 64, 9, 3))).tiling().to_vendor()
    )


@given(inputs(), st.integers(6, 60))
@settings(max_examples=60, deadline=None)
def test_strips_are_not_taken_where_whole_rows_fit(inp: TilingInput, kib: int) -> None:
    inp = replace(inp, buffers={**BUFFERS, "L1": kib * 1024})
    try:
        tiling = GradWeightQuestion(inp).tiling()
    except TilingError:
        assume(False)
        return
    check_grad_weight(tiling, inp)
    a1 = grad_weight_l1(tiling, stacked(inp, tiling.split_wo), clipped=True)[0]
    assert a1 + tiling.bl1_bound * inp.itemsize * tiling.bl1_buffers <= kib * 1024  # what the kernel takes
    if tiling.split_wo:
        with pytest.raises(TilingError):
            GradWeightQuestion(inp, {"splitWo": 0}).tiling()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (57, "splitWo = 57; allowed 0 (whole rows) to W_out = 56 gradOutput columns"),
        (-1, "splitWo = -1; allowed: a whole number, 0 or more"),
        (1.5, "splitWo = 1.5; allowed: a whole number, 0 or more"),
    ],
)
def test_strips_that_cannot_be(value: float, message: str) -> None:
    inp = TilingInput(conv2d(1, 64, 64, 56, 3, pad=1), 2, 20, BUFFERS, L2_BYTES, load3d=LOAD3D)
    with pytest.raises(TilingError) as refused:
        GradWeightQuestion(inp, {"splitWo": value}).tiling()
    assert str(refused.value) == message


@pytest.mark.fast
def test_what_strips_cannot_help() -> None:
    """Rows of one pixel that are longer than L1: the message is that of the whole problem."""
    wide = replace(LONG, k_w=255, dilation_w=255, w_out=65536 - 254 * 255, pad_left=0, pad_right=0)
    with pytest.raises(TilingError, match="L1: A1"):
        GradWeightQuestion(on_910b(wide)).tiling()

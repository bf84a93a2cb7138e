"""The steps of grad_weight's sums, and what blocks that walk alike share of their programs."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.kernel.operands import Span
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.steps import TaskWalks, steps_of
from ascend_sim.ops.kernels.grad_weight.stream_k import WORKSPACE, slot_bytes
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.studies.tiles.kernel import CubeKernel

pytestmark = pytest.mark.fast


@st.composite
def problems(draw: st.DrawFn) -> ConvProblem:
    """Maps in two dimensions."""
    k, stride, dilation, pad = (draw(st.integers(low, 3)) for low in (1, 1, 1, 0))
    h_out, w_out = draw(st.integers(1, 24)), draw(st.integers(1, 9))
    seen = (k - 1) * dilation + 1
    height, width = ((size - 1) * stride + seen - 2 * pad for size in (h_out, w_out))
    if min(height, width) < 1:
        height, width, pad = height + 2 * pad, width + 2 * pad, 0
    sizes = {"n": 1, "c_in": 16, "c_out": 16, "groups": 1, "d_in": 1, "d_out": 1, "k_d": 1}
    maps = {"h_in": height, "w_in": width, "h_out": h_out, "w_out": w_out, "k_h": k, "k_w": k}
    steps = {"stride_h": stride, "stride_w": stride, "dilation_h": dilation, "dilation_w": dilation}
    pads = dict.fromkeys(("pad_up", "pad_down", "pad_left", "pad_right"), pad)
    return ConvProblem(**sizes, **maps, **steps, **pads, stride_d=1, dilation_d=1, pad_front=0, pad_back=0)


def rows_seen(p: ConvProblem, pixels: Span) -> set[int]:
    """Input rows that the taps of these gradOutput pixels meet, and those between them."""
    rows = range(pixels.start // p.w_out, (pixels.start + pixels.length - 1) // p.w_out + 1)
    met = [row * p.stride_h - p.pad_up + tap * p.dilation_h for row in rows for tap in range(p.k_h)]
    return set(range(min(met), max(met) + 1)) & set(range(p.h_in))


def test_a_step_that_sees_padding_only_is_left_out_of_a_load_that_sees_more() -> None:
    """Two rows of padding, two of the map and two of padding, under one tap: four are loaded at a time."""
    p = ConvProblem(1, 16, 16, 1, 2, 3, 1, 6, 7, 1, 1, 1, pad_up=2, pad_down=2, pad_left=2, pad_right=2)
    assert [step.pixels.start for step in steps_of(p, 0, 42, 7, 28, 28)] == [14, 21]


@given(problems(), st.integers(1, 40), st.integers(1, 4), st.integers(1, 4), st.data())
def test_steps_are_the_pixels_that_see_something(p: ConvProblem, base: int, a: int, b: int, data: st.DataObject) -> None:
    first = data.draw(st.integers(0, p.h_out * p.w_out - 1))
    pixels = data.draw(st.integers(1, p.h_out * p.w_out - first))
    found = {step.pixels.start: step for step in steps_of(p, first, pixels, base, a * base, b * base)}
    for number, pixel in enumerate(range(first, first + pixels, base)):
        own = Span(pixel, min(base, first + pixels - pixel))
        seen = rows_seen(p, own)
        assert (pixel in found) == bool(seen)
        if not seen:
            continue
        step = found.pop(pixel)
        assert step.pixels == own
        for span, many in ((step.in_a1, a), (step.in_b1, b)):
            assert span.start == first + number // many * many * base
            assert span.length == min(many * base, first + pixels - span.start)
        rows = rows_seen(p, step.in_b1)
        assert (step.held.first, step.held.rows) == (min(rows), len(rows))
        top = step.in_b1.start // p.w_out * p.stride_h - p.pad_up
        assert step.held.pad_top == max(-top, 0)
    assert not found


@given(problems(), st.integers(1, 40), st.integers(1, 3), st.integers(1, 3), st.data())
def test_a_walk_has_the_steps_of_its_rows(p: ConvProblem, base: int, a: int, b: int, data: st.DataObject) -> None:
    walks = TaskWalks(p, GradWeightTiling(base_m=16, base_k=base, base_n=16, step_ka=a, step_kb=b))
    for _ in range(3):
        first = data.draw(st.integers(0, p.h_out - 1))
        rows = data.draw(st.integers(1, p.h_out - first))
        walk, row = walks.of(0, first, rows)
        ((strip, steps),) = walk.parts
        expected = list(steps_of(p, first * p.w_out, rows * p.w_out, base, a * base, b * base))
        assert strip.problem == p and [step.at(p, row) for step in steps] == expected


# -- blocks --------------------------------------------------------------------------------------------------------------


def kernel(channels: int, size: int, stride: int = 1, **other: Any) -> CubeKernel:
    """dW of 3x3 layers on an ascend910b3."""
    chip = load_chip("ascend910b3")
    shapes = {"input": [1, channels, size, size], "weight": [channels, channels, 3, 3]}
    case: dict[str, Any] = {name: {"shape": shape, "dtype": "float16"} for name, shape in shapes.items()}
    case |= {"operator": "convolution_backward", "stride": [stride] * 2, "padding": [1, 1], "dilation": [1, 1]}
    case |= other
    return CubeKernel.of(accept_case(ConvolutionBackwardCase.model_validate(case), chip), chip, "grad_weight")


def stamps_after_each_block(found: CubeKernel, fields: dict[str, int]) -> list[int]:
    task = found.launch(fields)[1]
    return [len(program.table.stamps.known) for block in range(task.block_dim) for program in task.build(block)]


@pytest.mark.parametrize(("size", "stride"), [(32, 1), (63, 2)])
def test_blocks_of_other_rows_are_the_same_stamps(size: int, stride: int) -> None:
    fields = {"singleCoreM": 16, "singleCoreN": 144, "singleCoreK": 4 * 32, "singleCoreBatch": 1}
    after = stamps_after_each_block(kernel(16, size, stride), fields | {"usedCoreNum": 8})
    assert len(after) == 8
    top, second, *inner, bottom = after
    assert 0 < top < second == inner[-1] < bottom  # only the first and the last see padding above and below


def test_blocks_of_other_channels_are_the_same_stamps() -> None:
    fields = {"singleCoreM": 32, "singleCoreN": 288, "singleCoreK": 8 * 8, "singleCoreBatch": 1}
    after = stamps_after_each_block(kernel(64, 8), fields | {"usedCoreNum": 4})
    assert after == [after[0]] * 4


def test_a_part_goes_to_the_slot_of_its_own_block_whatever_the_block_does_before() -> None:
    found, both = kernel(48, 9, deterministic=True), 0
    for fields, tiling in islice(found.tilings({"blockDim": 4}), 0, 200, 40):
        task = found.launch(fields)[1]
        assert isinstance(tiling, GradWeightTiling)
        for block in range(task.block_dim):
            program = task.build(block)[0]
            written = program.rows[program.table.in_gm()[program.rows[:, 0], 0], 1]
            slots = written[written >> SLOT_SHIFT == WORKSPACE] & OFFSET_MASK
            assert (slots // slot_bytes(tiling, found.inp) == block).all()
            both += 0 < len(slots) < len(written)
    assert both

"""Taller tiles of dX where it has few channels: what they must be, that they are taken, and where they are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.chip import load_chip
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import vendor_grad_input
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import NARROW, instructions, sound_grad_input, taller
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import conv2d, inputs, on_910b

CHIP = load_chip("ascend910b3")


@settings(max_examples=200)
@given(inputs())
def test_they_fit_and_no_core_has_more_to_issue(inp: TilingInput) -> None:
    try:
        before = sound_grad_input(inp)
    except TilingError:
        return
    after = taller(before, inp)
    check_grad_input(after, inp)
    assert after.base_n == before.base_n
    assert after == before or (after.base_m > before.base_m and instructions(after, inp) < instructions(before, inp))
    assert before.base_n <= NARROW or after == before
    assert taller(after, inp) == after


def test_a_worked_example() -> None:
    """Dx of 16 channels, 112 x 112, 3x3 from 32, batch 8: K = 288.

    The block of many channels has 336 pixels, three rows, and six steps of K = 48 with three loads of weights each: 38 tasks an
    image, 304 in all, so that a core has 16 tiles of 6 x (6 + 3) instructions. Half of L0A holds 1024 pixels of K = 16, 18
    steps with a load each. Tasks are then 23 rows, of three tiles: 40 tasks, two a core, so six tiles of 18 x (6 + 1).
    """
    inp = on_910b(conv2d(8, 16, 32, 112, 3, pad=1))
    before, after = vendor_grad_input(inp), GradInputQuestion(inp, op_type="Conv2DBackpropInput", chip=CHIP).tiling()
    assert (before.base_m, before.base_k, before.single_core_m) == (336, 48, 3 * 112)
    assert (after.base_m, after.base_k, after.single_core_m) == (1024, 16, 23 * 112)
    assert (instructions(before, inp), instructions(after, inp)) == (16 * 6 * 9, 2 * 3 * 18 * 7)
    assert after.source == "stand-in"


def test_the_open_kernel_keeps_its_own_tiling() -> None:
    inp = on_910b(conv2d(8, 16, 32, 112, 3, pad=1))
    assert GradInputQuestion(inp, chip=CHIP).tiling() == vendor_grad_input(inp)


def test_tiles_that_leave_cores_idle_are_not_taken() -> None:
    """A map of 32 x 32 is one tile of 1024 pixels: right for an image a core, while five images need more tiles."""
    tall = GradInputQuestion(on_910b(conv2d(20, 16, 32, 32, 3, pad=1)), op_type="Conv2DBackpropInput", chip=CHIP).tiling()
    assert (tall.base_m, tall.block_dim) == (1024, 20)
    few = GradInputQuestion(on_910b(conv2d(5, 16, 32, 32, 3, pad=1)), op_type="Conv2DBackpropInput", chip=CHIP).tiling()
    assert few.base_m < 1024
    assert few.block_dim == 20


def kernel(chip: str, dtype: str, c_in: int, size: int) -> dict[str, Any]:
    """Report of dX, 3x3 to 32 channels at batch 8."""
    maps = [TensorSpec([8, channels, size, size], dtype) for channels in (32, c_in)]
    window: Any = (1, 1), (1, 1), (1, 1), False, (0, 0), 1, (True, False, False)
    result = convolution_backward(
        *maps, TensorSpec([32, c_in, 3, 3], dtype), None, *window, chip=chip, mode="timing", timeline=False
    )
    found: dict[str, Any] = next(one for one in result.report.kernels if one["name"] == "grad_input")
    return found


@pytest.mark.parametrize(("chip", "dtype"), [("ascend910b3", "float16"), ("ascend910b3", "float32"), ("ascend910a", "float16")])
def test_the_kernel_issues_few_steps(chip: str, dtype: str) -> None:
    """A Mmad a step: each has nearly as many pixels as half of L0A holds of the shortest K."""
    report, itemsize = kernel(chip, dtype, 16, 128), 2 if dtype == "float16" else 4
    pixels_of_all_steps = 8 * 128 * 128 * 9 * 32 * itemsize
    assert pixels_of_all_steps > 0.8 * report["counts"]["instructions"]["mmad"] * load_chip(chip).buffers["L0A"] / 2
    assert report["tiling"]["baseK"] == 16

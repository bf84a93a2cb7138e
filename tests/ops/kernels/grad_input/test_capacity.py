"""Contents of the buffers for an input gradient."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import pytest

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_grad_input_strips,
    check_split,
    is_resident,
)
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_NONE
from ascend_sim.ops.problem.family import COUPLED
from tests.support.ops.tight_tilings import LAYER
from tests.support.ops.tiling_problems import conv2d, on_910b, on_950

pytestmark = pytest.mark.fast


def test_zeros_between_pixels_are_no_stride_of_load3d() -> None:
    """grad_input reads the dilated map pixel by pixel; only the library of coupled chips limits its strides."""
    wide = conv2d(1, 16, 16, 200, 3, stride=LAYER.load3d.stride + 1)
    check_grad_input_problem(on_910b(wide))
    with pytest.raises(TilingError, match="stride"):
        check_grad_input_problem(replace(on_910b(wide), family=COUPLED))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"single_core_m": 16}, "singleCoreM = 16 is not a multiple of W_in = 14: tasks are whole rows"),
        ({"split_wi": 14}, "splitWi = 14; allowed 0 .whole rows. or a multiple of 16 below W_in = 14"),
        ({"split_wi": 16}, "splitWi = 16; allowed 0"),
    ],
)
def test_a_task_of_grad_input_is_whole_rows(changes: dict[str, int], told: str) -> None:
    tiling = GradInputQuestion(LAYER).tiling()
    check_grad_input(tiling, LAYER)
    with pytest.raises(TilingError, match=told):
        check_grad_input(tiling.but(**changes), LAYER)


def test_a_strip_is_narrower_than_the_map() -> None:
    wide = on_950(conv2d(2, 64, 64, 48, 3, pad=1))
    tiling = GradInputQuestion(wide).tiling()
    for columns in (0, 16, 32):
        check_grad_input_strips(tiling.but(split_wi=columns), wide)
    for columns in (-16, 8, 40, 48, 64):
        with pytest.raises(TilingError, match=f"splitWi = {columns}; allowed 0"):
            check_grad_input_strips(tiling.but(split_wi=columns), wide)


def test_what_a_split_kernel_needs() -> None:
    strided = conv2d(1, 32, 32, 16, 4, stride=2, pad=1)
    for itemsize in (2, 4):
        check_split(SPLIT_H, on_950(strided, itemsize))
    check_split(SPLIT_NONE, on_950(replace(strided, groups=2), 1))
    for problem, itemsize, told in (
        (strided, 1, "2 or 4 bytes, given 1"),
        (replace(strided, groups=2), 2, "needs groups 1, given 2"),
        (replace(strided, stride_h=1), 2, "there is nothing to split"),
    ):
        with pytest.raises(TilingError, match=told):
            check_split(SPLIT_H, on_950(problem, itemsize))


def test_a_segment_of_k_is_whole_blocks_of_channels() -> None:
    wide = on_950(conv2d(2, 64, 64, 32, 3, pad=1), itemsize=4)
    tiling = GradInputQuestion(wide).tiling()
    check_grad_input(tiling.but(k_segment=8), wide)
    with pytest.raises(TilingError, match="kSegment = 4 is not a multiple of 8 output channels"):
        check_grad_input(tiling.but(k_segment=4), wide)


def test_weights_of_several_kernel_planes_do_not_stay() -> None:
    flat = on_950(conv2d(2, 16, 16, 16, 1))
    tiling = GradInputQuestion(flat).tiling()
    tiling = tiling.but(bl1_buffers=1, step_kb=-(-16 // tiling.base_k), step_n=1, base_n=16, single_core_cin=16)
    assert is_resident(tiling, flat)
    assert not is_resident(tiling, replace(flat, problem=replace(flat.problem, k_d=2, d_in=2)))


@pytest.mark.parametrize("times", [1, 4])
def test_a_refusal_of_l1_is_right_about_its_products(times: int) -> None:
    """Also where L1 steps are longer than all of K, of which the kernel of dav-3510 holds no more than there is."""
    inp = on_950(conv2d(2, 64, 64, 14, 3, pad=1))
    tiling = GradInputQuestion(inp).tiling()
    steps = {name: times * getattr(tiling, name) for name in ("step_ka", "step_kb")}
    with pytest.raises(TilingError, match="L1: A1 ") as refused:
        check_grad_input(tiling.but(**steps), replace(inp, buffers={**inp.buffers, "L1": 1000}))
    a1, b1, total = str(refused.value).split("; ")
    held = []
    for part in (a1, b1):
        product, said = part.removeprefix("L1: ").split(" = ")
        held.append(prod(int(number) for number in re.findall(r"(?<= )\d+", product)))
        assert held[-1] == int(said)
    assert total == f"sum {sum(held)} > 1000 bytes"

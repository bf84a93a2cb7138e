"""The choice of a weight gradient's tiling, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion, OlderKernel
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Cuts
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import filter_problem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import cache_tiling
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import block_part
from tests.support.ops.tiling_problems import RESNET, conv2d, on_910b

pytestmark = pytest.mark.fast


INP = on_910b(RESNET)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"baseM": 256, "baseN": 256}, r"L0C: baseM\*baseN\*4\*cl0Pbuffer = 256\*256\*4\*2 = 524288 > 131072"),
        ({"singleCoreN": 100}, r"singleCoreN = 100 is not a multiple of kh\*kw\*C0 = 3\*3\*16 = 144"),
        ({"singleCoreK": 100}, r"singleCoreK = 100 is not a multiple of W_out = 56"),
        ({"singleCoreBatch": 33}, r"singleCoreBatch = 33; allowed 1 to N\*D_out = 32"),
        ({"stepKa": 64, "stepKb": 64}, r"L1: A1 .* > 524288 bytes"),
        ({"streamKType": 1}, r"streamKType = 1 needs deterministic mode"),
        ({"singleCoreM": 24}, r"singleCoreM = 24 is not a multiple of 16"),
        ({"templateId": 3}, r"unknown tiling field templateId"),
    ],
)
def test_refused_grad_weight(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(TilingError, match=message):
        GradWeightQuestion(INP, fields).tiling()


def test_grad_weight_block_dim_and_steps() -> None:
    tiling = GradWeightQuestion(INP, {"blockDim": 4, "stepKa": 2, "stepKb": 2}).tiling()
    assert (tiling.block_dim, tiling.step_ka, tiling.step_kb) == (4, 2, 2)
    small = GradWeightQuestion(INP, {"baseK": 32}).tiling()
    assert small.base_k == 32
    assert small.source == "manual"


def test_stream_k_cannot_have_more_cores_than_the_chip() -> None:
    with pytest.raises(TilingError, match=r"usedCoreNum = 40 > 20 cores"):
        GradWeightQuestion(on_910b(RESNET, deterministic=True), {"blockDim": 40}).tiling()


def test_the_padding_of_k_makes_no_task() -> None:
    """A map of 49 pixels is one part of K, although K is padded to 64."""
    inp = on_910b(conv2d(4, 64, 64, 7, 3, pad=1))
    fields = {"singleCoreK": 49, "singleCoreM": 64, "singleCoreN": 576}
    tiling = GradWeightQuestion(inp, fields).tiling()
    assert task_count(tiling, inp) == 4 // tiling.single_core_batch


@pytest.mark.parametrize("axis", Cuts._fields)
def test_blocks_of_the_older_kernel_add_in_any_order_if_two_have_the_same_part_of_dw(axis: str) -> None:
    inp = on_910b(conv2d(4, 64, 64, 14, 3, groups=4))
    inp = replace(inp, problem=replace(inp.problem, k_d=3, d_in=8, d_out=6))
    problem = filter_problem(inp, "float16", volumetric=True)
    tiling = replace(cache_tiling(problem, cycle_costs("dav-2201")), cuts=Cuts(**{axis: 2}))
    first, second = (block_part(problem, tiling.cuts, number) for number in range(2))
    same = all(getattr(first, name) == getattr(second, name) for name in ("groups", "planes", "out_channels", "in_channels"))
    assert OlderKernel(problem, tiling).any_order is same

"""Tilings of grad_input where whole rows of gradOutput do not fit L1: dx in strips of columns (ours: inferred).

ops-nn never cuts a row on arch22 (stated) and has no field for it in its data kernels; what the library does with rows that
do not fit is not known. A strip is as wide as a tile, so that a tile uses all that is loaded for it and there is work for all
cores: the fewest strips that fit would load a wide row again for each of its tiles and took 1.5 to 60 times as long.
"""

from __future__ import annotations

from collections.abc import Callable

from ascend_sim.ops.tiling.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_grad_input_strips,
    grad_input_fits_l1,
)
from ascend_sim.ops.tiling.fields import FRACTAL, GradInputTiling, TilingInput
from ascend_sim.ops.tiling.grad_input import task_count
from ascend_sim.ops.tiling.kernel_split import SPLIT_NONE, split_input
from ascend_sim.ops.tiling.strips import widest_that_fits

Choose = Callable[[TilingInput], GradInputTiling]


def cut_into_strips(inp: TilingInput, choose: Choose) -> GradInputTiling:
    """The tiling that `choose` finds for strips of a fitting width; TilingError where not even narrow ones fit."""
    check_grad_input_problem(inp)
    smallest = GradInputTiling(
        FRACTAL, inp.unit, inp.unit, step_ka=inp.taps, step_kb=inp.taps, al1_buffers=1, bl1_buffers=1
    )

    def may_fit(strip: int) -> bool:
        return grad_input_fits_l1(smallest.but(single_core_m=strip), split_input(inp, SPLIT_NONE, strip))

    return widest_that_fits(inp.problem.w_in, may_fit, lambda strip: in_strips(inp, strip, choose))


def in_strips(inp: TilingInput, strip: int, choose: Choose) -> GradInputTiling:
    """The tiling that `choose` finds for a strip of `strip` columns, for all of them."""
    check_grad_input_strips(GradInputTiling(FRACTAL, FRACTAL, FRACTAL, split_wi=strip), inp)
    tiling = choose(split_input(inp, SPLIT_NONE, strip)).but(split_wi=strip, source="stand-in")
    tiling = tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))
    check_grad_input(tiling, inp)
    return tiling

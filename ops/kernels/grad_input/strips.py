"""Tilings of grad_input in strips of columns: where whole rows of gradOutput do not fit L1, and of signals.

ops-nn never cuts a row on arch22 (stated) and has no field for it in its data kernels. The older 2-D kernel holds the
columns of a signal that a tile reads, and has a mode that cuts W (the library's cube_util.h, GetAl1Bound: stated; when the
mode is taken is not known). Both are strips here. A strip is as wide as a tile, so that a tile uses all that is loaded for it
and there is work for all cores: the fewest strips that fit would load a wide row again for each of its tiles and took 1.5 to
60 times as long.
"""

from __future__ import annotations

from collections.abc import Callable

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.cube.strips import WIDEST, widest_that_fits
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_grad_input_strips,
    grad_input_fits_l1,
    spare_columns,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import part_input
from ascend_sim.ops.kernels.grad_input.pieces import NO_HK_WK, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count
from ascend_sim.ops.kernels.grad_input.split import SPLIT_NONE
from ascend_sim.ops.problem.sizes import floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

Choose = Callable[[TilingInput], GradInputTiling]


def in_fitting_strips(inp: TilingInput, choose: Choose, cut: int = UNCUT) -> GradInputTiling:
    """The tiling that `choose` finds for strips of a fitting width; TilingError where not even narrow ones fit.

    With a `cut` kernel the strips are at most as wide as load3d's padding, which may be all that a tap sees of one.
    """
    piece = part_input(inp, SPLIT_NONE, 0, cut)
    smallest = GradInputTiling(
        FRACTAL, inp.unit, inp.unit, step_ka=piece.taps, step_kb=piece.taps, al1_buffers=1, bl1_buffers=1
    )

    def may_fit(strip: int) -> bool:
        return grad_input_fits_l1(smallest.but(single_core_m=strip), part_input(inp, SPLIT_NONE, strip, cut))

    if cut == UNCUT:
        check_grad_input_problem(inp)
    most = inp.load3d.pad if cut == NO_HK_WK else WIDEST
    spare = spare_columns(inp)
    return widest_that_fits(inp.problem.w_in, may_fit, lambda strip: in_strips(inp, strip, choose, cut), spare, most)


def in_strips(inp: TilingInput, strip: int, choose: Choose, cut: int = UNCUT) -> GradInputTiling:
    """The tiling that `choose` finds for a strip of `strip` columns (0: whole rows) and a piece of a `cut` kernel."""
    check_grad_input_strips(GradInputTiling(FRACTAL, FRACTAL, FRACTAL, split_wi=strip), inp)
    part = part_input(inp, SPLIT_NONE, strip, cut)
    tiling = choose(part).but(split_wi=strip, source="stand-in")
    if (
        cut
    ):  # L1 holds the weights of one piece after the other, and load3d may have to take all rows of a tile for padding
        tiling = tiling.but(load_b1=cut, full_load=0, single_core_din=1, weights_resident=False)
        most = (inp.load3d.pad - 1) * part.problem.w_in + 1
        tiling = tiling.but(base_m=min(tiling.base_m, floor_to(most, FRACTAL)))
    tiling = tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))
    check_grad_input(tiling, inp)
    return tiling

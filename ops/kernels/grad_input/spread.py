"""How dX of a closed library is dealt out where it has fewer tiles than the chip has cores: a stand-in for its core split.

No source has the split of Conv2DBackpropInput on dav-2201. What is known: its blocks are of groups, images, channels of dX (n)
and pixels (m), never of K (its schedule in CANN 8.1: stated), and parts need not divide (22 blocks of 32 images: measured). The
host tiling that canndev published in 2022 for the same operator of the 910A takes the grid of fewest rounds, then of most
cores, then of least load (stated); that the rule outlived the move is inferred. Every grid here has one round.
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_input.capacity import grad_input_fits_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import (
    aligned_base_k,
    finish,
    gemm,
    step_candidates,
    task_count,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

__all__ = ["Grid", "core_grid", "spread"]


@frozen
class Grid:
    """A core's share of a map: `channels` and `rows` of dX. `cores` have one, and read `load` elements together."""

    channels: int
    rows: int
    cores: int
    load: int


def core_grid(inp: TilingInput, channels: int, rows: int) -> Grid | None:
    """The grid of most cores, then least load, whose shares are not above `channels` and `rows`; None where there is none.

    Each image, depth and group has cores of its own. A share is whole rows, and as little as a fractal of pixels, as in the
    source, in which the grid of more parts of channels wins between equal ones.
    """
    p, n_total = inp.problem, gemm(inp)[2]
    lanes, blocks = p.n * p.d_in * inp.real_groups, ceil_div(n_total, inp.unit)
    weights = inp.cout_padded * n_total * inp.taps
    gradient = lanes * inp.cout_padded * p.h_out * p.w_out
    grids = []
    for parts in range(min(blocks, inp.cores), 0, -1):
        share_n = ceil_div(blocks, parts)
        n = ceil_div(blocks, share_n)
        most = min(inp.cores // (lanes * n), p.h_in, ceil_div(p.h_in * p.w_in, FRACTAL))
        if share_n * inp.unit > channels or most < ceil_div(p.h_in, rows):
            continue
        share_m = ceil_div(p.h_in, most)
        m = ceil_div(p.h_in, share_m)
        grids.append(Grid(share_n * inp.unit, share_m, lanes * n * m, lanes * m * weights + n * gradient))
    return max(grids, key=lambda grid: (grid.cores, -grid.load), default=None)


def spread(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """The tiling with smaller tiles, one for each core of `core_grid`; as it is where that gives work to no more cores."""
    tasks, width = task_count(tiling, inp), inp.problem.w_in
    grid = core_grid(inp, ceil_to(tiling.single_core_cin, inp.unit), ceil_div(tiling.single_core_m, width))
    if grid is None or grid.cores <= tasks:
        return tiling
    pixels = grid.rows * width
    base_m, base_n = min(ceil_to(pixels, FRACTAL), tiling.base_m), min(grid.channels, tiling.base_n)
    base_k = tiling.base_k
    if inp.itemsize < 4:  # 32-bit weights are turned in small steps
        half = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize
        base_k = aligned_base_k(min(floor_to(half // max(base_m, base_n), inp.unit), gemm(inp)[1]), inp)
    block = tiling.but(base_m=base_m, base_n=base_n, base_k=base_k, single_core_m=pixels)
    fitting = (t for t in step_candidates(block, inp) if grad_input_fits_l1(t, inp))
    return next((finish(t, inp, keep=frozenset(("single_core_m",))) for t in fitting), tiling)

"""Taller tiles where dX has few channels: a rule of our own for stand-in tilings.

A step of L0 takes one load of pixels, loads of weights, a Mmad and the flags around them, however many channels it makes. With
few channels it is multiplied before the next one is issued, so that the number of instructions decides, and the block that
suits many channels has too many: fewer pixels than L0C has room for, at a longer K. What L0A holds is the same
either way, but weights are loaded once a tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
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

__all__ = ["instructions", "taller"]

NARROW = 2 * FRACTAL  # channels of a tile: with so few its operands take longer to load than to multiply (ours)
STEP = 6  # instructions of a step beside the loads of weights: the load of pixels, the Mmad and four of flags


def taller(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """The tiling, or one of the same channels and taller tiles whose busiest core has fewer instructions."""
    if tiling.base_n > NARROW:
        return tiling
    return min((tiling, *_taller(tiling, inp)), key=lambda one: instructions(one, inp))


def instructions(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Those of the busiest core that fill L0 and multiply; of a kernel plane, as all have the same."""
    tiles = ceil_div(tiling.single_core_m, tiling.base_m) * ceil_div(task_count(tiling, inp), inp.cores)
    return tiles * ceil_div(gemm(inp)[1], tiling.base_k) * (STEP + tiling.base_k // inp.c0)


def _taller(tiling: GradInputTiling, inp: TilingInput) -> Iterator[GradInputTiling]:
    """Tilings of the most pixels that L0 has room for, at each base_k up to the tiling's."""
    l0a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize
    l0c = inp.buffers["L0C"] // tiling.cl0_buffers // ACCUMULATOR_BYTES
    most = min(floor_to(l0c // tiling.base_n, FRACTAL), ceil_to(gemm(inp)[0], FRACTAL))
    for base_k in sorted({aligned_base_k(k, inp) for k in range(inp.unit, tiling.base_k + 1, inp.unit)}, reverse=True):
        base_m = min(floor_to(l0a // base_k, FRACTAL), most)
        if base_m > tiling.base_m:
            block = tiling.but(base_m=base_m, base_k=base_k)
            fitting = (t for t in step_candidates(block, inp) if grad_input_fits_l1(t, inp))
            yield from (finish(t, inp) for t in islice(fitting, 1))

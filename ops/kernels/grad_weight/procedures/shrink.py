"""Fallback of the vendor's grad_weight procedures: a smaller base block where one block per operand already overfills L1.

Reached with all steps and L1 buffers at 1, for wide images. ops-nn first estimates, as if L1 use were linear, how many
fractals too large a side is, then walks on in fractals (derived; checked against its four wide-image tests of arch22).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.problem import WeightProblem
from ascend_sim.ops.problem.sizes import ceil_div, floor_to

_UNSIGNED = 1 << 64


def shrink(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with a smaller base_k if L1 then holds it; else with a smaller base_m and base_n too, after which
    base_m and base_k grow as far as L1 and L0 have room. L1 may still not hold it.
    """
    smaller, enough = _smaller_k(tiling, p)
    if enough:
        return smaller
    return _give_back(_smaller_mn(smaller, p), p)


def _excess(tiling: GradWeightTiling, p: WeightProblem) -> int:
    """Return the bytes that L1 lacks for the tiling's operands; 0 if it holds them."""
    return max(p.used(tiling) - p.inp.buffers["L1"], 0)


def _smaller_k(tiling: GradWeightTiling, p: WeightProblem) -> tuple[GradWeightTiling, bool]:
    """Return (tiling with base_k lowered, True if L1 then holds it).

    base_k is lowered by an estimate from the bytes that L1 lacks, then fractal by fractal, until L1 holds it or fewer pixels
    need no fewer rows. If the estimate leaves less than one fractal, base_k is one fractal and the second value False.
    """
    a_per_step = tiling.base_m * FRACTAL * p.inp.itemsize
    row_bytes = p.channels(tiling.base_n) * p.seen * p.inp.problem.stride_h * p.inp.itemsize
    b_per_step = ceil_div(row_bytes * FRACTAL, p.width)
    base_k = tiling.base_k - ceil_div(_excess(tiling, p), a_per_step + b_per_step) * FRACTAL
    if base_k < FRACTAL:
        return tiling.but(base_k=FRACTAL), False
    tiling = tiling.but(base_k=base_k)
    while base_k > FRACTAL and not p.fits(tiling):
        base_k -= FRACTAL
        tiling = tiling.but(base_k=base_k)
        rows_align = p.width % base_k == 0 or p.width % FRACTAL != 0
        if base_k <= p.width and rows_align:
            break  # fewer pixels would not need fewer rows
    return tiling, p.fits(tiling)


def _smaller_mn(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with the longer of base_m and base_n lowered to the other, then both lowered, until L1 holds it
    or base_m is 16; base_n only where that saves a channel block in L1.
    """
    while tiling.base_m > tiling.base_n and not p.fits(tiling):
        tiling = tiling.but(base_m=tiling.base_m - FRACTAL)
    while tiling.base_n > tiling.base_m and not p.fits(tiling):
        tiling = tiling.but(base_n=tiling.base_n - FRACTAL)
    if p.fits(tiling):
        return tiling
    a_per_step = tiling.base_k * FRACTAL * p.inp.itemsize
    rows_bytes = p.estimated_rows(tiling.base_k * tiling.step_kb) * p.seen * FRACTAL * p.inp.itemsize
    steps = ceil_div(_excess(tiling, p), a_per_step + ceil_div(rows_bytes, p.inp.taps))
    side = tiling.base_m - steps * FRACTAL
    if side < FRACTAL:
        return tiling.but(base_m=FRACTAL, base_n=FRACTAL)
    tiling = tiling.but(base_m=side, base_n=side)
    while tiling.base_m > FRACTAL and not p.fits(tiling):
        if p.channels(tiling.base_m) < p.channels(tiling.base_n):
            tiling = tiling.but(base_n=tiling.base_m)
        else:
            tiling = tiling.but(base_m=tiling.base_m - FRACTAL)
    return tiling


def _give_back(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with a larger base_m, then a larger base_k, as far as L1 and L0 allow; base_k is cut to whole rows if
    these are shorter and whole fractals.

    Where L1 is still overfilled, the library computes an unsigned rest that is very large: base_m is then all that L0C and M
    allow, and the caller finds the block too large.
    """
    spare = (p.inp.buffers["L1"] - p.used(tiling)) % _UNSIGNED
    grown = tiling.base_m + spare // (tiling.base_k * FRACTAL * p.inp.itemsize) * FRACTAL
    tiling = tiling.but(base_m=min(grown, p.m, floor_to(p.tallest(tiling), FRACTAL)))

    longer = tiling
    while p.fits(longer):
        tiling, longer = longer, longer.but(base_k=longer.base_k + FRACTAL)
    base_k = min(tiling.base_k, p.k)
    for buffer, side in (("L0A", tiling.base_m), ("L0B", tiling.base_n)):
        base_k = min(base_k, floor_to(p.inp.buffers[buffer] // p.inp.itemsize // 2 // side, FRACTAL))
    if p.width < base_k and p.width % FRACTAL == 0:
        base_k = base_k // p.width * p.width
    return tiling.but(base_k=base_k)

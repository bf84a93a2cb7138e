"""The vendor's last resort of grad_weight: a smaller base block where one block per operand already overfills L1.

Reached with all steps and L1 buffers at 1, for wide images. ops-nn first estimates, as if L1 use were linear, how many
fractals too large a side is, then walks on in fractals (derived; checked against its four wide-image tests).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.capacity import b1_rows, b1_slices, grad_weight_fits_l1, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput


def shrink(tiling: GradWeightTiling, gemm: tuple[int, int, int], inp: TilingInput) -> GradWeightTiling:
    """A smaller base_k, or if that is not enough, smaller base_m and base_n, with what then is free given back."""
    smaller, enough = _smaller_k(tiling, inp)
    if enough:
        return smaller
    return _give_back(_smaller_mn(smaller, inp), gemm, inp)


def _excess(tiling: GradWeightTiling, inp: TilingInput) -> int:
    return max(sum(grad_weight_l1(tiling, inp)) - inp.buffers["L1"], 0)


def _smaller_k(tiling: GradWeightTiling, inp: TilingInput) -> tuple[GradWeightTiling, bool]:
    """base_k lowered, and whether that settles it (an estimate below one fractal never does)."""
    problem = inp.problem
    a_per_step = tiling.base_m * FRACTAL * inp.itemsize
    row_bytes = b1_slices(inp, tiling.base_n) * inp.c0 * problem.w_in * problem.stride_h * inp.itemsize
    b_per_step = ceil_div(row_bytes * FRACTAL, problem.w_out)
    base_k = tiling.base_k - ceil_div(_excess(tiling, inp), a_per_step + b_per_step) * FRACTAL
    if base_k < FRACTAL:
        return tiling.but(base_k=FRACTAL), False
    tiling = tiling.but(base_k=base_k)
    while base_k > FRACTAL and not grad_weight_fits_l1(tiling, inp):
        base_k -= FRACTAL
        tiling = tiling.but(base_k=base_k)
        rows_align = problem.w_out % base_k == 0 or problem.w_out % FRACTAL != 0
        if base_k <= problem.w_out and rows_align:
            break  # fewer pixels would not need fewer rows
    return tiling, grad_weight_fits_l1(tiling, inp)


def _smaller_mn(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """First level the two sides, then lower both; base_n only where that saves a channel block in L1."""
    while tiling.base_m > tiling.base_n and not grad_weight_fits_l1(tiling, inp):
        tiling = tiling.but(base_m=tiling.base_m - FRACTAL)
    while tiling.base_n > tiling.base_m and not grad_weight_fits_l1(tiling, inp):
        tiling = tiling.but(base_n=tiling.base_n - FRACTAL)
    if grad_weight_fits_l1(tiling, inp):
        return tiling
    a_per_step = tiling.base_k * FRACTAL * inp.itemsize
    rows_bytes = b1_rows(inp, tiling.base_k * tiling.step_kb) * inp.problem.w_in * FRACTAL * inp.itemsize
    steps = ceil_div(_excess(tiling, inp), a_per_step + ceil_div(rows_bytes, inp.taps))
    side = tiling.base_m - steps * FRACTAL
    if side < FRACTAL:
        return tiling.but(base_m=FRACTAL, base_n=FRACTAL)
    tiling = tiling.but(base_m=side, base_n=side)
    while tiling.base_m > FRACTAL and not grad_weight_fits_l1(tiling, inp):
        if b1_slices(inp, tiling.base_m) < b1_slices(inp, tiling.base_n):
            tiling = tiling.but(base_n=tiling.base_m)
        else:
            tiling = tiling.but(base_m=tiling.base_m - FRACTAL)
    return tiling


def _give_back(tiling: GradWeightTiling, gemm: tuple[int, int, int], inp: TilingInput) -> GradWeightTiling:
    """Spend the rest of L1 on base_m, then on base_k, within L0."""
    m, k, _ = gemm
    if not grad_weight_fits_l1(tiling, inp):
        return tiling  # nothing to give back; the caller's capacity check will say what is missing
    spare = inp.buffers["L1"] - sum(grad_weight_l1(tiling, inp))
    grown = tiling.base_m + spare // (tiling.base_k * FRACTAL * inp.itemsize) * FRACTAL
    l0c_limit = floor_to(
        inp.buffers["L0C"] // inp.itemsize // 2 // tiling.base_m, FRACTAL
    )  # by the vendor's own measure
    tiling = tiling.but(base_m=min(grown, m, l0c_limit))

    longer = tiling
    while grad_weight_fits_l1(longer, inp):
        tiling, longer = longer, longer.but(base_k=longer.base_k + FRACTAL)
    whole_k = ceil_to(k, FRACTAL)
    if whole_k < tiling.base_k:
        return tiling.but(base_k=whole_k)
    for buffer, side in (("L0A", tiling.base_m), ("L0B", tiling.base_n)):
        limit = floor_to(inp.buffers[buffer] // inp.itemsize // 2 // side, FRACTAL)
        tiling = tiling.but(base_k=min(tiling.base_k, limit, whole_k))
    width = inp.problem.w_out
    if width < tiling.base_k and width % FRACTAL == 0:
        tiling = tiling.but(base_k=tiling.base_k // width * width)
    return tiling

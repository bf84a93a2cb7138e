"""Capacity of grad_weight's tilings: occupied bytes and the hardware's limits, formula by formula.

L1 formulas: ops-nn arch22 tiling of Conv3DBackpropFilterV2 (stated).
"""

from __future__ import annotations

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import check_block, check_l1, check_load3d, check_load3d_k, check_steps
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling, n_slice
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.walk import input_rows_of


def b1_slices(inp: TilingInput, columns: int) -> int:
    """Return how many blocks (`n0`) of input channels L1 holds for tiles of `columns` columns of dW, by `spanned_slices`."""
    return spanned_slices(ceil_div(columns, inp.n0), inp.taps)


def spanned_slices(blocks: int, taps: int) -> int:
    """Return the vendor's bound on the slices of `taps` blocks that a run of `blocks` blocks touches, which begins at a
    multiple of its length: exact, or one too many.
    """
    slices = ceil_div(blocks, taps)
    if taps > blocks and taps % blocks:
        return slices + 1
    return slices + 1 if 2 * blocks % taps else slices


def b1_rows(inp: TilingInput, pixels: int) -> int:
    """Return an upper bound of the input rows that a run of `pixels` gradOutput pixels reads, which begins at a multiple of its
    length; rows of padding count too.
    """
    return input_rows_of(inp.problem, pixels, inp.problem.w_out)


def bl1_bound(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> int:
    """Return the elements of one L1 buffer of B (the input): pixels times channels that step_kb base blocks read.

    With `clipped`, as in the vendor's formula, at most the rows and channel blocks that exist are counted.
    """
    held = b1_pixels(inp, tiling.base_k * tiling.step_kb, clipped=clipped)
    return held * _held_slices(tiling, inp, clipped) * inp.n0


def _held_slices(tiling: GradWeightTiling, inp: TilingInput, clipped: bool) -> int:
    """Return the channel blocks in one L1 buffer of B; in blocked layouts with `clipped` at most the input's, in plain
    ones always at most a task's (ops-nn: stated).

    A tiling without tasks yet (`single_core_n` 0) has no such limit.
    """
    slices = b1_slices(inp, tiling.step_n * tiling.base_n)
    if not inp.layout.plain:
        return min(slices, inp.n1) if clipped else slices
    return min(slices, ceil_div(tiling.single_core_n, n_slice(inp))) if tiling.single_core_n else slices


def b1_pixels(inp: TilingInput, pixels: int, *, clipped: bool = False) -> int:
    """Return the input pixels that L1 holds for `pixels` gradOutput pixels, by the walk; `clipped`: in rows that exist."""
    return inp.walk.input_pixels(inp.problem, pixels, clipped=clipped)


def grad_weight_l1(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> tuple[int, int]:
    """Return (bytes of gradOutput, bytes of the input) in L1, all buffers counted; with `clipped` at most the input
    rows and channel blocks that exist are counted.
    """
    a1 = tiling.step_ka * tiling.base_k * tiling.step_m * tiling.base_m * inp.itemsize * tiling.al1_buffers
    return a1, bl1_bound(tiling, inp, clipped=clipped) * inp.itemsize * tiling.bl1_buffers


def grad_weight_fits_l1(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> bool:
    """Return True if all buffers of both operands fit L1; with `clipped` only rows and channel blocks that exist count."""
    return sum(grad_weight_l1(tiling, inp, clipped=clipped)) <= inp.buffers["L1"]


def check_grad_weight(tiling: GradWeightTiling, inp: TilingInput) -> None:
    """Raise TilingError for the first reason why the grad_weight kernel cannot run with this tiling.

    Whether the parts of a StreamK tail have cores is not checked (`completed` does).
    """
    check_walk(tiling.split_wo, tiling.split_kernel, inp)
    inp = walked_input(inp, tiling)
    problem = inp.problem
    row = "splitWo" if tiling.split_wo else "W_out"
    check_block(tiling, inp)
    check_steps(tiling)
    if tiling.single_core_m < 1 or tiling.single_core_m % inp.unit:
        raise TilingError(f"singleCoreM = {tiling.single_core_m} is not a multiple of {inp.unit}")
    if tiling.single_core_n < 1 or tiling.single_core_n % n_slice(inp):
        raise TilingError(
            f"singleCoreN = {tiling.single_core_n} is not a multiple of kh*kw*C0 = "
            f"{problem.k_h}*{problem.k_w}*{inp.n0} = {n_slice(inp)}: tasks are whole channel blocks"
        )
    pixels = problem.h_out * problem.w_out
    if tiling.single_core_k < 1 or (tiling.single_core_k < pixels and tiling.single_core_k % problem.w_out):
        raise TilingError(
            f"singleCoreK = {tiling.single_core_k} is not a multiple of {row} = {problem.w_out}: tasks are whole rows"
        )
    if tiling.template == SPLIT_STREAM_K and tiling.single_core_k < pixels:
        rows = "rows of all strips" if tiling.split_wo else "H_out"
        raise TilingError(
            f"singleCoreK = {tiling.single_core_k}; allowed from {rows}*{row} = {problem.h_out}*{problem.w_out} = {pixels}: "
            "deterministic tasks take all of K, so that each part of dW is written by one of them"
        )
    if not 1 <= tiling.single_core_batch <= inp.images:
        raise TilingError(f"singleCoreBatch = {tiling.single_core_batch}; allowed 1 to N*D_out = {inp.images}")
    if tiling.template == SPLIT_STREAM_K and tiling.single_core_batch != inp.images:
        raise TilingError(
            f"singleCoreBatch = {tiling.single_core_batch}; deterministic tasks take all N*D_out = {inp.images} images"
        )
    if tiling.template == SPLIT_STREAM_K and tiling.stream_k_type != STREAM_NONE and tiling.block_dim > inp.cores:
        raise TilingError(f"usedCoreNum = {tiling.block_dim} > {inp.cores} cores: StreamK cores meet at a barrier")
    check_load3d_k("stepKa*baseK", tiling.step_ka * tiling.base_k, inp)
    check_load3d_k("baseN", tiling.base_n, inp)
    check_l1(
        grad_weight_l1(tiling, inp, clipped=True),
        inp,
        lambda: (
            f"A1 stepKa*baseK {tiling.step_ka * tiling.base_k} * stepM*baseM {tiling.step_m * tiling.base_m} * "
            f"{inp.itemsize} * al1Pbuffer {tiling.al1_buffers}",
            f"B1 {b1_pixels(inp, tiling.step_kb * tiling.base_k, clipped=True)} pixels (rows of Wi {problem.w_in}) * "
            f"{_held_slices(tiling, inp, True)} slices * C0 {inp.n0} * {inp.itemsize} "
            f"* bl1Pbuffer {tiling.bl1_buffers}",
        ),
    )
    check_grad_weight_problem(inp)


def check_walk(width: int, taps: int, inp: TilingInput) -> None:
    """Raise TilingError where gradOutput cannot be taken in strips of `width` columns (splitWo), or tap by tap if
    `taps` is 1 (isSplitKernelHW).

    Strips are at most W_out wide; single taps are for dav-3510 alone, and exclude strips.
    """
    if taps not in (0, 1):
        raise TilingError(f"isSplitKernelHW = {taps}; allowed 0 or 1 (taps of the kernel one by one)")
    if taps and not inp.layout.plain:
        raise TilingError(f"isSplitKernelHW = {taps}: only the kernel of dav-3510, which reads NCDHW, has this field")
    if taps and width:
        raise TilingError(f"splitWo = {width} with isSplitKernelHW = 1: single taps load runs of pixels, not rows")
    if width > inp.problem.w_out:
        raise TilingError(f"splitWo = {width}; allowed 0 (whole rows) to W_out = {inp.problem.w_out} gradOutput columns")


def check_grad_weight_problem(inp: TilingInput) -> None:
    """Raise TilingError where load3d's fields cannot hold the problem (kernel, stride, dilation, padding) with any tiling."""
    problem = inp.problem
    check_load3d(
        inp,
        {"pad up": problem.pad_up, "pad down": problem.pad_down, "pad left": problem.pad_left, "pad right": problem.pad_right},
    )

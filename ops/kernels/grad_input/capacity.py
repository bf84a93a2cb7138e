"""Capacity of grad_input's tilings: occupied bytes and the hardware's limits, formula by formula.

L1 formulas: ops-nn arch22 tiling of Conv3DBackpropInputV2 (stated).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import check_block, check_l1, check_load3d, check_load3d_k, check_steps
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, k_slice, variant_of
from ascend_sim.ops.kernels.grad_input.parts import (
    NO_HK,
    NO_HK_WK,
    SPLIT_H,
    SPLIT_HW,
    SPLIT_NONE,
    UNCUT,
    split_parts,
    tiling_input,
)
from ascend_sim.ops.problem.layout import CHANNELS_LAST
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_rows, pad_after, pad_before


def _held_rows(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return an upper bound of the rows of gradOutput, inserted zeros included, that L1 holds for step_m tiles."""
    whole_rows = tiling.single_core_m % inp.problem.w_in == 0
    # Tiles are whole rows or parts of one, or not.
    whole_tiles = variant_of(inp).tile_tasks and tiling.single_core_m % tiling.base_m == 0
    return dilated_rows(inp.problem, tiling.step_m * tiling.base_m, whole_rows or whole_tiles)


def grad_input_l1(tiling: GradInputTiling, inp: TilingInput) -> tuple[int, int]:
    """Return (bytes of gradOutput A1, bytes of weights B1) that a tiling takes in L1, all buffers counted, for the part `inp`
    that its sizes refer to (`tiling_input`).
    """
    span_a, span = (_held(step, tiling, inp) for step in (tiling.step_ka, tiling.step_kb))
    channels = max(span_a // inp.taps, 1)
    rows = _held_rows(tiling, inp)
    a1 = rows * (inp.problem.w_out * inp.problem.stride_w) * channels * inp.itemsize * tiling.al1_buffers
    whole = k_slice(inp)
    aligned = span % whole == 0 or whole % span == 0
    slices = ceil_div(span, whole) if aligned else (span // whole + 2 if span > whole else 2)
    b1 = tiling.step_n * tiling.base_n * slices * whole * inp.itemsize * tiling.bl1_buffers
    return a1, b1


def _held(step: int, tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the K elements that L1 holds for `step` base blocks; for the kernel that reads NCDHW at most all of K (ours)."""
    span = step * tiling.base_k
    return min(span, ceil_to(inp.cout_g, tiling.k_unit(inp)) * inp.taps) if variant_of(inp).tile_tasks else span


def grad_input_fits_l1(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Return True if both L1 steps are whole slices (blocks of output channels) and both operands fit L1 together, for the part
    `inp` that the tiling's sizes refer to (`tiling_input`).
    """
    aligned = all(_held(step, tiling, inp) % k_slice(inp) == 0 for step in (tiling.step_ka, tiling.step_kb))
    return aligned and sum(grad_input_l1(tiling, inp)) <= inp.buffers["L1"]


def is_resident(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Return True if L1 keeps a task's weights: one kernel plane, an uncut kernel, one buffer with all K and all channels of a
    task.
    """
    return (
        inp.problem.k_d == 1
        and tiling.load_b1 == UNCUT
        and tiling.bl1_buffers == 1
        and tiling.step_kb * tiling.base_k >= ceil_to(inp.cout_g, tiling.k_unit(inp)) * inp.taps
        and tiling.step_n * tiling.base_n >= min(tiling.single_core_cin, ceil_to(inp.cin1 * inp.c0, FRACTAL))
    )


def check_grad_input(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError for the first reason why the kernel cannot run with this tiling; `inp` is the whole problem."""
    _check_kernel_parts(tiling, inp)
    check_grad_input_strips(tiling, inp)
    part = tiling_input(tiling, inp)
    if tiling.load_b1:
        _check_cut(tiling, inp, part)
    else:
        check_grad_input_problem(inp)
    inp = part
    problem = inp.problem
    check_block(tiling, inp)
    variant = variant_of(inp)
    if not variant.keeps_operands and (tiling.step_m != 1 or tiling.step_n != 1):
        raise TilingError(f"stepM = {tiling.step_m}, stepN = {tiling.step_n}: grad_input loads one tile (1, 1) per L1 step")
    whole, unit = k_slice(inp), tiling.k_unit(inp)
    if variant.whole_slices and whole % tiling.base_k and tiling.base_k % whole:
        raise TilingError(
            f"baseK = {tiling.base_k} neither divides nor is a multiple of kh*kw*{inp.unit} = {whole}, "
            f"K of one block of {inp.unit} output channels"
        )
    for name, step in (("stepKa", tiling.step_ka), ("stepKb", tiling.step_kb)):
        if _held(step, tiling, inp) % whole:
            raise TilingError(
                f"{name}*baseK = {step}*{tiling.base_k} = {step * tiling.base_k} is not a multiple of "
                f"kh*kw*{unit} = {problem.k_h}*{problem.k_w}*{unit} = {whole}: L1 holds whole blocks of {unit} output channels"
            )
    check_steps(tiling)
    task_unit = variant.task_unit or problem.w_in
    if (tiling.single_core_m % problem.w_in and tiling.single_core_m % task_unit) or tiling.single_core_m < 1:
        also = f", or blocks of {variant.task_unit} pixels" if variant.task_unit else ""
        raise TilingError(
            f"singleCoreM = {tiling.single_core_m} is not a multiple of {'splitWi' if tiling.split_wi else 'W_in'} = "
            f"{problem.w_in}: tasks are whole rows{also}"
        )
    if tiling.single_core_batch and not variant.keeps_operands:
        raise TilingError(
            f"singleCoreBatch = {tiling.single_core_batch}: a field of grad_input on coupled chips, Ascend 910 and 310P"
        )
    if tiling.single_core_batch > problem.n * problem.d_in:
        raise TilingError(f"singleCoreBatch = {tiling.single_core_batch}; allowed up to N*D_in = {problem.n * problem.d_in}")
    if tiling.single_core_cin % inp.unit or tiling.single_core_cin < 1:
        raise TilingError(f"singleCoreCin = {tiling.single_core_cin} is not a multiple of {inp.unit}")
    check_load3d_k("stepKa*baseK", tiling.step_ka * tiling.base_k, inp)
    check_l1(grad_input_l1(tiling, inp), inp, lambda: _l1_words(tiling, inp))


def _l1_words(tiling: GradInputTiling, inp: TilingInput) -> tuple[str, str]:
    """Return the products of fields (of A1, of B1) that make the bytes of `grad_input_l1`, for L1 steps of whole slices."""
    row, (a, b) = inp.problem.w_out * inp.problem.stride_w, (_held(k, tiling, inp) for k in (tiling.step_ka, tiling.step_kb))
    span = "stepKb*baseK" if b == tiling.step_kb * tiling.base_k else "all of K"
    return (
        f"A1 {_held_rows(tiling, inp)} rows * Wo*sw {row} * {a // inp.taps} channels * {inp.itemsize} "
        f"* al1Pbuffer {tiling.al1_buffers}",
        f"B1 stepN*baseN {tiling.step_n * tiling.base_n} * {span} {b} * {inp.itemsize} * bl1Pbuffer {tiling.bl1_buffers}",
    )


def _check_kernel_parts(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError for a field of `DIRECT_ONLY`, which only the kernel of dav-3510 has: on other kernels for any value but
    the one listed there, on that kernel for a value that it cannot run with.
    """
    problem, names = inp.problem, tiling.VENDOR
    for name, elsewhere in tiling.DIRECT_ONLY.items():
        value = getattr(tiling, name)
        if value != elsewhere and not variant_of(inp).kernel_parts:
            raise TilingError(f"{names[name]} = {value}: only the kernel of dav-3510, which reads NCDHW, has this field")
    check_split(tiling.kernel_split, inp)
    if not 1 <= tiling.single_core_din <= problem.d_in:
        raise TilingError(f"singleCoreDin = {tiling.single_core_din}; allowed 1 to D_in = {problem.d_in}")
    if tiling.full_load not in (0, 1):
        raise TilingError(f"enableFullLoad = {tiling.full_load}; allowed 0 or 1 (weights stay in L1 from task to task)")
    if tiling.full_load and not is_resident(tiling, tiling_input(tiling, inp)):
        raise TilingError(
            "enableFullLoad = 1 needs one kernel plane, bl1Pbuffer = 1, all of K in stepKb*baseK and singleCoreCin in baseN: "
            f"given kd {problem.k_d}, bl1Pbuffer {tiling.bl1_buffers}, stepKb*baseK {tiling.step_kb * tiling.base_k}, "
            f"baseN {tiling.base_n}, singleCoreCin {tiling.single_core_cin}"
        )
    if tiling.k_segment and (inp.itemsize != 4 or tiling.kernel_split != SPLIT_NONE):
        raise TilingError(
            f"kSegment = {tiling.k_segment}: only 32-bit results of a kernel that is not split are added up in GM here"
        )
    if tiling.k_segment % inp.c0:
        raise TilingError(f"kSegment = {tiling.k_segment} is not a multiple of {inp.c0} output channels, one block")


def _check_cut(tiling: GradInputTiling, inp: TilingInput, part: TilingInput) -> None:
    """Raise TilingError where the kernel cannot be taken row by row or tap by tap, as `load_b1` says; `part` is the problem of
    one piece (`tiling_input`).
    """
    cut, p = tiling.load_b1, inp.problem
    if cut not in (NO_HK, NO_HK_WK):
        raise TilingError(f"loadB1Condition = {cut}; allowed 0 (whole kernels), 2 (row by row), 3 (tap by tap)")
    if not variant_of(inp).cuts_kernels:
        raise TilingError(f"loadB1Condition = {cut}: only kernels of split cores, dav-2201 and dav-3510, are cut")
    if tiling.kernel_split != SPLIT_NONE:
        raise TilingError(f"loadB1Condition = {cut}: a kernel that is split (kernelSplitMode {tiling.kernel_split}) is not cut")
    check_grad_input_problem(part)
    width, across = part.problem.w_in, max(pad_before(p)[1], pad_after(p)[1])
    if cut == NO_HK_WK and min(across, width) > inp.load3d.pad:
        raise TilingError(f"load3d: backprop pad {across} > {inp.load3d.pad}; tap by tap it needs strips (splitWi) no wider")
    rows = ceil_div(tiling.base_m - 1, width) + 1
    if rows > inp.load3d.pad:
        raise TilingError(
            f"baseM = {tiling.base_m} covers {rows} rows > {inp.load3d.pad}, which load3d may have to take for padding"
        )


def check_grad_input_strips(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError where dx cannot be cut into strips of `split_wi` columns (splitWi); 0 passes.

    The width must be a multiple of 16 below W_in, and the kernel not be split by both axes. If W_in is no multiple of the
    width, load3d must take the last strip's missing columns and the padding behind together for padding.
    """
    strip, width = tiling.split_wi, inp.problem.w_in
    if strip and (strip % FRACTAL or not 0 < strip < width):
        raise TilingError(
            f"splitWi = {strip}; allowed 0 (whole rows) or a multiple of {FRACTAL} below W_in = {width}, columns of a strip"
        )
    outside, behind = -width % strip if strip else 0, max(pad_after(inp.problem)[1], 0)
    if outside and outside + behind > inp.load3d.pad:
        raise TilingError(
            f"splitWi = {strip}: the last strip has {outside} columns beyond W_in = {width} and {behind} of padding; "
            f"load3d takes at most {inp.load3d.pad} for both"
        )
    if strip and tiling.kernel_split == SPLIT_HW:
        raise TilingError(f"splitWi = {strip}: a kernel split by rows and columns (kernelSplitMode 1) takes whole rows")


def check_split(mode: int, inp: TilingInput) -> None:
    """Raise TilingError where the kernel cannot be split by stride as `mode` says (kernelSplitMode)."""
    problem = inp.problem
    if mode not in (SPLIT_NONE, SPLIT_HW, SPLIT_H):
        raise TilingError(f"kernelSplitMode = {mode}; allowed 0 (none), 1 (rows and columns), 2 (rows)")
    if mode == SPLIT_NONE:
        return
    if inp.layout is CHANNELS_LAST:
        raise TilingError(f"kernelSplitMode = {mode} needs NCDHW; TBC is computed in NDHWC")
    if problem.groups > 1:
        raise TilingError(f"kernelSplitMode = {mode} needs groups 1, given {problem.groups}")
    if problem.stride_h == 1:
        raise TilingError(f"kernelSplitMode = {mode} needs stride_h > 1, given 1: there is nothing to split")
    if inp.itemsize not in (2, 4):
        raise TilingError(f"kernelSplitMode = {mode}: the vector cores turn weights of 2 or 4 bytes, given {inp.itemsize}")
    if mode == SPLIT_HW and (problem.stride_w != 2 or problem.w_in < 2):
        raise TilingError(
            f"kernelSplitMode = 1 needs stride_w = 2 and W_in > 1, given {problem.stride_w} and {problem.w_in}: the vector "
            "unit interleaves pairs of columns"
        )
    split_parts(problem, mode)  # says why dilated kernels are not split


ANOTHER_WAY = (
    "; the library then gathers gradOutput from GM to L0A (canndev 2022, tiling of Conv2DBackpropInput: stated), which is not "
    "written here"
)


def check_grad_input_problem(inp: TilingInput) -> None:
    """Raise TilingError where load3d's fields cannot hold kernel, dilation or the padding of the dilated map (`pad_before`,
    `pad_after`; negative ones pass), so that no tiling with an uncut kernel can help.

    load3d itself always has stride 1, because the loads to L1 put zeros between the pixels of gradOutput. On coupled chips the
    library limits strides all the same (canndev 2022).
    """
    problem = inp.problem
    (up, left), (down, right) = pad_before(problem), pad_after(problem)
    pads = {
        "backprop pad up (kh-1)*dh-pad": up,
        "backprop pad left (kw-1)*dw-pad": left,
        "backprop pad down": down,
        "backprop pad right": right,
    }
    coupled = inp.family.coupled
    check_load3d(inp, pads, strides=coupled, then=ANOTHER_WAY if coupled else "")

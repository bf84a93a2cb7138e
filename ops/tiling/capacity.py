"""What a tiling occupies and what the hardware allows, formula by formula.

L1 formulas: ops-nn arch22 tiling of Conv3DBackpropInputV2 and Conv3DBackpropFilterV2 (stated). L0: operand block times
buffers; L0C holds fp32 (stated). load3d limits: field widths of the instruction as ops-nn checks them (stated).
"""

from __future__ import annotations

from ascend_sim.errors import TilingError
from ascend_sim.ops.tiling.fields import (
    FRACTAL,
    SPLIT_STREAM_K,
    STREAM_NONE,
    GradInputTiling,
    ConvTiling,
    GradWeightTiling,
    TilingInput,
    ceil_div,
    ceil_to,
    floor_to,
)
from ascend_sim.ops.tiling.grad_weight_taps import cut_input
from ascend_sim.ops.tiling.kernel_cut import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.tiling.kernel_split import SPLIT_H, SPLIT_HW, SPLIT_NONE, split_parts
from ascend_sim.ops.tiling.parts import tiling_input
from ascend_sim.ops.tiling.window import dilated_height, pad_after, pad_before

ACCUMULATOR_BYTES = 4  # L0C elements are fp32
LOAD3D_MAX_K = 65535  # k extent, a 16-bit field
LOAD3D_MAX_BYTE = 255  # pad and dilation, 8-bit fields; the kernel too, but on dav-2201
LOAD3D_MAX_KERNEL = 511
"""Kernel rows or columns on dav-2201: stated of its dx kernel; of the others, which use the same instruction, derived."""
LOAD3D_MAX_STRIDE = 63  # a 6-bit field


# ---- grad_input ----------------------------------------------------------------------------------------------------


def k_unit(inp: TilingInput) -> int:
    """Output channels that L1 holds together."""
    return GradInputTiling.k_unit(inp)


def k_slice(inp: TilingInput) -> int:
    """K elements of grad_input that belong to one block of output channels: L1 holds whole slices."""
    return inp.taps * k_unit(inp)


def a1_rows(inp: TilingInput, pixels: int, whole_rows: bool = True) -> int:
    """Rows of the dilated map that L1 holds for a tile of `pixels` dx pixels, at most the whole map.

    `whole_rows` says that tasks begin with a row; else a tile may begin anywhere.
    """
    problem = inp.problem
    width = problem.w_in
    if whole_rows and (pixels % width == 0 or width % pixels == 0):
        rows = ceil_div(pixels, width)
    else:
        rows = pixels // width + 2 if pixels > width else 2
    return min(rows + (problem.k_h - 1) * problem.dilation_h, dilated_height(problem))


def a1_row_bytes(inp: TilingInput) -> int:
    """Bytes of one dilated full-width row of a unit of output channels."""
    return inp.problem.w_out * inp.problem.stride_w * inp.unit * inp.itemsize


def _held_rows(tiling: GradInputTiling, inp: TilingInput) -> int:
    whole_rows = tiling.single_core_m % inp.problem.w_in == 0
    whole_tiles = (
        inp.direct and tiling.single_core_m % tiling.base_m == 0
    )  # which are whole rows or parts of one, or not
    return a1_rows(inp, tiling.step_m * tiling.base_m, whole_rows or whole_tiles)


def grad_input_l1(tiling: GradInputTiling, inp: TilingInput) -> tuple[int, int]:
    """Bytes of gradOutput (A1) and of weights (B1) in L1, all buffers counted."""
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
    """K elements of `step` base blocks, where NCDHW is read no more than K has (ours: L1 then holds all of it)."""
    span = step * tiling.base_k
    return min(span, ceil_to(inp.cout_g, k_unit(inp)) * inp.taps) if inp.direct else span


def grad_input_fits_l1(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Whether the L1 steps are whole slices and both operands fit."""
    aligned = all(_held(step, tiling, inp) % k_slice(inp) == 0 for step in (tiling.step_ka, tiling.step_kb))
    return aligned and sum(grad_input_l1(tiling, inp)) <= inp.buffers["L1"]


def is_resident(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Whether L1 keeps the weights of a task: one kernel plane, one buffer that holds all K and all its channels."""
    return (
        inp.problem.k_d == 1
        and tiling.load_b1 == UNCUT
        and tiling.bl1_buffers == 1
        and tiling.step_kb * tiling.base_k >= ceil_to(inp.cout_g, k_unit(inp)) * inp.taps
        and tiling.step_n * tiling.base_n >= min(tiling.single_core_cin, ceil_to(inp.cin1 * inp.c0, FRACTAL))
    )


def check_grad_input(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError at the first thing that the grad_input kernel could not do with this tiling."""
    _check_direct(tiling, inp)
    check_grad_input_strips(tiling, inp)
    if tiling.load_b1:
        _check_cut(tiling, inp)
    else:
        check_grad_input_problem(inp)
    inp = tiling_input(tiling, inp)
    problem = inp.problem
    check_block(tiling, inp)
    if not inp.coupled and (tiling.step_m != 1 or tiling.step_n != 1):
        raise TilingError(
            f"stepM = {tiling.step_m}, stepN = {tiling.step_n}: grad_input loads one tile (1, 1) per L1 step"
        )
    whole, unit = k_slice(inp), k_unit(inp)
    if not inp.coupled and not inp.direct and whole % tiling.base_k and tiling.base_k % whole:
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
    whole_blocks = inp.coupled and tiling.single_core_m % FRACTAL == 0
    anywhere = whole_blocks or inp.direct
    if (tiling.single_core_m % problem.w_in and not anywhere) or tiling.single_core_m < 1:
        also = f", or blocks of {FRACTAL} pixels" if inp.coupled else ""
        raise TilingError(
            f"singleCoreM = {tiling.single_core_m} is not a multiple of {'splitWi' if tiling.split_wi else 'W_in'} = "
            f"{problem.w_in}: tasks are whole rows{also}"
        )
    if tiling.single_core_batch and not inp.coupled:
        raise TilingError(
            f"singleCoreBatch = {tiling.single_core_batch}: a field of grad_input on coupled chips, Ascend 910 and 310P"
        )
    if tiling.single_core_batch > problem.n * problem.d_in:
        raise TilingError(
            f"singleCoreBatch = {tiling.single_core_batch}; allowed up to N*D_in = {problem.n * problem.d_in}"
        )
    if tiling.single_core_cin % inp.unit or tiling.single_core_cin < 1:
        raise TilingError(f"singleCoreCin = {tiling.single_core_cin} is not a multiple of {inp.unit}")
    check_load3d_k("stepKa*baseK", tiling.step_ka * tiling.base_k)
    check_l1(
        grad_input_l1(tiling, inp),
        inp,
        f"A1 {_held_rows(tiling, inp)} rows * Wo*sw {problem.w_out * problem.stride_w} * "
        f"{tiling.step_ka * tiling.base_k // inp.taps} channels * {inp.itemsize} * al1Pbuffer {tiling.al1_buffers}",
        f"B1 stepN*baseN {tiling.step_n * tiling.base_n} * stepKb*baseK {tiling.step_kb * tiling.base_k} * {inp.itemsize} "
        f"* bl1Pbuffer {tiling.bl1_buffers}",
    )


def _check_direct(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Fields that only the kernel that reads NCDHW has, and what they may be."""
    problem, names = inp.problem, tiling.VENDOR
    for name, elsewhere in tiling.DIRECT_ONLY.items():
        value = getattr(tiling, name)
        if value != elsewhere and not inp.direct:
            raise TilingError(
                f"{names[name]} = {value}: only the kernel of dav-3510, which reads NCDHW, has this field"
            )
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
    if tiling.k_segment % FRACTAL:
        raise TilingError(f"kSegment = {tiling.k_segment} is not a multiple of {FRACTAL} output channels")


def _check_cut(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError where the kernel cannot be taken piece by piece (loadB1Condition)."""
    cut, p = tiling.load_b1, inp.problem
    if cut not in (NO_HK, NO_HK_WK):
        raise TilingError(f"loadB1Condition = {cut}; allowed 0 (whole kernels), 2 (row by row), 3 (tap by tap)")
    if not inp.direct:
        raise TilingError(f"loadB1Condition = {cut}: only the kernel of dav-3510, which reads NCDHW, cuts kernels")
    if tiling.kernel_split != SPLIT_NONE:
        raise TilingError(
            f"loadB1Condition = {cut}: a kernel that is split (kernelSplitMode {tiling.kernel_split}) is not cut"
        )
    part = tiling_input(tiling, inp)
    check_grad_input_problem(part)
    width, across = part.problem.w_in, max(pad_before(p)[1], pad_after(p)[1])
    if cut == NO_HK_WK and min(across, width) > LOAD3D_MAX_BYTE:
        raise TilingError(
            f"load3d: backprop pad {across} > {LOAD3D_MAX_BYTE}; tap by tap it needs strips (splitWi) no wider"
        )
    rows = ceil_div(tiling.base_m - 1, width) + 1
    if rows > LOAD3D_MAX_BYTE:
        raise TilingError(
            f"baseM = {tiling.base_m} covers {rows} rows > {LOAD3D_MAX_BYTE}, which load3d may have to take for padding"
        )


def check_grad_input_strips(tiling: GradInputTiling, inp: TilingInput) -> None:
    """Raise TilingError where dx cannot be cut into such strips (splitWi)."""
    strip, width = tiling.split_wi, inp.problem.w_in
    if strip and (strip % FRACTAL or not 0 < strip < width):
        raise TilingError(
            f"splitWi = {strip}; allowed 0 (whole rows) or a multiple of {FRACTAL} below W_in = {width}, columns of a strip"
        )
    if strip and tiling.kernel_split == SPLIT_HW:
        raise TilingError(f"splitWi = {strip}: a kernel split by rows and columns (kernelSplitMode 1) takes whole rows")


def check_split(mode: int, inp: TilingInput) -> None:
    """Raise TilingError where the kernel cannot be split so (kernelSplitMode)."""
    problem = inp.problem
    if mode not in (SPLIT_NONE, SPLIT_HW, SPLIT_H):
        raise TilingError(f"kernelSplitMode = {mode}; allowed 0 (none), 1 (rows and columns), 2 (rows)")
    if mode == SPLIT_NONE:
        return
    if inp.channels_last:
        raise TilingError(f"kernelSplitMode = {mode} needs NCDHW; TBC is computed in NDHWC")
    if problem.groups > 1:
        raise TilingError(f"kernelSplitMode = {mode} needs groups 1, given {problem.groups}")
    if problem.stride_h == 1:
        raise TilingError(f"kernelSplitMode = {mode} needs stride_h > 1, given 1: there is nothing to split")
    if inp.itemsize not in (2, 4):
        raise TilingError(
            f"kernelSplitMode = {mode}: the vector cores turn weights of 2 or 4 bytes, given {inp.itemsize}"
        )
    if mode == SPLIT_HW and (problem.stride_w != 2 or problem.w_in < 2):
        raise TilingError(
            f"kernelSplitMode = 1 needs stride_w = 2 and W_in > 1, given {problem.stride_w} and {problem.w_in}: the vector "
            "unit interleaves pairs of columns"
        )
    split_parts(problem, mode)  # says why dilated kernels are not split


def check_grad_input_problem(inp: TilingInput) -> None:
    """Raise TilingError where no grad_input tiling can help, because load3d cannot express the problem."""
    (up, left), (down, right) = pad_before(inp.problem), pad_after(inp.problem)
    check_load3d(
        inp,
        {
            "backprop pad up (kh-1)*dh-pad": up,
            "backprop pad left (kw-1)*dw-pad": left,
            "backprop pad down": down,
            "backprop pad right": right,
        },
    )


# ---- grad_weight ---------------------------------------------------------------------------------------------------


def n_slice(inp: TilingInput) -> int:
    """N elements of grad_weight that belong to one C0 block of input channels."""
    return inp.taps * inp.c0


def b1_slices(inp: TilingInput, columns: int) -> int:
    """C0 blocks of input that L1 holds for `columns` columns of dW, wherever in a block they begin."""
    blocks = ceil_div(columns, inp.c0)
    slices = ceil_div(blocks, inp.taps)
    if inp.taps > blocks and inp.taps % blocks:
        return slices + 1
    return slices + 1 if 2 * blocks % inp.taps else slices


def b1_rows(inp: TilingInput, pixels: int, width: int = 0) -> int:
    """Input rows behind a run of `pixels` gradOutput pixels; counts rows above and below the image too.

    `width` is that of gradOutput rows, if it is not the problem's.
    """
    problem, width = inp.problem, width or inp.problem.w_out
    if pixels % width == 0 or width % pixels == 0:
        rows = ceil_div(pixels, width)
    else:
        rows = pixels // width + 2 if pixels > width else 2
    return (rows - 1) * problem.stride_h + (problem.k_h - 1) * problem.dilation_h + 1


def bl1_bound(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> int:
    """Elements of one L1 buffer of B; `clipped` counts no more rows than the image has (the vendor's bound does)."""
    held = b1_pixels(inp, tiling.base_k * tiling.step_kb, clipped=clipped)
    return held * b1_slices(inp, tiling.step_n * tiling.base_n) * inp.c0


def b1_pixels(inp: TilingInput, pixels: int, *, clipped: bool = False) -> int:
    """Input pixels, in whole rows, that L1 holds for a run of gradOutput pixels; narrower last strips may need more."""
    if inp.by_tap:  # of which a pixel meets one
        return pixels
    p, found = inp.problem, []
    for width in {p.w_out, inp.last_width or p.w_out}:
        rows = b1_rows(inp, max(pixels, 1), width)
        columns = p.w_in if width == p.w_out else (width - 1) * p.stride_w + (p.k_w - 1) * p.dilation_w + 1
        found.append((min(rows, p.h_in) if clipped else rows) * min(columns, p.w_in))
    return max(found)


def grad_weight_l1(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> tuple[int, int]:
    """Bytes of gradOutput (A1) and of input (B1) in L1, all buffers counted."""
    a1 = tiling.step_ka * tiling.base_k * tiling.step_m * tiling.base_m * inp.itemsize * tiling.al1_buffers
    return a1, bl1_bound(tiling, inp, clipped=clipped) * inp.itemsize * tiling.bl1_buffers


def grad_weight_fits_l1(tiling: GradWeightTiling, inp: TilingInput, *, clipped: bool = False) -> bool:
    """Whether both operands fit into L1."""
    return sum(grad_weight_l1(tiling, inp, clipped=clipped)) <= inp.buffers["L1"]


def check_grad_weight(tiling: GradWeightTiling, inp: TilingInput) -> None:
    """Raise TilingError at the first thing that the grad_weight kernel could not do with this tiling."""
    check_cuts(tiling.split_wo, tiling.split_kernel, inp)
    inp = cut_input(inp, tiling)
    problem = inp.problem
    row = "splitWo" if tiling.split_wo else "W_out"
    check_block(tiling, inp)
    check_steps(tiling)
    if tiling.single_core_m < 1 or tiling.single_core_m % inp.unit:
        raise TilingError(f"singleCoreM = {tiling.single_core_m} is not a multiple of {inp.unit}")
    if tiling.single_core_n < 1 or tiling.single_core_n % n_slice(inp):
        raise TilingError(
            f"singleCoreN = {tiling.single_core_n} is not a multiple of kh*kw*C0 = "
            f"{problem.k_h}*{problem.k_w}*{inp.c0} = {n_slice(inp)}: tasks are whole channel blocks"
        )
    pixels = problem.h_out * problem.w_out
    if tiling.single_core_k < 1 or (tiling.single_core_k < pixels and tiling.single_core_k % problem.w_out):
        raise TilingError(
            f"singleCoreK = {tiling.single_core_k} is not a multiple of {row} = {problem.w_out}: tasks are whole rows"
        )
    if not 1 <= tiling.single_core_batch <= inp.images:
        raise TilingError(f"singleCoreBatch = {tiling.single_core_batch}; allowed 1 to N*D_out = {inp.images}")
    if tiling.template == SPLIT_STREAM_K and tiling.single_core_batch != inp.images:
        raise TilingError(
            f"singleCoreBatch = {tiling.single_core_batch}; deterministic tasks take all N*D_out = {inp.images} images"
        )
    if tiling.template == SPLIT_STREAM_K and tiling.stream_k_type != STREAM_NONE and tiling.block_dim > inp.cores:
        raise TilingError(f"usedCoreNum = {tiling.block_dim} > {inp.cores} cores: StreamK cores meet at a barrier")
    check_load3d_k("stepKa*baseK", tiling.step_ka * tiling.base_k)
    check_load3d_k("baseN", tiling.base_n)
    check_l1(
        grad_weight_l1(tiling, inp, clipped=True),
        inp,
        f"A1 stepKa*baseK {tiling.step_ka * tiling.base_k} * stepM*baseM {tiling.step_m * tiling.base_m} * "
        f"{inp.itemsize} * al1Pbuffer {tiling.al1_buffers}",
        f"B1 {b1_pixels(inp, tiling.step_kb * tiling.base_k, clipped=True)} pixels (rows of Wi {problem.w_in}) * "
        f"{b1_slices(inp, tiling.step_n * tiling.base_n)} slices * C0 {inp.c0} * {inp.itemsize} "
        f"* bl1Pbuffer {tiling.bl1_buffers}",
    )
    check_grad_weight_problem(inp)


def check_cuts(width: int, taps: int, inp: TilingInput) -> None:
    """Raise TilingError where gradOutput has no strips of `width` columns (splitWo), or no single taps (isSplitKernelHW)."""
    if taps not in (0, 1):
        raise TilingError(f"isSplitKernelHW = {taps}; allowed 0 or 1 (taps of the kernel one by one)")
    if taps and not inp.direct:
        raise TilingError(f"isSplitKernelHW = {taps}: only the kernel of dav-3510, which reads NCDHW, has this field")
    if taps and width:
        raise TilingError(f"splitWo = {width} with isSplitKernelHW = 1: single taps load runs of pixels, not rows")
    if width > inp.problem.w_out:
        raise TilingError(
            f"splitWo = {width}; allowed 0 (whole rows) to W_out = {inp.problem.w_out} gradOutput columns"
        )


def check_grad_weight_problem(inp: TilingInput) -> None:
    """Raise TilingError where no grad_weight tiling can help, because load3d cannot express the problem."""
    problem = inp.problem
    check_load3d(
        inp,
        {
            "pad up": problem.pad_up,
            "pad down": problem.pad_down,
            "pad left": problem.pad_left,
            "pad right": problem.pad_right,
        },
    )


# ---- both ----------------------------------------------------------------------------------------------------------


def l0_bytes(tiling: ConvTiling, inp: TilingInput) -> dict[str, int]:
    """Bytes in L0A, L0B and L0C, all buffers counted."""
    base_k = ceil_to(tiling.base_k, tiling.k_unit(inp))
    return {
        "L0A": tiling.base_m * base_k * inp.itemsize * tiling.al0_buffers,
        "L0B": base_k * tiling.base_n * inp.itemsize * tiling.bl0_buffers,
        "L0C": tiling.base_m * tiling.base_n * ACCUMULATOR_BYTES * tiling.cl0_buffers,
    }


def fits_l0(tiling: ConvTiling, inp: TilingInput) -> bool:
    """Whether a base block fits L0A, L0B and L0C."""
    return all(used <= inp.buffers[name] for name, used in l0_bytes(tiling, inp).items())


def l0_base_k(tiling: ConvTiling, inp: TilingInput) -> int:
    """The longest base_k that L0A and L0B hold."""
    unit = tiling.k_unit(inp)
    a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize // tiling.base_m
    b = inp.buffers["L0B"] // tiling.bl0_buffers // inp.itemsize // tiling.base_n
    return floor_to(min(a, b), unit)


_BLOCK_FIELDS = [
    name for name in ConvTiling.VENDOR if name.startswith(("base_", "step_")) or name.endswith("_buffers")
]


def check_block(tiling: ConvTiling, inp: TilingInput) -> None:
    names = type(tiling).VENDOR
    for name in _BLOCK_FIELDS:
        value = getattr(tiling, name)
        if name.endswith("_buffers") and value not in (1, 2):
            raise TilingError(f"{names[name]} = {value}; allowed 1 (single) or 2 (ping-pong)")
        if name.startswith("step_") and value < 1:
            raise TilingError(f"{names[name]} = {value}; allowed 1 or more")
        # Pixels are what no load turns.
        unit = FRACTAL if name == tiling.PIXELS else tiling.k_unit(inp) if name == "base_k" else inp.unit
        if name.startswith("base_") and (value < 1 or value % unit):
            side = "a cube fractal" if unit <= FRACTAL else "the squares that turn 8-bit operands"
            raise TilingError(f"{names[name]} = {value} is not a positive multiple of {unit}, the side of {side}")
    if tiling.block_dim < 1:
        raise TilingError(f"{type(tiling).VENDOR['block_dim']} = {tiling.block_dim}; allowed 1 or more")
    sizes = {
        "L0A": ("baseM*baseK", (tiling.base_m, tiling.base_k, inp.itemsize), "al0Pbuffer", tiling.al0_buffers),
        "L0B": ("baseK*baseN", (tiling.base_k, tiling.base_n, inp.itemsize), "bl0Pbuffer", tiling.bl0_buffers),
        "L0C": ("baseM*baseN", (tiling.base_m, tiling.base_n, ACCUMULATOR_BYTES), "cl0Pbuffer", tiling.cl0_buffers),
    }
    for name, used in l0_bytes(tiling, inp).items():
        if used > inp.buffers[name]:
            block, (x, y, item), buffer_name, count = sizes[name]
            raise TilingError(
                f"{name}: {block}*{item}*{buffer_name} = {x}*{y}*{item}*{count} = {used} > {inp.buffers[name]} bytes"
            )


def check_steps(tiling: ConvTiling) -> None:
    low, high = sorted((tiling.step_ka, tiling.step_kb))
    if high % low:
        raise TilingError(
            f"stepKa = {tiling.step_ka} and stepKb = {tiling.step_kb}: one must be a multiple of the other"
        )


def check_l1(used: tuple[int, int], inp: TilingInput, a1: str, b1: str) -> None:
    if sum(used) > inp.buffers["L1"]:
        raise TilingError(f"L1: {a1} = {used[0]}; {b1} = {used[1]}; sum {sum(used)} > {inp.buffers['L1']} bytes")


def check_load3d_k(name: str, extent: int) -> None:
    if extent > LOAD3D_MAX_K:
        raise TilingError(f"load3d: {name} = {extent} > {LOAD3D_MAX_K}, the limit of its k extent")


def check_load3d(inp: TilingInput, pads: dict[str, int]) -> None:
    """TilingError where a field of load3d cannot hold its value; a negative pad is a crop that the loads to L1 do."""
    p = inp.problem
    kernel = LOAD3D_MAX_BYTE if inp.coupled or inp.direct else LOAD3D_MAX_KERNEL
    limits = [
        (kernel, {"kernel h": p.k_h, "kernel w": p.k_w}),
        (LOAD3D_MAX_BYTE, {"dilation h": p.dilation_h, "dilation w": p.dilation_w} | pads),
        (LOAD3D_MAX_STRIDE, {"stride h": p.stride_h, "stride w": p.stride_w}),
    ]
    for most, values in limits:
        for name, value in values.items():
            if value > most:
                raise TilingError(f"load3d: {name} = {value} > {most}")

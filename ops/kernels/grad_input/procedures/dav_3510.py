"""The tiling that grad_input gets on dav-3510: the procedure's, which says "stand-in" where our kernel does not do all of it.

Not written, because the description leaves it open or the kernel has no use for it: which problems take the split kernels
(97 and 98: the conditions here are a summary's) and their blocks, the packing of at most 4 output channels (C04), sums of
16-bit results in segments of K. Where the library turns the weights of a kernel that is not split (`arch35.turned`) the tiling
is its own, but the kernel reads them as they are; `choose_grad_input` then says "stand-in".
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.procedures import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    grad_input_fits_l1,
    is_resident,
    k_slice,
    k_unit,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.block import dealt, first_block
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.arch35.steps import fits, shrunk, with_steps
from ascend_sim.ops.kernels.grad_input.procedures.arch35.templates import decided, small_shape
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish, step_candidates
from ascend_sim.ops.kernels.grad_input.split import SPLIT_H, SPLIT_HW, SPLIT_NONE, split_input
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated in summary)
SPLIT_KERNELS, SPLIT_STRIDE = (1, 2, 3, 4), 2  # of a split of both axes
SPLIT_H_KERNEL, SPLIT_H_WIDTH, SPLIT_H_CHANNELS = 16, 32, 16
RESERVED, COPIES = 256, 2  # bytes of UB that are kept free; copies of merged weights in UB
SPLIT_NARROW = 12  # dx columns of a part; narrower maps are not split (stated for some width, for the part's: inferred)
OWN_SHARE = frozenset(("single_core_m", "single_core_cin"))  # fields that the procedure decides, not `finish`


def split_mode(inp: TilingInput) -> int:
    """How the library splits the kernel of a problem (kernelSplitMode)."""
    p = inp.problem
    # Pads behind are what the sizes need: less than those before by what a stride leaves over.
    pads = (
        (p.pad_front, p.pad_back, p.stride_d),
        (p.pad_up, p.pad_down, p.stride_h),
        (p.pad_left, p.pad_right, p.stride_w),
    )
    even = all(0 <= before - behind < stride for before, behind, stride in pads)
    if (
        inp.itemsize == 1
        or p.groups > 1
        or (p.dilation_d, p.dilation_h, p.dilation_w) != (1, 1, 1)
        or not even
        or not inp.layout.plain
    ):
        return SPLIT_NONE
    if (p.stride_h, p.stride_w) == (SPLIT_STRIDE, SPLIT_STRIDE) and p.k_h == p.k_w and p.k_h in SPLIT_KERNELS:
        return SPLIT_HW if p.w_in // p.stride_w >= SPLIT_NARROW else SPLIT_NONE
    wide = p.w_in >= SPLIT_H_WIDTH and min(p.c_in, p.c_out) >= SPLIT_H_CHANNELS
    return SPLIT_H if wide and 2 <= p.stride_h <= p.k_h <= SPLIT_H_KERNEL else SPLIT_NONE


def with_groups_merged(inp: TilingInput) -> TilingInput:
    """The problem as the kernel takes it: groups that fill blocks together are merged where their weights fit UB twice and the
    kernel is not cut (ops-nn, conv_backprop_input_context_utils.cpp: stated).
    """
    merged = replace(inp, merged=True)
    weights = ceil_to(merged.cout_g, inp.c0) * inp.taps * ceil_to(merged.cin_g, FRACTAL) * inp.itemsize
    fits = COPIES * weights + RESERVED <= inp.buffers["UB"]
    plain = inp.layout is PLANAR and inp.itemsize > 1
    return merged if plain and fits and DataProblem.of(merged).cut == UNCUT else replace(inp, merged=False)


def reads_its_layout(inp: TilingInput) -> bool:
    """Whether the procedure can be asked at all; its tiling's source says what is not the vendor's own decision."""
    return inp.layout.plain


def vendor_grad_input_3510(inp: TilingInput, mode: int | None = None, cut: int | None = None) -> GradInputTiling:
    """The tiling; its source says "stand-in" where this is not the vendor's own decision to the end.

    `mode` is a kernelSplitMode to take instead of the library's, `cut` a loadB1Condition. Raises TilingError where nothing of
    the family fits.
    """
    if not reads_its_layout(inp):
        raise TilingError("grad_input: the procedure for dav-3510 is for its kernel that reads NCDHW")
    library, refusal = split_mode(inp), None
    for split in dict.fromkeys((library, SPLIT_NONE)) if mode is None else (mode,):
        try:
            for tiling in _of_parts(inp, split) if split else (_undivided(inp, cut),):
                check_grad_input(tiling, inp)
                return tiling if library == SPLIT_NONE == split else tiling.but(source="stand-in")
        except TilingError as error:
            refusal = error
    raise refusal or TilingError("grad_input: the kernel is not split")


def _undivided(inp: TilingInput, cut: int | None) -> GradInputTiling:
    """Without a split: the procedure's decision, as far as our kernel can follow."""
    library = DataProblem.of(inp, cut)
    own = replace(library, side=inp.unit, packs=False)
    found = decided(own)
    tiling = _runnable(found.but(load_b1=own.cut), inp)
    same = not library.packed and tiling.k_segment == found.k_segment and tiling.full_load == found.full_load
    merged = with_groups_merged(inp).group_extension == inp.group_extension
    clears = own.cut != UNCUT or inp.problem.stride_d > inp.problem.k_d
    tiling = tiling.but(init_output=int(clears or tiling.init_output))
    if same and merged and (own == library or found == decided(library)):
        return tiling
    return tiling.but(source="stand-in")


def _runnable(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """What our kernel can do of a tiling, with the fields that follow."""
    if tiling.k_segment and inp.itemsize != 4:
        tiling = tiling.but(k_segment=0)  # the library adds 16-bit segments up in a workspace
    elif tiling.k_segment % inp.c0:
        tiling = tiling.but(k_segment=inp.c0)
    if tiling.full_load and not is_resident(tiling, inp):
        tiling = tiling.but(full_load=0, single_core_din=1)
    return finish(tiling, inp, keep=OWN_SHARE)


def _of_parts(inp: TilingInput, split: int) -> Iterator[GradInputTiling]:
    """Ours, for a split kernel: the inner product of a part, or smaller tiles where that leaves cores without one."""
    part = DataProblem(split_input(inp, split), UNCUT, inp.unit, packs=False)
    rows = inp.problem.stride_h if split == SPLIT_H else 1  # parts that are tasks of their own
    block = first_block(part)
    whole = {"base_m": block.base_m, "single_core_m": block.base_m}  # a part's tasks are no whole rows (one test)
    block = with_steps(dealt(block, part).but(**whole), part)
    if not fits(block, part):
        block = shrunk(block, part)
        block = block.but(single_core_m=block.base_m, single_core_cin=block.base_n)
    few = part.tasks(block.base_m, block.base_n) * rows < inp.cores
    for tiling in (small_shape(part), block) if few else (block,):
        if fits(tiling, part):
            yield finish(tiling.but(kernel_split=split), inp, keep=OWN_SHARE)


def refitted(tiling: GradInputTiling, inp: TilingInput, given: Collection[str]) -> GradInputTiling:
    """Fields that are not `given` by the user made to go with those that are; the result need not fit."""
    part = tiling_input(tiling, inp)
    if "full_load" in given and tiling.full_load:
        steps = ceil_div(ceil_div(part.cout_g, k_unit(part)) * k_slice(part), tiling.base_k)
        own = {"al1_buffers": 2, "bl1_buffers": 1, "step_kb": steps, "step_ka": steps}
        tiling = tiling.but(**{name: value for name, value in own.items() if name not in given})
        candidates = (
            [tiling.but(step_ka=step) for step in divisors_down(steps, steps)] if "step_ka" not in given else []
        )
    else:
        candidates = list(step_candidates(tiling, part, given))
    if not grad_input_fits_l1(tiling, part) or any(name.startswith("base_") for name in given):
        tiling = next((t for t in candidates if grad_input_fits_l1(t, part)), tiling)
    tiling = finish(tiling, inp, keep=frozenset(given))
    if tiling.full_load and "full_load" not in given and not tiling.weights_resident:
        tiling = finish(tiling.but(full_load=0, single_core_din=1), inp, keep=frozenset(given))
    return tiling


PROCEDURE = Procedure(reads_its_layout, lambda inp, _: vendor_grad_input_3510(inp))

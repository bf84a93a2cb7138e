"""The tiling that grad_input gets on dav-3510: the procedure's, which says "stand-in" where our kernel does not do all of it.

Not written, because the description leaves it open or the kernel has no use for it: the packing of at most 4 output channels
(C04), sums of 16-bit results in segments of K. Where the library turns the weights of a kernel that is not split
(`arch35.turned`) the tiling is its own, but the kernel reads them as they are; `choose_grad_input` then says "stand-in".
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.procedures import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_split,
    grad_input_fits_l1,
    is_resident,
    k_slice,
    k_unit,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.divided import (
    DividedProblem,
    divided,
    leaves_through_workspace,
    library_split,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.arch35.templates import decided
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish, step_candidates
from ascend_sim.ops.kernels.grad_input.split import SPLIT_H, SPLIT_NONE
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
RESERVED, COPIES = 256, 2  # bytes of UB that are kept free; copies of merged weights in UB
OWN_SHARE = frozenset(("single_core_m", "single_core_cin"))  # fields that the procedure decides, not `finish`


def split_mode(inp: TilingInput) -> int:
    """How the library splits the kernel of a problem (kernelSplitMode)."""
    return library_split(inp)[0]


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
            tiling = _divided(inp, split) if split else _undivided(inp, cut)
            check_grad_input(tiling, inp)
            return tiling if split == library else tiling.but(source="stand-in")
        except TilingError as error:
            refusal = error
    assert refusal is not None
    raise refusal


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


def _divided(inp: TilingInput, split: int) -> GradInputTiling:
    """For a split kernel: the procedure's decision, where our kernel may still do the work in another order.

    It loads gradOutput for every part, where the library's may keep it in L1, always turns weights first, and puts columns in
    order by way of GM, where the library's does so in UB if tiles are small.
    """
    check_split(split, inp)
    held = library_split(inp) == (split, True)
    part = DividedProblem.split(inp, split)
    found = divided(part, held)
    tiling = finish(found, inp, keep=OWN_SHARE | {"block_dim"})
    if part.turned and not held and (split == SPLIT_H or leaves_through_workspace(found, part)):
        return tiling
    return tiling.but(source="stand-in")


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

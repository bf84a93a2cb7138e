"""The tiling that grad_input gets: the vendor's where its open procedure applies, else a stand-in, or the user's fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import BLOCK, refit_block
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape, procedure_for, procedure_named, tuned_tiling
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_split,
    grad_input_fits_l1,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, SPLIT_HW, SPLIT_NONE, UNCUT, tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import aligned_base_k, finish, step_candidates
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import (
    refitted,
    split_mode,
    turns_weights,
    vendor_grad_input_3510,
)
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import roomy_grad_input, sound_grad_input, spread, taller
from ascend_sim.ops.kernels.grad_input.strips import in_fitting_strips, in_strips
from ascend_sim.ops.problem.tiling_input import TilingInput


def choose_grad_input(
    inp: TilingInput,
    overrides: Mapping[str, Any] | None = None,
    *,
    stand_in: bool = False,
    chip: ChipSpec | None = None,
    blocks: int | None = None,
    dtype: str = "",
) -> GradInputTiling:
    """Tiling of grad_input; `overrides` are the user's fields in the vendor's spelling.

    Fields that are left out are derived again where they depend on those given. `stand_in` says that the real kernel is
    a closed library, not the V2 kernel. `chip` says which open procedures apply (None: that of dav-2201). `blocks` is the
    number of blocks that a call asks for, which on coupled chips decides the tiling. The compute `dtype`, if given, is looked
    up in the vendor's table first. Raises TilingError with the formula and the limit for what cannot run.
    """
    if not overrides and (tuned := tuned_tiling("grad_input", inp, dtype, chip)):
        fields, source = tuned
        return choose_grad_input(inp, fields, chip=chip).but(source=source)
    given = GradInputTiling.given(overrides or {})
    columns = (stand_in or variant_of(inp).keeps_operands) and inp.problem.one_row
    tiling = _automatic_grad_input(inp, chip, blocks, given, free=not overrides, columns=columns)
    if stand_in or _turns_weights(tiling, inp, dtype):
        tiling = tiling.but(source="stand-in")
    whole = variant_of(inp).whole_slices and not tiling.split_wi and not tiling.load_b1
    if tiling.source == "stand-in" and whole:
        tiling = spread(taller(tiling, inp), inp).but(source="stand-in")
    if not overrides:
        return tiling.but(source="stand-in") if has_exact_shape("grad_input", inp, chip) else tiling
    if variant_of(inp).kernel_parts:
        return _manual_3510(tiling, inp, given)
    part = tiling_input(tiling, inp)
    tiling = refit_block(tiling.but(**given), part, given, aligned_base_k)
    if not grad_input_fits_l1(tiling, part) or any(name in given for name in BLOCK):
        tiling = next((t for t in step_candidates(tiling, part, given) if grad_input_fits_l1(t, part)), tiling)
    tiling = finish(tiling, inp, keep=frozenset(given)).but(source="manual")
    check_grad_input(tiling, inp)
    return tiling


def _turns_weights(tiling: GradInputTiling, inp: TilingInput, dtype: str) -> bool:
    """Whether the library lets vector cores turn the weights first, which our kernel does only where it is split."""
    whole = variant_of(inp).kernel_parts and tiling.kernel_split == SPLIT_NONE
    return (
        whole
        and tiling.source == "vendor procedure"
        and turns_weights(DataProblem.of(inp), tiling, hf32=dtype == "hf32")
    )


def _manual_3510(tiling: GradInputTiling, inp: TilingInput, given: Mapping[str, int]) -> GradInputTiling:
    """The user's fields on the kernel that reads NCDHW; those that its tiling has anyway change none of the others."""
    if tiling.but(**given) == tiling:
        return tiling.but(source="manual")
    tiling = tiling.but(**given)
    tiling = refit_block(tiling, tiling_input(tiling, inp), given, aligned_base_k)
    tiling = refitted(tiling, inp, given).but(source="manual")
    check_grad_input(tiling, inp)
    return tiling


def _automatic_grad_input(
    inp: TilingInput, chip: ChipSpec | None, blocks: int | None, given: Mapping[str, int], free: bool, columns: bool
) -> GradInputTiling:
    """Whole rows where they fit L1, else strips; where neither fits, on split cores the kernel row by row or tap by tap.

    A kernel split, strips or a cut of the user's are taken as they are. `columns`: of a row that is longer than a tile, the
    kernel loads what the tile reads (`strips.py`).
    """
    variant = variant_of(inp)
    mode, strip = given.get("kernel_split") if variant.kernel_parts else None, given.get("split_wi")
    cuts = (given["load_b1"],) if "load_b1" in given else _cuts(inp, free)
    if mode is not None:
        check_split(mode, inp)

    def tiling(cut: int) -> GradInputTiling:
        def of_a_part(part: TilingInput) -> GradInputTiling:
            # On coupled chips the procedure deals a map out to cores, of which a strip is only a part.
            unsplit = variant.kernel_parts and (cut != UNCUT or split_mode(inp) == SPLIT_HW)
            own = SPLIT_NONE if mode is None and unsplit else mode
            return _grad_input_of_rows(part, chip, blocks, free and not variant.keeps_operands, own, UNCUT)

        if strip:
            return in_strips(inp, strip, of_a_part, cut)
        try:
            if cut:
                return in_strips(inp, 0, of_a_part, cut)
            rows = _grad_input_of_rows(inp, chip, blocks, free, mode, given.get("load_b1"))
        except TilingError:
            if strip == 0 or mode == SPLIT_HW or inp.problem.w_in <= FRACTAL:
                raise
            return in_fitting_strips(inp, of_a_part, cut)
        if strip == 0 or not columns or inp.problem.w_in <= rows.base_m:
            return rows
        try:
            return in_fitting_strips(inp, of_a_part, cut)
        except TilingError:
            return rows

    refusal: TilingError | None = None
    for cut in cuts:
        try:
            return tiling(cut)
        except TilingError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _cuts(inp: TilingInput, free: bool) -> tuple[int, ...]:
    """How the kernel may be taken, in the order in which it is tried.

    On dav-2201 only what L1 does not hold is cut: what load3d has no fields for is refused by the library (stated).
    """
    variant, every = variant_of(inp), (UNCUT, NO_HK, NO_HK_WK)
    if variant.kernel_parts:
        return every
    try:
        check_grad_input_problem(inp)
    except TilingError:
        return (UNCUT,)
    return every if variant.cuts_kernels and free else (UNCUT,)


def _grad_input_of_rows(
    inp: TilingInput, chip: ChipSpec | None, blocks: int | None, free: bool, mode: int | None, cut: int | None
) -> GradInputTiling:
    """The vendor's tiling where its procedure decides the problem, else a sound one.

    On coupled chips a call that asks for a number of blocks is cut for as many cores; one that the procedure cannot cut into
    so many has not got its tiling from there (published rows of the 910: 32 blocks on 30 cores), nor (not `free`) one with
    fields of the user's. `mode` is a kernel split to take instead of the library's, `cut` says how the kernel is taken instead
    of as there.
    """
    if mode:
        return vendor_grad_input_3510(inp, mode, UNCUT)
    name = procedure_for(chip, "grad_input")
    procedure = procedure_named("grad_input", name) if name else None
    own_blocks = variant_of(inp).keeps_operands
    inp = replace(inp, cores=blocks) if blocks and own_blocks else inp
    if procedure is not None and procedure.covers(inp) and (free or not own_blocks):
        try:
            own = variant_of(inp).kernel_parts
            tiling = vendor_grad_input_3510(inp, mode, cut) if own else procedure.decide(inp, chip)
            if not own_blocks or blocks in (None, tiling.block_dim):
                return tiling
        except TilingError:
            pass  # the vendor refuses; a smaller block may still do
    if name == "dav_2201":
        return taller(sound_grad_input(inp), inp)
    return roomy_grad_input(inp)

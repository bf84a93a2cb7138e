"""Ladder of grad_input's tilings: its rungs in order, and the user's fields put into the tiling that answers.

Whole rows come first, by the vendor's procedure or else a sound tiling of our own; then strips of columns, and on split
cores the kernel row by row and tap by tap. Strips, a cut or a split that a user gives exclude the rungs that do
otherwise. The other fields are put into the tiling that answers, and what depends on them is derived again.

ops-nn never cuts a row on arch22 (stated) and has no field for it in its data kernels. The older 2-D kernel holds the columns
of a signal that a tile reads, and has a mode that cuts W (the library's cube_util.h, GetAl1Bound: stated; when it is taken is
not known). Both are strips here. A strip is as wide as a tile, so that a tile uses all that is loaded for it and there is work
for all cores: the fewest strips that fit would load a wide row again for each of its tiles and took 1.5 to 60 times as long.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.capacity import BLOCK, refit_block
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.kernels.cube.ladder import (
    CLOSED,
    GUESSED,
    INFERRED,
    OURS,
    STATED,
    WIDEST,
    LadderAnswer,
    Refusal,
    Rung,
    TilingQuestion,
    answered,
    attempt,
    climb,
    widest_that_fits,
)
from ascend_sim.ops.kernels.cube.vendor import exact_shape, procedure_mark, procedure_of, tuned_tiling
from ascend_sim.ops.kernels.grad_input.capacity import (
    check_grad_input,
    check_grad_input_problem,
    check_grad_input_strips,
    check_split,
    grad_input_fits_l1,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, Variant, variant_of
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, SPLIT_HW, SPLIT_NONE, UNCUT, part_input, tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import aligned_base_k, finish, step_candidates, task_count
from ascend_sim.ops.kernels.grad_input.procedures.dav_3510 import refitted, split_mode
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import roomy_grad_input, sound_grad_input, spread, taller
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import floor_to

KERNEL = "grad_input"


@frozen
class GradInputQuestion(TilingQuestion):
    """Question for the ladder of grad_input; properties give the user's kernel split, strip width and kernel cut."""

    fields_of: ClassVar[type[ConvTiling]] = GradInputTiling

    @property
    def variant(self) -> Variant:
        """Return the properties of the grad_input kernel on the chip's family."""
        return variant_of(self.inp)

    @property
    def closed(self) -> bool:
        """Return True if the operator's kernel is in a closed library. That is every operator except
        Conv2DBackpropInput on coupled chips and Conv3DBackpropInputV2 on others; False without an operator name.
        """
        return self.op_type not in ("", "Conv2DBackpropInput" if self.inp.family.coupled else "Conv3DBackpropInputV2")

    @property
    def mode(self) -> int | None:
        """Return the user's kernelSplitMode; None if it is not given, and on a chip whose kernel cannot be split, where
        `answer` refuses any value but 0.
        """
        return self.given.get("kernel_split") if self.variant.kernel_parts else None

    @property
    def strip(self) -> int | None:
        """Return the user's strip width in columns, 0 for whole rows; None if not given."""
        return self.given.get("split_wi")

    @property
    def cut(self) -> int | None:
        """Return the user's cut of the kernel: 0 none, 2 row by row, 3 tap by tap; None if not given."""
        return self.given.get("load_b1")

    @property
    def whole(self) -> bool:
        """Return True if the given fields allow whole rows and an uncut kernel."""
        return not self.strip and not self.cut

    @property
    def may_strip(self) -> bool:
        """Return True if rows may be cut into strips: the user gives no width and splits no columns, rows exceed 16 pixels."""
        return self.strip is None and self.mode != SPLIT_HW and self.inp.problem.w_in > FRACTAL

    @property
    def cuts(self) -> tuple[int, ...]:
        """Return the cuts of the kernel to try, in order: the user's own, else by rows, then by taps, if the chip's
        kernel has them, on dav-2201 only if the user gives no field; () for none.
        """
        if self.cut is not None:
            return (self.cut,) if self.cut else ()
        may_cut = self.variant.kernel_parts or (self.variant.cuts_kernels and self.free)
        return (NO_HK, NO_HK_WK) if may_cut else ()

    def part(self, strip: int, cut: int) -> GradInputQuestion:
        """Return the question for a strip of `strip` columns (0: the whole map), in whole rows, and one piece of a kernel cut
        by `cut`.

        Of the user's fields only a kernelSplitMode stays; without one the part is not split if it is cut, or if the library
        would split both axes. Fields are always given, so that the procedure of coupled chips, which deals out whole maps, does
        not apply.
        """
        fields = {"loadB1Condition": UNCUT}
        if self.mode is not None:
            fields["kernelSplitMode"] = self.mode
        elif self.variant.kernel_parts and (cut != UNCUT or split_mode(self.inp) == SPLIT_HW):
            fields["kernelSplitMode"] = SPLIT_NONE
        part = part_input(self.inp, SPLIT_NONE, strip, cut)
        return GradInputQuestion(part, fields, self.chip, self.dtype, blocks=self.blocks)

    def answer(self) -> LadderAnswer[GradInputTiling]:
        """Return the ladder's answer, its tiling with the user's fields ("manual"); without any it is a "stand-in" if the
        library decides otherwise.

        Raises TilingError with the reason where no rung has a tiling or the fields do not fit.
        """
        if self.mode is not None:
            check_split(self.mode, self.inp)
        found = answered(climb(LADDER, self))
        tiling = found.tiling.but(source="stand-in") if found.stands_in else found.tiling
        return replace(found, tiling=tiling if self.free else _with_fields(self, tiling))

    def tiling(self) -> GradInputTiling:
        """Return the tiling of the ladder's answer. Raises TilingError as `answer` does."""
        return self.answer().tiling


GradInputRung = Rung[GradInputQuestion, GradInputTiling]


# ---- whole rows ------------------------------------------------------------------------------------------------------


def _procedure(q: GradInputQuestion) -> GradInputTiling | Refusal:
    """Return the tiling of the vendor's procedure, which the chip's architecture must have; TilingError where it finds none.

    On coupled chips a refusal, if the call asks for another number of blocks than the procedure makes (published rows of the
    910: 32 blocks on 30 cores).
    """
    procedure = procedure_of(q.chip, KERNEL)
    assert procedure is not None
    tiling: GradInputTiling = procedure.decide(q)
    if q.variant.keeps_operands and q.blocks not in (None, tiling.block_dim):
        return Refusal(f"it makes {tiling.block_dim} blocks where the call asks for {q.blocks}")
    return tiling


def _own_rows(q: GradInputQuestion) -> GradInputTiling:
    """Return a tiling of our own for whole rows of gradOutput in L1; TilingError where they do not fit.

    It is the stand-in tiling with taller tiles; for kernels that need no whole slices also with second buffers where
    they fit (`roomy_grad_input`).
    """
    inp = q.dealt
    return taller(sound_grad_input(inp), inp) if q.variant.whole_slices else roomy_grad_input(inp)


PROCEDURE: GradInputRung = Rung(
    "vendor's procedure",
    lambda q: procedure_mark(q.chip, KERNEL),
    lambda q: q.whole and procedure_of(q.chip, KERNEL) is not None and (q.free or not q.variant.keeps_operands),
    _procedure,
)
UNSPLIT: GradInputRung = Rung(
    "kernel not split",
    OURS,
    lambda q: q.whole and q.mode is None and q.variant.kernel_parts and split_mode(q.inp) != SPLIT_NONE,
    lambda q: _procedure(replace(q, fields={**(q.fields or {}), "kernelSplitMode": SPLIT_NONE})),
)
OWN_ROWS: GradInputRung = Rung("own whole rows", OURS, lambda q: q.whole and not q.mode, _own_rows)
ROWS = (PROCEDURE, UNSPLIT, OWN_ROWS)


# ---- strips, pieces of the kernel ------------------------------------------------------------------------------------


def _in_strips(q: GradInputQuestion, strip: int, cut: int = UNCUT) -> GradInputTiling | Refusal:
    """Return the stand-in tiling for strips of `strip` columns (0: the whole map) and a kernel cut by `cut` (0 none, 2 row by
    row, 3 tap by tap), or the refusal. TilingError where dx cannot be cut so, or the tiling cannot run.

    It is the tiling that the rungs ROWS find for the whole rows of one strip. With a cut kernel L1 keeps no weights, and tiles
    have no more rows than load3d can take for padding.
    """
    inp = q.inp
    check_grad_input_strips(GradInputTiling(FRACTAL, FRACTAL, FRACTAL, split_wi=strip), inp)
    part = q.part(strip, cut)
    rows = climb(ROWS, part)
    if isinstance(rows, Refusal):
        return rows
    tiling = rows.tiling.but(split_wi=strip, source="stand-in")
    if cut:
        # L1 holds the weights of one piece after the other, and load3d may have to take all rows of a tile for padding.
        tiling = tiling.but(load_b1=cut, full_load=0, single_core_din=1, weights_resident=False)
        most = (inp.load3d.pad - 1) * part.inp.problem.w_in + 1
        tiling = tiling.but(base_m=min(tiling.base_m, floor_to(most, FRACTAL)))
    tiling = tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))
    check_grad_input(tiling, inp)
    return tiling


def _in_fitting_strips(q: GradInputQuestion, cut: int = UNCUT) -> GradInputTiling | Refusal:
    """Return the tiling of the widest strips that fit, as wide as a tile, for a kernel cut as `cut` says, or the last refusal.

    Tap by tap they are at most as wide as load3d's padding, since a tap may see nothing but padding in a strip. TilingError
    where load3d cannot hold an uncut kernel.
    """
    inp, taps = q.inp, part_input(q.inp, SPLIT_NONE, 0, cut).taps
    smallest = GradInputTiling(FRACTAL, inp.unit, inp.unit, step_ka=taps, step_kb=taps, al1_buffers=1, bl1_buffers=1)

    def may_fit(strip: int) -> bool:
        return grad_input_fits_l1(smallest.but(single_core_m=strip), part_input(inp, SPLIT_NONE, strip, cut))

    if cut == UNCUT:
        check_grad_input_problem(inp)
    most = inp.load3d.pad if cut == NO_HK_WK else WIDEST
    return widest_that_fits(inp.problem.w_in, may_fit, lambda strip: _in_strips(q, strip, cut), inp.load3d.pad, most)


def _columns(q: GradInputQuestion) -> GradInputTiling | Refusal:
    """Return the tiling of a one-row problem in strips; a refusal if whole rows have none, one tile has the row, or no strips
    fit.
    """
    rows = climb(ROWS, q)
    if isinstance(rows, Refusal):
        return rows
    if q.inp.problem.w_in <= rows.tiling.base_m:
        return Refusal(f"a tile of {rows.tiling.base_m} pixels already holds the whole row of {q.inp.problem.w_in}")
    return _in_fitting_strips(q)


def _strips(q: GradInputQuestion) -> GradInputTiling | Refusal:
    """Return the tiling of strips of the user's width or, if none is given, of strips as wide as a tile."""
    return _in_strips(q, q.strip) if q.strip else _in_fitting_strips(q)


def _in_pieces(q: GradInputQuestion, cut: int) -> GradInputTiling | Refusal:
    """Return the tiling for a kernel cut by rows or taps: in whole rows (or the user's strips) or, where these do not
    fit, in strips.

    On dav-2201, unless the user gives the cut, only L1 may be the reason: values that load3d has no fields for are
    refused by the library (stated).
    """
    if q.cut is None and not q.variant.kernel_parts:
        check_grad_input_problem(q.inp)
    tiling = attempt(_in_strips, q, q.strip or 0, cut)
    return _in_fitting_strips(q, cut) if isinstance(tiling, Refusal) and q.may_strip else tiling


def _cut_mark(q: GradInputQuestion) -> str:
    """Return the mark of a cut kernel: stated on dav-3510; guessed on dav-2201, where the library's way is unknown."""
    return STATED if q.variant.kernel_parts else GUESSED


# ---- the ladder ------------------------------------------------------------------------------------------------------


def _dealt_out(q: GradInputQuestion, tiling: GradInputTiling) -> GradInputTiling:
    """Return the tiling; on dav-2201 with source "stand-in", its tiles made `taller` if they have few channels, then smaller if
    that uses more cores (`spread`).
    """
    return spread(taller(tiling, q.inp), q.inp).but(source="stand-in") if q.variant.whole_slices else tiling


def _procedure_dealt_out(q: GradInputQuestion) -> GradInputTiling | Refusal:
    """Return the procedure's tiling or refusal; on dav-2201, for an operator of a closed library, the tiling has source
    "stand-in", and tiles may be taller, or smaller to use more cores (`_dealt_out`).
    """
    tiling = _procedure(q)
    return _dealt_out(q, tiling) if q.closed and not isinstance(tiling, Refusal) else tiling


LADDER: tuple[GradInputRung, ...] = (
    Rung(
        "tuned table", STATED, lambda q: q.free and q.chip is not None and q.inp.layout is PLANAR, partial(tuned_tiling, KERNEL)
    ),
    exact_shape(KERNEL),
    CLOSED,
    Rung(
        "columns of a long row",
        INFERRED,
        lambda q: (q.closed or q.variant.keeps_operands) and q.inp.problem.one_row and q.strip is None and not q.cut,
        _columns,
    ),
    replace(PROCEDURE, tiling=_procedure_dealt_out),
    UNSPLIT,
    replace(OWN_ROWS, tiling=lambda q: _dealt_out(q, _own_rows(q))),
    Rung("strips", OURS, lambda q: not q.cut and (bool(q.strip) or q.may_strip), _strips),
    Rung(
        "kernel row by row",
        _cut_mark,
        lambda q: q.cuts not in ((), (NO_HK_WK,)),
        lambda q: _in_pieces(q, q.cuts[0]),
        explains=False,
    ),
    Rung("tap by tap", _cut_mark, lambda q: NO_HK_WK in q.cuts, partial(_in_pieces, cut=NO_HK_WK), explains=False),
)


# ---- fields of the user's --------------------------------------------------------------------------------------------


def _with_fields(q: GradInputQuestion, tiling: GradInputTiling) -> GradInputTiling:
    """Return the tiling with the user's fields, "manual", with dependent fields derived again; TilingError if it does not fit.

    On dav-3510, given fields that equal the tiling's change no other field.
    """
    inp, given = q.inp, q.given
    if q.variant.kernel_parts:
        if tiling.but(**given) == tiling:
            return tiling.but(source="manual")
        tiling = tiling.but(**given)
        tiling = refit_block(tiling, tiling_input(tiling, inp), given, aligned_base_k)
        tiling = refitted(tiling, inp, given).but(source="manual")
    else:
        part = tiling_input(tiling, inp)
        tiling = refit_block(tiling.but(**given), part, given, aligned_base_k)
        if not grad_input_fits_l1(tiling, part) or any(name in given for name in BLOCK):
            tiling = next((t for t in step_candidates(tiling, part, given) if grad_input_fits_l1(t, part)), tiling)
        tiling = finish(tiling, inp, keep=frozenset(given)).but(source="manual")
    check_grad_input(tiling, inp)
    return tiling

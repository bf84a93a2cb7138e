"""Ladder of grad_weight's tilings: its rungs in order, for the library's older kernels and the open one, and the user's fields.

The library's older operators launch kernels of their own, whose tilings have no field to set. Where a call names fields, wants
sums in a fixed order, or runs on coupled chips, the open kernel stands in for them; without such fields the older 2-D kernel is
the last resort.
The open kernel has whole rows by the vendor's procedure, by the base template of V2 or by a sound tiling of our own; else
strips of columns, and on the 950 taps one by one. Strips or taps that a user gives exclude the rungs that do otherwise. The
other fields are put into the tiling that answers, and what depends on them is derived again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import ClassVar

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.capacity import BLOCK, buffer_counts, refit_block
from ascend_sim.ops.kernels.cube.fields import ConvTiling
from ascend_sim.ops.kernels.cube.ladder import (
    CLOSED,
    INFERRED,
    OURS,
    STATED,
    LadderAnswer,
    Refusal,
    Rung,
    TilingQuestion,
    answered,
    attempt,
    climb,
)
from ascend_sim.ops.kernels.cube.vendor import exact_shape, procedure_for, procedure_mark, procedure_of, tuned_tiling
from ascend_sim.ops.kernels.grad_weight.capacity import (
    bl1_bound,
    check_grad_weight,
    check_grad_weight_problem,
    check_walk,
    grad_weight_fits_l1,
)
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import by_tap, is_split, stacked, walked_input
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import ONE_WAY, FilterProblem, filter_problem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import (
    cache_tiling,
    tiling_by_loads,
    vendor_base_template,
)
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import fits
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import stream_k, task_count, with_core_shape
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

KERNEL = "grad_weight"
FLAT, VOLUMETRIC = "Conv2DBackpropFilter", "Conv3DBackpropFilter"
"""The operators that launch the library's older kernels."""
BASE_TEMPLATE = "Conv3DBackpropFilterV2"
"""The operator whose base template decides where the procedure of its open templates does not."""
BY_LOADS = "fewest_loads"
UNLIMITED = 2**62  # bytes
OTHER_KERNEL = (
    "grad_weight runs as the open kernel, whose tiling has the fields that were given; without them the library's {} would "
    "run, and choose its tiling itself (vendor procedure)"
)


@frozen
class OlderKernel:
    """An older kernel of the library: its problem, and the tiling that the kernel chooses itself."""

    problem: FilterProblem
    tiling: CacheTiling

    @property
    def any_order(self) -> bool:
        """Return True if several of its blocks add to the same part of dW, in any order."""
        cuts = self.tiling.cuts
        return cuts.k * cuts.batch * cuts.depth > 1


@frozen
class GradWeightQuestion(TilingQuestion):
    """Question for the ladder of grad_weight; properties give the strips and single taps that the user asks for."""

    fields_of: ClassVar[type[ConvTiling]] = GradWeightTiling

    @property
    def closed(self) -> bool:
        """Return True if the operator's kernel is in a closed library: all except Conv3DBackpropFilterV2 and, in
        deterministic mode, Conv3DBackpropFilter; False without an operator name.
        """
        return self.op_type not in ("", BASE_TEMPLATE) and not (self.inp.deterministic and self.op_type == VOLUMETRIC)

    @property
    def width(self) -> int | None:
        """Return the user's strip width in columns, 0 for whole rows; None if not given."""
        return self.given.get("split_wo")

    @property
    def taps(self) -> int | None:
        """Return the user's isSplitKernelHW: 1 for single taps, 0 to exclude them; None if not given."""
        return self.given.get("split_kernel")

    @property
    def whole(self) -> bool:
        """Return True if the user's fields allow whole rows: no single taps, and no strip narrower than a row."""
        return not self.taps and not is_split(self.inp.problem, self.width or 0)

    @property
    def may_strip(self) -> bool:
        """Return True if rows may be cut into strips of any width: the user gives no splitWo and no isSplitKernelHW = 1."""
        return not self.taps and self.width is None

    @property
    def older(self) -> bool:
        """Return True if the operator launches one of the library's older kernels, and its procedure is known."""
        return self.op_type in (FLAT, VOLUMETRIC) and procedure_for(self.chip, self.op_type) is not None

    @property
    def together(self) -> bool:
        """Return True if cores can share a task, because the chip has flags between cores."""
        return share_tasks(self.chip)

    def part(self, inp: TilingInput) -> GradWeightQuestion:
        """Return the question for the problem `inp` (stacked strips, or single taps), in whole rows, without other fields and
        without an operator.
        """
        return GradWeightQuestion(inp, {"splitWo": 0}, self.chip, self.dtype, blocks=self.blocks)

    def answer(self) -> LadderAnswer[GradWeightTiling | OlderKernel]:
        """Return the ladder's answer: the kernel and its tiling. TilingError with the reason if no rung has one, or a user's
        field cannot be.
        """
        found = attempt(_answer, replace(self, inp=self.dealt))
        if isinstance(found, Refusal) and self.op_type == VOLUMETRIC:
            found = Refusal(f"{found.reason}; {ONE_WAY}")
        return answered(found)

    def tiling(self) -> GradWeightTiling:
        """Return the open kernel's tiling of the answer; only for questions whose operator has no older kernel."""
        tiling = self.answer().tiling
        assert isinstance(tiling, GradWeightTiling)
        return tiling


def _answer(q: GradWeightQuestion) -> LadderAnswer[GradWeightTiling | OlderKernel] | Refusal:
    """Return the ladder's answer with the user's fields, or its refusal (`climb`). TilingError for impossible fields."""
    check_walk(q.width or 0, q.taps or 0, q.inp)
    found = climb(LADDER, q)
    if isinstance(found, Refusal) or isinstance(found.tiling, OlderKernel):
        return found
    tiling = found.tiling.but(source="stand-in") if found.stands_in else found.tiling
    return replace(found, tiling=tiling if q.free else _with_fields(q, tiling))


def share_tasks(chip: ChipSpec | None) -> bool:
    """Return True if the chip's cores have flags between them, by which they can share a task; True without a chip."""
    return chip is None or chip.sync.cross_flag_ids > 0


GradWeightRung = Rung[GradWeightQuestion, GradWeightTiling]


# ---- whole rows ------------------------------------------------------------------------------------------------------


def _procedure(q: GradWeightQuestion) -> GradWeightTiling | Refusal:
    """Return the tiling of the architecture's vendor procedure; a refusal if it takes strips or taps despite splitWo = 0."""
    procedure = procedure_of(q.chip, KERNEL)
    assert procedure is not None
    tiling: GradWeightTiling = procedure.decide(q)
    if q.width is not None and (tiling.split_wo or tiling.split_kernel):
        return Refusal("it cuts rows or takes single taps, where whole rows are given")
    return tiling


def _has_base_template(q: GradWeightQuestion) -> bool:
    """Return True if V2's base template decides: the chip has one, and the vendor's procedure does not cover the problem."""
    procedure = procedure_of(q.chip, KERNEL)
    covered = procedure is not None and procedure.covers(q.inp)
    return q.chip is not None and procedure_for(q.chip, BASE_TEMPLATE) == "cache_tiling" and not covered


def _base_template(q: GradWeightQuestion) -> GradWeightTiling:
    """Return the tiling of V2's base template."""
    assert q.chip is not None
    return vendor_base_template(q.inp, q.chip, q.dtype)


def _own_rows(q: GradWeightQuestion) -> GradWeightTiling:
    """Return a tiling of our own with whole rows in L1, without StreamK if cores cannot share a task; or TilingError."""
    tiling = sound_grad_weight(q.inp, q.chip, q.dtype)
    if q.together or tiling.stream_k_type == STREAM_NONE:
        return tiling
    cores = min(task_count(tiling, q.inp), q.inp.cores)
    return tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0, block_dim=cores)


ROWS: tuple[GradWeightRung, ...] = (
    Rung(
        "vendor's procedure",
        lambda q: procedure_mark(q.chip, KERNEL),
        lambda q: q.whole and procedure_of(q.chip, KERNEL) is not None,
        _procedure,
    ),
    Rung("base template", STATED, lambda q: q.whole and _has_base_template(q), _base_template),
    Rung("own whole rows", OURS, lambda q: q.whole, _own_rows),
)


# ---- strips, single taps ---------------------------------------------------------------------------------------------


def _rows_of(
    q: GradWeightQuestion, inp: TilingInput, *, split_wo: int = 0, split_kernel: int = 0
) -> GradWeightTiling | Refusal:
    """Return the "stand-in" tiling that the rungs ROWS find for `inp`, strips or taps, with the split fields; or a refusal."""
    rows = climb(ROWS, q.part(inp))
    if isinstance(rows, Refusal):
        return rows
    return rows.tiling.but(source="stand-in", split_wo=split_wo, split_kernel=split_kernel)


def _columns(q: GradWeightQuestion) -> GradWeightTiling | Refusal:
    """Return the tiling of a one-row problem in strips of columns; a refusal if whole rows have no tiling, one load has the
    whole row, or no comfortable strips fit (`_fewest_strips`).
    """
    rows = climb(ROWS, q)
    if isinstance(rows, Refusal):
        return rows
    pixels, width = rows.tiling.base_k * rows.tiling.step_kb, q.inp.problem.w_out
    if pixels >= width:
        return Refusal(f"one load of {pixels} pixels already holds the whole row of {width}")
    return _fewest_strips(q, comfortable=True)


def _strips(q: GradWeightQuestion) -> GradWeightTiling | Refusal:
    """Return the tiling for strips of the user's width or, if none is given, the fewest comfortable ones (`_fewest_strips`)."""
    if q.width:
        return _rows_of(q, stacked(q.inp, q.width), split_wo=q.width)
    return _fewest_strips(q, comfortable=True)


def _fewest_strips(q: GradWeightQuestion, comfortable: bool) -> GradWeightTiling | Refusal:
    """Return the tiling with the fewest strips that fit, two or more, in multiples of 16 columns, found by halving; else a
    refusal. TilingError where load3d cannot hold the problem.

    `comfortable` strips keep the base block that an unlimited L1 would allow, and as many L1 buffers or double buffers.
    """
    check_grad_weight_problem(q.inp)
    w_out = q.inp.problem.w_out

    def tried(count: int) -> GradWeightTiling | Refusal:
        width = ceil_to(ceil_div(w_out, count), FRACTAL)
        stack = stacked(q.inp, width)
        tiling = _rows_of(q, stack, split_wo=width)
        if isinstance(tiling, Refusal) or not comfortable:
            return tiling
        wanted = _rows_of(q, replace(stack, buffers={**stack.buffers, "L1": UNLIMITED}))
        if isinstance(wanted, Refusal):
            return wanted
        return tiling if _comparable(tiling, wanted) else Refusal(f"strips of {width} columns make the block smaller")

    low, high = 1, ceil_div(w_out, FRACTAL)  # whole rows do not do
    best = tried(high) if high > 1 else Refusal(f"{w_out} columns are not cut: a strip has at least {FRACTAL}")
    while not isinstance(best, Refusal) and high - low > 1:
        middle = (low + high) // 2
        tiling = tried(middle)
        if isinstance(tiling, Refusal):
            low = middle
        else:
            high, best = middle, tiling
    return best


def _comparable(tiling: GradWeightTiling, wanted: GradWeightTiling) -> bool:
    """Return True if a tiling has the base block of `wanted`, and as many L1 buffers or double buffers."""
    buffers = (tiling.al1_buffers, tiling.bl1_buffers)
    block = all(getattr(tiling, name) == getattr(wanted, name) for name in BLOCK)
    return block and buffers in ((2, 2), (wanted.al1_buffers, wanted.bl1_buffers))


# ---- the older kernel ------------------------------------------------------------------------------------------------


def _older(q: GradWeightQuestion) -> OlderKernel | Refusal:
    """Return the older kernel with its own tiling, a "stand-in" where its tiles would cross kernel planes; a refusal if that
    does not fit L1, or if the call names fields, even {}.
    """
    assert q.chip is not None
    problem = filter_problem(q.inp, q.dtype, q.blocks, volumetric=q.op_type == VOLUMETRIC)
    by_loads = procedure_for(q.chip, q.op_type) == BY_LOADS
    tiling = tiling_by_loads(problem) if by_loads else cache_tiling(problem, cycle_costs(q.chip.identity.arch))
    if not fits(problem, tiling.tile):
        return Refusal("the tiling that it chooses does not fit into L1")
    if q.fields:
        return Refusal(OTHER_KERNEL.format(q.op_type), warns=True)
    if q.fields is not None:
        return Refusal("the call asks for the kernel with tiling fields")
    # The program takes a kernel plane at a time, where the library lets a tile reach into the next.
    planes = problem.problem.k_d // tiling.cuts.planes
    crosses = planes > 1 and tiling.share.n // planes % (tiling.tile.n_bl1 * tiling.tile.n_l0) != 0
    return OlderKernel(problem, replace(tiling, source="stand-in") if crosses else tiling)


# ---- the ladder ------------------------------------------------------------------------------------------------------


def _may_be_any_order(q: GradWeightQuestion) -> bool:
    """Return True if the library may add sums in any order: on split cores, where no fixed order is asked for."""
    return not q.inp.family.coupled and not q.inp.deterministic


LADDER: tuple[Rung[GradWeightQuestion, GradWeightTiling | OlderKernel], ...] = (
    Rung(
        "tuned table",
        STATED,
        lambda q: q.free and q.inp.deterministic and q.chip is not None and q.inp.layout is PLANAR,
        partial(tuned_tiling, KERNEL),
    ),
    Rung(
        "older kernel",
        lambda q: procedure_mark(q.chip, q.op_type),
        lambda q: q.older and _may_be_any_order(q),
        _older,
        explains=False,
    ),
    exact_shape(KERNEL),
    CLOSED,
    Rung("columns of a long row", INFERRED, lambda q: q.may_strip and q.inp.family.coupled and q.inp.problem.one_row, _columns),
    *ROWS,
    Rung("strips", OURS, lambda q: (not q.whole and not q.taps) or q.may_strip, _strips, explains=False),
    Rung("narrow strips", OURS, lambda q: q.may_strip, partial(_fewest_strips, comfortable=False), explains=False),
    Rung(
        "tap by tap",
        STATED,
        lambda q: q.inp.layout.plain and not q.width and q.taps != 0,
        lambda q: _rows_of(q, by_tap(q.inp), split_kernel=1),
    ),
    Rung(
        "older kernel, last resort",
        lambda q: procedure_mark(q.chip, q.op_type),
        lambda q: q.older and q.op_type == FLAT and not _may_be_any_order(q),
        _older,
        explains=False,
    ),
)


# ---- fields of the user's --------------------------------------------------------------------------------------------


def _with_fields(q: GradWeightQuestion, tiling: GradWeightTiling) -> GradWeightTiling:
    """Return the tiling with the user's fields and the others derived again from them. TilingError if it cannot run."""
    inp, given = walked_input(q.inp, tiling), q.given
    tiling = refit_block(tiling.but(**given), inp, given)
    if tiling.template != SPLIT_GRID:
        tiling = with_core_shape(tiling, inp).but(**given)
    if not grad_weight_fits_l1(tiling, inp, clipped=True) or any(name in given for name in BLOCK):
        fitting = (t for t in _steps(tiling, inp, given) if grad_weight_fits_l1(t, inp, clipped=True))
        tiling = next(fitting, tiling)
    if tiling.template != SPLIT_GRID:
        tiling = with_core_shape(tiling, inp).but(**given)
    check_grad_weight(tiling, q.inp)  # before anything divides by a task's extent
    return completed(tiling, q.inp, given, q.chip)


def completed(tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int], chip: ChipSpec | None) -> GradWeightTiling:
    """Return the tiling, "manual", with blocks, StreamK and the bound of B derived from its other fields, except for
    those that the user has `given`. `chip` None: a 910B. TilingError if the tiling cannot run.
    """
    inp = walked_input(inp, tiling)
    tasks = task_count(tiling, inp)
    shared = (
        stream_k(tiling, tasks, inp)
        if tiling.template == SPLIT_STREAM_K and share_tasks(chip)
        else tiling.but(block_dim=min(tasks, inp.cores))
    )
    tiling = shared.but(**given)
    if chip is not None and not share_tasks(chip) and tiling.stream_k_type != STREAM_NONE:
        raise TilingError(
            f"streamKType = {tiling.stream_k_type}: cores that share a task meet at a flag between cores, and {chip.name} "
            "has none (chip file, sync.cross_flag_ids)"
        )
    tiling = tiling.but(bl1_bound=bl1_bound(tiling, inp, clipped=True), source="manual")
    _check_stream_k(tiling, tasks)
    check_grad_weight(tiling, inp)
    return tiling


def _steps(tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int]) -> Iterator[GradWeightTiling]:
    """Yield the tiling with each choice of the L1 buffers, step_ka and step_kb that the user has not `given`: double buffers
    first, then larger steps, up to 8 and what K and load3d take. Two free steps are equal; a free one
    divides the given one, or is a multiple of it.
    """
    most = max(1, min(8, ceil_div(inp.problem.h_out * inp.problem.w_out, tiling.base_k), inp.load3d.k_extent // tiling.base_k))
    for a_buffers, b_buffers in buffer_counts(tiling, given):
        for step in range(most, 0, -1):
            a = tiling.step_ka if "step_ka" in given else step
            b = tiling.step_kb if "step_kb" in given else step
            if min(a, b) > 0 and max(a, b) % min(a, b) == 0:
                yield tiling.but(al1_buffers=a_buffers, bl1_buffers=b_buffers, step_ka=a, step_kb=b)


def _check_stream_k(tiling: GradWeightTiling, tasks: int) -> None:
    """Raise TilingError for a wrong streamKType, one without deterministic mode, or one without a tail or with more parts of
    the tail than cores.
    """
    if tiling.stream_k_type not in (0, 1, 2):
        raise TilingError(f"streamKType = {tiling.stream_k_type}; allowed 0 (none), 1 (by images), 2 (by rows)")
    if tiling.stream_k_type and tiling.template != SPLIT_STREAM_K:
        raise TilingError(f"streamKType = {tiling.stream_k_type} needs deterministic mode (template {SPLIT_STREAM_K})")
    tail = tasks % tiling.block_dim
    if tiling.stream_k_type and not 1 <= tail * tiling.core_stream_k <= tiling.block_dim:
        raise TilingError(
            f"coreStreamK: {tail} tail tasks * coreStreamK {tiling.core_stream_k} = {tail * tiling.core_stream_k}; "
            f"allowed 1 to usedCoreNum = {tiling.block_dim}"
        )

"""The tiling that grad_weight gets: the vendor's where its open procedure applies, else a stand-in, or the user's fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import BLOCK, buffer_counts, refit_block
from ascend_sim.ops.kernels.cube.vendor import has_exact_shape, procedure_for, procedure_named, tuned_tiling
from ascend_sim.ops.kernels.grad_weight.capacity import (
    bl1_bound,
    check_grad_weight,
    check_grad_weight_problem,
    check_walk,
    grad_weight_fits_l1,
)
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, STREAM_NONE, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import by_tap, stacked, walked_input
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.search import vendor_base_template
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import (
    stream_k,
    task_count,
    with_core_shape,
)
from ascend_sim.ops.kernels.grad_weight.procedures.stand_in import sound_grad_weight
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput

BASE_TEMPLATE = "Conv3DBackpropFilterV2"
"""The operator whose base template decides where the procedure of its open templates does not."""
UNLIMITED = 2**62  # bytes


def choose_grad_weight(
    inp: TilingInput,
    overrides: Mapping[str, Any] | None = None,
    *,
    stand_in: bool = False,
    chip: ChipSpec | None = None,
    dtype: str = "",
) -> GradWeightTiling:
    """Tiling of grad_weight; arguments as for `choose_grad_input`. Without flags between cores there is no StreamK."""
    if inp.deterministic and not overrides and (tuned := tuned_tiling("grad_weight", inp, dtype, chip)):
        fields, source = tuned
        return choose_grad_weight(inp, fields, chip=chip).but(source=source)
    given = GradWeightTiling.given(overrides or {})
    check_walk(given.get("split_wo", 0), given.get("split_kernel", 0), inp)
    together = chip is None or chip.sync.cross_flag_ids > 0
    tiling = _walked_grad_weight(inp, procedure_for(chip, "grad_weight"), chip, given, dtype)
    whole, inp = inp, walked_input(inp, tiling)
    if not together and tiling.stream_k_type != STREAM_NONE:
        tiling = _alone(tiling, inp)
    if stand_in:
        tiling = tiling.but(source="stand-in")
    if not overrides:
        return tiling.but(source="stand-in") if has_exact_shape("grad_weight", whole, chip) else tiling
    tiling = refit_block(tiling.but(**given), inp, given)
    if tiling.template != SPLIT_GRID:
        tiling = with_core_shape(tiling, inp).but(**given)
    if not grad_weight_fits_l1(tiling, inp, clipped=True) or any(name in given for name in BLOCK):
        fits = (t for t in _grad_weight_steps(tiling, inp, given) if grad_weight_fits_l1(t, inp, clipped=True))
        tiling = next(fits, tiling)
    if tiling.template != SPLIT_GRID:
        tiling = with_core_shape(tiling, inp).but(**given)
    return complete_grad_weight(tiling, whole, given, chip)


def complete_grad_weight(
    tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int], chip: ChipSpec | None = None
) -> GradWeightTiling:
    """The fields that follow from a block, its steps and the shape of a task; fields in `given` (our names) stay.

    Raises TilingError for what cannot run.
    """
    check_grad_weight(tiling, inp)  # before anything divides by a task's extent
    return completed(tiling, inp, given, chip)


def completed(
    tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int], chip: ChipSpec | None
) -> GradWeightTiling:
    """As `complete_grad_weight`, of a task whose extents are known to be whole."""
    inp = walked_input(inp, tiling)
    tasks = task_count(tiling, inp)
    together = chip is None or chip.sync.cross_flag_ids > 0
    shared = (
        stream_k(tiling, tasks, inp)
        if tiling.template == SPLIT_STREAM_K and together
        else tiling.but(block_dim=min(tasks, inp.cores))
    )
    tiling = shared.but(**given)
    if chip is not None and not together and tiling.stream_k_type != STREAM_NONE:
        raise TilingError(
            f"streamKType = {tiling.stream_k_type}: cores that share a task meet at a flag between cores, and {chip.name} "
            "has none (chip file, sync.cross_flag_ids)"
        )
    tiling = tiling.but(bl1_bound=bl1_bound(tiling, inp, clipped=True), source="manual")
    _check_stream_k(tiling, tasks)
    check_grad_weight(tiling, inp)
    return tiling


def _alone(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """The same tiling with every task on one core."""
    cores = min(task_count(tiling, inp), inp.cores)
    return tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0, block_dim=cores)


def _walked_grad_weight(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, given: Mapping[str, int], dtype: str
) -> GradWeightTiling:
    """A tiling with the strips or single taps that are given; taps not given are taken where nothing else is possible."""
    width, taps = given.get("split_wo"), given.get("split_kernel")
    if not taps:
        try:
            return _with_strips(inp, procedure, chip, width, dtype)
        except TilingError:
            if not inp.layout.plain or width or taps is not None:
                raise
    return _automatic_grad_weight(by_tap(inp), procedure, chip, dtype).but(split_kernel=1, source="stand-in")


def _with_strips(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, width: int | None, dtype: str
) -> GradWeightTiling:
    """A tiling with strips of `width` gradOutput columns (0: whole rows); None: with strips only where whole rows do not fit.

    Then the fewest comfortable strips, which let a base block have the size that it would have without a limit of L1, and two
    buffers of each operand; where no strips do, the fewest that fit at all. A signal of a coupled chip, whose kernel loads
    columns instead of rows (as on dav-2201: inferred), has such strips, too, where one load to L1 does not use the whole row.
    """
    if width is not None:
        stack = stacked(inp, width)
        found = _automatic_grad_weight(stack, procedure, chip, dtype)
        return found if stack is inp else found.but(split_wo=width, source="stand-in")
    rows, refused = None, None
    try:
        rows = _automatic_grad_weight(inp, procedure, chip, dtype, whole=True)
        if not (inp.family.coupled and inp.problem.one_row and rows.base_k * rows.step_kb < inp.problem.w_out):
            return rows
    except TilingError as error:
        check_grad_weight_problem(inp)
        refused = error
    for comfortable in (True,) if rows else (True, False):
        if tiling := _fewest_strips(inp, procedure, chip, dtype, comfortable):
            return tiling
    if rows:
        return rows
    assert refused is not None
    raise refused


def _fewest_strips(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, dtype: str, comfortable: bool
) -> GradWeightTiling | None:
    """The tiling with the fewest strips that fit, `comfortable` as above; None where the narrowest do not."""

    def attempt(count: int) -> GradWeightTiling | None:
        width = ceil_to(ceil_div(inp.problem.w_out, count), FRACTAL)
        stack = stacked(inp, width)
        try:
            tiling = _automatic_grad_weight(stack, procedure, chip, dtype)
            if comfortable:
                free = replace(stack, buffers={**stack.buffers, "L1": UNLIMITED})
                wanted = _automatic_grad_weight(free, procedure, chip, dtype)
                if not _comparable(tiling, wanted):
                    return None
        except TilingError:
            return None
        return tiling.but(split_wo=width, source="stand-in")

    low, high = 1, ceil_div(inp.problem.w_out, FRACTAL)  # whole rows do not do
    best = attempt(high) if high > 1 else None
    while best and high - low > 1:
        middle = (low + high) // 2
        if tiling := attempt(middle):
            high, best = middle, tiling
        else:
            low = middle
    return best


def _comparable(tiling: GradWeightTiling, wanted: GradWeightTiling) -> bool:
    """Whether a tiling has the base block that is wanted, and as many L1 buffers or ping-pong."""
    buffers = (tiling.al1_buffers, tiling.bl1_buffers)
    block = all(getattr(tiling, name) == getattr(wanted, name) for name in BLOCK)
    return block and buffers in ((2, 2), (wanted.al1_buffers, wanted.bl1_buffers))


def _automatic_grad_weight(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, dtype: str, *, whole: bool = False
) -> GradWeightTiling:
    """The procedure's tiling, else a stand-in's; a problem that is not `whole` is in strips or single taps already."""
    vendor = procedure_named("grad_weight", procedure) if procedure else None
    if vendor is not None and vendor.covers(inp):
        try:
            tiling = vendor.decide(inp, chip)
            if whole or not (tiling.split_wo or tiling.split_kernel):
                return tiling
        except TilingError:
            pass
    elif chip is not None and procedure_for(chip, BASE_TEMPLATE) == "cache_tiling":
        try:
            return vendor_base_template(inp, chip, dtype)
        except TilingError:
            pass
    return sound_grad_weight(inp, chip, dtype)


def _grad_weight_steps(
    tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int]
) -> Iterator[GradWeightTiling]:
    """Candidates for the L1 steps that were not given, most first, both operands alike where both are free."""
    most = max(
        1, min(8, ceil_div(inp.problem.h_out * inp.problem.w_out, tiling.base_k), inp.load3d.k_extent // tiling.base_k)
    )
    for a_buffers, b_buffers in buffer_counts(tiling, given):
        for step in range(most, 0, -1):
            a = tiling.step_ka if "step_ka" in given else step
            b = tiling.step_kb if "step_kb" in given else step
            if min(a, b) > 0 and max(a, b) % min(a, b) == 0:
                yield tiling.but(al1_buffers=a_buffers, bl1_buffers=b_buffers, step_ka=a, step_kb=b)


def _check_stream_k(tiling: GradWeightTiling, tasks: int) -> None:
    """StreamK parts of the tail must find a core each."""
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

"""The tiling a kernel gets: the vendor's where its open procedure applies, else a stand-in, or the user's fields.

`configs/tilings.yaml` says which architectures have an open procedure here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, TypeVar

import yaml

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import TilingError
from ascend_sim.ops.tiling.capacity import (
    ACCUMULATOR_BYTES,
    LOAD3D_MAX_K,
    bl1_bound,
    check_cuts,
    check_grad_input,
    check_grad_weight,
    check_grad_weight_problem,
    check_split,
    fits_l0,
    grad_input_fits_l1,
    grad_weight_fits_l1,
    l0_base_k,
)
from ascend_sim.ops.tiling.fields import (
    FRACTAL,
    SPLIT_GRID,
    SPLIT_STREAM_K,
    STREAM_NONE,
    GradInputTiling,
    GradWeightTiling,
    TilingInput,
    ceil_div,
    ceil_to,
    floor_to,
)
from ascend_sim.ops.tiling.grad_input import (
    aligned_base_k,
    buffer_counts,
    covers_grad_input,
    finish,
    sound_grad_input,
    step_candidates,
    vendor_grad_input,
)
from ascend_sim.ops.tiling.grad_input_1001 import covers_grad_input_1001, vendor_grad_input_1001
from ascend_sim.ops.tiling.grad_input_3510 import refitted, split_mode, vendor_grad_input_3510
from ascend_sim.ops.tiling.grad_input_strips import cut_into_strips, in_strips
from ascend_sim.ops.tiling.grad_weight import covers_grad_weight, task_count, vendor_grad_weight, with_core_shape
from ascend_sim.ops.tiling.grad_weight_3510 import covers_grad_weight_3510, vendor_grad_weight_3510
from ascend_sim.ops.tiling.grad_weight_sound import sound_grad_weight
from ascend_sim.ops.tiling.grad_weight_streamk import stream_k
from ascend_sim.ops.tiling.grad_weight_strips import stacked
from ascend_sim.ops.tiling.grad_weight_taps import by_tap, cut_input
from ascend_sim.ops.tiling.kernel_cut import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.tiling.kernel_split import SPLIT_HW, SPLIT_NONE
from ascend_sim.ops.tiling.parts import tiling_input
from ascend_sim.ops.tiling.tuned import tuned_tiling

T = TypeVar("T", bound=ConvTiling)

BLOCK = ("base_m", "base_k", "base_n")
UNLIMITED = 2**62  # bytes
GRAD_WEIGHT_PROCEDURES = {
    "basic_block": (covers_grad_weight, vendor_grad_weight),
    "stream_k": (covers_grad_weight_3510, vendor_grad_weight_3510),
}
"""Name in configs/tilings.yaml -> (whether it decides a problem, what it decides)."""
GRAD_INPUT_PROCEDURES = {
    "basic_block": (covers_grad_input, vendor_grad_input),
    "cache_tiling": (covers_grad_input_1001, vendor_grad_input_1001),
    "inner_product": (lambda inp: inp.direct, vendor_grad_input_3510),  # says itself what is not the vendor's
}


@cache
def open_procedures() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """Architecture -> kernel -> name and source of the vendor's open procedure."""
    text = resources.files("ascend_sim.configs").joinpath("tilings.yaml").read_text()
    found: Mapping[str, Mapping[str, Mapping[str, str]]] = yaml.safe_load(text)
    return found


def procedure_for(chip: ChipSpec | None, kernel: str) -> str | None:
    """The name of the open procedure for a kernel; None where there is none."""
    if chip is None:
        return "basic_block"
    return open_procedures().get(chip.identity.arch, {}).get(kernel, {}).get("procedure")


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
        return choose_grad_input(inp, tuned, chip=chip).but(source="vendor table")
    given = GradInputTiling.given(overrides or {})
    tiling = _automatic_grad_input(inp, chip, blocks, given, free=not overrides)
    if stand_in:
        tiling = tiling.but(source="stand-in")
    if not overrides:
        return tiling
    if inp.direct:
        return _manual_3510(tiling, inp, given)
    part = tiling_input(tiling, inp)
    tiling = refit_block(tiling.but(**given), part, given, aligned_base_k)
    if not grad_input_fits_l1(tiling, part) or any(name in given for name in BLOCK):
        tiling = next((t for t in step_candidates(tiling, part, given) if grad_input_fits_l1(t, part)), tiling)
    tiling = finish(tiling, inp, keep=frozenset(given)).but(source="manual")
    check_grad_input(tiling, inp)
    return tiling


def _manual_3510(tiling: GradInputTiling, inp: TilingInput, given: Mapping[str, int]) -> GradInputTiling:
    """The user's fields on the kernel that reads NCDHW."""
    tiling = tiling.but(**given)
    tiling = refit_block(tiling, tiling_input(tiling, inp), given, aligned_base_k)
    tiling = refitted(tiling, inp, given).but(source="manual")
    check_grad_input(tiling, inp)
    return tiling


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
        return choose_grad_weight(inp, tuned, chip=chip).but(source="vendor table")
    given = GradWeightTiling.given(overrides or {})
    check_cuts(given.get("split_wo", 0), given.get("split_kernel", 0), inp)
    together = chip is None or chip.sync.cross_flag_ids > 0
    tiling = _cut_grad_weight(inp, procedure_for(chip, "grad_weight"), chip, given, dtype)
    whole, inp = inp, cut_input(inp, tiling)
    if not together:
        tiling = _alone(tiling, inp)
    if stand_in:
        tiling = tiling.but(source="stand-in")
    if not overrides:
        return tiling
    tiling = refit_block(tiling.but(**given), inp, given)
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
    inp = cut_input(inp, tiling)
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


def _automatic_grad_input(
    inp: TilingInput, chip: ChipSpec | None, blocks: int | None, given: Mapping[str, int], free: bool
) -> GradInputTiling:
    """Whole rows where they fit L1, else strips; where neither fits on dav-3510, the kernel row by row or tap by tap.

    A kernel split, strips or a cut of the user's are taken as they are.
    """
    mode, strip = given.get("kernel_split") if inp.direct else None, given.get("split_wi")
    cuts = (given["load_b1"],) if "load_b1" in given else (UNCUT, NO_HK, NO_HK_WK) if inp.direct else (UNCUT,)
    if mode is not None:
        check_split(mode, inp)

    def tiling(cut: int) -> GradInputTiling:
        def of_a_part(part: TilingInput) -> GradInputTiling:
            # On coupled chips the procedure deals a map out to cores, of which a strip is only a part.
            unsplit = inp.direct and (cut != UNCUT or split_mode(inp) == SPLIT_HW)
            own = SPLIT_NONE if mode is None and unsplit else mode
            return _grad_input_of_rows(part, chip, blocks, free and not inp.coupled, own)

        if strip:
            return in_strips(inp, strip, of_a_part, cut)
        try:
            return in_strips(inp, 0, of_a_part, cut) if cut else _grad_input_of_rows(inp, chip, blocks, free, mode)
        except TilingError:
            if strip == 0 or mode == SPLIT_HW or inp.problem.w_in <= FRACTAL:
                raise
        return cut_into_strips(inp, of_a_part, cut)

    refusal: TilingError | None = None
    for cut in cuts:
        try:
            return tiling(cut)
        except TilingError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _grad_input_of_rows(
    inp: TilingInput, chip: ChipSpec | None, blocks: int | None, free: bool, mode: int | None = None
) -> GradInputTiling:
    """The vendor's tiling where its procedure decides the problem, else a sound one.

    On coupled chips a call that asks for another number of blocks than the procedure takes has not got its tiling from
    there (published rows of the 910: 32 blocks on 30 cores), nor (not `free`) one with fields of the user's. `mode` is a
    kernel split to take instead of the library's.
    """
    if mode:
        return vendor_grad_input_3510(inp, mode)
    procedure = procedure_for(chip, "grad_input")
    covers, vendor = GRAD_INPUT_PROCEDURES.get(procedure or "", (None, None))
    if covers and vendor and covers(inp) and (free or not inp.coupled):
        try:
            tiling = vendor(inp) if mode is None else vendor_grad_input_3510(inp, mode)
            if not inp.coupled or blocks in (None, tiling.block_dim):
                return tiling
        except TilingError:
            pass  # the vendor refuses; a smaller block may still do
    if procedure == "basic_block":
        return sound_grad_input(inp)
    return _roomy_grad_input(replace(inp, cores=blocks) if blocks and inp.coupled else inp, chip)


def _roomy_grad_input(inp: TilingInput, chip: ChipSpec | None) -> GradInputTiling:
    """The sound tiling, with two L0C buffers where they fit: a tile leaves while the next one is multiplied.

    On coupled chips two L1 buffers of the weights as well, and images first: a task is an image with all its channels or,
    where there are fewer images than cores, a part of its rows (published ResNet-50 rows of the 910: 30 blocks for 64 images
    take as long as three images).
    """
    tiling = sound_grad_input(inp)
    double = tiling.but(cl0_buffers=2)
    tiling = double if fits_l0(double, inp) else tiling
    if chip is None or not chip.cores.coupled:
        return tiling
    double = tiling.but(bl1_buffers=2)
    tiling = double if grad_input_fits_l1(double, inp) else tiling
    problem = inp.problem
    outer = problem.n * problem.d_in * inp.real_groups
    rows = ceil_div(problem.h_in, max(inp.cores // outer, 1))
    whole = {"single_core_m": rows * problem.w_in, "single_core_cin": ceil_to(inp.cin1 * inp.c0, FRACTAL)}
    return finish(tiling.but(**whole), inp, keep=frozenset(whole))


def _alone(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """The same tiling with every task on one core."""
    cores = min(task_count(tiling, inp), inp.cores)
    return tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0, block_dim=cores)


def _cut_grad_weight(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, given: Mapping[str, int], dtype: str
) -> GradWeightTiling:
    """A tiling with the strips or single taps that are given; taps not given are taken where nothing else is possible."""
    width, taps = given.get("split_wo"), given.get("split_kernel")
    if not taps:
        try:
            return _with_strips(inp, procedure, chip, width, dtype)
        except TilingError:
            if not inp.direct or width or taps is not None:
                raise
    return _automatic_grad_weight(by_tap(inp), procedure, chip, dtype).but(split_kernel=1, source="stand-in")


def _with_strips(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, width: int | None, dtype: str
) -> GradWeightTiling:
    """A tiling with strips of `width` gradOutput columns (0: whole rows); None: with strips only where whole rows do not fit.

    Then the fewest strips that let a base block have the size that it would have without a limit of L1, and two buffers of each
    operand; where no strips do, the fewest that fit at all.
    """
    if width is not None:
        cut = stacked(inp, width)
        found = _automatic_grad_weight(cut, procedure, chip, dtype)
        return found if cut is inp else found.but(split_wo=width, source="stand-in")
    try:
        return _automatic_grad_weight(inp, procedure, chip, dtype)
    except TilingError as error:
        check_grad_weight_problem(inp)
        refused = error

    def attempt(count: int, comfortable: bool) -> GradWeightTiling | None:
        width = ceil_to(ceil_div(inp.problem.w_out, count), FRACTAL)
        cut = stacked(inp, width)
        try:
            tiling = _automatic_grad_weight(cut, procedure, chip, dtype)
            if comfortable:
                free = replace(cut, buffers={**cut.buffers, "L1": UNLIMITED})
                wanted = _automatic_grad_weight(free, procedure, chip, dtype)
                if not _comparable(tiling, wanted):
                    return None
        except TilingError:
            return None
        return tiling.but(split_wo=width, source="stand-in")

    most = ceil_div(inp.problem.w_out, FRACTAL)
    for comfortable in (True, False):
        if most > 1 and (tiling := attempt(most, comfortable)):
            low, high, best = 1, most, tiling  # whole rows do not fit, the narrowest strips do
            while high - low > 1:
                middle = (low + high) // 2
                if tiling := attempt(middle, comfortable):
                    high, best = middle, tiling
                else:
                    low = middle
            return best
    raise refused


def _comparable(tiling: GradWeightTiling, wanted: GradWeightTiling) -> bool:
    """Whether a tiling has the base block that is wanted, and as many L1 buffers or ping-pong."""
    buffers = (tiling.al1_buffers, tiling.bl1_buffers)
    block = all(getattr(tiling, name) == getattr(wanted, name) for name in BLOCK)
    return block and buffers in ((2, 2), (wanted.al1_buffers, wanted.bl1_buffers))


def _automatic_grad_weight(
    inp: TilingInput, procedure: str | None, chip: ChipSpec | None, dtype: str
) -> GradWeightTiling:
    covers, vendor = GRAD_WEIGHT_PROCEDURES.get(procedure or "", (None, None))
    if covers and vendor and covers(inp):
        try:
            return vendor(inp)
        except TilingError:
            pass
    return sound_grad_weight(inp, chip, dtype)


def refit_block(
    tiling: T, inp: TilingInput, given: Mapping[str, int], aligned: Callable[[int, TilingInput], int] | None = None
) -> T:
    """Lower the block fields that were not given until L0 holds the block; `aligned` makes a base_k one that a kernel takes."""
    if fits_l0(tiling, inp):
        return tiling
    tile = inp.buffers["L0C"] // ACCUMULATOR_BYTES // tiling.cl0_buffers
    if "base_n" not in given:
        tiling = tiling.but(base_n=min(tiling.base_n, floor_to(tile // tiling.base_m, inp.unit)))
    elif "base_m" not in given:
        tiling = tiling.but(base_m=min(tiling.base_m, floor_to(tile // tiling.base_n, inp.unit)))
    if "base_k" not in given:
        limit = min(tiling.base_k, l0_base_k(tiling, inp))
        tiling = tiling.but(base_k=aligned(limit, inp) if aligned else limit)
    return tiling


def _grad_weight_steps(
    tiling: GradWeightTiling, inp: TilingInput, given: Mapping[str, int]
) -> Iterator[GradWeightTiling]:
    """Candidates for the L1 steps that were not given, most first, both operands alike where both are free."""
    most = max(1, min(8, ceil_div(inp.problem.h_out * inp.problem.w_out, tiling.base_k), LOAD3D_MAX_K // tiling.base_k))
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

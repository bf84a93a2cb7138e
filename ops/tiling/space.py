"""The tilings that a search looks at: a grid over the fields that can be set, cut down to what fits.

What fits is said by `capacity` alone, the same formulas that refuse a user's own fields. The grid leaves out what is another
tiling in all but name; every axis can be replaced by one value of the user's (`fixed`), which need not lie on the grid.

grad_input
- a task: rows of dx, as many as cut H_in into any number of even parts; all channels of one baseN
- baseN: C_in in even parts, in steps of 16
- baseM: the task in even parts, in steps of 16, from half of what L0A and L0C hold
- baseK: the longest three that L0A and L0B hold and that divide, or are multiples of, kh*kw*16
- L1: whole blocks of 16 output channels, divisors of their number or powers of two; the same for both operands, or
  one of them with all of K
grad_weight
- a task: M, N, images and rows in even parts, together at most two tasks a core, rows only where the rest gives fewer tasks
  than cores, the busiest core with at most a tenth more cube work than in the best (template 0); what L1 holds at a time,
  or 2, 4, ... times its pixels (templates 1 to 3); all of K (template 4)
- baseM, baseN: the task in even parts, in steps of 16, the largest two that L0C holds (templates 1 to 4: four)
- baseK: what L0A and L0B hold, the same in whole rows, and half of it
- L1: 1, 2, 4 or 8 base blocks, as many of both operands; both orders of tiles
- strips and single taps: as in the simulator's own tiling
both: one or two buffers of L0C, L1-A and L1-B; always two halves of L0A and L0B, unless fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import TilingError
from ascend_sim.ops.tiling.capacity import (
    ACCUMULATOR_BYTES,
    check_grad_input,
    fits_l0,
    grad_input_fits_l1,
    grad_weight_fits_l1,
    is_resident,
    k_slice,
    k_unit,
    l0_base_k,
    n_slice,
)
from ascend_sim.ops.tiling.choose import choose_grad_input, choose_grad_weight, complete_grad_weight
from ascend_sim.ops.tiling.fields import (
    FRACTAL,
    SPLIT_GRID,
    SPLIT_MK,
    SPLIT_NK,
    SPLIT_STREAM_K,
    GradInputTiling,
    GradWeightTiling,
    TilingInput,
    ceil_div,
    ceil_to,
    divisors_down,
    floor_to,
)
from ascend_sim.ops.tiling.grad_input import finish
from ascend_sim.ops.tiling.grad_weight import gemm, whole_rows, with_core_shape
from ascend_sim.ops.tiling.grad_weight_taps import cut_input
from ascend_sim.ops.tiling.parts import tiling_input

Fixed = Mapping[str, int]

TILINGS: Mapping[str, type[GradInputTiling] | type[GradWeightTiling]] = {
    "grad_input": GradInputTiling,
    "grad_weight": GradWeightTiling,
}
_LONGEST_K = 3
STEPS = (1, 2, 4, 8)
_MOST_TASKS = 2  # of a core, in template 0
_WORK_SLACK = (11, 10)  # how much more work than in the most even grid the busiest core may have


def tilings_that_fit(
    kernel: str, inp: TilingInput, fixed: Mapping[str, Any] | None = None, chip: ChipSpec | None = None
) -> Iterator[GradInputTiling | GradWeightTiling]:
    """Every tiling of the grid that fits, each once; `fixed` are the user's fields in the vendor's spelling.

    Raises TilingError for a field that nobody can set, or values that no tiling can have.
    """
    given = TILINGS[kernel].given(fixed or {})
    found = grad_input_tilings(inp, given, chip) if kernel == "grad_input" else grad_weight_tilings(inp, given, chip)
    seen = set()
    for tiling in found:
        if tiling not in seen:
            seen.add(tiling)
            yield tiling


def settable(tiling: GradInputTiling | GradWeightTiling, inp: TilingInput | None = None) -> dict[str, int]:
    """The fields, in the vendor's spelling, that make the same tiling of `inp` again when a user sets them."""
    fields = {name: value for name, value in tiling.to_vendor().items() if name not in _DERIVED}
    if isinstance(tiling, GradInputTiling) and inp is not None and inp.direct:
        fields |= {tiling.VENDOR[name]: getattr(tiling, name) for name in tiling.DIRECT_ONLY}
    if fields.get("streamKType") == 0:  # without it no core shares a task: nothing to set
        del fields["coreStreamK"]
    return fields


_DERIVED = {
    "source", "singleCoreCout", "loadB2Condition", "initOutputFlag", "weightsResident", "templateId", "coreBindOrder",
    "bl1Bound", "splitKd",
}  # fmt: skip


# ---- grad_input ----------------------------------------------------------------------------------------------------


def grad_input_tilings(inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> Iterator[GradInputTiling]:
    parts = {"kernel_split": "kernelSplitMode", "split_wi": "splitWi", "load_b1": "loadB1Condition"}
    own = {vendor: given[ours] for ours, vendor in parts.items() if ours in given}
    start = choose_grad_input(inp, own, chip=chip)
    start = start.but(al0_buffers=2, bl0_buffers=2, step_m=1, step_n=1, single_core_batch=0, source="manual").but(
        **given
    )
    whole, inp = inp, tiling_input(start, inp)
    width, channels = inp.problem.w_in, ceil_to(inp.cin1 * inp.c0, inp.unit)
    rows = even_parts(inp.problem.h_in)
    tasks = [given["single_core_m"]] if "single_core_m" in given else [count * width for count in rows]
    columns = axis(given, "base_n", even_parts(channels, inp.unit))
    for base_n, cl0 in product(columns, axis(given, "cl0_buffers", (2, 1))):
        most = _largest_base_m(start.but(base_n=base_n, cl0_buffers=cl0), inp)
        for pixels in tasks:
            cuts = [cut for cut in even_parts(pixels, FRACTAL) if cut <= most]
            cuts = [cut for cut in cuts if 2 * cut >= most] or cuts[:1]
            for base_m in axis(given, "base_m", cuts):
                block = start.but(base_m=base_m, base_n=base_n, cl0_buffers=cl0, single_core_m=pixels)
                for tiling in _grad_input_steps(block, inp, given):
                    tiling = _kept_weights(tiling, inp, given)
                    tiling = finish(tiling, whole, keep=frozenset({*given, "single_core_m"}))
                    if _passes(tiling, whole):
                        yield tiling


def _kept_weights(tiling: GradInputTiling, inp: TilingInput, given: Fixed) -> GradInputTiling:
    """Where NCDHW is read, weights that L1 holds stay from task to task."""
    if not inp.direct:
        return tiling
    shaped = tiling.but(single_core_cin=given.get("single_core_cin", tiling.base_n))
    kept = {"full_load": int(is_resident(shaped, inp)), "single_core_din": 1}
    return tiling.but(**{name: value for name, value in kept.items() if name not in given})


def _largest_base_m(tiling: GradInputTiling, inp: TilingInput) -> int:
    """What L0A with the shortest K and L0C with this base_n hold."""
    l0a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize // inp.unit
    return floor_to(min(l0a, inp.buffers["L0C"] // ACCUMULATOR_BYTES // tiling.cl0_buffers // tiling.base_n), FRACTAL)


def _grad_input_steps(block: GradInputTiling, inp: TilingInput, given: Fixed) -> Iterator[GradInputTiling]:
    """K and the L1 side of a block of M and N."""
    whole, unit = k_slice(inp), k_unit(inp)
    blocks = ceil_div(inp.cout_g, unit)
    limit = min(l0_base_k(block, inp), blocks * whole)
    lengths = [k for k in range(floor_to(limit, unit), 0, -unit) if k % whole == 0 or whole % k == 0]
    divisors = divisors_down(blocks, blocks)
    counts = sorted({*divisors, *(2**power for power in range(blocks.bit_length()))})
    slices = {(count, count) for count in counts} | {pair for d in divisors for pair in ((d, blocks), (blocks, d))}
    for base_k in axis(given, "base_k", lengths[:_LONGEST_K]):
        tiled = block.but(base_k=base_k)
        if not fits_l0(tiled, inp):
            continue
        steps = {(ceil_div(a * whole, base_k), ceil_div(b * whole, base_k)) for a, b in slices}
        for step_ka, step_kb in pairs(steps, given):
            for al1, bl1 in product(axis(given, "al1_buffers", (2, 1)), axis(given, "bl1_buffers", (2, 1))):
                tiling = tiled.but(step_ka=step_ka, step_kb=step_kb, al1_buffers=al1, bl1_buffers=bl1)
                if grad_input_fits_l1(tiling, inp):
                    yield tiling


def _passes(tiling: GradInputTiling, inp: TilingInput) -> bool:
    try:
        check_grad_input(tiling, inp)
    except TilingError:
        return False
    return True


# ---- grad_weight ---------------------------------------------------------------------------------------------------


def grad_weight_tilings(inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> Iterator[GradWeightTiling]:
    cuts = {name: given[name] for name in ("split_wo", "split_kernel") if name in given}
    own = {GradWeightTiling.VENDOR[name]: value for name, value in cuts.items()}
    start = choose_grad_weight(inp, own, chip=chip).but(
        al0_buffers=2, bl0_buffers=2, step_m=1, step_n=1, source="manual"
    )
    start = start.but(**given)
    whole, inp = inp, cut_input(inp, start)
    shapes = _grid_tasks(start, inp, given) if start.template == SPLIT_GRID else iter([start])
    for shape in shapes:
        for block in _grad_weight_blocks(shape, inp, given):
            for tiling in _grad_weight_steps(block, inp, given):
                for cut in _task_shapes(tiling, inp, given):
                    try:
                        yield complete_grad_weight(cut, whole, given, chip)
                    except TilingError:
                        continue


def _grid_tasks(start: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Tasks of template 0."""
    height, width = inp.problem.h_out, inp.problem.w_out
    m, n = inp.cout_padded, inp.cin1 * n_slice(inp)
    axes = (
        axis(given, "single_core_m", even_parts(m, inp.unit)),
        axis(given, "single_core_n", [blocks * n_slice(inp) for blocks in even_parts(inp.cin1)]),
        axis(given, "single_core_batch", even_parts(inp.images)),
        axis(given, "single_core_k", [rows * width for rows in even_parts(height)]),
    )
    totals = (m, n, inp.images, height * width)
    shapes = []
    for shape in product(*axes):
        parts = [ceil_div(total, part) for total, part in zip(totals, shape, strict=True)]
        tasks = inp.real_groups * inp.problem.k_d * math.prod(parts)
        if "single_core_k" in given or parts[-1] == 1 or tasks < parts[-1] * inp.cores:
            shapes.append((tasks, ceil_div(tasks, inp.cores) * math.prod(shape), shape))
    most = max(_MOST_TASKS * inp.cores, min(tasks for tasks, _, _ in shapes))
    shapes = [found for found in shapes if found[0] <= most]
    allowed = min(work for _, work, _ in shapes) * _WORK_SLACK[0] // _WORK_SLACK[1]
    for _, work, (single_m, single_n, images, pixels) in shapes:
        if work <= allowed:
            task = {"single_core_m": single_m, "single_core_n": single_n, "single_core_k": pixels}
            yield start.but(single_core_batch=images, **task)


def _grad_weight_blocks(shape: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Base blocks for tasks of a shape."""
    m, k, n = gemm(inp, shape.split_kd)
    grid = shape.template == SPLIT_GRID
    kept = 2 if grid else 4
    extent_m, extent_n = (shape.single_core_m, shape.single_core_n) if grid else (m, n)
    k = min(k, shape.single_core_k) if grid else k
    for cl0 in axis(given, "cl0_buffers", (2, 1)):
        room = inp.buffers["L0C"] // ACCUMULATOR_BYTES // cl0 // FRACTAL
        rows = [cut for cut in even_parts(extent_m, inp.unit) if cut <= room][:kept]
        for base_m in axis(given, "base_m", rows):
            room = inp.buffers["L0C"] // ACCUMULATOR_BYTES // cl0 // base_m
            columns = [cut for cut in even_parts(extent_n, inp.unit) if cut <= room][:kept]
            for base_n in axis(given, "base_n", columns):
                block = shape.but(base_m=base_m, base_n=base_n, cl0_buffers=cl0)
                most = min(l0_base_k(block, inp), ceil_to(k, FRACTAL))
                lengths = dict.fromkeys((most, whole_rows(most, inp), floor_to(most // 2, FRACTAL)))
                for base_k in axis(given, "base_k", list(lengths)):
                    block = block.but(base_k=base_k)
                    if fits_l0(block, inp):
                        yield block


def _grad_weight_steps(block: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """The L1 side of a base block."""
    m, k, n = gemm(inp, block.split_kd)
    pixels = min(k, block.single_core_k) if block.template == SPLIT_GRID else k
    useful = [step for step in STEPS if step < 2 * ceil_div(pixels, block.base_k)]
    steps = {(step, step) for step in useful}
    held_m = axis(given, "step_m", _side_steps(block.template == SPLIT_MK, m, block.base_m))
    held_n = axis(given, "step_n", _side_steps(block.template == SPLIT_NK, n, block.base_n))
    counts = (axis(given, name, (2, 1)) for name in ("al1_buffers", "bl1_buffers"))
    for al1, bl1, step_m, step_n in product(*counts, held_m, held_n):
        held = block.but(al1_buffers=al1, bl1_buffers=bl1, step_m=step_m, step_n=step_n)
        for step_ka, step_kb in pairs(steps, given):
            tiling = held.but(step_ka=step_ka, step_kb=step_kb)
            if grad_weight_fits_l1(tiling, inp, clipped=True):
                yield tiling


def _side_steps(stays: bool, extent: int, base: int) -> list[int]:
    """Base blocks of M or N that L1 holds: more than one only of the operand that stays there (templates 1 and 2)."""
    return [step for step in STEPS if step == 1 or (stays and step < 2 * ceil_div(extent, base))]


def _task_shapes(tiling: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Shapes of tasks that follow from a block and its steps, in both orders of its tiles where there are two."""
    shapes = [tiling]
    if tiling.template != SPLIT_GRID:
        shape = with_core_shape(tiling, inp).but(**given)
        shapes = [shape]
        pixels, most = shape.single_core_k, inp.problem.h_out * inp.problem.w_out
        while tiling.template != SPLIT_STREAM_K and "single_core_k" not in given and pixels < most:
            pixels = min(2 * pixels, most)
            shapes.append(shape.but(single_core_k=pixels))
    for shape in shapes:
        square = shape.single_core_m > shape.base_m and shape.single_core_n > shape.base_n
        orders = (0, 1) if square else (shape.iterate_order,)
        for order in axis(given, "iterate_order", orders):
            yield shape.but(iterate_order=order)


# ---- axes ----------------------------------------------------------------------------------------------------------


def even_parts(total: int, unit: int = 1) -> list[int]:
    """Sizes, in whole `unit`s, that cut `total` into 1, 2, 3, ... parts as even as they can be; each once, largest first."""
    units = ceil_div(total, unit)
    return [unit * size for size in dict.fromkeys(ceil_div(units, parts) for parts in range(1, units + 1))]


def axis(given: Fixed, name: str, values: Any) -> Any:
    return (given[name],) if name in given else values


def pairs(steps: set[tuple[int, int]], given: Fixed) -> list[tuple[int, int]]:
    """The L1 steps of both operands, with those that are given."""
    pairs = {(given.get("step_ka", a), given.get("step_kb", b)) for a, b in steps}
    return sorted(pair for pair in pairs if max(pair) % min(pair) == 0)

"""The grid of grad_weight tilings that a search tries.

- a task: M, N, images and rows in even parts, together at most two tasks a core, rows only where the rest gives fewer tasks
  than cores, the busiest core with at most a tenth more cube work than in the best (template 0); what L1 holds at a time,
  or 2, 4, ... times its pixels (templates 1 to 3); all of K (template 4)
- baseM, baseN: the task in even parts, in steps of 16, the largest two that L0C holds (templates 1 to 4: M and N, four)
- baseK: what L0A and L0B hold, the same in whole rows, and half of it
- L1: 1, 2, 4 or 8 base blocks, as many of both operands; both orders of tiles
- strips and single taps: as in the simulator's own tiling
- one or two buffers of L0C, L1-A and L1-B; always two halves of L0A and L0B, unless fixed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.ops.kernels.cube.capacity import fits_l0, l0_base_k
from ascend_sim.ops.kernels.cube.ladder import Refusal, attempt
from ascend_sim.ops.kernels.cube.space import STEPS, Fixed, axis, even_parts, pairs
from ascend_sim.ops.kernels.grad_weight.capacity import grad_weight_fits_l1, grad_weight_l1
from ascend_sim.ops.kernels.grad_weight.fields import (
    SPLIT_GRID,
    SPLIT_MK,
    SPLIT_NK,
    SPLIT_STREAM_K,
    GradWeightTiling,
    gemm,
    n_slice,
)
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion, completed
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import whole_rows, with_core_shape
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

_MOST_TASKS = 2  # of a core, in template 0
_WORK_SLACK = (11, 10)  # how much more work than in the most even grid the busiest core may have


def grad_weight_tilings(inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> Iterator[GradWeightTiling]:
    """Yield the tilings of the grid that fit, with the user's fields `given`, some perhaps twice; `chip` None: a 910B.

    TilingError where the ladder has no tiling to begin with.
    """
    cuts = {name: given[name] for name in ("split_wo", "split_kernel") if name in given}
    own = {GradWeightTiling.VENDOR[name]: value for name, value in cuts.items()}
    start = GradWeightQuestion(inp, own, chip).tiling().but(al0_buffers=2, bl0_buffers=2, step_m=1, step_n=1, source="manual")
    start = start.but(**given)
    whole, inp = inp, walked_input(inp, start)
    # Tasks of templates 1 to 4 follow from a block.
    free = start.but(single_core_n=given.get("single_core_n", 0))
    shapes = _grid_tasks(start, inp, given) if start.template == SPLIT_GRID else iter([free])
    for shape in shapes:
        for block in _grad_weight_blocks(shape, inp, given):
            sides = []
            for tiling in _grad_weight_steps(block, inp, given):
                found = [_completed(tiled, whole, given, chip) for tiled in _task_shapes(tiling, inp, given)]
                used = grad_weight_l1(tiling.but(al1_buffers=1, bl1_buffers=1), inp, clipped=True)
                sides.append((used, [tiled for tiled in found if tiled is not None]))
            # All but what L1 holds is the same, however many buffers that is in.
            for al1, bl1 in product(*(axis(given, name, (2, 1)) for name in ("al1_buffers", "bl1_buffers"))):
                for (a1, b1), fitting in sides:
                    if al1 * a1 + bl1 * b1 <= inp.buffers["L1"]:
                        yield from (tiled.but(al1_buffers=al1, bl1_buffers=bl1) for tiled in fitting)


def _completed(tiling: GradWeightTiling, inp: TilingInput, given: Fixed, chip: ChipSpec | None) -> GradWeightTiling | None:
    """Return the tiling with all fields that follow from the others (`completed`); None where it cannot run."""
    found = attempt(completed, tiling, inp, given, chip)
    return None if isinstance(found, Refusal) else found


def _grid_tasks(start: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Yield tilings of template 0 with each division into tasks: at most two for each core (or the fewest possible, where
    these are more), and at most a tenth more work than the best on the busiest core.

    Rows are cut only as long as the other axes alone make fewer tasks than cores, unless the user gives a task's pixels.
    """
    height, width = inp.problem.h_out, inp.problem.w_out
    m, n = inp.cout_padded, inp.n1 * n_slice(inp)
    axes = (
        axis(given, "single_core_m", even_parts(m, inp.unit)),
        axis(given, "single_core_n", [blocks * n_slice(inp) for blocks in even_parts(inp.n1)]),
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
    """Yield `shape` with each base block that fits L0, with two L0C buffers or one: the two (template 0) or four largest sides
    that cut its task (template 0) or M and N evenly, up to three lengths of base_k.
    """
    m, k, n = gemm(inp, shape.split_kd)
    grid = shape.template == SPLIT_GRID
    kept = 2 if grid else 4
    extent_m, extent_n = (shape.single_core_m, shape.single_core_n) if grid else (m, n)
    k = min(k, shape.single_core_k) if grid else k
    for cl0 in axis(given, "cl0_buffers", (2, 1)):
        room = inp.buffers["L0C"] // ACCUMULATOR_BYTES // cl0 // FRACTAL
        rows = [size for size in even_parts(extent_m, inp.unit) if size <= room][:kept]
        for base_m in axis(given, "base_m", rows):
            room = inp.buffers["L0C"] // ACCUMULATOR_BYTES // cl0 // base_m
            columns = [size for size in even_parts(extent_n, inp.unit) if size <= room][:kept]
            for base_n in axis(given, "base_n", columns):
                block = shape.but(base_m=base_m, base_n=base_n, cl0_buffers=cl0)
                most = min(l0_base_k(block, inp), ceil_to(k, FRACTAL))
                lengths = dict.fromkeys((most, whole_rows(most, inp), floor_to(most // 2, FRACTAL)))
                for base_k in axis(given, "base_k", list(lengths)):
                    block = block.but(base_k=base_k)
                    if fits_l0(block, inp):
                        yield block


def _grad_weight_steps(block: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Yield the tilings that fit with each choice of L1 steps for a base block, one L1 buffer an operand (or the user's)."""
    fewest = {name: given.get(name, 1) for name in ("al1_buffers", "bl1_buffers")}
    m, k, n = gemm(inp, block.split_kd)
    pixels = min(k, block.single_core_k) if block.template == SPLIT_GRID else k
    useful = [step for step in STEPS if step < 2 * ceil_div(pixels, block.base_k)]
    steps = {(step, step) for step in useful}
    held_m = axis(given, "step_m", _side_steps(block.template == SPLIT_MK, m, block.base_m))
    held_n = axis(given, "step_n", _side_steps(block.template == SPLIT_NK, n, block.base_n))
    for step_m, step_n in product(held_m, held_n):
        held = block.but(step_m=step_m, step_n=step_n, **fewest)
        for step_ka, step_kb in pairs(steps, given):
            tiling = held.but(step_ka=step_ka, step_kb=step_kb)
            if grad_weight_fits_l1(tiling, inp, clipped=True):
                yield tiling


def _side_steps(stays: bool, extent: int, base: int) -> list[int]:
    """Return how many base blocks along a side L1 may hold: 1, and if its operand `stays` in L1 (templates 1 and 2)
    also 2, 4, 8, up to the first that has all of the side's `extent`.
    """
    return [step for step in STEPS if step == 1 or (stays and step < 2 * ceil_div(extent, base))]


def _task_shapes(tiling: GradWeightTiling, inp: TilingInput, given: Fixed) -> Iterator[GradWeightTiling]:
    """Yield the tiling with each shape of task for its block and steps, in both orders if it has tiles along M and N."""
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

"""Tilings of grad_weight where the vendor's come from a closed library: stand-ins with the same kernel structure.

A grid (template 0, ours): images, rows, M and N are cut so that every core has an equal share, and a core keeps a tile
of dW in L0C over all images of its task, so that dW is added to global memory once per task and tile (assumed; Fixpipe
times measured on a 910B2 allow 8 to 24 additions of dW, fewer than images). In deterministic mode template 4 with a
smaller block than the vendor's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.ops.kernels.cube.capacity import l0_base_k
from ascend_sim.ops.kernels.grad_weight.capacity import (
    bl1_bound,
    check_grad_weight,
    check_grad_weight_problem,
    grad_weight_fits_l1,
    grad_weight_l1,
)
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, SPLIT_STREAM_K, GradWeightTiling, gemm, n_slice
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import stream_k, task_count, whole_rows, with_core_shape
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_sum, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

# Ours
LARGEST_SIDE = 256  # of a base block: longer ones leave no K for the other operand
SQUARE_SIDE = 128  # of a block that half of L0C holds
MOST_STEPS = 8  # base blocks per L1 load
WORK_SLACK = (21, 20)  # a grid may take 5 % more cube work than the best where it adds dW fewer times


class _TaskShare(NamedTuple):
    """Share of a task: `m` rows and `n` columns of dW, summed over `rows` rows of gradOutput in each of `images` images."""

    m: int
    n: int
    rows: int
    images: int


class _TaskGrid(NamedTuple):
    """Division of dW and its sums into tasks: `work` is the products of the busiest core, `added` how often each part
    of dW is added, `tasks` their number, `share` the share of one.
    """

    work: int
    added: int
    tasks: int
    share: _TaskShare


def sound_grad_weight(
    inp: TilingInput, chip: ChipSpec | None = None, dtype: str = "", *, image_each: bool = False
) -> GradWeightTiling:
    """Return a tiling of our own that fits, for any dtype and groups (source "stand-in"); template 4 if deterministic,
    else template 0.

    Without `chip` grids are compared by the cube's work; with it also by loads to L0 or, on a coupled chip, by loads from
    GM and additions. `image_each`: on a coupled chip a task is one image with all of dW. `dtype` is as in `grid`. TilingError
    where none fits, or load3d cannot hold the problem.
    """
    check_grad_weight_problem(inp)
    if inp.deterministic:
        block = _block(inp, SPLIT_STREAM_K, gemm(inp, True)[2])
        tiling = with_core_shape(with_largest_steps(block, inp), inp)
        tiling = stream_k(tiling, task_count(tiling, inp), inp)
    else:
        tiling = weighed_grid(inp, chip, image_each) if chip is not None and inp.family.coupled else grid(inp, chip, dtype)
    tiling = tiling.but(bl1_bound=bl1_bound(tiling, inp, clipped=True), source="stand-in")
    check_grad_weight(tiling, inp)
    return tiling


def grid(inp: TilingInput, chip: ChipSpec | None = None, dtype: str = "") -> GradWeightTiling:
    """Return the tiling of the grid whose busiest core has the fewest cycles; of grids within 5 % of it the one that
    adds dW least often.

    Cycles are the longer of products and L0 loads, which run side by side: a tile of an odd size costs MTE1 more than
    the cube. Without `chip` they are the products alone. `dtype` is that of the cube's operands ("": fp16).
    """
    block = _blocks(inp)

    def cycles(grid: _TaskGrid) -> float:
        if chip is None:
            return grid.work
        return ceil_div(grid.tasks, inp.cores) * max(_products_and_l0(block(grid.share), inp, chip, dtype))

    grids = {grid.share: (cycles(grid), grid.added) for grid in _grids(inp)}
    allowed = min(grids.values())[0] * WORK_SLACK[0] / WORK_SLACK[1]
    share = min((share for share, (cost, _) in grids.items() if cost <= allowed), key=lambda s: (grids[s][1], grids[s][0], s))
    tiling = with_largest_steps(block(share), inp)
    return tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))


def weighed_grid(inp: TilingInput, chip: ChipSpec, image_each: bool = False) -> GradWeightTiling:
    """Return the tiling of the grid and the order of tiles whose busiest core has the least sum of cube, load and
    addition time; for coupled chips.

    With `image_each` the grid is that of one image for each task. On coupled chips, with one L0C tile at a time and one L1
    load ahead, the three overlap little.
    """
    macs, block_of = chip.cube.macs_per_cycle("float16"), _blocks(inp)
    load, store = (chip.path(*ends).bytes_per_cycle for ends in (("GM", "L1"), ("UB", "GM")))
    best: tuple[float, GradWeightTiling] | None = None
    for grid in _grids(inp):
        share = grid.share
        if image_each and (share.images > 1 or grid.tasks != inp.images):
            continue
        block = block_of(share)
        rounds = ceil_div(grid.tasks, inp.cores)
        for order in (0, 1):
            ordered = block.but(iterate_order=order)
            moved = _loaded(ordered, inp)
            cycles = grid.work / macs + rounds * (moved / load + ACCUMULATOR_BYTES * share.m * share.n / store)
            if best is None or cycles < best[0]:
                best = cycles, ordered
    assert best is not None
    tiling = _as_one_tile(best[1], inp, chip)
    tiling = _full_load(tiling, inp) or with_largest_steps(tiling, inp)
    return tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))


def _blocks(inp: TilingInput) -> Callable[[_TaskShare], GradWeightTiling]:
    """Return a function that returns the base block for a task's share, in a tiling with that share."""
    columns = gemm(inp, True)[2]
    of_width = cache(partial(_block, inp, SPLIT_GRID))  # the same for many shapes

    def block(share: _TaskShare) -> GradWeightTiling:
        return of_width(min(share.n, columns)).but(
            single_core_m=share.m,
            single_core_n=share.n,
            single_core_batch=share.images,
            single_core_k=share.rows * inp.problem.w_out,
        )

    return block


def _loaded(tiling: GradWeightTiling, inp: TilingInput) -> int:
    """Return the bytes that a task loads to L1. An operand stays for the next tile only if one load has all its pixels."""
    p, rows, images = inp.problem, tiling.single_core_k // inp.problem.w_out, tiling.single_core_batch
    m_tiles = ceil_div(tiling.single_core_m, tiling.base_m)
    n_tiles, slice_ = ceil_div(tiling.single_core_n, tiling.base_n), n_slice(inp)
    # Channel blocks that each tile touches, (end - 1) // slice - start // slice + 1, summed over the tiles.
    ends = floor_sum(n_tiles - 1, tiling.base_n, slice_, tiling.base_n - 1) + (tiling.single_core_n - 1) // slice_
    blocks = ends - floor_sum(n_tiles, tiling.base_n, slice_) + n_tiles
    pixels = images * rows * p.w_out
    one_load = pixels <= MOST_STEPS * tiling.base_k or _full_load(tiling, inp) is not None
    held = images == 1 and one_load
    a = pixels * tiling.single_core_m * inp.itemsize
    high = min((rows - 1) * p.stride_h + p.k_h, p.h_in)
    b = images * high * p.w_in * blocks * inp.n0 * inp.itemsize
    if tiling.iterate_order:
        return b * (1 if held else m_tiles) + a * n_tiles
    return a * (1 if held else n_tiles) + b * m_tiles


def _full_load(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling | None:
    """Return the tiling that loads all pixels of a one-image task at once, with one buffer each; None where L1 or
    load3d's K field has no room, or a task has several images.

    Unit tests of the vendor's procedure for dav-1001 decide so where a core has one image, and take two buffers where
    it has more (inferred from its table).
    """
    steps = ceil_div(tiling.single_core_k, tiling.base_k)
    full = tiling.but(step_ka=steps, step_kb=steps, al1_buffers=1, bl1_buffers=1)
    fits = steps * tiling.base_k <= inp.load3d.k_extent and grad_weight_fits_l1(full, inp, clipped=True)
    return full if tiling.single_core_batch == 1 and fits else None


def _as_one_tile(tiling: GradWeightTiling, inp: TilingInput, chip: ChipSpec) -> GradWeightTiling:
    """Return the tiling with one tile in all of L0C for a task, if that fits and has fewer cycles; else the tiling itself."""
    columns = min(tiling.single_core_n, gemm(inp, True)[2])
    whole = _block(inp, SPLIT_GRID, columns, tiles=1)
    one, already = (t.base_m >= tiling.single_core_m and t.base_n >= columns for t in (whole, tiling))
    if already or not one:
        return tiling
    whole = tiling.but(base_m=whole.base_m, base_k=whole.base_k, base_n=whole.base_n, cl0_buffers=1)
    return min((tiling, whole), key=lambda t: _task_cycles(t, inp, chip))


def _task_cycles(tiling: GradWeightTiling, inp: TilingInput, chip: ChipSpec) -> float:
    """Return the estimated cycles of a task: the longest of loads, L0 loads and products, plus the store of its last tile."""
    load, store = (chip.path(*ends).bytes_per_cycle for ends in (("GM", "L1"), ("UB", "GM")))
    out = ACCUMULATOR_BYTES * tiling.single_core_m * tiling.single_core_n / store / math.prod(_tiles(tiling))
    return max(*_products_and_l0(tiling, inp, chip), _loaded(tiling, inp) / load) + out


def _tiles(tiling: GradWeightTiling) -> tuple[int, int]:
    """Return the numbers of tiles of a task along M and along N."""
    return ceil_div(tiling.single_core_m, tiling.base_m), ceil_div(tiling.single_core_n, tiling.base_n)


def _products_and_l0(tiling: GradWeightTiling, inp: TilingInput, chip: ChipSpec, dtype: str = "") -> tuple[float, float]:
    """Return (cycles of a task's products, cycles of its loads to L0)."""
    m, n = tiling.single_core_m, tiling.single_core_n
    m_tiles, n_tiles = _tiles(tiling)
    pixels = tiling.single_core_batch * ceil_to(tiling.single_core_k, FRACTAL)
    steps = m_tiles * n_tiles * tiling.single_core_batch * ceil_div(tiling.single_core_k, tiling.base_k)
    left, right = (chip.path("L1", side).bytes_per_cycle for side in ("L0A", "L0B"))
    products = m * ceil_to(n, FRACTAL) * pixels / chip.cube.macs_per_cycle(dtype or "float16")
    products += steps * chip.cube.head_stream
    return products, pixels * inp.itemsize * (m * n_tiles / left + n * m_tiles / right) + 2 * steps * chip.load3d.head


def _grids(inp: TilingInput) -> Iterator[_TaskGrid]:
    """Yield divisions of M, N, images and rows of a real group and kernel plane into no more parts than cores; rows whole, or
    cut as finely as cores allow.
    """
    height, width = inp.problem.h_out, inp.problem.w_out
    m_tiles = ceil_div(inp.cout_padded, _side_m(inp, gemm(inp, True)[2]))
    lanes = inp.real_groups * inp.problem.k_d
    for m_parts in range(1, min(m_tiles, inp.cores) + 1):
        for n_parts in range(1, min(inp.n1, inp.cores // m_parts) + 1):
            for image_parts in range(1, min(inp.images, inp.cores // (m_parts * n_parts)) + 1):
                most_rows = min(height, inp.cores // (m_parts * n_parts * image_parts))
                for row_parts in {1, most_rows}:
                    single_m = ceil_to(ceil_div(inp.cout_padded, m_parts), inp.unit)
                    single_n = ceil_div(inp.n1, n_parts) * n_slice(inp)
                    rows, images = ceil_div(height, row_parts), ceil_div(inp.images, image_parts)
                    added = ceil_div(height, rows) * ceil_div(inp.images, images)
                    tasks = lanes * added * ceil_div(inp.cout_padded, single_m)
                    tasks *= ceil_div(inp.n1 * n_slice(inp), single_n)
                    work = images * ceil_to(rows * width, FRACTAL) * single_m * ceil_to(single_n, FRACTAL)
                    share = _TaskShare(single_m, single_n, rows, images)
                    yield _TaskGrid(ceil_div(tasks, inp.cores) * work, added, tasks, share)


# ---- block and steps -----------------------------------------------------------------------------------------------


def _side_m(inp: TilingInput, columns: int, tiles: int = 2) -> int:
    """Return base_m for a dW of `columns` columns: about 128, or up to 256 where N cannot fill one of `tiles` tiles of L0C."""
    room = inp.buffers["L0C"] // tiles // ACCUMULATOR_BYTES
    base_n = min(ceil_to(columns, FRACTAL), LARGEST_SIDE, floor_to(room // min(inp.cout_padded, SQUARE_SIDE), FRACTAL))
    return _even(inp.cout_padded, min(floor_to(room // base_n, FRACTAL), LARGEST_SIDE), inp.unit)


def _even(total: int, limit: int, unit: int) -> int:
    """Return the size of equal tiles, a multiple of `unit` and at most `limit`, that cut `total` into the fewest tiles."""
    limit = floor_to(limit, unit)
    return ceil_to(ceil_div(total, ceil_div(total, limit)), unit)


def _block(inp: TilingInput, template: int, columns: int, tiles: int = 2) -> GradWeightTiling:
    """Return a base block for a dW of `columns` columns, with one L1 buffer of each operand: base_m x base_n near 1/`tiles` of
    L0C, base_k that fills half of L0A and L0B; smaller where L1 needs it, the smallest where none fits.
    """
    m, k, n = gemm(inp, True)
    room = inp.buffers["L0C"] // tiles // ACCUMULATOR_BYTES
    base_m = _side_m(inp, columns, tiles)
    # A tile that has L0C for itself may be as long as L0B takes with the shortest K.
    longest = LARGEST_SIDE if tiles > 1 else inp.buffers["L0B"] // 2 // inp.itemsize // FRACTAL
    base_n = _even(columns, min(room // base_m, longest), inp.unit)
    block = GradWeightTiling(
        base_m,
        FRACTAL,
        base_n,
        cl0_buffers=tiles,
        iterate_order=int(m > n),
        template=template,
        split_kd=True,
        block_dim=inp.cores,
        single_core_batch=inp.images if template == SPLIT_STREAM_K else 1,
        al1_buffers=1,
        bl1_buffers=1,
    )
    block = block.but(base_k=whole_rows(min(l0_base_k(block, inp), ceil_to(k, FRACTAL)), inp))
    return block if grad_weight_fits_l1(block, inp, clipped=True) else _largest_single_block(block, inp)


def _largest_single_block(block: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """Return the block, within the sides of `block`, with the most products that L1 holds without double buffers; the
    smallest block where none fits.

    L1 use falls in jumps with base_n and base_k (whole channel blocks, whole rows), so all pairs are tried.
    """
    unit = inp.unit
    best, most = block.but(base_m=unit, base_n=unit, base_k=FRACTAL), 0
    for base_n, base_k in product(range(block.base_n, 0, -unit), range(block.base_k, 0, -FRACTAL)):
        thin = block.but(base_m=unit, base_n=base_n, base_k=base_k)
        a1, b1 = grad_weight_l1(thin, inp, clipped=True)
        if a1 + b1 <= inp.buffers["L1"]:
            base_m = min((inp.buffers["L1"] - b1) // a1 * unit, block.base_m)
            if base_m * base_n * base_k > most:
                best, most = thin.but(base_m=base_m), base_m * base_n * base_k
    return best


def with_largest_steps(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """Return the tiling with equal L1 steps of A and B: two buffers of both if any step fits so, else two of A, two of B, or
    one of each; then the most steps, up to 8 and what a task and load3d take. One buffer and step 1 if nothing fits.
    """
    pixels = inp.problem.h_out * inp.problem.w_out
    pixels = min(tiling.single_core_k or pixels, pixels)
    most = max(min(ceil_div(pixels, tiling.base_k), MOST_STEPS, inp.load3d.k_extent // tiling.base_k), 1)
    for buffers in ((2, 2), (2, 1), (1, 2), (1, 1)):
        for step in range(most, 0, -1):
            candidate = tiling.but(step_ka=step, step_kb=step, al1_buffers=buffers[0], bl1_buffers=buffers[1])
            if grad_weight_fits_l1(candidate, inp, clipped=True):
                return candidate
    return tiling.but(step_ka=1, step_kb=1, al1_buffers=1, bl1_buffers=1)

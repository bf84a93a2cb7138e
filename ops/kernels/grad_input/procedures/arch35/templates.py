"""Templates of the arch35 procedure of grad_input: small shape, full load, inner product; the first that is capable decides."""

from __future__ import annotations

import math

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.pieces import UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.block import (
    LONGEST_SIDE,
    NARROW_LONGEST_SIDE,
    dealt,
    first_block,
    k_segment,
    limited,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.arch35.steps import fits, shrunk, with_all_weights, with_steps
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
FEW_TASKS = (5, 2)  # fewer than 2.5 tiles a core, not a multiple of the cores: a small shape
SMALL_K, SMALL_SIDE = 32768, 64  # K at most of a small shape; its shortest side of a block
FULL_LOAD_WIDTH, FULL_LOAD_K = 512, 128
BANDWIDTH_BOUND = 512  # of M*N / (M+N)
HELD_CHANNELS, HELD_CHANNELS_FLAT = 128, 256  # whose weights, twice, L1 must hold; for kernels of one tap
HELD_WIDTHS = ((1024, 128), (512, 256), (256, 512), (0, 1024))  # K above which a block has so many bytes of channels
WIDE_N, WIDE_TO_K = 128, 2  # channels, or times K, from which a short K leaves time for two buffers of L0C
LEAST_LOAD = (4, 5)  # of the cores, in rounds of whole-row tasks


def decided(p: DataProblem) -> GradInputTiling:
    """The vendor's block, steps, buffers and share of a core. Raises TilingError where nothing that it tries fits."""
    if is_small_shape(p):
        tiling = small_shape(p)
    elif may_hold_weights(p):
        tiling = full_load(p)
    else:
        tiling = inner_product(p)
    if not fits(tiling, p):
        raise TilingError("grad_input: no block of the procedure for dav-3510 fits L1")
    return tiling


# ---- small shape ---------------------------------------------------------------------------------------------------


def is_small_shape(p: DataProblem) -> bool:
    """Whether there are few tiles, and not a whole number of rounds of them."""
    few = p.itemsize > 1 and p.cut == UNCUT and p.blocks * p.c0 * p.inp.taps <= SMALL_K
    tiles = ceil_div(p.n * p.m * ACCUMULATOR_BYTES, p.inp.buffers["L0C"]) * p.lanes
    return few and tiles * FEW_TASKS[1] < FEW_TASKS[0] * p.inp.cores and tiles % p.inp.cores != 0


def small_shape(p: DataProblem) -> GradInputTiling:
    """Of all numbers of pieces of M and N those in the fewest rounds; then as many tasks with no more to load for each."""
    best = first_block(p)
    task, tasks = best.base_m, p.tasks(best.base_m, best.base_n)
    rounds, least = ceil_to(tasks, p.inp.cores), _load(p, best.base_m, best.base_n)
    longest_m = NARROW_LONGEST_SIDE if p.n <= FRACTAL else LONGEST_SIDE
    longest_n = NARROW_LONGEST_SIDE if p.m <= FRACTAL else LONGEST_SIDE
    widths = [
        ceil_to(ceil_div(p.n, parts), p.side)
        for parts in range(ceil_div(p.n, longest_n), ceil_div(p.n, SMALL_SIDE) + 1)
    ]
    for parts in range(ceil_div(p.pixels, longest_m), ceil_div(p.pixels, SMALL_SIDE) + 1):
        own = m = ceil_to(ceil_div(p.pixels, parts), FRACTAL)
        rows = p.rows_of(m)
        if ceil_div(p.pixels, rows) == ceil_div(p.pixels, m):
            own, m = rows, ceil_to(rows, FRACTAL)
        for n in widths:
            if m * n * ACCUMULATOR_BYTES > p.inp.buffers["L0C"]:
                continue
            found = p.tasks(own, n)
            own_rounds, load = ceil_to(found, p.inp.cores), _load(p, own, n)
            if own_rounds < rounds or (own_rounds == rounds and found >= tasks and load <= least):
                rounds, tasks, least, task, best = own_rounds, found, load, own, best.but(base_m=m, base_n=n)
    best = limited(best.but(cl0_buffers=1), p)
    tiling = with_steps(best.but(single_core_m=task, single_core_cin=best.base_n), p)
    return tiling if fits(tiling, p) else _dealt_again(shrunk(tiling, p), p)


def _load(p: DataProblem, pixels: int, channels: int) -> int:
    """What a task brings to L1: weights and gradOutput."""
    return (p.itemsize * channels * p.inp.taps + p.gradient_rows(pixels) * p.row_bytes) * p.inp.cout_g


# ---- full load -----------------------------------------------------------------------------------------------------


def may_hold_weights(p: DataProblem) -> bool:
    """Whether one kernel plane's weights can stay in L1 and are worth it: bound by bandwidth, or K is short."""
    held = min(HELD_CHANNELS_FLAT if p.all_taps == 1 else HELD_CHANNELS, p.n)
    plain = p.cut == UNCUT and p.itemsize > 1 and p.inp.problem.k_d == 1
    tall = p.m > p.n and p.width <= FULL_LOAD_WIDTH
    bound = p.m * p.n < BANDWIDTH_BOUND * (p.m + p.n) or p.k <= FULL_LOAD_K
    return plain and tall and bound and 2 * p.k * held * p.itemsize <= p.inp.buffers["L1"]


def full_load(p: DataProblem) -> GradInputTiling:
    """The longer K, the narrower the block; its weights stay in L1 while a core walks over rows and depths."""
    n = next(size for above, size in HELD_WIDTHS if p.k > above) // p.itemsize
    double = p.k <= FULL_LOAD_K and (p.n >= WIDE_TO_K * p.k or p.n >= WIDE_N)
    tiles = 2 if double else 1
    m = min(p.inp.buffers["L0C"] // (ACCUMULATOR_BYTES * n * tiles), p.inp.buffers["L0A"] // (2 * p.c0 * p.itemsize))
    k = p.inp.buffers["L0B"] // (2 * n * p.itemsize)
    block = limited(GradInputTiling(m, k, n, iterate_order=1, cl0_buffers=tiles), p)
    tiling = with_all_weights(_walked(block, p), p)
    return tiling if fits(tiling, p) else _dealt_again(shrunk(tiling, p), p)


def _walked(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """The rows and depths of a core: as many whole rows as fill the cores, or those whose last round is the fullest."""
    problem, cores, m = p.inp.problem, p.inp.cores, block.base_m
    parts = ceil_div(p.n, block.base_n)
    n, lanes, task, depths = ceil_to(p.n // parts, p.side), problem.n * problem.d_in * parts, m, 1
    if lanes * problem.h_in % cores == 0:
        rest = cores // math.gcd(parts * problem.n, cores)
        pieces = math.gcd(problem.d_in, rest)
        depths, task = problem.d_in // pieces, problem.h_in * pieces // rest * p.width
    else:
        rounds = ceil_to(lanes * ceil_div(p.pixels, m), cores)
        for count in range(1, ceil_div(p.pixels, m) + 1):
            rows = ceil_div(problem.h_in, count) * p.width
            tasks = lanes * ceil_div(p.pixels, rows)
            own = ceil_to(tasks, cores)
            if tasks * LEAST_LOAD[1] < own * LEAST_LOAD[0]:
                continue
            if own > rounds:
                break
            rounds, task = own, rows
    if task < m:
        m = ceil_to(task, FRACTAL)
    return block.but(base_m=m, base_n=n, single_core_m=task, single_core_cin=n, single_core_din=depths)


# ---- inner product -------------------------------------------------------------------------------------------------


def inner_product(p: DataProblem) -> GradInputTiling:
    """The first block, dealt to the cores; long sums in segments of K."""
    segment = k_segment(p)
    block = dealt(first_block(p, ceil_to(segment * p.taps, p.c0)), p)
    tiling = with_steps(block.but(k_segment=segment), p)
    return tiling if fits(tiling, p) else _dealt_again(shrunk(tiling, p), p)


def _dealt_again(tiling: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """A shrunk block's share of a core; one that fits nowhere stays as it is."""
    if not fits(tiling, p):
        return tiling
    return _walked(tiling, p) if tiling.full_load else dealt(tiling, p)

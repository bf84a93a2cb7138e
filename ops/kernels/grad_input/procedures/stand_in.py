"""Tilings of grad_input of our own: sound ones for any problem, and rules for what a closed library decides.

`sound_grad_input` has the kernel structure of the vendor's basic block. `taller` and `spread` make such a tiling, or the
vendor's for another kernel, a stand-in for that of Conv2DBackpropInput.

Taller tiles, where dX has few channels: a step of L0 takes one load of pixels, loads of weights, a Mmad and the flags around
them, however many channels it makes. With few channels it is multiplied before the next one is issued, so that the number of
instructions decides, and the block that suits many channels has too many: fewer pixels than L0C has room for, at a longer K.
What L0A holds is the same either way, but weights are loaded once a tile.

Smaller tiles, where there are fewer of them than the chip has cores: no source has the core split of Conv2DBackpropInput on
dav-2201. What is known: its blocks are of groups, images, channels of dX (n) and pixels (m), never of K (its schedule in CANN
8.1: stated), and parts need not divide (22 blocks of 32 images: measured). The host tiling that canndev published in 2022 for
the same operator of the 910A takes the grid of fewest rounds, then of most cores, then of least load (stated); that the rule
outlived the move is inferred. Every grid here has one round.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.capacity import fits_l0
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, check_grad_input_problem, grad_input_fits_l1
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, gemm, variant_of
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import (
    BIG_BLOCK,
    aligned_base_k,
    base_block,
    finish,
    step_candidates,
    task_count,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

SOUND_BASE_K_32BIT = 16  # K of one L0 step for fp32/hf32: a transposing load moves 16 output channels (measured: small steps)
NARROW = 2 * FRACTAL  # channels of a tile: with so few its operands take longer to load than to multiply (ours)
STEP = 6  # instructions of a step beside the loads of weights: the load of pixels, the Mmad and four of flags


def sound_grad_input(inp: TilingInput) -> GradInputTiling:
    """Return a tiling of our own that fits, for any dtype and groups (source "stand-in"): the first that fits of
    `step_candidates` for a block like the vendor's, else the largest block with single steps. TilingError where none fits.
    """
    check_grad_input_problem(inp)
    candidates = step_candidates(_level(_sound_block(inp), inp), inp)
    fitting = next((t for t in candidates if grad_input_fits_l1(t, inp)), None)
    tiling = finish(fitting or _largest_with_single_steps(inp), inp).but(source="stand-in")
    check_grad_input(tiling, inp)
    return tiling


def roomy_grad_input(inp: TilingInput) -> GradInputTiling:
    """Return the sound tiling (`sound_grad_input`, then `taller`), with two L0C buffers where they fit: a tile leaves while the
    next one is multiplied. TilingError where none fits.

    On coupled chips the weights get two L1 buffers, too, and a task is an image with all its channels or, where there are fewer
    images than cores, a part of its rows (published ResNet-50 rows of the 910: 30 blocks for 64 images take as long as three
    images). The height of a tile was decided before that.
    """
    tiling = taller(sound_grad_input(inp), inp)
    double = tiling.but(cl0_buffers=2)
    tiling = double if fits_l0(double, inp) else tiling
    if not variant_of(inp).keeps_operands:
        return tiling
    double = tiling.but(bl1_buffers=2)
    tiling = double if grad_input_fits_l1(double, inp) else tiling
    problem = inp.problem
    outer = problem.n * problem.d_in * inp.real_groups
    rows = ceil_div(problem.h_in, max(inp.cores // outer, 1))
    whole = {"single_core_m": rows * problem.w_in, "single_core_cin": ceil_to(inp.cin1 * inp.c0, FRACTAL)}
    return finish(tiling.but(**whole), inp, keep=frozenset(whole))


def _sound_block(inp: TilingInput) -> GradInputTiling:
    """Return the vendor's `base_block`; for 32 bits one with base_k 16 and a base_m of up to 256, since the transposing load of
    weights is slow.
    """
    m, k, n = gemm(inp)
    if inp.itemsize < 4:
        return base_block(inp)
    base_k = min(SOUND_BASE_K_32BIT, k)
    base_m = min(BIG_BLOCK, ceil_to(m, FRACTAL), floor_to(inp.buffers["L0A"] // 2 // inp.itemsize // base_k, FRACTAL))
    base_n = floor_to(inp.buffers["L0C"] // ACCUMULATOR_BYTES // base_m, FRACTAL)
    base_n = min(base_n, BIG_BLOCK, ceil_to(n, FRACTAL))
    return GradInputTiling(base_m, base_k, base_n, iterate_order=1)


def _level(block: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the block with tiles of equal width along N, in whole `unit`, and a base_m of at most M, less if there would be
    fewer tasks than cores.

    On dav-2201 it is not less for that, since `spread` deals dX out there.
    """
    m, _, n = gemm(inp)
    columns = ceil_div(n, block.base_n)
    base_n = ceil_to(ceil_div(n, columns), inp.unit)
    lanes = inp.problem.n * inp.problem.d_in * inp.real_groups * columns
    rows = max(block.base_m // inp.problem.w_in, 1)
    if lanes * ceil_div(inp.problem.h_in, rows) < inp.cores and not variant_of(inp).whole_slices:
        rows = max(inp.problem.h_in // ceil_div(inp.cores, lanes), 1)
        return block.but(base_n=base_n, base_m=min(block.base_m, ceil_to(rows * inp.problem.w_in, FRACTAL)))
    return block.but(base_n=base_n, base_m=min(block.base_m, ceil_to(m, FRACTAL)))


def _largest_with_single_steps(inp: TilingInput) -> GradInputTiling:
    """Return the block that fits with one channel block a load and single buffers in L1: the most pixels, then the most
    channels, up to 256 of each; the smallest block if none fits.
    """
    m, _, n = gemm(inp)
    smallest = GradInputTiling(
        FRACTAL, inp.unit, inp.unit, step_ka=inp.taps, step_kb=inp.taps, al1_buffers=1, bl1_buffers=1, iterate_order=1
    )
    for base_m in range(min(ceil_to(m, FRACTAL), BIG_BLOCK), 0, -FRACTAL):
        for base_n in range(min(ceil_to(n, inp.unit), BIG_BLOCK), 0, -inp.unit):
            candidate = smallest.but(base_m=base_m, base_n=base_n)
            if fits_l0(candidate, inp) and grad_input_fits_l1(candidate, inp):
                return candidate
    return smallest


# ---- taller tiles -----------------------------------------------------------------------------------------------------


def taller(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the tiling or, if its tiles have at most 32 channels, a taller one whose busiest core has fewer instructions: the
    one with the fewest.
    """
    if tiling.base_n > NARROW:
        return tiling
    return min((tiling, *_taller(tiling, inp)), key=lambda one: instructions(one, inp))


def instructions(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return how many instructions the busiest core has for loads to L0 and products (flags included), for one kernel plane."""
    tiles = ceil_div(tiling.single_core_m, tiling.base_m) * ceil_div(task_count(tiling, inp), inp.cores)
    return tiles * ceil_div(gemm(inp)[1], tiling.base_k) * (STEP + tiling.base_k // inp.c0)


def _taller(tiling: GradInputTiling, inp: TilingInput) -> Iterator[GradInputTiling]:
    """Yield fitting tilings with more pixels in a tile than `tiling`: the most that L0 holds at each base_k up to its own."""
    l0a = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize
    l0c = inp.buffers["L0C"] // tiling.cl0_buffers // ACCUMULATOR_BYTES
    most = min(floor_to(l0c // tiling.base_n, FRACTAL), ceil_to(gemm(inp)[0], FRACTAL))
    for base_k in sorted({aligned_base_k(k, inp) for k in range(inp.unit, tiling.base_k + 1, inp.unit)}, reverse=True):
        base_m = min(floor_to(l0a // base_k, FRACTAL), most)
        if base_m > tiling.base_m:
            block = tiling.but(base_m=base_m, base_k=base_k)
            fitting = (t for t in step_candidates(block, inp) if grad_input_fits_l1(t, inp))
            yield from (finish(t, inp) for t in islice(fitting, 1))


# ---- a tile for each core ---------------------------------------------------------------------------------------------


@frozen
class CoreGrid:
    """Division of dX over `cores` cores: each has `channels` channels x `rows` rows; together they read `load` elements."""

    channels: int
    rows: int
    cores: int
    load: int


def core_grid(inp: TilingInput, channels: int, rows: int) -> CoreGrid | None:
    """Return the division of dX with the most cores, then the least load, with shares of at most `channels` and `rows`;
    None if none exists.

    Each image, depth and group has cores of its own. A share is whole rows and may be as small as a fractal of pixels.
    Of equal grids the one with more parts of channels wins, as in the source.
    """
    p, n_total = inp.problem, gemm(inp)[2]
    lanes, blocks = p.n * p.d_in * inp.real_groups, ceil_div(n_total, inp.unit)
    weights = inp.cout_padded * n_total * inp.taps
    gradient = lanes * inp.cout_padded * p.h_out * p.w_out
    grids = []
    for parts in range(min(blocks, inp.cores), 0, -1):
        share_n = ceil_div(blocks, parts)
        n = ceil_div(blocks, share_n)
        most = min(inp.cores // (lanes * n), p.h_in, ceil_div(p.h_in * p.w_in, FRACTAL))
        if share_n * inp.unit > channels or most < ceil_div(p.h_in, rows):
            continue
        share_m = ceil_div(p.h_in, most)
        m = ceil_div(p.h_in, share_m)
        grids.append(CoreGrid(share_n * inp.unit, share_m, lanes * n * m, lanes * m * weights + n * gradient))
    return max(grids, key=lambda grid: (grid.cores, -grid.load), default=None)


def spread(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the tiling with smaller tiles, one for each core of `core_grid`; unchanged if that has no more cores than there
    are tasks, or nothing fits.
    """
    tasks, width = task_count(tiling, inp), inp.problem.w_in
    grid = core_grid(inp, ceil_to(tiling.single_core_cin, inp.unit), ceil_div(tiling.single_core_m, width))
    if grid is None or grid.cores <= tasks:
        return tiling
    pixels = grid.rows * width
    base_m, base_n = min(ceil_to(pixels, FRACTAL), tiling.base_m), min(grid.channels, tiling.base_n)
    base_k = tiling.base_k
    if inp.itemsize < 4:  # 32-bit weights are turned in small steps
        half = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize
        base_k = aligned_base_k(min(floor_to(half // max(base_m, base_n), inp.unit), gemm(inp)[1]), inp)
    block = tiling.but(base_m=base_m, base_n=base_n, base_k=base_k, single_core_m=pixels)
    fitting = (t for t in step_candidates(block, inp) if grad_input_fits_l1(t, inp))
    return next((finish(t, inp, keep=frozenset(("single_core_m",))) for t in fitting), tiling)

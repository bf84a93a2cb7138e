"""Blocks of the arch35 procedure of grad_input: the first L0 block and its limits, K and its segments, L1 steps, and
the smaller blocks that are tried where none fit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import chain

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import MOST_PIXELS, DataProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down, floor_to
from ascend_sim.ops.problem.window import pad_after, pad_before

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
FLAT_BLOCK, FLAT_K_BYTES = (256, 256), 128  # one tap
TALL_BLOCK, TALL_K_BYTES = (512, 128), 64  # more: bringing the weights to L1 is the bottleneck
LONGEST_SIDE, NARROW_LONGEST_SIDE = MOST_PIXELS, 512  # of a block; beside one fractal of channels, or with wide pads
MIDDLE_TASKS, MIDDLE_K, MIDDLE_PIXELS = ((10, 45), 16, 256)  # 32-bit 3x3 kernels with so many tasks a core: shorter blocks
CUT_PIXELS = 256  # of a block, where a kernel is taken tap by tap, or row by row on a map of one column
SEGMENT, SEGMENT_CUT, SEGMENT_32BIT_PLANAR = 32768, 8192, 2048  # elements of K that are summed at a time
EQUAL_CHANNELS = 16  # that equal shares of L1 count gradOutput in (ops-nn arch35: stated)
FEWER_BUFFERS = ((2, 1), (1, 2), (1, 1))  # of A and B in L1, in the order that the procedure gives them up
Attempt = tuple[GradInputTiling, bool]
"""The last tiling tried, and whether it fits."""


def first_block(p: DataProblem, segment: int = 0) -> GradInputTiling:
    """Return the procedure's first L0 block, limited to L0 and the problem, with its free side stretched to fill L0C
    and K aligned to the kernel.

    `segment` is the K that is summed in L0C at a time, 0 for all; base_k is then at most that, or rounded up to whole slices.
    """
    tall = p.all_taps > 1 and (p.cut == UNCUT or (p.cut == NO_HK and p.width > 1))
    (m, n), k_bytes = (TALL_BLOCK, TALL_K_BYTES) if tall else (FLAT_BLOCK, FLAT_K_BYTES)
    k = k_bytes // p.itemsize
    if tall and k <= MIDDLE_K and (p.inp.problem.k_h, p.inp.problem.k_w) == (3, 3) and _is_middling(p, m, n):
        m = MIDDLE_PIXELS
    block = limited(GradInputTiling(m, k, n, iterate_order=1), p)
    if segment and block.base_k > segment:
        return block.but(base_k=segment)
    if segment and block.base_k > p.slice and block.base_k % p.slice:
        return block.but(base_k=ceil_to(block.base_k, p.slice))
    return block


def _is_middling(p: DataProblem, m: int, n: int) -> bool:
    """Return True if shorter blocks balance better than m x n: tasks for each core are within MIDDLE_TASKS (least,
    most), a plane of dx has at least m pixels, and whole rows do not help.

    They do not where m is whole rows already or less than one, or where rounding it down to whole rows needs a further tile.
    """
    rows, parts = p.rows_of(m), ceil_div(p.pixels, m)
    few, many = (count * p.inp.cores for count in MIDDLE_TASKS)
    return few <= p.tasks(m, n) <= many and p.pixels >= m and (rows * parts < p.m or rows >= m)


def limited(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with its sides lowered to L0 and to M and N of the problem, and base_k aligned to the kernel; if
    one side is cut short, the other grows.

    A tile may fill L0C, or half of it if `block` has two L0C buffers. The result has two L0C buffers where both fit, else one.
    """
    accumulators = p.inp.buffers["L0C"] // block.cl0_buffers // ACCUMULATOR_BYTES
    m = min(block.base_m, p.inp.buffers["L0A"] // 2 // (p.c0 * p.itemsize), p.m)
    n = min(block.base_n, p.n)
    if n < block.base_n:
        pads = (*pad_before(p.inp.problem), *pad_after(p.inp.problem))
        narrow = n <= FRACTAL or max(pads) > p.inp.load3d.pad
        longest = NARROW_LONGEST_SIDE if narrow else LONGEST_SIDE
        m = min(longest, floor_to(accumulators // n, FRACTAL), p.m)
    if m < block.base_m:
        n = min(LONGEST_SIDE, floor_to(accumulators // m, p.side), p.n)
    block = block.but(base_m=m, base_n=n, cl0_buffers=2 if p.doubles(m * n) else 1)
    return block.but(base_k=_aligned_k(block, p))


def longest_k(block: GradInputTiling, p: DataProblem) -> int:
    """Return the longest K, in whole C0 (at least one) and at most all of K, that half of L0A holds for the block's longer
    side.
    """
    return min(floor_to(p.inp.buffers["L0A"] // 2 // p.itemsize // max(block.base_m, block.base_n), p.c0), p.k)


def _aligned_k(block: GradInputTiling, p: DataProblem) -> int:
    """Return the longest K that L0A holds and that is a multiple of a kernel row, kernel column or slice, or divides a slice.

    If no K longer than C0 does, return base_k, or the longest K that L0A holds if that is less.
    """
    top, kernel = longest_k(block, p), p.inp.problem
    for k in range(top, p.c0, -p.c0):
        by_row = kernel.k_w > 1 and k % (kernel.k_w * p.c0) == 0
        by_column = kernel.k_h > 1 and k % (kernel.k_h * p.c0) == 0
        if by_row or by_column or k % p.slice == 0 or p.slice % k == 0:
            return k
    return min(block.base_k, top)


def k_segment(p: DataProblem) -> int:
    """Return how many output channels are summed in L0C at a time, in whole C0, or 1 if the limit holds less than C0; 0 for
    all.

    It is 0 if K is below the limit SEGMENT, else as many channels as the limit holds (all whole C0 if one channel's taps reach
    it). Cut kernels and planar (NCDHW) 32-bit tensors have limits of their own; packed and grouped problems have no segments.
    """
    if p.packed or p.inp.problem.groups > 1:
        return 0
    limit = SEGMENT if p.cut == UNCUT else SEGMENT_CUT
    if p.itemsize == 4 and p.is_planar:
        limit = SEGMENT_32BIT_PLANAR
    if p.blocks * p.slice < limit:
        return 0
    most = p.inp.cout_g if p.taps >= limit else limit // p.taps
    channels = max(most // p.c0 * p.c0, 1)
    return channels if channels < p.inp.cout_g else 0


def dealt(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with a core's share of the inner product (single_core_*): one depth and a tile's channels, evenly cut if
    tasks are no more than cores, if the parts of N divide the cores or the cores the parts, or if base_n exceeds the first
    block's.

    Pixels are a tile's. They are even whole rows if tasks are no more than cores, whole rows for `whole_rows`, and also where
    base_m is at least the first block's and that costs no tile; one row if the kernel is taken tap by tap. A share smaller than
    the block makes the block smaller. Tap by tap, or row by row on one column, the block has at most CUT_PIXELS pixels.
    """
    flat, (m, n) = p.all_taps == 1, (block.base_m, block.base_n)
    m_parts, n_parts, cores = ceil_div(p.pixels, m), ceil_div(p.n, n), p.inp.cores
    few = p.lanes * m_parts * n_parts <= cores
    wide, long = (FLAT_BLOCK[1], FLAT_BLOCK[0]) if flat else (TALL_BLOCK[1], TALL_BLOCK[0])
    if few or n_parts % cores == 0 or cores % n_parts == 0 or n > wide:
        n = ceil_to(p.n // n_parts, p.side)
    task = m
    if few:
        task = ceil_to(p.pixels // m_parts, p.width)
    elif p.whole_rows or (m >= long and p.rows_of(m) * m_parts >= p.m):
        task = p.rows_of(m)
    if p.cut == NO_HK_WK:
        task = p.width
    if p.cut == NO_HK_WK or (p.cut == NO_HK and p.width == 1):
        m = min(m, CUT_PIXELS)
    if task < m:
        m = ceil_to(task, FRACTAL)
    return block.but(base_m=m, base_n=n, single_core_m=task, single_core_cin=n, single_core_din=1)


# ---- L1 steps -------------------------------------------------------------------------------------------------------


def fits(tiling: GradInputTiling, p: DataProblem) -> bool:
    """Return True if both L1 steps are whole slices, or all of K, and L1 holds both operands beside `p.spare` bytes."""
    spans = (tiling.step_ka * tiling.base_k, tiling.step_kb * tiling.base_k)
    if any(span < p.k and span % p.slice for span in spans):
        return False
    channels = max(spans[0] // p.taps, 1)
    whole = spans[1] % p.slice == 0 or p.slice % spans[1] == 0
    lines = ceil_div(spans[1], p.slice) if whole else spans[1] // p.slice + 2 if spans[1] > p.slice else 2
    a1 = tiling.al1_buffers * channels * _channel_bytes(tiling, p)
    b1 = tiling.bl1_buffers * p.itemsize * tiling.base_n * lines * p.slice
    return a1 + b1 + p.spare <= p.inp.buffers["L1"]


def _channel_bytes(tiling: GradInputTiling, p: DataProblem) -> int:
    """Return the bytes in L1 of a channel of the gradOutput rows that a tile reads; tap by tap, of CUT_PIXELS pixels."""
    if p.cut == NO_HK_WK:
        return CUT_PIXELS * p.itemsize
    return p.gradient_rows(tiling.base_m) * p.row_bytes


def equal(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with L1 steps with which each operand fills half of L1, in whole channel blocks; the larger step
    is lowered to a multiple of the smaller.

    A's step is at most load3d's K field. A block of A counts as EQUAL_CHANNELS channels, whatever C0 is (stated), or as
    CUT_PIXELS elements where pixels are loaded one by one.
    """
    half = p.inp.buffers["L1"] // 2
    single = p.cut == NO_HK_WK or (p.cut == NO_HK and p.width == 1)  # as the vendor counts these: no channels
    unit = CUT_PIXELS * p.itemsize if single else _channel_bytes(block, p) * EQUAL_CHANNELS
    a = _in_whole_loads(_share(half // block.al1_buffers // unit, block.al1_buffers, p), block, p)
    b = _share(half // block.bl1_buffers // (p.slice * block.base_n * p.itemsize), block.bl1_buffers, p)
    a, b = (divisors_down(b, a)[0], b) if b > a else (a, divisors_down(a, b)[0])
    step_a = min(ceil_div(a * p.slice, block.base_k), p.inp.load3d.k_extent // block.base_k)
    step_b = ceil_div(b * p.slice, block.base_k)
    if step_a > step_b:
        return block.but(step_ka=floor_to(step_a, step_b), step_kb=step_b)
    return block.but(step_ka=step_a, step_kb=floor_to(step_b, step_a))


def _share(blocks: int, buffers: int, p: DataProblem) -> int:
    """Return the channel blocks of one L1 buffer: `blocks`, but at least 1, and at most ceil(p.blocks / buffers), where
    p.blocks are a real group's blocks of output channels.
    """
    return min(max(blocks, 1), ceil_div(p.blocks, buffers))


def _in_whole_loads(blocks: int, block: GradInputTiling, p: DataProblem) -> int:
    """Return `blocks` channel blocks of gradOutput. If `p.uneven`, a number above a base block's is lowered to a
    multiple of it; a smaller one stays as it is.
    """
    unit = block.base_k // p.c0
    return floor_to(blocks, unit) if p.uneven and blocks > unit else blocks


def ladder(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with equal L1 steps of A and B: the largest that fit, in whole slices or all of K; 1 where none
    does, even if 1 does not fit.

    If `p.uneven`, the steps are lowered to whole base blocks of K.
    """
    room = ceil_div(p.inp.buffers["L1"] // p.itemsize, block.base_n * block.al1_buffers)
    most = ceil_div(min(ceil_div(p.blocks, block.al1_buffers) * p.slice, room), block.base_k)
    all_k, whole = ceil_div(p.k, block.base_k), p.slice // math.gcd(p.slice, block.base_k)
    counts = chain(range(most, all_k - 1, -1), range(min(most, all_k - 1) // whole * whole, 0, -whole))
    found = (block.but(step_ka=step, step_kb=step) for step in counts if step > 1)  # others fit nowhere
    tiling = next((tiling for tiling in found if fits(tiling, p)), block.but(step_ka=1, step_kb=1))
    blocks = tiling.step_ka * tiling.base_k // p.slice
    if not p.uneven or blocks <= tiling.base_k // p.c0:
        return tiling
    step = _in_whole_loads(blocks, tiling, p) * p.slice // tiling.base_k
    return tiling.but(step_ka=step, step_kb=step)


def with_steps(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with two L1 buffers an operand and the steps of `equal` if they are larger and fit, else of `ladder`."""
    block = block.but(al1_buffers=2, bl1_buffers=2)
    halves, same = equal(block, p), ladder(block, p)
    more = halves.step_ka + halves.step_kb > same.step_ka + same.step_kb
    return halves if more and fits(halves, p) else same


def with_all_weights(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with `full_load`, one buffer for all K of the weights, and two of gradOutput, whose step is the largest
    divisor of the weights' that fits, or 1.
    """
    steps = ceil_div(p.k, block.base_k)
    block = block.but(step_kb=steps, al1_buffers=2, bl1_buffers=1, full_load=1)
    found = (block.but(step_ka=step) for step in divisors_down(steps, steps))
    return next((tiling for tiling in found if fits(tiling, p)), block.but(step_ka=1))


def shrunk(tiling: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the tiling with a smaller block or, where none fits, with fewer L1 buffers too; unchanged if it fits. The
    result may not fit.

    The numbers of buffers are lowered step by step down to (1, 1), even if an earlier step fits, as the vendor does;
    each step starts from the block of the one before.
    """
    tiling = _stage(tiling, p)
    if fits(tiling, p):
        return tiling
    given = (tiling.al1_buffers, tiling.bl1_buffers)
    fewer = FEWER_BUFFERS[FEWER_BUFFERS.index(given) + 1 :] if given in FEWER_BUFFERS else FEWER_BUFFERS
    for a, b in fewer:
        tiling = _stage(tiling.but(al1_buffers=a, bl1_buffers=b), p)
    return tiling


def _stage(tiling: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the tiling with a smaller K that fits; else with smaller sides at the least K, and then the longest K below
    `longest_k` that fits. Unchanged if it fits.

    If nothing fits, the block stays as it was, with the last steps that were tried.
    """
    if fits(tiling, p):
        return tiling
    last, found = _smaller_k(tiling, p, tiling.base_k)
    if found:
        return last
    sides, found = _first_that_fits(last, ((m, p.c0, n) for m, n in _smaller_sides(tiling, p)), p)
    last = sides
    if found:
        most = longest_k(sides, p)
        if most == sides.base_k:
            return sides
        last, found = _smaller_k(sides, p, most)
        if found:
            return last
    return last.but(base_m=tiling.base_m, base_n=tiling.base_n, base_k=tiling.base_k)


def _smaller_k(tiling: GradInputTiling, p: DataProblem, start: int) -> Attempt:
    """Return (tiling with the longest base_k below `start`, in steps of C0, that fits with L1 steps of `ladder` or `equal`,
    True), or (the last tried, False).
    """
    return _first_that_fits(tiling, ((tiling.base_m, k, tiling.base_n) for k in _down(start, p.c0)), p)


def _down(start: int, unit: int) -> Iterable[int]:
    """Yield `start` less one unit, less two, ..., down to `unit`; nothing if `start` is at most that."""
    while start > unit:
        start = max(start - unit, unit)
        yield start


def _smaller_sides(tiling: GradInputTiling, p: DataProblem) -> Iterable[tuple[int, int]]:
    """Yield (M, N), each time with one side reduced by one unit: the larger (of equal ones N), or the other one if that is
    at its least.

    The first pair is already reduced. M stops at the first value that is at most the larger of a row of dx and a
    fractal, so it may be less than a row; N stops at its unit.
    """
    m, n, least = tiling.base_m, tiling.base_n, max(p.width, FRACTAL)
    while m > least or n > p.side:
        if m > least and (m > n or n == p.side):
            m = max(m - FRACTAL, FRACTAL)
        else:
            n = max(n - p.side, p.side)
        yield m, n


def _first_that_fits(tiling: GradInputTiling, blocks: Iterable[tuple[int, int, int]], p: DataProblem) -> Attempt:
    """Return (tiling with the first of `blocks`, (M, K, N), that fits L1, True), or (the last one tried, False).

    Each block is tried with the L1 steps of `ladder`, then with those of `equal`.
    """
    ways: tuple[Callable[[GradInputTiling, DataProblem], GradInputTiling], ...] = (ladder, equal)
    for m, k, n in blocks:
        for way in ways:
            tiling = way(tiling.but(base_m=m, base_k=k, base_n=n), p)
            if fits(tiling, p):
                return tiling, True
    return tiling, False

"""The L0 block of the arch35 procedure of grad_input: the first one, what L0 makes of it, K and its segments."""

from __future__ import annotations

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.pieces import NO_HK, NO_HK_WK, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import MOST_PIXELS, DataProblem
from ascend_sim.ops.kernels.grad_input.window import pad_after, pad_before
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
FLAT_BLOCK, FLAT_K_BYTES = (256, 256), 128  # one tap
TALL_BLOCK, TALL_K_BYTES = (512, 128), 64  # more: bringing the weights to L1 is the bottleneck
LONGEST_SIDE, NARROW_LONGEST_SIDE = MOST_PIXELS, 512  # of a block; beside one fractal of channels, or with wide pads
MIDDLE_TASKS, MIDDLE_K, MIDDLE_PIXELS = (
    (10, 45),
    16,
    256,
)  # 32-bit 3x3 kernels with so many tasks a core: shorter blocks
CUT_PIXELS = 256  # of a block, where a kernel is taken tap by tap, or row by row on a map of one column
SEGMENT, SEGMENT_CUT, SEGMENT_32BIT_PLANAR = 32768, 8192, 2048  # elements of K that are summed at a time


def first_block(p: DataProblem, segment: int = 0) -> GradInputTiling:
    """The largest block, its free side stretched to fill L0C, K aligned to the kernel; `segment` is K summed at a time."""
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
    """Whether there are some tasks a core, which shorter blocks deal out more evenly, and whole rows cost a tile."""
    rows, parts = p.rows_of(m), ceil_div(p.pixels, m)
    few, many = (count * p.inp.cores for count in MIDDLE_TASKS)
    return few <= p.tasks(m, n) <= many and p.pixels >= m and (rows * parts < p.m or rows >= m)


def limited(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """A block within L0 and the problem: a side that N or M cuts short lengthens the other; then the longest aligned K.

    One buffer of L0C is filled (two where the block says so); the result has two where both fit.
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
    """The longest K that half of L0A holds for the longer side, no longer than K is."""
    return min(floor_to(p.inp.buffers["L0A"] // 2 // p.itemsize // max(block.base_m, block.base_n), p.c0), p.k)


def _aligned_k(block: GradInputTiling, p: DataProblem) -> int:
    """The longest of rows, columns, slices or parts of a slice; where that is no longer than C0, the block's or the longest."""
    top, kernel = longest_k(block, p), p.inp.problem
    for k in range(top, p.c0, -p.c0):
        by_row = kernel.k_w > 1 and k % (kernel.k_w * p.c0) == 0
        by_column = kernel.k_h > 1 and k % (kernel.k_h * p.c0) == 0
        if by_row or by_column or k % p.slice == 0 or p.slice % k == 0:
            return k
    return min(block.base_k, top)


def k_segment(p: DataProblem) -> int:
    """Output channels that are summed at a time; 0 for all."""
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
    """The inner product's share of a core: even tiles of channels, and whole rows where that costs no tile."""
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

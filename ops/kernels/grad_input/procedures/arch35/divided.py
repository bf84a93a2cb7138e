"""Kernels split by stride in the arch35 procedure of grad_input: the conditions of a split, and the tiling of the parts.

All rules and numbers: ops-nn conv3d_backprop_input_v2, arch35, kernel_split and kernel_split_fullLoad tiling (stated). Both
axes are split for strides of 2 and kernels of up to 4x4, else the rows of taller kernels. All parts have the tiling of the
largest.
"""

from __future__ import annotations

from functools import cached_property

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_HW, SPLIT_NONE, UNCUT
from ascend_sim.ops.kernels.grad_input.procedures.arch35.blocks import (
    FLAT_BLOCK,
    FLAT_K_BYTES,
    TALL_BLOCK,
    TALL_K_BYTES,
    dealt,
    fits,
    limited,
    longest_k,
    with_steps,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

KERNELS, STRIDE = (1, 2, 3, 4), 2  # of a split of both axes
SMALL_PLANE = 256  # dx pixels, below which one block of output channels is too little
SIDE = 256  # sides of the block that is assumed while it is decided whether to split
WIDEST_ODD = 512  # most columns of dx, where they are an odd number
# Maps not worth it: fewer columns than NARROW, or at most NARROW_PLANE[0] and a part of at most NARROW_PLANE[1] pixels.
# Where gradOutput stays in L1: at most NARROWEST_HELD columns.
NARROW, NARROW_PLANE, NARROWEST_HELD = 12, (16, 256), 2
HELD_CHANNELS = 256  # output channels at most that stay in L1 for all parts
BEST_PIXELS, BEST_CHANNELS = 512, 128  # a part with so many pixels a core and at most so many channels need not stay
# Kernels of one tap stay whole with at most FEW_CHANNELS of either map; or on maps at most HELD_WIDTH wide whose weights L1
# holds twice, if loads bound the time: m * n / (m + n) < BOUND, or K is at most SHORT_K.
FEW_CHANNELS, HELD_WIDTH, BOUND, SHORT_K = 32, 512, 512, 128
ROWS_KERNEL, ROWS_WIDTH, ROWS_CHANNELS = 16, 32, 16  # tallest kernel, least columns and channels of a split of the rows
COPIES = 2  # of 16 channels of all taps that UB holds where weights are turned first
WEIGHTS_A_CORE = 2  # filters of 16 channels to turn that ask for a block: the library's number, not the chip's
PARTS = 4  # of a split of both axes


@frozen
class DividedProblem(DataProblem):
    """Largest part of a kernel split by stride as `mode` says, in the procedure's quantities. `inp` is the whole problem."""

    mode: int = SPLIT_HW

    @classmethod
    def split(cls, inp: TilingInput, mode: int) -> DividedProblem:
        """Return the DividedProblem of `inp`: the largest part of its kernel, split by stride on both axes (`mode` SPLIT_HW) or
        in rows alone (SPLIT_H: zeros are still inserted between columns).
        """
        return cls(inp, UNCUT, packs=False, mode=mode)

    @cached_property
    def across(self) -> int:
        """Return the distance in dx between neighbouring columns of a part."""
        return self.inp.problem.stride_w if self.mode == SPLIT_HW else 1

    @cached_property
    def width(self) -> int:
        """Return the columns of dx in the largest part."""
        return ceil_div(self.inp.problem.w_in, self.across)

    @cached_property
    def pixels(self) -> int:
        """Return the pixels of one plane of dx in the largest part."""
        return ceil_div(self.inp.problem.h_in, self.inp.problem.stride_h) * self.width

    @cached_property
    def rows(self) -> int:
        """Return the kernel rows of the largest part."""
        return ceil_div(self.inp.problem.k_h, self.inp.problem.stride_h)

    @cached_property
    def taps(self) -> int:
        """Return the taps of the largest part in one kernel plane."""
        return self.rows * ceil_div(self.inp.problem.k_w, self.across)

    @cached_property
    def all_taps(self) -> int:
        """Return the taps of the largest part in all kernel planes."""
        return self.inp.problem.k_d * self.taps

    @cached_property
    def fewest(self) -> int:
        """Return the K of one block (C0) of output channels in the part with the fewest taps; 0 if that has none."""
        p = self.inp.problem
        return (p.k_h // p.stride_h) * (p.k_w // self.across) * self.c0

    @cached_property
    def lanes(self) -> int:
        """Return how often each tile is computed: images x depths x real groups, times the parts if only rows are split."""
        p = self.inp.problem
        return p.n * p.d_in * self.inp.real_groups * (p.stride_h if self.mode == SPLIT_H else 1)

    @cached_property
    def row_bytes(self) -> int:
        """Return the bytes of a row of one channel of gradOutput, with inserted zeros if columns are not split."""
        return self.inp.problem.w_out * (self.inp.problem.stride_w if self.mode == SPLIT_H else 1) * self.itemsize

    @property
    def spare(self) -> int:
        return 0

    @property
    def whole_rows(self) -> bool:
        return self.mode == SPLIT_HW

    @property
    def uneven(self) -> bool:
        # Parts of a single tap differ too, three of them have none; the library's rule names kernels of 3 alone.
        return self.mode == SPLIT_HW and self.inp.problem.k_h == 3

    def doubles(self, elements: int) -> bool:
        room = self.inp.buffers["L0C"] - elements * ACCUMULATOR_BYTES * 2
        return room > 0 or (room == 0 and self.mode == SPLIT_HW)

    def gradient_rows(self, pixels: int) -> int:
        """Return an upper bound of the rows of gradOutput that a tile of `pixels` pixels of a part reads, at most the map's;
        tiles of whole rows begin with a row.
        """
        whole, rest = divmod(pixels, self.width)
        spanned = (whole + 2 if whole else 2) if rest else whole
        return min(spanned + self.rows - 1, self.inp.problem.h_out)

    @cached_property
    def turned(self) -> bool:
        """Return True if vector cores can transpose the weights first: NCDHW, several taps, UB for 2 copies of 16 channels."""
        p = self.inp.problem
        taps = p.k_d * self.inp.taps
        return self.is_planar and taps > 1 and FRACTAL * taps * self.itemsize * COPIES <= self.inp.buffers["UB"]


# ---- which kernels are split -----------------------------------------------------------------------------------------


def library_split(inp: TilingInput) -> tuple[int, bool]:
    """Return (kernelSplitMode of the library's kernel, True if gradOutput stays in L1 for all parts) by the library's rules.

    Always (SPLIT_NONE, False) with groups, dilation, padding in front and behind that differs by more than a stride leaves
    over, a dx below SMALL_PLANE pixels with one block of output channels, or a blocked layout. Else both axes are split by
    `_splits_both`, for equal strides and kernels of STRIDE and KERNELS in NCDHW; if they are not, rows by `_splits_rows`.
    """
    p = inp.problem
    # The library asks for equal pads. Those behind are what the sizes need here: less by what a stride leaves over.
    pads = ((p.pad_up, p.pad_down, p.stride_h), (p.pad_left, p.pad_right, p.stride_w))
    even = all(0 <= before - behind < stride for before, behind, stride in pads)
    small = p.h_in * p.w_in < SMALL_PLANE and ceil_div(inp.cout_g, inp.c0) == 1
    if p.groups > 1 or (p.dilation_h, p.dilation_w) != (1, 1) or not even or small or not inp.layout.plain:
        return SPLIT_NONE, False
    both = (p.stride_h, p.stride_w) == (STRIDE, STRIDE) and p.k_h == p.k_w and p.k_h in KERNELS
    if both and inp.layout is PLANAR:
        part = DividedProblem.split(inp, SPLIT_HW)
        held = _stays(part)
        if _splits_both(part, held):
            return SPLIT_HW, held
    return (SPLIT_H if _splits_rows(inp) else SPLIT_NONE), False


def _stays(part: DividedProblem) -> bool:
    """Return True if gradOutput stays in L1 for all parts: the rows that SIDE pixels of a part read fit half of L1 (a
    single channel block may take more) and the weights of all parts the rest, with at most HELD_CHANNELS output and SIDE input
    channels.

    It does not stay for a kernel of one tap, with several planes of both kernel and gradOutput, or where tiles of
    BEST_PIXELS pixels suffice for all cores and dx has from FRACTAL to BEST_CHANNELS channels.
    """
    inp, p = part.inp, part.inp.problem
    if p.k_h == 1 or inp.cout_g > HELD_CHANNELS:
        return False
    gradient = part.gradient_rows(min(SIDE, part.pixels)) * part.row_bytes * part.c0
    half = inp.buffers["L1"] // 2
    a = min(max(half // gradient, 1), part.blocks)
    width = min(SIDE, part.n)
    b = (inp.buffers["L1"] - a * gradient) // (part.itemsize * width * part.slice)
    tall = part.pixels // BEST_PIXELS * p.d_in * p.n
    best = tall >= inp.cores and part.n <= BEST_CHANNELS and inp.cin_g >= FRACTAL
    everything = a >= part.blocks and b >= part.blocks * PARTS and width >= inp.cin_g
    return everything and (p.d_out == 1 or p.k_d == 1) and not best


def _splits_both(part: DividedProblem, held: bool) -> bool:
    """Return True if the library splits both axes of the kernel, given that stride and kernel allow it: maps must be
    large enough, less so if gradOutput is `held` in L1.

    False also for a 2x2 kernel between maps of one channel, for odd widths over WIDEST_ODD, and for kernels of one tap
    that `_splits_one_tap` keeps whole.
    """
    p = part.inp.problem
    single = p.c_in == p.c_out == 1 and p.k_h == 2
    if single or (p.w_in % STRIDE and p.w_in > WIDEST_ODD) or (p.k_h == 1 and not _splits_one_tap(part)):
        return False
    if held:
        return p.w_in > NARROWEST_HELD
    columns, pixels = NARROW_PLANE
    return p.w_in >= NARROW and (p.w_in > columns or part.pixels > pixels)


def _splits_one_tap(part: DividedProblem) -> bool:
    """Return True if the library splits a kernel of one tap: dx is no taller than wide, has no more channels than gradOutput,
    and its planes have together more tiles of SIDE pixels x SIDE channels than there are cores.

    False if a plane of dx has at most SIDE pixels or either map at most FEW_CHANNELS channels, and if both operands of a
    plane fit L0. False also for at most one kernel plane and more pixels than channels, under the conditions at FEW_CHANNELS,
    if L1 holds the weights of SIDE channels twice.
    """
    inp, p, n = part.inp, part.inp.problem, part.n
    m, k = p.h_in * p.w_in, part.blocks * part.c0
    tiles = p.n * p.d_in * ceil_div(m, SIDE) * ceil_div(n, SIDE)
    if m <= SIDE or tiles <= inp.cores or min(p.c_in, p.c_out) <= FEW_CHANNELS:
        return False
    if m * k * part.itemsize <= inp.buffers["L0A"] and n * k * part.itemsize <= inp.buffers["L0B"]:
        return False
    bound = m * n < (m + n) * BOUND or k <= SHORT_K
    kept = k * min(SIDE, n) * part.itemsize * 2 <= inp.buffers["L1"]
    if p.k_d <= 1 and m > n and p.w_in <= HELD_WIDTH and bound and kept:
        return False
    return p.h_in <= p.w_in and p.c_in <= p.c_out


def _splits_rows(inp: TilingInput) -> bool:
    """Return True if the library splits rows only: stride_h is at least STRIDE, the kernel from stride_h to ROWS_KERNEL rows
    tall, dx at least ROWS_WIDTH wide with ROWS_CHANNELS channels in both maps, and L1 holds a channel block of each operand.
    """
    p = inp.problem
    wide = p.w_in >= ROWS_WIDTH and min(p.c_in, p.c_out) >= ROWS_CHANNELS
    if p.stride_h < STRIDE or not wide or not p.stride_h <= p.k_h <= ROWS_KERNEL:
        return False
    part = DividedProblem.split(inp, SPLIT_H)
    gradient = part.gradient_rows(min(SIDE, part.pixels)) * part.row_bytes * part.c0
    return gradient + part.itemsize * part.slice * FRACTAL <= inp.buffers["L1"]


# ---- the tiling of a part --------------------------------------------------------------------------------------------


def divided(p: DividedProblem, held: bool) -> GradInputTiling:
    """Return the vendor's tiling of a split kernel. Raises TilingError where none of the blocks that the procedure tries fits.

    `held`: gradOutput stays in L1 for all parts.
    """
    block = _held_block(p) if held else _block(p)
    block = dealt(block, p)
    tiling = _stepped(block, p, held)
    if not fits(tiling, p):
        tiling = _protected(tiling, p, held)
        if not fits(tiling, p):
            raise TilingError("grad_input: no block of the procedure for dav-3510 fits L1 with a split kernel")
        tiling = dealt(tiling, p)
    if not held and p.slice != p.fewest and tiling.base_k != p.c0:
        blocks = [step * tiling.base_k // p.slice for step in (tiling.step_ka, tiling.step_kb)]
        tiling = _with_k_of_all_parts(tiling, p, *blocks)
    if p.mode == SPLIT_HW and _written_bytes(tiling, p, ACCUMULATOR_BYTES) * 2 > p.inp.buffers["L0C"]:
        tiling = tiling.but(cl0_buffers=1)
    return tiling.but(kernel_split=p.mode, block_dim=_blocks(tiling, p, held))


def _blocks(tiling: GradInputTiling, p: DividedProblem, held: bool) -> int:
    """Return the number of blocks (cores) to launch: one for each task, at most the cores.

    Where weights are transposed first and gradOutput does not stay in L1 (`held`), there is at least one block for each
    WEIGHTS_A_CORE filters of 16 channels.
    """
    tasks = p.tasks(tiling.single_core_m, tiling.single_core_cin)
    if p.turned and not held:
        weights = p.inp.cout_g * ceil_div(p.inp.cin_g, FRACTAL)
        tasks = max(tasks, ceil_div(weights, WEIGHTS_A_CORE))
    return min(tasks, p.inp.cores)


def leaves_through_workspace(tiling: GradInputTiling, p: DividedProblem) -> bool:
    """Return True if tiles split along both axes go through GM: UB is too small, or rows are not whole fractals."""
    lines = _written_bytes(tiling, p, p.itemsize) * PARTS
    return lines > p.inp.buffers["UB"] or p.width * p.across % FRACTAL != 0


def _written_bytes(tiling: GradInputTiling, p: DividedProblem, itemsize: int) -> int:
    """Return the bytes of a tile of dx as written: rows padded to whole fractals of columns, one row more if both axes
    are split and dx has an odd number of columns.
    """
    rows = ceil_div(tiling.base_m, p.width) + p.inp.problem.w_in % p.across
    return rows * ceil_to(p.width, FRACTAL) * tiling.base_n * itemsize


def _block(p: DividedProblem) -> GradInputTiling:
    """Return the L0 block for a gradOutput that does not stay in L1: the vendor's first block, fitted to L0 and problem
    (`limited`).
    """
    (m, n), k_bytes = (TALL_BLOCK, TALL_K_BYTES) if p.all_taps > 1 else (FLAT_BLOCK, FLAT_K_BYTES)
    return limited(GradInputTiling(m, k_bytes // p.itemsize, n, iterate_order=1), p)


def _held_block(p: DividedProblem) -> GradInputTiling:
    """Return the L0 block for a gradOutput that stays in L1: sides of at most SIDE; a K of whole slices if half of L0A holds
    two, else of FLAT_K_BYTES if it holds so much, but of at least the smallest part's channel block. L0C has two buffers if
    they fit.
    """
    room, half = p.inp.buffers["L0C"] // ACCUMULATOR_BYTES, p.inp.buffers["L0A"] // 2 // p.itemsize
    m, n = min(SIDE, p.m), min(SIDE, p.n)
    if n < SIDE:
        m = min(SIDE, floor_to(room // n, FRACTAL), p.m)
    if m < SIDE:
        n = min(SIDE, floor_to(room // m, FRACTAL), p.n)
    block = GradInputTiling(m, 0, n, iterate_order=1)
    top = longest_k(block, p)
    whole = floor_to(top, p.slice)
    k = whole if whole > p.slice else min(top, max(FLAT_K_BYTES // p.itemsize, p.fewest))
    k = max(k, min(p.fewest, p.k))
    most = max(floor_to(half // max(k, p.c0), FRACTAL), FRACTAL)
    m, n = min(m, most), min(n, most)
    if m * n > room:
        n = min(n, max(floor_to(room // m, FRACTAL), FRACTAL))
    double = m * n * ACCUMULATOR_BYTES * 2 <= p.inp.buffers["L0C"]
    return block.but(base_m=m, base_k=k, base_n=n, cl0_buffers=2 if double else 1)


def _stepped(block: GradInputTiling, p: DividedProblem, held: bool) -> GradInputTiling:
    """Return the block with L1 steps and two buffers an operand; for a `held` gradOutput one each, and all K of weights."""
    if not held:
        return with_steps(block, p)
    block = block.but(al1_buffers=1, bl1_buffers=1, step_kb=ceil_div(p.k, block.base_k))
    found = (block.but(step_ka=step) for step in divisors_down(block.step_kb, block.step_kb))
    return next((tiling for tiling in found if fits(tiling, p)), block.but(step_ka=1))


def _protected(tiling: GradInputTiling, p: DividedProblem, held: bool) -> GradInputTiling:
    """Return the tiling with smaller sides if L1 cannot hold one block of output channels; where it can, or that does not fit,
    with as many channel blocks as L1 holds. It may still not fit. `held`: gradOutput stays in L1 for all parts.
    """
    room = p.inp.buffers["L1"]
    smaller = _smaller_sides(tiling, p) if sum(_least(tiling, p)) > room else None
    if smaller is not None:
        tiling = _stepped(smaller, p, held)
        double = tiling.base_m * tiling.base_n * ACCUMULATOR_BYTES * 2 <= p.inp.buffers["L0C"]
        tiling = tiling.but(cl0_buffers=2 if double else 1)
        if fits(tiling, p):
            return tiling
    a, b = _least(tiling, p)
    if a + b > room:
        return tiling
    # The larger operand gets half of L1, the other the rest; one that comes down to one block leaves the other all.
    more, less = (b, a) if b >= a else (a, b)
    first = max(room // 2 // more, 1)
    second = (room - first * more) // less
    a_blocks, b_blocks = (second, first) if b >= a else (first, second)
    a_buffers, a_blocks = _in_buffers(a_blocks, p)
    b_buffers, b_blocks = _in_buffers(b_blocks, p)
    if b_blocks > a_blocks:
        a_blocks = divisors_down(b_blocks, a_blocks)[0]
    else:
        b_blocks = divisors_down(a_blocks, b_blocks)[0]
    tiling = tiling.but(al1_buffers=a_buffers, bl1_buffers=b_buffers, base_k=longest_k(tiling, p))
    return _with_k_of_all_parts(tiling, p, a_blocks, b_blocks)


def _in_buffers(blocks: int, p: DividedProblem) -> tuple[int, int]:
    """Return (buffers, channel blocks in each) for at most `blocks` channel blocks: two buffers of half of them, rounded down,
    or one of a single block.
    """
    blocks = min(blocks, p.blocks)
    return (2, blocks // 2) if blocks > 1 else (1, blocks)


def _least(tiling: GradInputTiling, p: DividedProblem) -> tuple[int, int]:
    """Return the bytes in L1 of one block of output channels, as (those of gradOutput, those of the weights)."""
    weights = p.slice * p.itemsize * tiling.base_n
    return p.row_bytes * p.c0 * p.gradient_rows(tiling.base_m), weights


def _smaller_sides(tiling: GradInputTiling, p: DividedProblem) -> GradInputTiling | None:
    """Return the tiling with base_m and base_n reduced until L1 holds one block of output channels; None if it never does."""
    m, n, least = tiling.base_m, tiling.base_n, max(p.width * p.across, FRACTAL)
    weights_first = _least(tiling, p)[1] >= p.inp.buffers["L1"] or p.slice * p.itemsize > p.row_bytes * p.c0
    while m > least or n > FRACTAL:
        if m > max(least, n) and not weights_first:
            m = max(m - FRACTAL, FRACTAL)
        elif n > FRACTAL:
            n -= FRACTAL
        else:
            break
        smaller = tiling.but(base_m=m, base_n=n)
        if sum(_least(smaller, p)) <= p.inp.buffers["L1"]:
            return smaller
    return None


def _with_k_of_all_parts(tiling: GradInputTiling, p: DividedProblem, a: int, b: int) -> GradInputTiling:
    """Return the tiling with the longest base_k, at most its own, that divides the K of min(a, b) channel blocks both in the
    largest and in the smallest part; C0 if none does.

    L1 steps then cover `a` channel blocks of gradOutput and `b` of the weights.
    """
    blocks, k = min(a, b), tiling.base_k
    while k > p.c0 and (blocks * p.slice % k or blocks * p.fewest % k):
        k = max(k - p.c0, p.c0)
    steps = [ceil_div(count * p.slice, k) for count in (a, b)]
    return tiling.but(base_k=k, step_ka=steps[0], step_kb=steps[1])

"""Tiling of grad_input on dav-3510: the vendor's procedure, marked "stand-in" where our kernel does not do all of it.

The first of its templates that is capable decides: small shape, full load, inner product; where a kernel is split,
`arch35.divided`. Not written, because the description leaves it open or the kernel has no use for it: the packing of at
most 4 output channels (C04), sums of 16-bit results in segments of K. Where the library lets vector cores transpose the
weights of a kernel that is not split before the cubes read them (enableVecTrans) the tiling is its own, but our kernel
reads them untransposed; the ladder then says "stand-in".
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, check_split, grad_input_fits_l1, is_resident
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, k_slice
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_H, SPLIT_NONE, UNCUT, tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.arch35.blocks import (
    LONGEST_SIDE,
    NARROW_LONGEST_SIDE,
    dealt,
    first_block,
    fits,
    k_segment,
    limited,
    shrunk,
    with_all_weights,
    with_steps,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.divided import (
    DividedProblem,
    divided,
    leaves_through_workspace,
    library_split,
)
from ascend_sim.ops.kernels.grad_input.procedures.arch35.problem import DataProblem
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish, step_candidates
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
RESERVED, COPIES = 256, 2  # bytes of UB that are kept free; copies of merged weights in UB
# of templates
FEW_TASKS = (5, 2)  # fewer than 2.5 tiles a core, not a multiple of the cores: a small shape
SMALL_K, SMALL_SIDE = 32768, 64  # K at most of a small shape; its shortest side of a block
FULL_LOAD_WIDTH, FULL_LOAD_K = 512, 128
BANDWIDTH_BOUND = 512  # of M*N / (M+N)
HELD_CHANNELS, HELD_CHANNELS_FLAT = 128, 256  # whose weights, twice, L1 must hold; for kernels of one tap
HELD_WIDTHS = ((1024, 128), (512, 256), (256, 512), (0, 1024))  # K above which a block has so many bytes of channels
WIDE_N, WIDE_TO_K = 128, 2  # channels, or times K, from which a short K leaves time for two buffers of L0C
LEAST_LOAD = (4, 5)  # of the cores, in rounds of whole-row tasks
# of turned weights
MOST_CHANNELS, WIDE_CHANNELS = 65535, 32  # of dx; fewer than the latter only where they are one fractal
TURNED_COPIES, TURNED_COPIES_8BIT = 2, 4  # of 16 channels of all taps that UB holds
LONG_BLOCK = 512  # pixels of a block from which weights that are loaded several times are not worth turning
LONG_BLOCK_SMALL_KERNEL, SMALL_KERNEL = 384, 3  # the same, 16-bit
LONG_BLOCK_32BIT = 256  # the same, fp32 that is not HF32
FEW_BLOCKS = 2  # blocks of weights a core that are turned at once
WIDE_TO_LONG = 5  # channels of a block, to its pixels, that read weights more than gradOutput
# Ours
OWN_SHARE = frozenset(("single_core_m", "single_core_cin"))  # fields that the procedure decides, not `finish`


def split_mode(inp: TilingInput) -> int:
    """Return the kernelSplitMode that the library chooses for a problem."""
    return library_split(inp)[0]


def with_groups_merged(inp: TilingInput) -> TilingInput:
    """Return the problem with `merged` as the library decides: True in NCDHW with 16- or 32-bit operands, if UB, less RESERVED
    bytes, holds a kernel plane of a real group's merged weights twice and the kernel is not cut (ops-nn,
    conv_backprop_input_context_utils.cpp: stated).
    """
    merged = replace(inp, merged=True)
    weights = ceil_to(merged.cout_g, inp.c0) * inp.taps * ceil_to(merged.cin_g, FRACTAL) * inp.itemsize
    fits = COPIES * weights + RESERVED <= inp.buffers["UB"]
    plain = inp.layout is PLANAR and inp.itemsize > 1
    return merged if plain and fits and DataProblem.of(merged).cut == UNCUT else replace(inp, merged=False)


def reads_its_layout(inp: TilingInput) -> bool:
    """Return True if the procedure covers a problem: its maps are NCDHW or NDHWC."""
    return inp.layout.plain


def vendor_grad_input_3510(inp: TilingInput, mode: int | None = None, cut: int | None = None) -> GradInputTiling:
    """Return the procedure's tiling; its source is "stand-in" where part of the decision is not the vendor's.

    `mode` is a kernelSplitMode in place of the library's own, `cut` a loadB1Condition, which a split kernel ignores. Raises
    TilingError for a blocked layout, a split that cannot be, and where no block fits.
    """
    if not reads_its_layout(inp):
        raise TilingError("grad_input: the procedure for dav-3510 is for its kernel that reads NCDHW")
    library = split_mode(inp)
    split = library if mode is None else mode
    tiling = _divided(inp, split) if split else _undivided(inp, cut)
    check_grad_input(tiling, inp)
    return tiling if split == library else tiling.but(source="stand-in")


def _with_weights_as_they_are(inp: TilingInput, dtype: str, mode: int | None, cut: int | None) -> GradInputTiling:
    """Return the procedure's tiling; marked "stand-in" where vector cores transpose an unsplit kernel's weights first.

    `mode` and `cut` are those of `vendor_grad_input_3510`, as are its errors; `dtype` is that of the cube.
    """
    tiling = vendor_grad_input_3510(inp, mode, cut)
    whole = tiling.kernel_split == SPLIT_NONE
    turned = whole and turns_weights(DataProblem.of(inp), tiling, hf32=dtype == "hf32")
    return tiling.but(source="stand-in") if turned else tiling


def _undivided(inp: TilingInput, cut: int | None) -> GradInputTiling:
    """Return the procedure's tiling for an unsplit kernel, cut by `cut` (None: as the library cuts it); "stand-in" where our
    kernel cannot follow. TilingError where no block fits.
    """
    library = DataProblem.of(inp, cut)
    own = replace(library, side=inp.unit, packs=False)
    found = decided(own)
    tiling = _runnable(found.but(load_b1=own.cut), inp)
    same = not library.packed and tiling.k_segment == found.k_segment and tiling.full_load == found.full_load
    merged = with_groups_merged(inp).group_extension == inp.group_extension
    clears = own.cut != UNCUT or inp.problem.stride_d > inp.problem.k_d
    tiling = tiling.but(init_output=int(clears or tiling.init_output))
    if same and merged and (own == library or found == decided(library)):
        return tiling
    return tiling.but(source="stand-in")


def _runnable(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the tiling without features that our kernel lacks (segments of K unless in 32 bits, segments of less than C0
    channels, weights that L1 does not keep), with the fields that follow.
    """
    if tiling.k_segment and inp.itemsize != 4:
        tiling = tiling.but(k_segment=0)  # the library adds 16-bit segments up in a workspace
    elif tiling.k_segment % inp.c0:
        tiling = tiling.but(k_segment=inp.c0)
    if tiling.full_load and not is_resident(tiling, inp):
        tiling = tiling.but(full_load=0, single_core_din=1)
    return finish(tiling, inp, keep=OWN_SHARE)


def _divided(inp: TilingInput, split: int) -> GradInputTiling:
    """Return the procedure's tiling for a split kernel; "stand-in" where our kernel does the work in another order. TilingError
    where it cannot be split so, or no block fits.

    Ours loads gradOutput for every part (the library's may keep it in L1), always transposes weights first, and interleaves
    columns by way of GM (the library's in UB if tiles are small).
    """
    check_split(split, inp)
    held = library_split(inp) == (split, True)
    part = DividedProblem.split(inp, split)
    found = divided(part, held)
    tiling = finish(found, inp, keep=OWN_SHARE | {"block_dim"})
    if part.turned and not held and (split == SPLIT_H or leaves_through_workspace(found, part)):
        return tiling
    return tiling.but(source="stand-in")


def refitted(tiling: GradInputTiling, inp: TilingInput, given: Collection[str]) -> GradInputTiling:
    """Return the tiling with L1 steps, buffers and shares adapted to the user's fields, whose names are in `given`; the
    result may not fit.

    A `full_load` that the user does not give is dropped where L1 does not keep the weights.
    """
    part = tiling_input(tiling, inp)
    if "full_load" in given and tiling.full_load:
        steps = ceil_div(ceil_div(part.cout_g, tiling.k_unit(part)) * k_slice(part), tiling.base_k)
        own = {"al1_buffers": 2, "bl1_buffers": 1, "step_kb": steps, "step_ka": steps}
        tiling = tiling.but(**{name: value for name, value in own.items() if name not in given})
        candidates = [tiling.but(step_ka=step) for step in divisors_down(steps, steps)] if "step_ka" not in given else []
    else:
        candidates = list(step_candidates(tiling, part, given))
    if not grad_input_fits_l1(tiling, part) or any(name.startswith("base_") for name in given):
        tiling = next((t for t in candidates if grad_input_fits_l1(t, part)), tiling)
    tiling = finish(tiling, inp, keep=frozenset(given))
    if tiling.full_load and "full_load" not in given and not tiling.weights_resident:
        tiling = finish(tiling.but(full_load=0, single_core_din=1), inp, keep=frozenset(given))
    return tiling


# ---- templates ------------------------------------------------------------------------------------------------------


def decided(p: DataProblem) -> GradInputTiling:
    """Return the tiling (block, steps, buffers, share) of the first template that applies. TilingError where L1 does not hold
    it; no other template is tried.
    """
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
    """Return True if the template "small shape" applies: K is short and there are few tiles a core (under 2.5), but not
    a whole number of rounds of them.

    It does not for 8-bit operands and cut kernels.
    """
    few = p.itemsize > 1 and p.cut == UNCUT and p.blocks * p.c0 * p.inp.taps <= SMALL_K
    tiles = ceil_div(p.n * p.m * ACCUMULATOR_BYTES, p.inp.buffers["L0C"]) * p.lanes
    return few and tiles * FEW_TASKS[1] < FEW_TASKS[0] * p.inp.cores and tiles % p.inp.cores != 0


def small_shape(p: DataProblem) -> GradInputTiling:
    """Return the tiling of the template "small shape": the parts of M and N that need the fewest rounds of tasks.

    Of equal ones it takes the one with more tasks, if a task's loads are no larger. The block shrinks where L1 does not hold
    it; it may still not fit.
    """
    best = first_block(p)
    task, tasks = best.base_m, p.tasks(best.base_m, best.base_n)
    rounds, least = ceil_to(tasks, p.inp.cores), _load(p, best.base_m, best.base_n)
    longest_m = NARROW_LONGEST_SIDE if p.n <= FRACTAL else LONGEST_SIDE
    longest_n = NARROW_LONGEST_SIDE if p.m <= FRACTAL else LONGEST_SIDE
    widths = [ceil_to(ceil_div(p.n, parts), p.side) for parts in range(ceil_div(p.n, longest_n), ceil_div(p.n, SMALL_SIDE) + 1)]
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
    """Return the bytes of weights and gradOutput, for one kernel plane and all output channels, that a task of `pixels` x
    `channels` loads to L1.
    """
    return (p.itemsize * channels * p.inp.taps + p.gradient_rows(pixels) * p.row_bytes) * p.inp.cout_g


# ---- full load -----------------------------------------------------------------------------------------------------


def may_hold_weights(p: DataProblem) -> bool:
    """Return True if the template "full load" applies: L1 holds twice the weights of HELD_CHANNELS (or N, if smaller) input
    channels, and bandwidth is the limit or K at most FULL_LOAD_K.

    The kernel must be a single uncut plane of 16 bits or more, M larger than N, and rows at most FULL_LOAD_WIDTH wide.
    """
    held = min(HELD_CHANNELS_FLAT if p.all_taps == 1 else HELD_CHANNELS, p.n)
    plain = p.cut == UNCUT and p.itemsize > 1 and p.inp.problem.k_d == 1
    tall = p.m > p.n and p.width <= FULL_LOAD_WIDTH
    bound = p.m * p.n < BANDWIDTH_BOUND * (p.m + p.n) or p.k <= FULL_LOAD_K
    return plain and tall and bound and 2 * p.k * held * p.itemsize <= p.inp.buffers["L1"]


def full_load(p: DataProblem) -> GradInputTiling:
    """Return the tiling of the template "full load": weights stay in L1 while a core goes through rows and depths. A longer K
    has a narrower block.

    The block shrinks, and weights need not stay, where L1 does not hold it; it may still not fit.
    """
    n = next(size for above, size in HELD_WIDTHS if p.k > above) // p.itemsize
    double = p.k <= FULL_LOAD_K and (p.n >= WIDE_TO_K * p.k or p.n >= WIDE_N)
    tiles = 2 if double else 1
    m = min(p.inp.buffers["L0C"] // (ACCUMULATOR_BYTES * n * tiles), p.inp.buffers["L0A"] // (2 * p.c0 * p.itemsize))
    k = p.inp.buffers["L0B"] // (2 * n * p.itemsize)
    block = limited(GradInputTiling(m, k, n, iterate_order=1, cl0_buffers=tiles), p)
    tiling = with_all_weights(_walked(block, p), p)
    return tiling if fits(tiling, p) else _dealt_again(shrunk(tiling, p), p)


def _walked(block: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return the block with a core's share: rows and depths that fill all cores evenly, else rows with the fewest rounds among
    those that keep the cores busy (`LEAST_LOAD`).
    """
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
    """Return the tiling of the template "inner product": the first block, dealt to the cores, with long sums in segments of K;
    a smaller block where it does not fit L1, which may not fit either.
    """
    segment = k_segment(p)
    block = dealt(first_block(p, ceil_to(segment * p.taps, p.c0)), p)
    tiling = with_steps(block.but(k_segment=segment), p)
    return tiling if fits(tiling, p) else _dealt_again(shrunk(tiling, p), p)


def _dealt_again(tiling: GradInputTiling, p: DataProblem) -> GradInputTiling:
    """Return a shrunk tiling with its share of a core (single_core_*) computed again; unchanged if it does not fit L1."""
    if not fits(tiling, p):
        return tiling
    return _walked(tiling, p) if tiling.full_load else dealt(tiling, p)


# ---- turned weights -------------------------------------------------------------------------------------------------


def turns_weights(p: DataProblem, tiling: GradInputTiling, *, hf32: bool = False) -> bool:
    """Return True if vector cores transpose the weights before an unsplit kernel with this tiling; `hf32`: fp32 as HF32.

    They can for one group in NCDHW and an uncut, unpacked kernel of several taps, if UB and the input channels allow it. They
    do unless a long block loads the weights several times; 16-bit ones of deep kernels alone, by `_worth_it_for_16_bits`.
    """
    problem, size = p.inp.problem, p.itemsize
    copies = TURNED_COPIES_8BIT if size == 1 else TURNED_COPIES
    possible = (
        problem.groups == 1
        and p.is_planar
        and not p.packed
        and p.cut == UNCUT
        and p.all_taps > 1
        and (problem.c_in == FRACTAL or WIDE_CHANNELS <= problem.c_in <= MOST_CHANNELS)
        and problem.c_in > p.inp.taps
        and FRACTAL * p.all_taps * size * copies <= p.inp.buffers["UB"]
    )
    if not possible:
        return False
    long = LONG_BLOCK
    if size == 2 and max(problem.k_h, problem.k_w) <= SMALL_KERNEL:
        long = LONG_BLOCK_SMALL_KERNEL
    elif size == 4 and not hf32:
        long = LONG_BLOCK_32BIT
    deep = problem.k_d > 1 and problem.d_in > 1
    again = deep or p.k > tiling.step_kb * tiling.base_k
    if again and tiling.base_m >= long:
        return False
    return size != 2 or (deep and _worth_it_for_16_bits(p, tiling))


def _worth_it_for_16_bits(p: DataProblem, tiling: GradInputTiling) -> bool:
    """Return True if transposing 16-bit weights first pays: more tasks read the same weights than tasks of all weights run at a
    time, at most one on each core.

    An equal number is enough if the weights are few (`FEW_BLOCKS`), or base_n is much longer than base_m (`WIDE_TO_LONG`).
    """
    problem, cores = p.inp.problem, p.inp.cores
    depths = ceil_div(problem.d_in, tiling.single_core_din)
    readers = problem.n * depths * ceil_div(p.pixels, tiling.single_core_m)
    at_once = min(readers * ceil_div(p.n, tiling.single_core_cin), cores)
    few = problem.c_out * ceil_div(problem.c_in, FRACTAL) <= FEW_BLOCKS * cores
    wide = WIDE_TO_LONG * tiling.base_m <= tiling.base_n
    return readers >= at_once and (few or readers > at_once or wide)


PROCEDURE = Procedure(reads_its_layout, lambda q: _with_weights_as_they_are(q.inp, q.dtype, q.mode, q.cut))

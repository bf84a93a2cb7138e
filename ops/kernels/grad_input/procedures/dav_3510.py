"""The vendor's tiling of grad_input on dav-3510: small shapes, full load, inner product, each with or without kernel split.

Follows the summary of ops-nn Conv3DBackpropInputV2 (arch35, templates 98 to 101) that we have: stated where a comment does
not say otherwise; checked against its unit-test tables. Not written, because the summary leaves them open or the kernel has
no use for them: which problems take the fully loaded kernel split (97), blocks of more than 128 channels under full load, the
packing of at most 4 output channels (C04), sums of 16-bit results in segments of K. Kernels cut by rows or taps
(`pieces`) have blocks of ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import fits_l0
from ascend_sim.ops.kernels.cube.procedures import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import (
    a1_row_bytes,
    a1_rows,
    check_grad_input,
    check_grad_input_problem,
    grad_input_fits_l1,
    grad_input_l1,
    k_slice,
    k_unit,
)
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.parts import tiling_input
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish, step_candidates
from ascend_sim.ops.kernels.grad_input.split import SPLIT_H, SPLIT_HW, SPLIT_NONE, split_input
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

__all__ = ["covers_grad_input_3510", "reads_its_layout", "refitted", "split_mode", "vendor_grad_input_3510"]

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_input_v2, arch35: stated)
FLAT_BLOCK, FLAT_K_BYTES = (256, 256), 128  # kernels of one tap
TALL_BLOCK, TALL_K_BYTES = (512, 128), 64  # others: turning the weights is the bottleneck
LONGEST_SIDE, SHORTEST_SIDE = 1024, 64  # of a base block
FEW_TASKS = (5, 2)  # fewer than 2.5 tiles a core, not a multiple of the cores: a small shape
MIDDLE_TASKS = (10, 45)  # tasks a core between which 3x3 kernels take a base_m of 256
FULL_LOAD_WIDTH, FULL_LOAD_K = 512, 128
WIDEST_FULL_LOAD = (
    256  # channels: ours; a test of 479 is not fully loaded, how wide blocks get by ranges of K is not stated
)
BANDWIDTH_BOUND = 512  # of M*N / (M+N)
SEGMENT_32BIT = 2048  # elements of K that 32-bit results are summed over at a time
C04_CHANNELS = 4
SPLIT_KERNELS, SPLIT_STRIDE = (1, 2, 3, 4), 2  # of a split of both axes
SPLIT_H_KERNEL, SPLIT_H_WIDTH, SPLIT_H_CHANNELS = 16, 32, 16
SPLIT_NARROW = 12  # dx columns of a part; narrower maps are not split (stated for some width, for the part's: inferred)


def split_mode(inp: TilingInput) -> int:
    """How the library splits the kernel of a problem (kernelSplitMode)."""
    p = inp.problem
    # Pads behind are what the sizes need: less than those before by what a stride leaves over.
    pads = (
        (p.pad_front, p.pad_back, p.stride_d),
        (p.pad_up, p.pad_down, p.stride_h),
        (p.pad_left, p.pad_right, p.stride_w),
    )
    even = all(0 <= before - behind < stride for before, behind, stride in pads)
    if (
        inp.itemsize == 1
        or p.groups > 1
        or (p.dilation_d, p.dilation_h, p.dilation_w) != (1, 1, 1)
        or not even
        or not inp.layout.plain
    ):
        return SPLIT_NONE
    if (p.stride_h, p.stride_w) == (SPLIT_STRIDE, SPLIT_STRIDE) and p.k_h == p.k_w and p.k_h in SPLIT_KERNELS:
        return SPLIT_HW if p.w_in // p.stride_w >= SPLIT_NARROW else SPLIT_NONE
    wide = p.w_in >= SPLIT_H_WIDTH and min(p.c_in, p.c_out) >= SPLIT_H_CHANNELS
    return SPLIT_H if wide and 2 <= p.stride_h <= p.k_h <= SPLIT_H_KERNEL else SPLIT_NONE


def reads_its_layout(inp: TilingInput) -> bool:
    """Whether the procedure can be asked at all; its tiling's source says what is not the vendor's own decision."""
    return inp.layout.plain


def covers_grad_input_3510(inp: TilingInput) -> bool:
    """Whether what is written here decides a problem: NCDHW kernels without a split of the kernel or the C04 packing."""
    p = inp.problem
    packed = inp.cout_g <= C04_CHANNELS and inp.itemsize == 2 and p.stride_h * p.stride_w == 1
    return inp.layout is PLANAR and not packed and split_mode(inp) == SPLIT_NONE


def vendor_grad_input_3510(inp: TilingInput, mode: int | None = None) -> GradInputTiling:
    """The tiling; its source says "stand-in" where this is not the vendor's own decision to the end.

    `mode` is a kernelSplitMode to take instead of the library's. Raises TilingError where nothing of the family fits.
    """
    if not reads_its_layout(inp):
        raise TilingError("grad_input: the procedure for dav-3510 is for its kernel that reads NCDHW")
    check_grad_input_problem(inp)
    for split in dict.fromkeys((split_mode(inp), SPLIT_NONE)) if mode is None else (mode,):
        part = split_input(inp, split)
        rows = inp.problem.stride_h if split == SPLIT_H else 1  # parts that are tasks of their own
        candidates = (_few_tiles(part, rows), _inner_product(part)) if split else _templates(part)
        for found in candidates:
            if found is None:
                continue
            tiling = _completed(found.but(kernel_split=split), inp)
            open_block = tiling.full_load and inp.cin_g > TALL_BLOCK[1]
            if split or open_block or not covers_grad_input_3510(inp):
                tiling = tiling.but(source="stand-in")
            try:
                check_grad_input(tiling, inp)
            except TilingError:
                continue
            return tiling
    raise TilingError("grad_input: no block of the procedure for dav-3510 fits L1")


# ---- templates -----------------------------------------------------------------------------------------------------


def _templates(inp: TilingInput) -> Iterator[GradInputTiling | None]:
    """What each template makes of a problem, the first that fits counts."""
    for template in (_small_shape, _full_load, _inner_product):
        yield template(inp)


def _small_shape(inp: TilingInput) -> GradInputTiling | None:
    """Even parts of M and N in the fewest rounds of the cores, then with the least to load into L1 for a tile."""
    m, n = _sides(inp)
    most = inp.buffers["L0C"] // ACCUMULATOR_BYTES
    lanes = _lanes(inp)
    tiles = ceil_div(m * inp.cin_g, most) * lanes
    if tiles * FEW_TASKS[1] >= FEW_TASKS[0] * inp.cores or tiles % inp.cores == 0:
        return None
    best: tuple[tuple[int, int], GradInputTiling] | None = None
    for base_m in _even_sizes(m):
        for base_n in _even_sizes(n, inp.unit):
            if base_m * base_n > most:
                continue
            rounds = ceil_div(ceil_div(m, base_m) * ceil_div(n, base_n) * lanes, inp.cores)
            loads = a1_rows(inp, base_m) * a1_row_bytes(inp) // inp.unit + base_n * inp.taps * inp.itemsize
            if best is None or (rounds, loads) < best[0]:
                best = (rounds, loads), _block(base_m, base_n, inp)
    return None if best is None else _with_steps(best[1], inp)


def _few_tiles(inp: TilingInput, parts: int) -> GradInputTiling | None:
    """Ours, for a split kernel: smaller tiles where the inner product would leave cores without one."""
    block = _inner_product(inp)
    m, n = _sides(inp)
    few = block is not None and ceil_div(m, block.base_m) * ceil_div(n, block.base_n) * _lanes(inp) * parts < inp.cores
    return _small_shape(inp) if few else None


def _full_load(inp: TilingInput) -> GradInputTiling | None:
    """All weights of a core's channels stay in L1; A takes as much of K as fits beside them."""
    p = inp.problem
    m, n = p.h_in * p.w_in, inp.cin_g
    k = inp.cout_g * inp.taps
    bandwidth_bound = m * n < BANDWIDTH_BOUND * (m + n)
    if p.k_d > 1 or m <= n or p.w_in > FULL_LOAD_WIDTH or not (bandwidth_bound or k <= FULL_LOAD_K):
        return None
    sides = _sides(inp)
    if sides[1] > WIDEST_FULL_LOAD:
        return None
    block = _block(min(TALL_BLOCK[0], sides[0], inp.buffers["L0C"] // ACCUMULATOR_BYTES // sides[1]), sides[1], inp)
    lanes = _lanes(inp) * ceil_div(inp.cin_g, block.base_n)
    sizes = [size for size in _even_sizes(sides[0]) if size <= block.base_m]
    even = (size for size in sizes if ceil_div(m, size) * lanes % inp.cores == 0)  # inferred from one test; K stays
    block = block.but(base_m=next(even, block.base_m))
    steps = ceil_div(_blocks(inp) * k_slice(inp), block.base_k)
    for step in divisors_down(steps, min(steps, inp.load3d.k_extent // block.base_k)):
        tiling = block.but(step_ka=step, step_kb=steps, al1_buffers=2, bl1_buffers=1, full_load=1)
        if 2 * steps * block.base_k * block.base_n * inp.itemsize > inp.buffers["L1"]:
            return None
        if _fits(tiling, inp):
            return tiling
    return None


def _inner_product(inp: TilingInput) -> GradInputTiling | None:
    """The largest block, its free side stretched to fill L0C; then L1 steps that hold whole channel blocks."""
    m, n = _sides(inp)
    side_m, side_n = FLAT_BLOCK if inp.taps == 1 else TALL_BLOCK
    tasks = ceil_div(m, side_m) * ceil_div(n, side_n) * _lanes(inp)
    if (inp.problem.k_h, inp.problem.k_w) == (3, 3) and MIDDLE_TASKS[0] <= tasks / inp.cores <= MIDDLE_TASKS[1]:
        side_m = FLAT_BLOCK[0]
    most = inp.buffers["L0C"] // ACCUMULATOR_BYTES
    base_m, base_n = min(side_m, m), min(side_n, n)
    if base_n < side_n:
        base_m = min(floor_to(most // base_n, FRACTAL), LONGEST_SIDE, m)
    elif base_m * base_n < most:
        base_n = min(floor_to(most // base_m, inp.unit), LONGEST_SIDE, n)
    columns = ceil_div(n, base_n)
    even = inp.cores % columns == 0 or columns % inp.cores == 0
    if even or ceil_div(m, base_m) * columns * _lanes(inp) <= inp.cores:
        base_n = ceil_to(ceil_div(inp.cin_g, columns), inp.unit)
    return _with_steps(_block(base_m, base_n, inp), inp)


# ---- pieces --------------------------------------------------------------------------------------------------------


def _sides(inp: TilingInput) -> tuple[int, int]:
    """M and N in whole fractals."""
    return ceil_to(inp.problem.h_in * inp.problem.w_in, FRACTAL), ceil_to(inp.cin_g, inp.unit)


def _lanes(inp: TilingInput) -> int:
    """What each tile is needed for: images, depths and real groups."""
    return inp.problem.n * inp.problem.d_in * inp.real_groups


def _blocks(inp: TilingInput) -> int:
    """C0 blocks of output channels of a real group."""
    return ceil_div(inp.cout_g, k_unit(inp))


def _even_sizes(side: int, unit: int = FRACTAL) -> list[int]:
    """Sizes of 1, 2, 3, ... even pieces of a side, largest first, between 64 and 1024 (or the side)."""
    longest, shortest = min(floor_to(LONGEST_SIDE, unit), ceil_to(side, unit)), ceil_to(min(SHORTEST_SIDE, side), unit)
    # A size comes from the fewest pieces that are no longer, so that a long side takes no longer than a short one.
    fewest = ((size, ceil_div(side, size)) for size in range(longest, shortest - 1, -unit))
    return [size for size, count in fewest if count <= side // unit and ceil_to(ceil_div(side, count), unit) == size]


def _block(base_m: int, base_n: int, inp: TilingInput) -> GradInputTiling:
    """The block with the longest K that L0 holds, aligned to whole slices, rows or columns of the kernel where that is
    possible, and two L0C buffers where they fit."""
    unit = k_unit(inp)
    limit = min(inp.buffers["L0A"] // 2 // inp.itemsize // max(base_m, base_n), _blocks(inp) * k_slice(inp))
    limit = floor_to(limit, unit)
    aligned = (taps * unit for taps in (inp.taps, inp.problem.k_h, inp.problem.k_w))
    base_k = next((floor_to(limit, whole) for whole in aligned if whole <= limit), limit)
    block = GradInputTiling(base_m, base_k, base_n, iterate_order=1)
    double = block.but(cl0_buffers=2)
    return double if fits_l0(double, inp) else block


def _with_steps(block: GradInputTiling, inp: TilingInput) -> GradInputTiling | None:
    """L1 steps for a block, or for a smaller one, or with fewer buffers; None where nothing fits."""
    if (tiling := _steps(block, inp)) is not None or (tiling := _shrunk(block, inp)) is not None:
        return tiling
    for al1, bl1 in ((2, 1), (1, 2), (1, 1)):
        tiling = _steps(block.but(al1_buffers=al1, bl1_buffers=bl1), inp)
        if tiling is not None:
            return tiling
        if (tiling := _shrunk(block.but(al1_buffers=al1, bl1_buffers=bl1), inp)) is not None:
            return tiling
    return None


def _steps(block: GradInputTiling, inp: TilingInput) -> GradInputTiling | None:
    """Equal shares of L1, or equal steps where those are more; with two buffers an operand's both hold all of K at most."""
    found = [tiling for tiling in (_ladder(block, inp), _equal_halves(block, inp)) if tiling and _fits(tiling, inp)]
    return max(found, key=lambda tiling: tiling.step_ka + tiling.step_kb, default=None) if found else None


def _most(buffers: int, inp: TilingInput) -> int:
    """Channel blocks of one L1 buffer at most."""
    return ceil_div(_blocks(inp), buffers)


def refitted(tiling: GradInputTiling, inp: TilingInput, given: Collection[str]) -> GradInputTiling:
    """Fields that are not `given` by the user made to go with those that are; the result need not fit."""
    part = tiling_input(tiling, inp)
    if "full_load" in given and tiling.full_load:
        steps = ceil_div(_blocks(part) * k_slice(part), tiling.base_k)
        own = {"al1_buffers": 2, "bl1_buffers": 1, "step_kb": steps, "step_ka": steps}
        tiling = tiling.but(**{name: value for name, value in own.items() if name not in given})
        candidates = (
            [tiling.but(step_ka=step) for step in divisors_down(steps, steps)] if "step_ka" not in given else []
        )
    else:
        candidates = list(step_candidates(tiling, part, given))
    if not grad_input_fits_l1(tiling, part) or any(name.startswith("base_") for name in given):
        tiling = next((t for t in candidates if grad_input_fits_l1(t, part)), tiling)
    tiling = finish(tiling, inp, keep=frozenset(given))
    if tiling.full_load and "full_load" not in given and not tiling.weights_resident:
        tiling = finish(tiling.but(full_load=0, single_core_din=1), inp, keep=frozenset(given))
    return tiling


def _ladder(block: GradInputTiling, inp: TilingInput) -> GradInputTiling | None:
    whole = k_slice(inp)
    weights = inp.buffers["L1"] // (whole * block.base_n * inp.itemsize)  # channel blocks, were L1 theirs alone
    most = min(_most(min(block.al1_buffers, block.bl1_buffers), inp), inp.load3d.k_extent // whole, weights)
    for count in range(most, 0, -1):
        step = ceil_div(count * whole, block.base_k)
        if _fits(candidate := block.but(step_ka=step, step_kb=step), inp):
            return candidate
    return None


def _equal_halves(block: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    half, whole = inp.buffers["L1"] // 2, k_slice(inp)
    a_bytes = a1_rows(inp, block.base_m) * a1_row_bytes(inp) * k_unit(inp) // inp.unit
    b_bytes = whole * block.base_n * inp.itemsize
    a = min(max(half // block.al1_buffers // a_bytes, 1), _most(block.al1_buffers, inp))
    b = min(max(half // block.bl1_buffers // b_bytes, 1), _most(block.bl1_buffers, inp))
    a, b = (divisors_down(b, a)[0], b) if b > a else (a, divisors_down(a, b)[0])
    step_a, step_b = ceil_div(a * whole, block.base_k), ceil_div(b * whole, block.base_k)
    if step_a > step_b:
        return block.but(step_ka=floor_to(step_a, step_b), step_kb=step_b)
    return block.but(step_ka=step_a, step_kb=floor_to(step_b, step_a))


def _shrunk(block: GradInputTiling, inp: TilingInput) -> GradInputTiling | None:
    """Smaller base_m and base_n, the larger first and base_m not below a row, until some steps fit; then K anew."""
    smallest = max(inp.problem.w_in, FRACTAL)
    for candidate in _smaller(block, smallest, inp.unit):
        if _steps(candidate, inp) is None:
            continue
        limit = inp.buffers["L0A"] // 2 // inp.itemsize // max(candidate.base_m, candidate.base_n)
        whole, unit = k_slice(inp), k_unit(inp)
        for base_k in range(floor_to(limit, unit) - unit, 0, -unit):  # as on dav-2201, whose code this has from
            if base_k % whole == 0 or whole % base_k == 0:
                tiling = _steps(candidate.but(base_k=base_k), inp)
                if tiling is not None:
                    return tiling
        return None
    return None


def _smaller(block: GradInputTiling, smallest_m: int, unit: int) -> Iterator[GradInputTiling]:
    while block.base_m > smallest_m or block.base_n > unit:
        if block.base_m > smallest_m and (block.base_m > block.base_n or block.base_n == unit):
            block = block.but(base_m=max(block.base_m - FRACTAL, FRACTAL))
        else:
            block = block.but(base_n=max(block.base_n - unit, unit))
        yield block


def _fits(tiling: GradInputTiling, inp: TilingInput) -> bool:
    """Whether L1 holds the steps; one that they fill to the last byte does not count (inferred from one test)."""
    used = sum(grad_input_l1(tiling, inp))
    return (
        grad_input_fits_l1(tiling, inp)
        and used < inp.buffers["L1"]
        and tiling.step_ka * tiling.base_k <= inp.load3d.k_extent
    )


def _completed(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Depths of a task and segments of K, and what follows from the other fields."""
    if inp.itemsize == 4 and not tiling.kernel_split and inp.cout_g * inp.taps >= SEGMENT_32BIT:
        tiling = tiling.but(k_segment=max(SEGMENT_32BIT // inp.taps // FRACTAL, 1) * FRACTAL)
    tiling = finish(tiling, inp)
    if tiling.full_load:
        # A core keeps its weights over depths; as many pieces as fill the cores (inferred from five tests).
        lanes = ceil_div(inp.problem.h_in * inp.problem.w_in, tiling.single_core_m)
        lanes *= ceil_div(inp.cin_g, tiling.single_core_cin) * inp.problem.n * inp.real_groups
        parts = min(max(inp.cores // lanes, 1), inp.problem.d_in)
        tiling = finish(tiling.but(single_core_din=ceil_div(inp.problem.d_in, parts)), inp)
    return tiling


PROCEDURE = Procedure(reads_its_layout, lambda inp, _: vendor_grad_input_3510(inp))

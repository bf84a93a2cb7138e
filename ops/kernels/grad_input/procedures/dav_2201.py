"""Tilings of grad_input on the split architecture dav-2201.

`vendor_grad_input` follows the "basic block" procedure of ops-nn Conv3DBackpropInputV2 (arch22, priority 0): 16-bit,
one real group (derived from its host tiling; checked against its unit-test tables). Where the vendor's tiling comes from a
closed library, `stand_in` uses the same kernel structure.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from itertools import product

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.capacity import buffer_counts
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input, grad_input_fits_l1, grad_input_l1, is_resident
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, gemm, k_slice, variant_of
from ascend_sim.ops.kernels.grad_input.parts import task_parts, tiling_input
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_rows

# Numbers of the vendor's procedure (ops-nn conv3d_dx_v2_basic_block_tiling, arch22: stated)
BIG_BLOCK, SMALL_BLOCK = 256, 128  # base block sides: the highest ratio of compute to loads
BASE_K_BYTES = 128
WIDE_ROW = 64  # wider rows may leave more than an eighth of a 256-pixel tile unused, so tiles of M are merged
L2_BUDGET = 144 * 2**20  # bytes; measured by the vendor on a 192 MiB L2, beyond it L2 loses efficiency


def covers_grad_input(inp: TilingInput) -> bool:
    """Return True if the vendor's open procedure decides this problem: 16-bit operands and one real group."""
    return inp.itemsize == 2 and inp.real_groups == 1


def vendor_grad_input(inp: TilingInput) -> GradInputTiling:
    """Return the vendor's tiling. Raises TilingError where the procedure does not apply or what it finds does not fit."""
    if not covers_grad_input(inp):
        raise TilingError(
            f"grad_input: the vendor's open procedure needs 2-byte operands and one real group, "
            f"given {inp.itemsize} bytes and {inp.real_groups} real groups"
        )
    tiling = finish(make_fit(with_steps(base_block(inp), inp), inp), inp)
    check_grad_input(tiling, inp)
    return tiling


# ---- base block ----------------------------------------------------------------------------------------------------


def aligned_base_k(limit: int, inp: TilingInput) -> int:
    """Return the longest K up to `limit`, in whole units, that divides a slice or is a multiple of it; else one unit, even
    beyond `limit`.
    """
    whole, unit = k_slice(inp), GradInputTiling.k_unit(inp)
    candidates = range(floor_to(limit, unit), unit, -unit)
    return next((k for k in candidates if k % whole == 0 or whole % k == 0), unit)


def base_block(inp: TilingInput) -> GradInputTiling:
    """Return the vendor's L0 block: 256 x 128 or, if N is larger than M, 128 x 256, at most M and N, with a K of at most 128
    bytes, aligned.

    If that K is shorter, base_m becomes what L0 holds beside a base_n below 256, then base_n what L0 holds beside a base_m
    below 256. At last K is raised to the longest that L0A holds beside the longer side.
    """
    m, k, n = gemm(inp)
    whole_m = ceil_to(m, FRACTAL)
    l0_elements = inp.buffers["L0A"] // 2 // inp.itemsize  # one ping-pong half
    l0c_elements = inp.buffers["L0C"] // ACCUMULATOR_BYTES
    short_k = BASE_K_BYTES // inp.itemsize

    base_k = aligned_base_k(min(short_k, k), inp)
    base_m, base_n = (BIG_BLOCK, SMALL_BLOCK) if m >= n else (SMALL_BLOCK, BIG_BLOCK)
    base_m, base_n = min(base_m, whole_m), min(base_n, n)
    side = floor_to(l0_elements // base_k, FRACTAL)
    if base_n < BIG_BLOCK and base_k < short_k:
        base_m = min(side, floor_to(l0c_elements // base_n, FRACTAL), whole_m)
    if base_m < BIG_BLOCK and base_k < short_k:
        base_n = floor_to(min(side, l0c_elements // base_m, n), inp.unit)
    raised = aligned_base_k(min(floor_to(l0_elements // max(base_m, base_n), inp.unit), k), inp)
    return GradInputTiling(base_m, raised if raised > inp.unit else base_k, base_n, iterate_order=1)


# ---- L1 steps ------------------------------------------------------------------------------------------------------


def with_steps(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the block with the vendor's first choice of L1 steps and buffers; the result may not fit.

    With one kernel plane L1 keeps all K of the weights in one buffer, if that fits; else both operands have two buffers
    and the steps of `_equal_halves` or `_ladder`, whichever are larger and fit. Public versions of ops-nn try resident
    weights only where one base_k step of A already is a whole slice; the worked 3x3 example that we follow does not ask
    for it (no test row decides).
    """
    iterations = ceil_div(gemm(inp)[1], tiling.base_k)
    if inp.problem.k_d == 1:
        resident = tiling.but(al1_buffers=2, bl1_buffers=1, step_kb=iterations)
        fits = grad_input_l1(resident, inp)[1] <= inp.buffers["L1"]
        for step in divisors_down(iterations, iterations) if fits else ():
            if grad_input_fits_l1(candidate := resident.but(step_ka=step), inp):
                return candidate
    both = tiling.but(al1_buffers=2, bl1_buffers=2)
    equal, ladder = _equal_halves(both, inp), _ladder(both, inp)
    more = equal.step_ka + equal.step_kb > ladder.step_ka + ladder.step_kb
    return equal if more and grad_input_fits_l1(equal, inp) else ladder


def _ladder(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the block with equal L1 steps of A and B: the largest that fit, at most as many as the kernel has taps; 1 if none
    fits, even if 1 does not.
    """
    most = inp.buffers["L1"] // (tiling.base_k * tiling.base_n * inp.itemsize * tiling.bl1_buffers)  # without gradOutput
    start = min(ceil_div(gemm(inp)[1], tiling.base_k), inp.taps, most)
    whole = k_slice(inp)
    unit = whole // math.gcd(whole, tiling.base_k)  # steps that are whole slices; no other fits
    for step in range(start // unit * unit, 1, -unit):
        if grad_input_fits_l1(candidate := tiling.but(step_ka=step, step_kb=step), inp):
            return candidate
    return tiling.but(step_ka=1, step_kb=1)


def _equal_halves(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the block with L1 steps that fill half of L1 with each operand, in whole channel blocks (at least one, even if
    that does not fit); one step divides the other, and A's is at most load3d's K field.
    """
    half, blocks, whole = inp.buffers["L1"] // 2, inp.cout_padded // inp.unit, k_slice(inp)
    a_row = inp.problem.w_out * inp.problem.stride_w * inp.unit * inp.itemsize
    a_bytes = dilated_rows(inp.problem, tiling.base_m) * a_row
    b_bytes = whole * tiling.base_n * inp.itemsize
    a = min(max(half // tiling.al1_buffers // a_bytes, 1), blocks)
    b = min(max(half // tiling.bl1_buffers // b_bytes, 1), blocks)
    a, b = (divisors_down(b, a)[0], b) if b > a else (a, divisors_down(a, b)[0])
    step_a = min(ceil_div(a * whole, tiling.base_k), inp.load3d.k_extent // tiling.base_k)
    step_b = ceil_div(b * whole, tiling.base_k)
    if step_a > step_b:
        return tiling.but(step_ka=floor_to(step_a, step_b), step_kb=step_b)
    return tiling.but(step_ka=step_a, step_kb=floor_to(step_b, step_a))


def make_fit(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the tiling, if L1 does not hold it, with a smaller block or, where none fits, with fewer buffers too. It
    may still not fit.

    Where no block fits, (2, 1), (1, 2) and (1, 1) buffers of A and B are all tried in turn, as the vendor does, even if
    the first ones fit.
    """
    if grad_input_fits_l1(tiling, inp) or grad_input_fits_l1(tiling := _shrink(tiling, inp), inp):
        return tiling
    for al1_buffers, bl1_buffers in ((2, 1), (1, 2), (1, 1)):
        tiling = tiling.but(al1_buffers=al1_buffers, bl1_buffers=bl1_buffers)
        if not grad_input_fits_l1(tiling, inp):
            tiling = _shrink(tiling, inp)
    return tiling


def _shrink(tiling: GradInputTiling, inp: TilingInput) -> GradInputTiling:
    """Return the tiling with base_m and base_n reduced, the larger first (base_m down to a row or less), until L1 holds it;
    then with the longest base_k with which it fits, at least one fractal below the limit of L0.

    Where none fits, the block stays, with the last steps.
    """
    smallest_m = max(inp.problem.w_in, FRACTAL)
    block = tiling
    while block.base_m > smallest_m or block.base_n > FRACTAL:
        if block.base_m > smallest_m and block.base_m > block.base_n:
            block = block.but(base_m=max(block.base_m - FRACTAL, FRACTAL))
        else:
            block = block.but(base_n=max(block.base_n - FRACTAL, FRACTAL))
        block, fits = _either_steps(block, inp)
        if fits:
            break
    l0_elements = inp.buffers["L0A"] // tiling.al0_buffers // inp.itemsize
    limit = min(floor_to(l0_elements // max(block.base_m, block.base_n), FRACTAL), gemm(inp)[1])
    whole = k_slice(inp)
    for base_k in range(limit - FRACTAL, 0, -FRACTAL):
        if base_k % whole and whole % base_k:
            continue
        block, fits = _either_steps(block.but(base_k=base_k), inp)
        if fits:
            return block
    return block.but(base_m=tiling.base_m, base_n=tiling.base_n, base_k=tiling.base_k)


def _either_steps(block: GradInputTiling, inp: TilingInput) -> tuple[GradInputTiling, bool]:
    """Return (block with the L1 steps of `_ladder` or, where they do not fit, of `_equal_halves`; True if it fits L1)."""
    ladder = _ladder(block, inp)
    if grad_input_fits_l1(ladder, inp):
        return ladder, True
    equal = _equal_halves(block, inp)
    return equal, grad_input_fits_l1(equal, inp)


# ---- share of one core ---------------------------------------------------------------------------------------------


def task_pixels(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the pixels of one task: the whole rows in a tile, at least one row, or in several tiles if L2 then holds the data
    of all cores.

    Several are merged where rows are wide (`WIDE_ROW`) and neither row nor tile divides the other: the most rows with which the
    tasks divide evenly among the cores, or are very many. Else they are if images, depths and groups divide evenly: the most
    that divide the map. For a kernel with tile tasks (dav-3510) it is one tile, cut off to the map if the images divide evenly.
    """
    problem = inp.problem
    width, map_pixels = problem.w_in, problem.h_in * problem.w_in
    tile = tiling.step_m * tiling.base_m
    if variant_of(inp).tile_tasks:  # a base_m, or the map where there are as many images as cores (inferred from tests)
        even = problem.n * problem.d_in % inp.cores == 0
        return min(tile, map_pixels) if even else tile
    pixels = max(tile // width, 1) * width
    outer = problem.n * problem.d_in * inp.real_groups
    columns = tiling.step_n * tiling.base_n
    most = L2_BUDGET // (columns * inp.itemsize * inp.cores)  # pixels whose dx alone fills the budget
    if width > WIDE_ROW and tile % width and width % tile:
        parts, last = max(ceil_div(problem.h_in, max(most // width, 1)), 1), ceil_div(map_pixels, tile)
        while parts <= last:
            rows = ceil_div(problem.h_in, parts)
            merged = rows * width
            tasks = ceil_div(map_pixels, merged) * outer * ceil_div(inp.cin_g, columns)
            even = tasks % inp.cores == 0 or tasks >= inp.cores**2
            if even and _l2_bytes(merged, tiling, inp) <= L2_BUDGET:
                return merged
            if rows == 1:
                break
            parts = ceil_div(problem.h_in, rows - 1)  # the next that has fewer rows
    elif outer % inp.cores == 0:
        best, reach = pixels, tile
        while pixels < map_pixels and pixels <= most:
            reach += tile
            pixels = min(max(reach // width, 1) * width, map_pixels)
            if map_pixels % pixels == 0 and _l2_bytes(pixels, tiling, inp) <= L2_BUDGET:
                best = pixels
        return best
    return pixels


def _l2_bytes(pixels: int, tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the bytes of all cores in L2 for tasks of `pixels`: rows of gradOutput, weights, dx and a tile of scratch."""
    problem = inp.problem
    planes = max(problem.k_d // problem.stride_d, 1)
    rows = max(dilated_rows(inp.problem, pixels) // problem.stride_h, 1)
    columns = tiling.step_n * tiling.base_n
    elements = (
        rows * problem.w_out * planes * inp.cout_padded
        + columns * gemm(inp)[1] * planes
        + pixels * columns
        + tiling.base_m * tiling.base_n
    )
    return elements * inp.itemsize * inp.cores


def finish(tiling: GradInputTiling, inp: TilingInput, keep: frozenset[str] = frozenset()) -> GradInputTiling:
    """Return the tiling with the fields that follow from block and steps; of single_core_m, single_core_cin and block_dim those
    in `keep` stay.

    `inp` is the whole problem. The others are single_core_cout, load_b2, init_output and weights_resident.
    """
    whole, inp = inp, tiling_input(tiling, inp)
    columns = tiling.single_core_cin if "single_core_cin" in keep else ceil_to(tiling.step_n * tiling.base_n, FRACTAL)
    pixels = tiling.single_core_m if "single_core_m" in keep else task_pixels(tiling, inp)
    tiling = tiling.but(single_core_cin=columns, single_core_m=pixels, single_core_cout=inp.cout_padded)
    if "block_dim" not in keep:
        tiling = tiling.but(block_dim=min(task_count(tiling, whole), inp.cores))
    per_tap = tiling.base_k // FRACTAL >= inp.taps
    return tiling.but(
        load_b2=2 if inp.taps == 1 else int(per_tap),
        init_output=int(needs_clearing(whole)),
        weights_resident=is_resident(tiling, inp),
    )


def task_count(tiling: GradInputTiling, inp: TilingInput) -> int:
    """Return the number of tasks of the whole kernel, over all images, depths, groups and parts of dx; `inp` is the whole
    problem.
    """
    problem = tiling_input(tiling, inp).problem
    chunks = ceil_div(problem.h_in * problem.w_in, max(tiling.single_core_m, 1))
    outer = problem.n * ceil_div(problem.d_in, max(tiling.single_core_din, 1)) * inp.real_groups
    return chunks * outer * task_parts(tiling, inp) * ceil_div(inp.cin_g, max(tiling.single_core_cin, 1))


def needs_clearing(inp: TilingInput) -> bool:
    """Return True if the vendor's kernel first clears dx, since some pixels may get no contribution (ops-nn: stated): strides
    leave over dx rows or planes at the end, stride_h exceeds k_h, or dilation_d exceeds 1. W, and stride_d beyond k_d, do not
    count.
    """
    p = inp.problem
    depth_rest = (p.d_in + p.pad_front + p.pad_back - (p.k_d - 1) * p.dilation_d - 1) % p.stride_d
    height_rest = (p.h_in + p.pad_up + p.pad_down - (p.k_h - 1) * p.dilation_h - 1) % p.stride_h
    return depth_rest > p.pad_back or height_rest > p.pad_down or p.stride_h > p.k_h or p.dilation_d > 1


# ---- steps of a block that is given ---------------------------------------------------------------------------------


def step_candidates(tiling: GradInputTiling, inp: TilingInput, given: Collection[str] = ()) -> Iterator[GradInputTiling]:
    """Yield the tiling with each choice of L1 steps (one divides the other) and L1 buffers for its block, best first, whether
    it fits or not; those of these fields that `given` names stay.

    Weights that stay in L1 (kernels of one plane) come first, then two buffers of both operands, of A, of B, of none; in each
    of these the most channel blocks first. A's step is at most load3d's K field.
    """
    whole = k_slice(inp)
    blocks = ceil_div(inp.cout_g, tiling.k_unit(inp))
    k = blocks * whole
    most = max(inp.buffers["L1"] // (whole * FRACTAL * inp.itemsize), 1)  # blocks of weights that fit L1 at most
    steps = [ceil_div(count * whole, tiling.base_k) for count in divisors_down(blocks, most)]
    a_steps = [tiling.step_ka] if "step_ka" in given else [s for s in steps if s * tiling.base_k <= inp.load3d.k_extent]
    b_steps = [tiling.step_kb] if "step_kb" in given else steps
    pairs = [(a, b) for a, b in product(a_steps, b_steps) if min(a, b) > 0 and max(a, b) % min(a, b) == 0]
    pairs.sort(key=sum, reverse=True)
    counts = list(buffer_counts(tiling, given))
    if inp.problem.k_d == 1 and (2, 1) in counts:
        resident = tiling.but(al1_buffers=2, bl1_buffers=1)
        yield from (resident.but(step_ka=a, step_kb=b) for a, b in pairs if b * tiling.base_k >= k)
    for (al1_buffers, bl1_buffers), (a, b) in product(counts, pairs):
        yield tiling.but(al1_buffers=al1_buffers, bl1_buffers=bl1_buffers, step_ka=a, step_kb=b)


PROCEDURE = Procedure(covers_grad_input, lambda q: vendor_grad_input(q.dealt))

"""The vendor's tiling of grad_weight on the split architecture dav-2201.

Follows the "basic block" procedure of ops-nn Conv3DBackpropFilterV2 (arch22, priority 0): templates 1 (M and K split
over cores), 2 (N and K), 3 (M and N), 4 (M and N with StreamK, deterministic). Derived from its host tiling; checked
against its unit-test tables. What it leaves to a closed library is in `stand_in`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_weight.capacity import (
    b1_rows,
    b1_slices,
    bl1_bound,
    check_grad_weight,
    grad_weight_fits_l1,
    grad_weight_l1,
)
from ascend_sim.ops.kernels.grad_weight.fields import (
    SPLIT_MK,
    SPLIT_MN,
    SPLIT_NK,
    SPLIT_STREAM_K,
    STREAM_IMAGES,
    STREAM_NONE,
    STREAM_ROWS,
    GradWeightTiling,
    gemm,
    n_slice,
    splits_kd,
)
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.problem import WeightProblem
from ascend_sim.ops.kernels.grad_weight.procedures.shrink import shrink
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2_basic_block_tiling, arch22: stated)
BIG_BLOCK, SMALL_BLOCK = 256, 128  # base block sides
BASE_K_BYTES_MN, BASE_K_BYTES_SPLIT_K = 128, 256
WINDOW_SIZES = (4, 9, 16)  # taps, besides 1, that fill a base block well
SMALLEST_SIDE = 128  # M and N that such a window needs
DEPTHS_MN = (16, 14, 12, 10, 8, 6, 4, 2, 1)  # base blocks of each operand in L1, all buffers counted
DEPTH_SPLIT_K = 8


def covers_grad_weight(inp: TilingInput) -> bool:
    """Return True if the vendor's open procedure decides this problem (operands in the 5-dimensional C0 layout).

    In deterministic mode it always does. Else it does for 16-bit operands, one real group, no depth dilation, and a 1x1
    kernel, or 4, 9 or 16 taps with at least 128 rows and columns of dW.
    """
    if inp.deterministic:
        return True
    m, _, n = gemm(inp)
    big_enough = m >= SMALLEST_SIDE and n >= SMALLEST_SIDE
    window = inp.taps == 1 or (inp.taps in WINDOW_SIZES and big_enough)
    return window and inp.itemsize == 2 and inp.real_groups == 1 and not inp.depth_dilated


def vendor_grad_weight(inp: TilingInput) -> GradWeightTiling:
    """Return the vendor's tiling. Raises TilingError where the procedure does not apply or its result does not fit."""
    if not covers_grad_weight(inp):
        raise TilingError(
            "grad_weight: the vendor's open procedure needs deterministic mode, or 2-byte operands, one real group, "
            f"depth dilation 1 and a kernel of 1 or {WINDOW_SIZES} taps with M and N >= {SMALLEST_SIDE}; "
            f"given {inp.itemsize} bytes, {inp.real_groups} real groups, {inp.taps} taps, (M, K, N) = {gemm(inp)}"
        )
    strided = inp.problem.stride_h * inp.problem.stride_w > 1
    tiling = None
    if inp.deterministic or (strided and (inp.taps % FRACTAL == 0 or FRACTAL % inp.taps == 0)):
        tiling = _split_mn(inp)
    if tiling is None or (not inp.deterministic and task_count(tiling, inp) < inp.cores):
        tiling = _split_k(inp)
    if not inp.deterministic:
        tiling = tiling.but(block_dim=min(task_count(tiling, inp), inp.cores))
    # Rows above and below the image are counted only while there is room for them.
    tiling = tiling.but(bl1_bound=bl1_bound(tiling, inp, clipped=not grad_weight_fits_l1(tiling, inp)))
    check_grad_weight(tiling, inp)
    return tiling


def task_count(tiling: GradWeightTiling, inp: TilingInput) -> int:
    """Return the number of tasks of the whole kernel, before StreamK shares the last ones."""
    m, _, n = gemm(inp, tiling.split_kd)
    pixels = inp.problem.h_out * inp.problem.w_out  # without the padding of K, of which no task is made
    lanes = inp.real_groups * inp.problem.k_d if tiling.split_kd else 1
    parts = ceil_div(m, tiling.single_core_m) * ceil_div(pixels, tiling.single_core_k) * ceil_div(n, tiling.single_core_n)
    images = 1 if tiling.template == SPLIT_STREAM_K else ceil_div(inp.images, tiling.single_core_batch)
    return parts * images * lanes


# ---- base block ----------------------------------------------------------------------------------------------------


def _base_block(inp: TilingInput, template: int) -> GradWeightTiling:
    """Return the L0 block of a template, clipped to M and N; K takes the freed room, in whole rows as in `whole_rows`."""
    m, k, n = gemm(inp)
    whole_k = ceil_to(k, FRACTAL)
    if template in (SPLIT_MN, SPLIT_STREAM_K):  # L0A fills twice as fast as L0B, so the larger side goes to M
        full_m, full_n = (BIG_BLOCK, SMALL_BLOCK) if m > SMALL_BLOCK else (SMALL_BLOCK, BIG_BLOCK)
        full_k, cl0_buffers = BASE_K_BYTES_MN // inp.itemsize, 1
    else:  # K split: short runs, so L0C must be ping-pong
        full_m = full_n = SMALL_BLOCK
        full_k, cl0_buffers = BASE_K_BYTES_SPLIT_K // inp.itemsize, 2
    base_m, base_n = min(full_m, ceil_to(m, FRACTAL)), min(full_n, ceil_to(n, FRACTAL))
    if whole_k < full_k:
        base_k = whole_k
    else:
        room = min(floor_to(full_k * full_m // base_m, FRACTAL), floor_to(full_k * full_n // base_n, FRACTAL))
        base_k = whole_rows(min(room, whole_k), inp)
    return GradWeightTiling(
        base_m,
        base_k,
        base_n,
        cl0_buffers=cl0_buffers,
        iterate_order=int(m > n),
        template=template,
        split_kd=splits_kd(inp),
        block_dim=inp.cores,
        single_core_batch=inp.images if template == SPLIT_STREAM_K else 1,
    )


def whole_rows(base_k: int, inp: TilingInput) -> int:
    """Return `base_k` lowered to whole rows of gradOutput, if a row is shorter and a multiple of 16; else `base_k`."""
    width = inp.problem.w_out
    return base_k // width * width if width < base_k and width % FRACTAL == 0 else base_k


# ---- L1 steps ------------------------------------------------------------------------------------------------------


def with_depths(tiling: GradWeightTiling, inp: TilingInput, depth_a: int, depth_b: int) -> GradWeightTiling:
    """Return the tiling with L1 steps and buffers for `depth_a` and `depth_b` base blocks of A and B in L1; two or more
    make two buffers.

    Steps along K stop at the whole of K, and one is made a multiple of the other; with K cut, the operand that stays in L1 (A
    in template 1, B in 2) spends the rest on further tiles along M or N.
    """
    m, k, n = gemm(inp, tiling.split_kd)
    iterations = ceil_div(k, tiling.base_k)
    al1_buffers, bl1_buffers = min(depth_a, 2), min(depth_b, 2)
    blocks_a, blocks_b = depth_a // al1_buffers, depth_b // bl1_buffers
    step_m = step_n = 1
    if tiling.template == SPLIT_MK:
        step_m = _clamp(blocks_a // _clamp(blocks_a, iterations), ceil_div(m, tiling.base_m))
    elif tiling.template == SPLIT_NK:
        step_n = _clamp(blocks_b // _clamp(blocks_b, iterations), ceil_div(n, tiling.base_n))
    step_ka, step_kb = _clamp(blocks_a // step_m, iterations), _clamp(blocks_b // step_n, iterations)
    if tiling.template == SPLIT_MK or (tiling.template != SPLIT_NK and step_ka > step_kb):
        step_ka = floor_to(step_ka, step_kb)
    else:
        step_kb = floor_to(step_kb, step_ka)
    return tiling.but(
        step_m=step_m, step_n=step_n, step_ka=step_ka, step_kb=step_kb, al1_buffers=al1_buffers, bl1_buffers=bl1_buffers
    )


def _clamp(value: int, most: int) -> int:
    """Return `value`, at most `most` and at least 1."""
    return max(min(value, most), 1)


def with_core_shape(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """Return the tiling with the extent of a task (single_core_m, _n, _k): the contents of L1, in whole channel blocks
    and rows; the axis that the template does not cut is whole.
    """
    m, k, n = gemm(inp, tiling.split_kd)
    width = inp.problem.w_out
    single_m = tiling.step_m * tiling.base_m
    single_k = max(max(tiling.step_ka, tiling.step_kb) * tiling.base_k // width, 1) * width
    single_n = floor_to(tiling.step_n * tiling.base_n, n_slice(inp))
    if tiling.template == SPLIT_MK:
        single_n = n
    elif tiling.template == SPLIT_NK:
        single_m = m
    else:
        single_k = k
    return tiling.but(single_core_m=single_m, single_core_n=single_n, single_core_k=single_k)


@frozen
class WholeRows(WeightProblem):
    """Problem in the quantities of `WeightProblem`, but counted with whole rows of the input, rows of padding included."""

    def used(self, tiling: GradWeightTiling) -> int:
        return sum(grad_weight_l1(tiling, self.inp))

    def channels(self, columns: int) -> int:
        return b1_slices(self.inp, columns) * self.inp.n0

    def estimated_rows(self, pixels: int) -> int:
        return b1_rows(self.inp, pixels)

    def tallest(self, tiling: GradWeightTiling) -> int:
        """Return the most rows of dW to which `shrink` may let a shrunk block grow back: half of L0C over base_m,
        counted in elements of the operands as the library does.
        """
        return self.inp.buffers["L0C"] // self.inp.itemsize // 2 // tiling.base_m


# ---- the two splits ------------------------------------------------------------------------------------------------


def _split_k(inp: TilingInput) -> GradWeightTiling:
    """Return the tiling that cuts K, and the shorter side of dW, over the cores (template 1, or 2 if M is larger than N)."""
    m, _, n = gemm(inp)
    return ladder_split_k(_base_block(inp, SPLIT_NK if m > n else SPLIT_MK), inp)


def ladder_split_k(block: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """Return the tiling for `block` with the largest depths in L1 that fit and give all cores a task, else with depth 1; with
    a smaller block where that does not fit.
    """
    tiling = block
    for depth_a, depth_b in _halving_depths(stays_a=block.template == SPLIT_MK):
        tiling = with_core_shape(with_depths(block, inp, depth_a, depth_b), inp)
        if task_count(tiling, inp) >= inp.cores and grad_weight_fits_l1(tiling, inp):
            break
    if not grad_weight_fits_l1(tiling, inp):
        tiling = with_core_shape(with_depths(shrink(tiling, WholeRows(inp)), inp, 1, 1), inp)
    return tiling


def _halving_depths(stays_a: bool) -> Iterator[tuple[int, int]]:
    """Yield (depth of A, depth of B) from (8, 8) down to (1, 1): each time the larger is halved; of equal ones that of
    the operand that does not stay in L1.
    """
    a = b = DEPTH_SPLIT_K
    yield a, b
    while (a, b) != (1, 1):
        if a > b or (a == b and not stays_a):
            a //= 2
        else:
            b //= 2
        yield a, b


def _split_mn(inp: TilingInput) -> GradWeightTiling:
    """Return the tiling that cuts M and N over the cores, K whole; deterministic: N cut evenly, the last round by StreamK."""
    block = _base_block(inp, SPLIT_STREAM_K if inp.deterministic else SPLIT_MN)
    depth = DEPTHS_MN[-1]
    for depth in DEPTHS_MN:
        tiling = with_depths(block, inp, depth, depth)
        if grad_weight_fits_l1(tiling, inp):
            break
    else:
        tiling = with_depths(shrink(tiling, WholeRows(inp)), inp, depth, depth)
    tiling = with_core_shape(tiling, inp)
    if not inp.deterministic:
        return tiling
    tiling = _whole_windows(_even_columns(tiling, inp), inp, depth)
    double = tiling.base_m * tiling.base_n * ACCUMULATOR_BYTES * 2 <= inp.buffers["L0C"]
    return stream_k(tiling.but(cl0_buffers=2 if double else 1), task_count(tiling, inp), inp)


# ---- deterministic adjustments -------------------------------------------------------------------------------------

TAIL_TOLERANCE = 2  # idle cores in the last round that are not worth a split (ops-nn: stated)


def _even_columns(tiling: GradWeightTiling, inp: TilingInput) -> GradWeightTiling:
    """Return the tiling with single_core_n widened so that its tasks fill whole rounds of the cores; unchanged if no
    width helps.

    Where no width fills them, and more than TAIL_TOLERANCE cores idle in the last round, one is taken whose last round
    fills the cores if a number of cores shares each task, or lacks at most TAIL_TOLERANCE tasks.
    """
    _, k, n = gemm(inp)
    tasks, cores = task_count(tiling, inp), inp.cores
    if tasks % cores == 0 and tiling.single_core_n == n:
        return tiling
    lanes = tasks // ceil_div(n, tiling.single_core_n)

    def for_cores(target: int) -> tuple[int, int]:
        """Return (single_core_n, tasks) for about `target` tasks."""
        missing = target // math.gcd(lanes, target)
        wanted = min(ceil_div(inp.n1, missing) * n_slice(inp), n)
        columns = max(wanted, tiling.single_core_n)
        return columns, ceil_div(n, columns) * lanes

    columns, count = for_cores(cores)
    if count % cores == 0:
        return tiling.but(single_core_n=columns)
    longest = max(k // tiling.base_k, inp.images)
    if longest <= 1 or tasks % cores + TAIL_TOLERANCE >= cores:
        return tiling
    for sharing in range(2, min(longest, cores) + 1):
        columns, count = for_cores(cores // sharing)
        tail = count % cores
        if tail * sharing == cores or tail + TAIL_TOLERANCE >= cores:
            return tiling.but(single_core_n=columns)
    return tiling


def _whole_windows(tiling: GradWeightTiling, inp: TilingInput, depth: int) -> GradWeightTiling:
    """Return the tiling with base_n in whole windows (taps x FRACTAL columns) if a task's last block along N has but one or two
    fractals, and less than half a block. base_m, base_k and the L1 steps then follow.

    Else, or where that does not fit, only base_n is lowered to the task's columns.
    """
    columns = ceil_to(tiling.single_core_n, FRACTAL)
    tiling = tiling.but(base_n=min(tiling.base_n, columns))
    blocks = tiling.base_n // FRACTAL
    tail = columns // FRACTAL % blocks
    if tail == 0 or tail > 2 or tail * 2 >= blocks:
        return tiling
    most = max(blocks, FRACTAL)
    windows = ceil_div(blocks, inp.taps)
    if windows * inp.taps > most:
        windows = max(windows - 1, 1)
    if windows * inp.taps > most:
        return tiling
    base_n = windows * inp.taps * FRACTAL
    room_m = min(inp.buffers["L0C"] // ACCUMULATOR_BYTES // base_n, tiling.base_m)
    halve = tiling.base_m > SMALL_BLOCK and room_m < tiling.base_m
    base_m = floor_to(min(room_m, tiling.base_m // 2) if halve else room_m, FRACTAL)
    base_k = floor_to(inp.buffers["L0B"] // 2 // inp.itemsize // max(base_m, base_n), FRACTAL)
    wider = tiling.but(base_m=base_m, base_n=base_n, base_k=base_k)
    while wider.base_k > FRACTAL and not grad_weight_fits_l1(wider, inp):
        wider = wider.but(base_k=wider.base_k - FRACTAL)
    if not grad_weight_fits_l1(wider, inp):
        return tiling
    return with_core_shape(with_depths(wider, inp, depth, depth), inp)


# ---- StreamK: cores that would idle in the last round share its tasks -----------------------------------------------


def stream_k(tiling: GradWeightTiling, tasks: int, inp: TilingInput) -> GradWeightTiling:
    """Return the tiling with stream_k_type, core_stream_k and block_dim for `tasks` tasks on `inp.cores` cores.

    Only a last round of at most half the cores is shared. It is shared by images if these make no fewer parts than rows
    do, and their short last part, if any, is no emptier than that of the rows; else by rows.
    """
    plain = tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0)
    cores = tasks if inp.cores // 2 < tasks < inp.cores else inp.cores
    tail = tasks % cores
    if tail == 0 or tail > cores // 2:
        return plain.but(block_dim=cores)
    wanted = cores // tail
    images, images_last = _parts(inp.images, ceil_div(inp.images, wanted))
    rows, rows_last = _parts(inp.problem.h_out, rows_per_part(tiling, inp, wanted))
    by_images = images >= rows and (images_last == 0 or images_last >= rows_last)
    parts = images if by_images else rows
    if parts == 1:
        return plain.but(block_dim=tasks if tail == tasks else cores)
    return plain.but(
        stream_k_type=STREAM_IMAGES if by_images else STREAM_ROWS,
        core_stream_k=parts,
        block_dim=min(tasks * parts, inp.cores) if tail == tasks else cores,
    )


def rows_per_part(tiling: GradWeightTiling, inp: TilingInput, wanted: int) -> int:
    """Return the gradOutput rows of a part, for at most `wanted` parts of a task; at least a row or one base block."""
    problem = inp.problem
    most = ceil_div(problem.h_out * problem.w_out, max(problem.w_out, tiling.base_k))
    return ceil_div(problem.h_out, max(min(wanted, most), 1))


def _parts(total: int, size: int) -> tuple[int, Fraction]:
    """Return (parts of `size` that cover `total`, how full a short last part is as a fraction, 0 if there is none)."""
    return ceil_div(total, size), Fraction(total % size, size)


PROCEDURE = Procedure(covers_grad_weight, lambda q: vendor_grad_weight(q.inp))

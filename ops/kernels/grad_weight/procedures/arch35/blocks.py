"""Blocks of the arch35 procedure of grad_weight: the base block, its steps in L1, fallbacks where L1 is too small, and
how tasks are dealt out to cores: other blocks where there are few, a last round in parts.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, STREAM_NONE, STREAM_ROWS, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.problem import WIDEST_STRIP, WeightProblem
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import stream_k
from ascend_sim.ops.kernels.grad_weight.procedures.shrink import shrink
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2, arch35: stated)
LONGEST_SIDE = 256  # of a base block
DOUBLE_STEPS = (8, 7, 6, 5, 4, 3, 2)  # base blocks of an operand's L1 buffer, where it has two
SINGLE_STEPS = (16, 14, 12, 10, 8, 6, 4, 2, 1)  # the same where it has one


def block_in_l1(first: WeightProblem) -> tuple[GradWeightTiling, WeightProblem]:
    """Return (base block with its L1 steps and task, problem) for the first walk over gradOutput for which L1 holds them.

    Walks are whole rows (or the first problem's strips), then strips, half as wide each time, then single taps of the
    narrowest strips. Raises TilingError where none fits.
    """
    for way in _ways(first):
        tiling = with_steps(first_block(way), way)
        if way.fits(tiling):
            return tiling, way
    raise TilingError("grad_weight: the procedure for dav-3510 finds no block that L1 holds")


def _ways(first: WeightProblem) -> Iterator[WeightProblem]:
    """Yield the problem with each walk to try: its own; unless that takes single taps, strips of WIDEST_STRIP columns, then of
    half as many each time down to C0; single taps in strips of C0 columns.
    """
    yield first
    width = WIDEST_STRIP
    while not first.by_tap and width >= first.inp.c0:
        yield replace(first, strip=width)
        width //= 2
    yield replace(first, strip=first.inp.c0, by_tap=True)


def first_block(p: WeightProblem) -> GradWeightTiling:
    """Return the first block: sides of at most 256, cut evenly, N in whole windows or part of a longer one, the longest K (0
    where L0 has no room for any).
    """
    base_m, base_n = _side(p.m), _side(p.n)
    base_n = min(base_n, floor_to(base_n, p.slice))
    return GradWeightTiling(
        base_m,
        longest_k(base_m, base_n, p),
        base_n,
        iterate_order=int(p.m > p.n),
        template=SPLIT_STREAM_K,
        split_kd=True,
        block_dim=p.inp.cores,
        single_core_batch=p.inp.images,
        cl0_buffers=2 if p.tile_fits(base_m, base_n, 2) else 1,
    )


def _side(extent: int) -> int:
    """Return the side of a block that cuts `extent` into equal parts of at most LONGEST_SIDE, in whole fractals."""
    return ceil_to(extent // ceil_div(extent, LONGEST_SIDE), FRACTAL)


def longest_k(base_m: int, base_n: int, p: WeightProblem, width: int | None = None) -> int:
    """Return the K of a block that half of L0A and half of L0B hold: all of K, else whole fractals, in whole rows where
    `width` is a multiple of 16.

    0 where not even one fractal fits. `width` replaces the length of a row.
    """
    width = p.width if width is None else width
    halves = ((p.inp.buffers["L0A"] // 2, base_m), (p.inp.buffers["L0B"] // 2, base_n))
    base_k = min(half // p.inp.itemsize // side // FRACTAL * FRACTAL for half, side in halves)
    if p.k < base_k:
        return p.k
    return base_k // width * width if width < base_k and width % FRACTAL == 0 else base_k


def with_steps(block: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the block with the most L1 steps that fit with two buffers of each operand, else with one; else a smaller block
    (`shrink`), which may not fit either.

    A task is one block, or all taps of the channels that it is part of. TilingError for a block without K.
    """
    if not block.base_k:
        raise TilingError("grad_weight: the procedure for dav-3510 leaves no K in L0 to a block")
    tries = [(2, step) for step in DOUBLE_STEPS] + [(1, step) for step in SINGLE_STEPS]
    candidates = (_stepped(block, p, buffers, step) for buffers, step in tries)
    tiling = next((found for found in candidates if p.fits(found)), None)
    if tiling is None:
        tiling = _stepped(shrink(_stepped(block, p, 1, 1), p), p, 1, 1)
    columns = p.slice if p.by_tap else floor_to(tiling.base_n, p.slice)
    return tiling.but(single_core_m=tiling.base_m, single_core_n=columns, single_core_k=p.pixels)


def _stepped(block: GradWeightTiling, p: WeightProblem, buffers: int, step: int) -> GradWeightTiling:
    """Return the block with `buffers` L1 buffers and L1 step `step` of both operands, at most all of K."""
    step = min(step, ceil_div(p.pixels, block.base_k))
    return block.but(step_ka=step, step_kb=step, al1_buffers=buffers, bl1_buffers=buffers)


# ---- cores ----------------------------------------------------------------------------------------------------------


def decided(inp: TilingInput) -> GradWeightTiling:
    """Return the tiling that the library chooses, in all its fields, even where our kernel walks otherwise; groups are
    merged as in `inp`.

    `single_core_k` is h_out * w_out, the pixels of one plane of gradOutput, not rounded, also where cores share a task's rows
    or images. L1 may not hold the tiling. Raises TilingError where the library finds none.
    """
    tiling, p = block_in_l1(WeightProblem.of(inp))
    if inp.group_extension == 1:  # tiles of merged groups are put in order whole
        tiling = _for_few(tiling, p)
    tiling = _shared(tiling, p)
    return tiling.but(bl1_bound=p.b_elements(tiling), split_wo=p.strip, split_kernel=int(p.by_tap))


def _for_few(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with a smaller block if tasks are fewer than cores, and do not divide them or have too few images
    and rows to be shared.

    First M is cut so that the number of tasks divides the cores; if tasks are then still fewer than the cores, but more than
    half of them, N is cut finer unless base_n is less than base_m.
    """
    tasks, cores = p.tasks(tiling.single_core_m, tiling.single_core_n), p.inp.cores
    if tasks >= cores:
        return tiling
    sharing = cores // tasks
    if cores % tasks == 0 and max(p.inp.images, p.inp.problem.h_out) >= sharing:
        return tiling
    tiling = _dividing(tiling, p)
    tasks = p.tasks(tiling.single_core_m, tiling.single_core_n)
    return _finer(tiling, p) if cores // 2 < tasks < cores and tiling.base_n >= tiling.base_m else tiling


def _dividing(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with the smallest base_m with which the number of tasks divides the cores; unchanged if there is none.

    Images, or the rows of base_k, must suffice for cores / tasks cores to share each task. Where L1 holds none of these blocks
    the last one tried is returned.
    """
    cores, columns = p.inp.cores, tiling.single_core_n
    most = min(p.m // FRACTAL, cores) // p.lanes // ceil_div(p.n, columns)
    for parts in range(most, 0, -1):
        base_m = ceil_to(ceil_div(p.m, parts), FRACTAL)
        tasks = p.tasks(base_m, columns)
        if tasks > cores or cores % tasks:
            continue
        base_k, sharing = longest_k(base_m, tiling.base_n, p), cores // tasks
        if p.inp.images < sharing and base_k < sharing * p.inp.problem.w_out:
            continue
        if not p.tile_fits(base_m, tiling.base_n):
            break
        tiling = _with_block(tiling, p, base_m, base_k, tiling.base_n)
        if p.fits(tiling):
            break
    return tiling


def _finer(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with fewer columns in a block, so that as many cores as possible have a task; unchanged if none
    gives more tasks.

    Where L1 holds none of these blocks it is the last that was tried.
    """
    cores, rows, own = p.inp.cores, tiling.single_core_m, ceil_div(p.n, tiling.single_core_n)
    most = min(p.n // p.slice, cores // p.lanes // ceil_div(p.m, rows))
    for parts in range(most, own, -1):
        base_n = ceil_to(ceil_div(p.n, parts), p.slice)
        if p.tasks(rows, base_n) > cores or not p.tile_fits(tiling.base_m, base_n):
            continue
        tiling = _with_block(tiling, p, tiling.base_m, longest_k(tiling.base_m, base_n, p), base_n)
        if p.fits(tiling):
            break
    return tiling


def _with_block(tiling: GradWeightTiling, p: WeightProblem, base_m: int, base_k: int, base_n: int) -> GradWeightTiling:
    """Return the tiling with another base block, two L0C buffers where they fit, and the steps of `with_steps`."""
    buffers = 2 if p.tile_fits(base_m, base_n, 2) else 1
    return with_steps(tiling.but(base_m=base_m, base_k=base_k, base_n=base_n, cl0_buffers=buffers), p)


def _shared(tiling: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Return the tiling with the tasks of the last round shared (StreamK), by images or by rows; by rows K and L1 steps
    may become smaller, and sharing ends where that does not fit L1.
    """
    tasks, problem = p.tasks(tiling.single_core_m, tiling.single_core_n), p.inp.problem
    # A part may be as short as a row here: no base block limits it.
    shared = stream_k(tiling.but(base_k=1), tasks, p.inp).but(base_k=tiling.base_k, block_dim=p.inp.cores)
    if shared.stream_k_type != STREAM_ROWS:
        return shared
    pixels = ceil_div(problem.h_out, shared.core_stream_k) * problem.w_out
    base_k = ceil_to(min(tiling.base_k, pixels), FRACTAL)
    most = ceil_div(pixels, base_k)
    shared = shared.but(base_k=base_k, step_ka=min(tiling.step_ka, most), step_kb=min(tiling.step_kb, most))
    while not p.fits(shared):
        if min(shared.step_ka, shared.step_kb) == 1:
            return tiling.but(stream_k_type=STREAM_NONE, core_stream_k=0)
        shared = shared.but(step_ka=shared.step_ka - 1, step_kb=shared.step_kb - 1)
    return shared

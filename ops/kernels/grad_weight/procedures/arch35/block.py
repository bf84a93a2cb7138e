"""The base block of the arch35 procedure of grad_weight, its steps in L1, and the ways out where L1 is too small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.procedures.arch35.problem import WIDEST_STRIP, WeightProblem
from ascend_sim.ops.kernels.grad_weight.procedures.shrink import shrink
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, floor_to

# Numbers of the vendor's procedure (ops-nn conv3d_backprop_filter_v2, arch35: stated)
LONGEST_SIDE = 256  # of a base block
DOUBLE_STEPS = (8, 7, 6, 5, 4, 3, 2)  # base blocks of an operand's L1 buffer, where it has two
SINGLE_STEPS = (16, 14, 12, 10, 8, 6, 4, 2, 1)  # the same where it has one


def block_in_l1(first: WeightProblem) -> tuple[GradWeightTiling, WeightProblem]:
    """A base block with its steps, and the way over gradOutput with which L1 holds it: whole rows, else strips, half as wide
    each time, else single taps of the narrowest strips. Raises TilingError where none does.
    """
    for way in _ways(first):
        tiling = with_steps(first_block(way), way)
        if way.fits(tiling):
            return tiling, way
    raise TilingError("grad_weight: the procedure for dav-3510 finds no block that L1 holds")


def _ways(first: WeightProblem) -> Iterator[WeightProblem]:
    yield first
    width = WIDEST_STRIP
    while not first.by_tap and width >= first.inp.c0:
        yield replace(first, strip=width)
        width //= 2
    yield replace(first, strip=first.inp.c0, by_tap=True)


def first_block(p: WeightProblem) -> GradWeightTiling:
    """Sides of at most 256, N in whole windows of the kernel or, where one is longer, part of one; the longest K."""
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
    return ceil_to(extent // ceil_div(extent, LONGEST_SIDE), FRACTAL)


def longest_k(base_m: int, base_n: int, p: WeightProblem, width: int | None = None) -> int:
    """The K of a block that half of L0A and half of L0B hold: all of it, else in whole rows (`width`) that are aligned.

    0 where not even one fractal fits.
    """
    width = p.width if width is None else width
    halves = ((p.inp.buffers["L0A"] // 2, base_m), (p.inp.buffers["L0B"] // 2, base_n))
    base_k = min(half // p.inp.itemsize // side // FRACTAL * FRACTAL for half, side in halves)
    if p.k < base_k:
        return p.k
    return base_k // width * width if width < base_k and width % FRACTAL == 0 else base_k


def with_steps(block: GradWeightTiling, p: WeightProblem) -> GradWeightTiling:
    """Two buffers of each operand with as many steps as L1 holds, else one; where none fits, a smaller block.

    A task is one block, or all taps of the channels that it is part of.
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
    step = min(step, ceil_div(p.pixels, block.base_k))
    return block.but(step_ka=step, step_kb=step, al1_buffers=buffers, bl1_buffers=buffers)

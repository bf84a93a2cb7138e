"""The search: every cut over cores, the tiles inside it, the fewest cycles; the first of equal ones stays.

Source: host tiling of Conv2DBackpropFilter and Conv3DBackpropFilter (NPUKernelBench 6b84216, cycle_calculator.cc l.644-746,
conv3d_dw_cycle_calculator.cc, dw_cache_tiling_impl.cc l.345-402: stated).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cuts import cut_counts, share_of
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import CycleCosts, CycleModel
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fewest_loads import fewest_loads
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import (
    Attach,
    CacheTiling,
    Cuts,
    Share,
    Tile,
)
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.held import b1_bytes, rows_out
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import a_may_stay, a_stays, nothing_stays
from ascend_sim.ops.problem.divisors import divisors
from ascend_sim.ops.problem.sizes import ceil_div

BUSY_CORES = Fraction(4, 5)  # of the cores that a cut must occupy, where there are images enough (stated)


@lru_cache(maxsize=64)  # a search of the other kernel's tiling plans the same call again for every candidate
def cache_tiling(p: FilterProblem, costs: CycleCosts) -> CacheTiling:
    """The vendor's tiling. TilingError where it finds none, or refuses the problem."""
    if p.conv1d:
        return tiling_by_loads(p)
    model, found = CycleModel(p, costs), None
    if p.problem.n * p.problem.d_out >= p.cores:
        found = _best(model, math.ceil(BUSY_CORES * p.cores))
    found = found or _best(model, 1)
    if found is None:
        raise TilingError(f"cache tiling: L1 of {p.l1_bytes} bytes holds no tile of this problem, whatever the cut")
    return _decided(p, *found)


def tiling_by_loads(p: FilterProblem) -> CacheTiling:
    """The vendor's tiling where no cycles are counted: of signals, and on chips whose results leave L0C through UB."""
    return _decided(p, *fewest_loads(p), None)


def _best(model: CycleModel, least_blocks: int) -> tuple[Cuts, Share, Tile, int] | None:
    p, best = model.p, None
    may_stay = a_may_stay(p)
    for cuts in _cuts(p):
        if cuts.blocks < least_blocks:
            continue
        share = share_of_core(p, cuts)
        tiles = [a_stays(p, share)] if may_stay and share.group == share.batch == 1 else []
        tiles.append(nothing_stays(p, share, best is not None))
        for tile in filter(None, tiles):
            tile = model.buffered(share, tile)
            cycles = model.core(cuts, share, tile)
            if best is None or cycles < best[3]:
                best = cuts, share, tile, cycles
    return best


def _cuts(p: FilterProblem) -> Iterator[Cuts]:
    """Every cut that is tried, in the vendor's order; K takes the cores that the other axes leave."""
    problem, cores = p.problem, p.most_blocks
    channels = cut_counts(p.cin1, cores) if problem.k_d == 1 else divisors(p.cin1, cores)
    axes = (
        divisors(problem.d_out, cores), divisors(problem.k_d, cores), divisors(p.groups, cores),
        cut_counts(problem.n, cores), channels, cut_counts(p.m, cores),
    )  # fmt: skip
    for depth, planes, group, batch, n, m in product(*axes):
        used = depth * planes * group * batch * n * m
        if used > cores or not _whole_images(p, batch, depth):
            continue
        if k := p.k_cut(cores // used):
            yield Cuts(batch, m, k, n, group, depth, planes)


def _whole_images(p: FilterProblem, batch: int, depth: int) -> bool:
    """With the depth of gradOutput cut, a core has whole images or even parts of one."""
    d_out = p.problem.d_out
    planes = ceil_div(p.problem.n, batch) * (d_out // depth)
    return depth == 1 or planes % d_out == 0 or d_out % planes == 0


def share_of_core(p: FilterProblem, cuts: Cuts) -> Share:
    """What a core gets under a cut."""
    problem = p.problem
    channels = share_of(p.cin1, cuts.n, p.cores) if problem.k_d == 1 else p.cin1 // cuts.n
    plane = channels * p.taps
    n = plane * (problem.k_d // cuts.planes)
    apart = problem.k_d > 1 and (p.groups > 1 or problem.pad_front > 0 or problem.pad_back > 0)
    return Share(
        batch=ceil_div(problem.n, cuts.batch) * (problem.d_out // cuts.depth),
        m=share_of(p.m, cuts.m, p.cores),
        n=n,
        k=ceil_div(p.k, cuts.k),
        group=p.groups // cuts.group,
        n_tile=plane if apart else n,
        n_held=plane if apart and p.groups > 1 else n,
    )


def _decided(p: FilterProblem, cuts: Cuts, share: Share, tile: Tile, cycles: int | None) -> CacheTiling:
    """The decided tiling: an operand that lies in L1 whole has one buffer, where cycles decided."""
    a, b = (Attach.WHOLE_K if share.batch == 1 and k == share.k else Attach.PART for k in (tile.k_al1, tile.k_bl1))
    if p.load in (Load.SPLIT_W, Load.DMA):
        a = b = Attach.PART
    elif share.group == 1:
        if a is Attach.WHOLE_K and tile.m_al1 * tile.m_l0 == share.m:
            a = Attach.FULL
        one_tile = ceil_div(p.cin_c0 * p.taps, cuts.n * cuts.planes * tile.n_bl1 * tile.n_l0) == 1
        if b is Attach.WHOLE_K and tile.n_bl1 * tile.n_l0 == share.n and (one_tile or not p.fp32):
            b = Attach.FULL
    if cycles is not None:
        once_a, once_b = a is Attach.FULL, b is Attach.FULL
        tile = tile._replace(db_al1=1 if once_a else tile.db_al1, db_bl1=1 if once_b else tile.db_bl1)
    bound = b1_bytes(p, tile) // p.itemsize
    rows = tile.k_bl1 // tile.k_l0 if p.load is Load.SPLIT_W else rows_out(p, tile.k_bl1 * p.k0)
    # Counting loads follows rules that nothing checks; how pieces of rows and gathers fill L1 is derived.
    guessed = cycles is None or p.load in (Load.SPLIT_W, Load.DMA)
    return CacheTiling(cuts, share, tile, a, b, rows, bound, cycles, "stand-in" if guessed else "vendor procedure")

"""Search of the cache tiling: all cuts over cores and some tiles in each; the one with the fewest cycles answers, of
equal ones the first.

Source: host tiling of Conv2DBackpropFilter and Conv3DBackpropFilter (NPUKernelBench 6b84216, cycle_calculator.cc
l.644-746, conv3d_dw_cycle_calculator.cc, dw_cache_tiling_impl.cc l.345-402: stated).

The base template of Conv3DBackpropFilterV2 on the 910B uses it, too, and translates the answer into its own fields
(ops-nn e5c3fa93, conv3d_backprop_filter_v2_base_tiling.cpp l.381-430, 572-625: stated). Our kernel runs it as template
0: a tile of dW stays in L0C over all images and rows of a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import product

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.grad_weight.capacity import bl1_bound, check_grad_weight
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_GRID, GradWeightTiling, splits_kd
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cycles import CycleCosts, CycleModel, cycle_costs
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fewest_loads import fewest_loads
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, CacheTiling, Cuts, Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load, filter_problem
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import (
    a_may_stay,
    a_stays,
    b1_bytes,
    cut_counts,
    fits,
    nothing_stays,
    rows_out,
    share_of,
)
from ascend_sim.ops.kernels.grad_weight.procedures.dav_2201 import task_count
from ascend_sim.ops.problem.sizes import ceil_div, divisors
from ascend_sim.ops.problem.tiling_input import TilingInput

BUSY_CORES = Fraction(4, 5)  # of the cores that a cut must occupy, where there are images enough (stated)


@lru_cache(maxsize=64)  # a search of the other kernel's tiling plans the same call again for every candidate
def cache_tiling(p: FilterProblem, costs: CycleCosts) -> CacheTiling:
    """Return the vendor's tiling: the fewest estimated cycles, or for `conv1d` the fewest loads; cached. TilingError
    where it finds none, or refuses the problem.

    With an image plane for each core, cuts that leave over 20 % of the cores idle are taken only if no other has a tile.
    """
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
    """Return the vendor's tiling by the fewest loads, for `conv1d` and on chips whose results leave L0C through UB; its source
    is "stand-in". TilingError where nothing fits L1.
    """
    return _decided(p, *fewest_loads(p), None)


def _best(model: CycleModel, least_blocks: int) -> tuple[Cuts, Share, Tile, int] | None:
    """Return (cut, share, tile, cycles) with the fewest estimated cycles; None where no tile fits.

    Cuts of fewer than `least_blocks` blocks are left out.
    """
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
    """Yield every cut that is tried, in the vendor's order; K is cut into as many parts as the other axes leave cores."""
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
    """Return True unless `batch` parts of the images and `depth` parts of gradOutput's depth give a core planes that neither
    are whole images nor divide one evenly.
    """
    d_out = p.problem.d_out
    planes = ceil_div(p.problem.n, batch) * (d_out // depth)
    return depth == 1 or planes % d_out == 0 or d_out % planes == 0


def share_of_core(p: FilterProblem, cuts: Cuts) -> Share:
    """Return the share of one core under a cut: images and K rounded up; M and channels by `share_of`, which may
    enlarge them to numbers with more divisors.

    With several kernel planes channels are divided evenly.
    """
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
    """Return the CacheTiling of a cut, share and tile, with the loop levels of the loads; `cycles` None: fewest loads decided.

    Where cycles decided, an operand that L1 holds whole has one buffer, and the source is "vendor procedure" unless rows
    are loaded in pieces or gathered. In all other cases it is "stand-in".
    """
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


# ---- the base template ----------------------------------------------------------------------------------------------


DIMS = ("batchDim", "groupDim", "dkDim", "mDim", "kDim", "nDim")
"""Names of the template's cuts over cores."""


def vendor_base_template(inp: TilingInput, chip: ChipSpec, dtype: str) -> GradWeightTiling:
    """Return the V2 kernel's tiling by its base template, which decides where its open template does not; a stand-in
    where ours deals tasks otherwise.

    TilingError where the procedure finds none, or our kernel cannot run it.
    """
    p = filter_problem(inp, dtype, volumetric=True)
    decided = cache_tiling(p, cycle_costs(chip.identity.arch))
    if not fits(p, decided.tile):
        raise TilingError("grad_weight: the base template's tiling does not fit into L1")
    fields = base_template(p, decided)
    whole_rows = fields["singleCoreHo"] * inp.problem.w_out
    tiling = GradWeightTiling(
        **{
            ours: fields[vendor]
            for ours, vendor in GradWeightTiling.VENDOR.items()
            if vendor in fields and "_core_" not in ours
        },
        single_core_m=fields["singleCoreCout"],
        single_core_n=fields["singleCoreCin"] * inp.taps,
        single_core_k=min(whole_rows, inp.problem.h_out * inp.problem.w_out),
        single_core_batch=fields["singleCoreBatch"],
        template=SPLIT_GRID,
        split_kd=splits_kd(inp),
        source=decided.source,
    )
    tasks = task_count(tiling, inp)
    if tasks != math.prod(fields[name] for name in DIMS):  # the library gives a core several groups or kernel planes
        tiling = tiling.but(source="stand-in")
    tiling = tiling.but(block_dim=min(tasks, inp.cores), bl1_bound=bl1_bound(tiling, inp, clipped=True))
    check_grad_weight(tiling, inp)
    return tiling


def base_template(p: FilterProblem, decided: CacheTiling) -> dict[str, int]:
    """Return the V2 kernel's fields by the vendor's names, of `decided`. Unlike older kernels it cuts K in whole rows."""
    problem, cuts, tile = p.problem, decided.cuts, decided.tile
    base_k, step_ka, step_kb = tile.k_l0 * p.k0, tile.k_al1 // tile.k_l0, tile.k_bl1 // tile.k_l0
    images = ceil_div(problem.n, cuts.batch) * (problem.d_out // cuts.depth)
    rows = ceil_div(problem.h_out, cuts.k)
    steps = ceil_div(rows * problem.w_out, base_k)
    al1_buffers = 1 if step_ka >= steps else tile.db_al1
    bl1_buffers = 1 if step_kb >= steps else tile.db_bl1
    blocks_m = ceil_div(p.m, cuts.m)
    n_parts, plane_parts, columns = cuts.n * cuts.planes, 1, p.cin_tensor * problem.k_d
    if p.groups > 1 or problem.dilation_d > 1:  # kernel planes are cut by themselves
        plane_parts, columns = math.gcd(n_parts, problem.k_d), p.cin_tensor
        n_parts //= plane_parts
    blocks_n = ceil_div(columns, n_parts)
    return {
        "batchDim": ceil_div(problem.n * problem.d_out, images),
        "groupDim": cuts.group,
        "dkDim": plane_parts,
        "mDim": ceil_div(p.m, blocks_m),
        "kDim": ceil_div(problem.h_out, rows),
        "nDim": ceil_div(columns, blocks_n),
        "singleCoreBatch": images,
        "singleCoreHo": rows,
        "singleCoreCout": blocks_m * FRACTAL,
        "singleCoreCin": blocks_n * p.k0,
        "baseM": tile.m_l0 * FRACTAL,
        "baseK": base_k,
        "baseN": tile.n_l0 * FRACTAL,
        "stepM": tile.m_al1,
        "stepN": 1 if ceil_div(steps, step_kb) > bl1_buffers else tile.n_bl1,
        "stepKa": step_ka,
        "stepKb": step_kb,
        "al1Pbuffer": al1_buffers,
        "bl1Pbuffer": bl1_buffers,
        "cl0Pbuffer": tile.db_l0c,
    }

"""The tiles that are tried inside one cut over cores: with all of A in L1, and with nothing held there.

Source: host tiling of Conv2DBackpropFilter (NPUKernelBench 6b84216, cycle_calculator.cc l.69-110, 547-642: stated). The
vendor's third pattern, all of B in L1, asks a number of the call before and is never open in a first call (inferred): left out.
"""

from __future__ import annotations

from collections.abc import Callable

from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.cuts import largest_divisor
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.growth import (
    one_divides_other,
    with_k_of_a,
    with_k_of_b,
    with_more_n,
)
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.held import a1_bytes, b1_bytes, fits
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.problem.divisors import divisors, is_prime
from ascend_sim.ops.problem.sizes import ceil_div

SIDE, LONG_SIDE = 16, 32  # blocks along M or N of a tile; of the operand that stays (stated)


def a_may_stay(p: FilterProblem) -> bool:
    """Whether tiles with all of A in L1 are tried at all: M cut over the cores that images and groups leave."""
    together = p.problem.groups * p.problem.n
    if together > p.cores or p.load in (Load.SPLIT_W, Load.DMA):
        return False
    m = ceil_div(p.m, p.cores // together)
    return fits(p, Tile(m_al1=m, k_l0=p.least_k, k_al1=p.k, k_bl1=p.least_k))


def a_stays(p: FilterProblem, share: Share) -> Tile | None:
    """The tile that keeps all of A in L1 and as much of B as fits beside it; None where A does not fit."""
    smallest = Tile(m_al1=share.m, k_l0=p.least_k, k_al1=share.k, k_bl1=p.least_k)
    if not fits(p, smallest):
        return None
    m_l0 = largest_divisor(share.m, LONG_SIDE)
    tile = smallest._replace(m_l0=m_l0, m_al1=share.m // m_l0)
    k_l0 = _k_of_l0(p, share, min(share.k, p.l0_fractals // m_l0), lambda k: tile._replace(k_l0=k, k_bl1=k))
    if not k_l0:
        return None
    tile = tile._replace(k_l0=k_l0, k_bl1=k_l0)
    side = _n_that_fits(p, share, tile, min(SIDE, p.l0_fractals // k_l0, p.l0c_fractals // m_l0))
    if not side:
        return None
    return with_more_n(p, share, with_k_of_b(p, share, tile._replace(n_l0=side)))


def nothing_stays(p: FilterProblem, share: Share, found_before: bool) -> Tile | None:
    """The tile with the largest result, the longest K in L0, and K of B, then of A, as far as L1 goes.

    None where L1 has no room, or where K is a prime that L0 cannot hold and something else was `found_before`.
    """
    tile = _largest_result(p, share)
    if tile is None:
        return None
    side = max(tile.m_l0, tile.n_l0)
    if found_before and p.load is not Load.SPLIT_W and share.k * side > p.l0_fractals and is_prime(share.k):
        return None
    if p.load is Load.SPLIT_W:
        # A piece of a row need not divide it (stated).
        start = min(max(p.row_units, p.least_k), p.l0_fractals // side)
        k_l0 = next((k for k in range(start, 0, -1) if fits(p, tile.same_k(k))), 0)
    else:
        k_l0 = _k_of_l0(p, share, min(share.k, p.l0_fractals // side), tile.same_k)
    if not k_l0:
        return None
    return one_divides_other(p, share, with_k_of_a(p, share, with_k_of_b(p, share, tile.same_k(k_l0))))


def _largest_result(p: FilterProblem, share: Share) -> Tile | None:
    """M and N of the tile: N first and then M, or the other way round, whichever covers more; of equal ones the squarer."""
    start = Tile().same_k(p.least_k)
    in_l0 = p.l0_fractals // p.least_k
    n = _n_that_fits(p, share, start, SIDE)
    m = n and _m_that_fits(p, share, start._replace(n_l0=n), min(p.l0c_fractals // n, in_l0))
    other_m = _m_that_fits(p, share, start, SIDE)
    other_n = other_m and _n_that_fits(p, share, start._replace(m_l0=other_m), min(p.l0c_fractals // other_m, in_l0))
    one, other = (m, n), (other_m, other_n)
    if not (all(one) and all(other)):
        return None

    def worth(sides: tuple[int, int]) -> tuple[int, int]:
        return sides[0] * sides[1], -abs(sides[0] - sides[1])

    if worth(one) == worth(other):
        low = min(m, other_m)
        return start._replace(m_l0=low, n_l0=m * n // low)
    best = max(one, other, key=worth)
    return start._replace(m_l0=best[0], n_l0=best[1])


def _n_that_fits(p: FilterProblem, share: Share, tile: Tile, limit: int) -> int:
    """The largest divisor of N up to `limit` whose B fits beside A; 0 for none."""
    room = p.l1_bytes - a1_bytes(p, tile)
    return next((n for n in reversed(divisors(share.n_tile, limit)) if b1_bytes(p, tile._replace(n_l0=n)) <= room), 0)


def _m_that_fits(p: FilterProblem, share: Share, tile: Tile, limit: int) -> int:
    """The largest divisor of M up to `limit` whose A fits beside B; 0 for none."""
    room = p.l1_bytes - b1_bytes(p, tile)
    return next((m for m in reversed(divisors(share.m, limit)) if a1_bytes(p, tile._replace(m_l0=m)) <= room), 0)


def _k_of_l0(p: FilterProblem, share: Share, start: int, with_k: Callable[[int], Tile]) -> int:
    """The largest divisor of K (even for fp32) up to `start` with which the tile fits L1; 0 for none."""
    k = start
    while k and (share.k % k or k % p.least_k or not fits(p, with_k(k))):
        k = largest_divisor(share.k, k - 1, even=p.fp32)
    return k

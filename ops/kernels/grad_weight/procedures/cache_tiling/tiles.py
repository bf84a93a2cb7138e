"""Tiles of the cache tiling: cuts of an axis, bytes of a tile in L1, growth of a tile until L1 is full, and the tiles
tried in a cut.

The tiles keep all of A in L1, or nothing. A is gradOutput's pixels, B the input rows, columns or pixels that they read.
An axis is cut by its divisors, or those of a power of two where it has few, and by the cores' own. The vendor's third
pattern, all of B in L1, depends on a number of the call before and is never open in a first call (inferred): left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors, is_prime

POOR = 4  # an axis whose divisors have no more divisors than this is cut as a power of two
SMALL = 16  # below which no power of two is taken
LARGEST_POWER = 2048
SHARE_SMALL, SHARE_LARGE = 64, 128  # sizes within which the divisors of a share are looked at
ALWAYS_FINE = 8
SIDE, LONG_SIDE = 16, 32  # blocks along M or N of a tile; of the operand that stays (stated)


# ---- cuts over cores ------------------------------------------------------------------------------------------------


def largest_divisor(number: int, limit: int, even: bool = False) -> int:
    """Return the largest divisor of `number` up to `limit`, an even one if `even`; `number` itself, even or not, if it
    is at most `limit`; 0 for none.
    """
    if limit >= number:
        return number
    return next((d for d in reversed(divisors(number, limit)) if d % 2 == 0 or not even), 0)


@lru_cache(maxsize=4096)
def richness(number: int, low: int, high: int) -> int:
    """Return the largest number of divisors that any divisor of `number` within [low, high] has; 0 without one. Cached."""
    inside = (d for d in divisors(number, high) if d >= low)
    return max((len(divisors(d, d)) for d in inside), default=0)


@lru_cache(maxsize=4096)
def mapped(number: int, cores: int) -> int:
    """Return `number`, or the power of two at or above it, 2048 at most, if it is 16 or more and none of its divisors up to
    `cores` has more than 4 divisors; for 16 itself that is 2048. The divisors of the result are tried as cuts.
    """
    if number < SMALL or richness(number, 1, cores) > POOR:
        return number
    power = 2 * SMALL
    while power < LARGEST_POWER and not power // 2 < number <= power:  # exactly SMALL lies in no span (stated)
        power *= 2
    return power


@lru_cache(maxsize=4096)
def cut_counts(number: int, cores: int) -> tuple[int, ...]:
    """Return the numbers of parts to try for an axis of `number` units, ascending: divisors of `mapped`(number) and of `cores`,
    at most `number` and `cores`.
    """
    most = min(number, cores)
    return tuple(sorted({*divisors(mapped(number, cores), most), *divisors(cores, most)}))


@lru_cache(maxsize=4096)
def share_of(number: int, cut: int, cores: int) -> int:
    """Return the units of a core's share if `number` units are cut into `cut` parts: about `number` / `cut`, with
    enough divisors.

    It is the first such count on the way from `number` / `cut` to `mapped`(number) / `cut`, both rounded up; the latter
    if none has enough.
    """
    if cut == 1 and _tiles_well(number):
        return number
    units, end = ceil_div(number, cut), ceil_div(mapped(number, cores), cut)
    while units != end and not _tiles_well(units):
        units += 1 if units < end else -1
    return units


def _tiles_well(units: int) -> bool:
    """Return True if `units` can be cut into tiles well: it is at most 8, or a divisor up to 64 has more than 2 divisors.

    Above 128 units the richest divisor up to 64 and that of 65 to 128 must also have more than 4 together.
    """
    if units <= ALWAYS_FINE:
        return True
    small = richness(units, 1, SHARE_SMALL)
    if units <= SHARE_LARGE:
        return small > 2
    return small > 2 and small + richness(units, SHARE_SMALL + 1, SHARE_LARGE) > POOR


# ---- bytes in L1, one buffer ----------------------------------------------------------------------------------------


def rows_out(p: FilterProblem, pixels: int) -> int:
    """Return the vendor's bound on the rows of gradOutput that `pixels` pixels touch: those that they fill, rounded up, and one
    more unless `pixels` or the width divides the other.
    """
    width = p.problem.w_out
    return ceil_div(pixels, width) + (0 if pixels % width == 0 or width % pixels == 0 else 1)


def rows_in(p: FilterProblem, rows: int) -> int:
    """Return the rows of the input that `rows` rows of gradOutput read, at most the map's."""
    return min((rows - 1) * p.stride_h + p.kh_dilated, p.h_in)


def window(p: FilterProblem, k_l0: int, k_l1: int) -> tuple[int, int]:
    """Return (rows, columns) of the input that `k_l1` units of K read; with SPLIT_W pieces of a row have `k_l0` units."""
    if p.conv1d:
        return 1, p.columns(k_l1 * p.k0)
    if p.load is Load.SPLIT_W:
        return rows_in(p, k_l1 // k_l0), p.columns(k_l0 * p.k0)
    return rows_in(p, rows_out(p, k_l1 * p.k0)), p.problem.w_in


def channel_blocks(p: FilterProblem, n: int) -> int:
    """Return the vendor's bound on the blocks of input channels that `n` neighbouring blocks of N touch, if they begin at a
    multiple of `n`; it may be more than they do.
    """
    blocks = ceil_div(n, p.taps)
    if n < p.taps:
        return blocks + (1 if p.taps % n else 0)
    if n % p.taps == 0:
        return blocks
    return blocks + (1 if 2 * n % p.taps == 0 else 2)


def a1_bytes(p: FilterProblem, tile: Tile) -> int:
    """Return the bytes of one L1 buffer of A."""
    return tile.m_al1 * tile.m_l0 * FRACTAL * tile.k_al1 * p.k0 * p.itemsize


def b1_bytes(p: FilterProblem, tile: Tile) -> int:
    """Return the bytes of one L1 buffer of B: pixels that a tile gathers (DMA), else the `window` of its channel blocks."""
    n = tile.n_bl1 * tile.n_l0
    if p.load is Load.DMA:
        return tile.k_bl1 * p.k0 * n * FRACTAL * p.itemsize
    rows, columns = window(p, tile.k_l0, tile.k_bl1)
    elements = rows * columns * FRACTAL
    if p.load is Load.LOAD2D:
        elements = ceil_to(elements, FRACTAL * FRACTAL)
    return elements * channel_blocks(p, n) * p.itemsize


def fits(p: FilterProblem, tile: Tile) -> bool:
    """Return True if L1 holds all buffers of A and B."""
    return 0 < tile.db_al1 * a1_bytes(p, tile) + tile.db_bl1 * b1_bytes(p, tile) <= p.l1_bytes


# ---- L1 filled up ---------------------------------------------------------------------------------------------------


def k_steps(p: FilterProblem, share: Share, tile: Tile) -> int:
    """Return the number of steps of K in one image of a core: `k_l0` units each, or rows of gradOutput with SPLIT_W."""
    return share.k if p.load is Load.SPLIT_W else share.k // tile.k_l0


def with_k_of_b(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with as much K of B (`k_bl1`; its steps divide all) as L1 has room for beside A, in one buffer each."""
    room = p.l1_bytes - a1_bytes(p, tile)
    most = k_steps(p, share, tile)
    times = largest_divisor(most, _steps_in(p, share, tile, room, most))
    while b1_bytes(p, tile._replace(k_bl1=times * tile.k_l0)) > room:
        times = largest_divisor(most, times - 1)
    return tile._replace(k_bl1=times * tile.k_l0)


def _steps_in(p: FilterProblem, share: Share, tile: Tile, room: int, most: int) -> int:
    """Return an estimate of the steps of K, 1 to `most`, whose input fits `room` bytes of L1; `most` where not one row fits."""
    problem = p.problem
    if p.load is Load.DMA:
        return max(min(room // b1_bytes(p, tile._replace(k_bl1=tile.k_l0)), most), 1)
    line = channel_blocks(p, tile.n_bl1 * tile.n_l0) * FRACTAL * p.itemsize  # one column of a row
    if p.conv1d:
        columns = room // line
        units = share.k
        if columns <= problem.w_in:
            units = _quotient(_quotient(columns - p.kw_dilated, problem.stride_w) + 1, p.k0)
        return max(min(_quotient(units, tile.k_l0), most), 1)
    width = p.columns(tile.k_l0 * p.k0) if p.load is Load.SPLIT_W else problem.w_in
    rows = _quotient(room // (width * line) - p.kh_dilated, p.stride_h) + 1
    if rows <= 0:
        return most
    if p.load is Load.SPLIT_W:
        return min(rows, most)
    return max(min(ceil_div(rows * problem.w_out, p.k0) // tile.k_l0, most), 1)


def _quotient(number: int, divisor: int) -> int:
    """Return the quotient rounded towards zero, as the library's host code divides."""
    return number // divisor if number >= 0 else -(-number // divisor)


def with_k_of_a(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with as much K of A (`k_al1`; its steps divide all) as L1 has room for beside B, in one buffer each."""
    room = p.l1_bytes - b1_bytes(p, tile)
    step = a1_bytes(p, tile._replace(k_al1=tile.k_l0))
    return tile._replace(k_al1=largest_divisor(k_steps(p, share, tile), room // step) * tile.k_l0)


def with_more_n(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with the most tiles along N for L1 and load3d; unchanged unless L1 holds all K of B of one image."""
    if share.batch != 1 or tile.k_bl1 != share.k:
        return tile
    tile = tile._replace(n_bl1=1)
    most = ceil_div(share.n_held, tile.n_l0)
    room = p.l1_bytes - tile.db_al1 * a1_bytes(p, tile)
    fitting = min(room // (tile.db_bl1 * b1_bytes(p, tile)), most)
    if p.load is Load.LOAD3D:
        fitting = min(fitting, p.load3d.k_extent // (tile.n_l0 * FRACTAL))
    return tile._replace(n_bl1=largest_divisor(most, fitting))


def with_more_m(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with as many tiles along M as L1 holds; unchanged unless L1 holds all K of A of a core with one image."""
    if share.batch != 1 or tile.k_al1 != share.k:
        return tile
    tile = tile._replace(m_al1=1)
    most = ceil_div(share.m, tile.m_l0)
    room = p.l1_bytes - tile.db_bl1 * b1_bytes(p, tile)
    return tile._replace(m_al1=largest_divisor(most, min(room // (tile.db_al1 * a1_bytes(p, tile)), most)))


def one_divides_other(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with the larger of its two K in L1 lowered until one of the two divides the other, it divides all
    of K, and L1 holds both; unchanged where no K does.

    A smaller run of pixels may touch one row more, so the fit in L1 is checked again.
    """
    steps, small, large = k_steps(p, share, tile), *sorted((tile.k_al1, tile.k_bl1))
    if large % small == 0:
        return tile
    name = "k_al1" if tile.k_al1 > tile.k_bl1 else "k_bl1"
    for count in reversed(divisors(steps, large // tile.k_l0)):
        k = count * tile.k_l0
        lowered = tile._replace(**{name: k})
        if not (k % small and small % k) and fits(p, lowered):
            return lowered
    return tile


# ---- tiles inside a cut ---------------------------------------------------------------------------------------------


def a_may_stay(p: FilterProblem) -> bool:
    """Return True if tiles with all K of A in L1 are tried: `load` is neither SPLIT_W nor DMA, groups times images are no
    more than cores, and M, cut over the cores that they leave, fits L1.
    """
    together = p.problem.groups * p.problem.n
    if together > p.cores or p.load in (Load.SPLIT_W, Load.DMA):
        return False
    m = ceil_div(p.m, p.cores // together)
    return fits(p, Tile(m_al1=m, k_l0=p.least_k, k_al1=p.k, k_bl1=p.least_k))


def a_stays(p: FilterProblem, share: Share) -> Tile | None:
    """Return the tile that keeps all of A in L1 and as much of B as fits beside it; None where that does not fit."""
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
    """Return the tile that keeps no operand whole in L1: the largest result, then the longest K in L0, then K of B and
    of A in L1.

    None where L1 has no room, or (not with SPLIT_W) where K is a prime that L0 cannot hold and another tile was
    `found_before`.
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
    """Return the tile with the largest M x N at the least K, N or M chosen first; of equal ones the squarer; None where one of
    the two has no room.
    """
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
    """Return the largest divisor of the share's N up to `limit` whose B fits L1 beside A; 0 for none."""
    room = p.l1_bytes - a1_bytes(p, tile)
    return next((n for n in reversed(divisors(share.n_tile, limit)) if b1_bytes(p, tile._replace(n_l0=n)) <= room), 0)


def _m_that_fits(p: FilterProblem, share: Share, tile: Tile, limit: int) -> int:
    """Return the largest divisor of the share's M up to `limit` whose A fits L1 beside B; 0 for none."""
    room = p.l1_bytes - b1_bytes(p, tile)
    return next((m for m in reversed(divisors(share.m, limit)) if a1_bytes(p, tile._replace(m_l0=m)) <= room), 0)


def _k_of_l0(p: FilterProblem, share: Share, start: int, with_k: Callable[[int], Tile]) -> int:
    """Return the largest divisor of K (even for fp32) up to `start` with which the tile `with_k` fits L1; 0 for none."""
    k = start
    while k and (share.k % k or k % p.least_k or not fits(p, with_k(k))):
        k = largest_divisor(share.k, k - 1, even=p.fp32)
    return k

"""Choice of a cache tiling by the fewest loads, without an estimate of cycles.

It decides signals (one row of input), and everything on chips whose results leave L0C through UB (dav-1001, dav-2002).
Three choices, each by the fewest loads: the cut over cores (from GM), the tile of L0 (from L1), the contents of L1.
Loads are counted in units of a tile, so figures of one choice compare with each other only.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Cuts, Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import (
    cut_counts,
    fits,
    largest_divisor,
    nothing_stays,
    one_divides_other,
    rows_in,
    rows_out,
    share_of,
    window,
    with_k_of_a,
    with_k_of_b,
    with_more_m,
    with_more_n,
)
from ascend_sim.ops.problem.sizes import ceil_div, divisors, is_prime

MANY_LOOPS = 70  # tiles of L0C in a core from which on fewer of them are worth ...
MORE_LOADS = 1.03  # ... this much more to load
LEAST_UNITS = 4  # of K for a core


def fewest_loads(p: FilterProblem) -> tuple[Cuts, Share, Tile]:
    """Return (cut over cores, a core's share, its tile) with the fewest loads. TilingError where no cut or no tile fits L1."""
    found = _cut(p, 1 if p.load is Load.SPLIT_W else LEAST_UNITS) or _cut(p, 1)  # the second: ours, for what has few units
    if found is None:
        raise TilingError(f"cache tiling: no cut over {p.cores} cores leaves L1 of {p.l1_bytes} bytes room for a line")
    cuts, batch, k = found
    n = share_of(p.cin1, cuts.n, p.cores) * p.taps
    share = Share(batch, share_of(p.m, cuts.m, p.cores), n, k, p.groups // cuts.group, n, n)
    tile = _tile_of_pieces(p, share) if _in_pieces(p) else _tile_of_l1(p, share, _tile_of_l0(p, share))
    return cuts, share, tile


def _in_pieces(p: FilterProblem) -> bool:
    """Return True if B comes in pieces of rows (SPLIT_W) or pixel by pixel (DMA), so that nothing stays in L1 (stated)."""
    return p.load in (Load.SPLIT_W, Load.DMA)


def _tile_of_pieces(p: FilterProblem, share: Share) -> Tile:
    """Return the tile that keeps no operand whole in L1, with second buffers where they fit; TilingError if there is none.

    It is chosen as on the 910B (inferred: every other tile needs whole rows).
    """
    tile = nothing_stays(p, share, found_before=False)
    if tile is None:
        raise TilingError(f"cache tiling: L1 of {p.l1_bytes} bytes holds no piece of a row and no pixels of this problem")
    double = 2 * tile.m_l0 * tile.n_l0 <= p.l0c_fractals
    return _double_a(p, _double_b(p, tile._replace(db_l0c=1 + double)))


# ---- what a part of the problem needs of L1, in elements ------------------------------------------------------------


@frozen
class _Parts:
    """Sizes of one core's part of the problem: blocks of M and N, units of K; in elements: the `room` of L1, a line
    (one block with all K) of A and of B, and the least that L1 must hold of either.

    `held`: lines may stay in L1.
    """

    m: int
    n: int
    k: int
    line_a: int
    line_b: int
    least_a: int
    least_b: int
    room: int
    held: bool

    def whole(self, lines_b: int) -> bool:
        """Return True if all of A, or `lines_b` lines of B, fit L1 beside the least of the other; False unless `held`."""
        a, b = self.m * self.line_a + self.least_b, lines_b * self.line_b + self.least_a
        return self.held and min(a, b) <= self.room

    def sides(self) -> Iterator[tuple[bool, int, int, int]]:
        """Yield (True for A, its blocks, the other's, its lines that L1 holds beside the least of the other) for each operand
        of which L1 holds a line; none unless `held`.
        """
        a = (True, self.m, self.n, self.line_a, self.least_b)
        b = (False, self.n, self.m, self.line_b, self.least_a)
        for of_a, axis, other, line, least in (a, b) if self.held else ():
            if line + least <= self.room:
                yield of_a, axis, other, min((self.room - least) // line, axis)


def _parts(p: FilterProblem, m: int, n: int, k: int, least_a: int, least_b: int) -> _Parts:
    """Return the _Parts of a core with `m` x `n` blocks and `k` units of K; `least_a` and `least_b` as in `_Parts`."""
    line_b = rows_in(p, rows_out(p, k * p.k0)) * p.problem.w_in * FRACTAL
    room = p.l1_bytes // p.itemsize
    return _Parts(m, n, k, k * p.k0 * FRACTAL, line_b, least_a, least_b, room, held=not _in_pieces(p))


# ---- the cut over cores ---------------------------------------------------------------------------------------------


def _cut(p: FilterProblem, shortest: int) -> tuple[Cuts, int, int] | None:
    """Return (cut over cores, images of a core, its units of K) with the fewest loads from GM; None where none fits.

    A core gets at least `shortest` units of K, or all. Of equal ones it is the cut of images into more parts, then the one with
    more blocks. For a core of many L0C tiles a cut with fewer tiles may load 3 % more. A cut with a prime K
    that L0 cannot hold counts only while no other was found.
    """
    rows, columns = window(p, p.least_k, p.least_k)
    least_a = p.least_k * p.k0 * FRACTAL
    least_b = p.k0 * FRACTAL if p.load is Load.DMA else rows * columns * FRACTAL
    best: tuple[Cuts, int, int] | None = None
    best_load = best_loops = 0
    axes = (divisors(p.groups, p.cores), *(cut_counts(size, p.cores) for size in (p.problem.n, p.cin1, p.m)))
    for group, batch, n, m in product(*axes):
        cuts = Cuts(batch, m, 1, n, group)
        parts_k = p.cores // cuts.blocks and p.k_cut(p.cores // cuts.blocks)
        columns_n = p.cin1 * p.taps // n
        if not parts_k:
            continue
        cuts = cuts._replace(k=parts_k)
        k, images, groups = ceil_div(p.k, parts_k), ceil_div(p.problem.n, batch), p.groups // group
        parts = _parts(p, p.m // m, columns_n, k, least_a, least_b)
        too_long = k * min(parts.m, parts.n) > p.l0_fractals
        if k < min(shortest, p.k) or (best and too_long and is_prime(k)):
            continue
        load = _load_from_gm(p, parts, images, groups)
        loops = _loops(groups * images, ceil_div(p.m, m), columns_n, p.l0c_fractals // 2)
        if load is None:
            continue
        if best is not None:
            most = int(MORE_LOADS * best_load)
            shorter = loops > MANY_LOOPS and loops <= best_loops and cuts.blocks >= best[0].blocks and load <= most
            now, before = (-load, batch, cuts.blocks), (-best_load, best[0].batch, best[0].blocks)
            if not shorter and now <= before:
                continue
        best, best_load, best_loops = (cuts, images, k), load, loops
    return best


def _loops(repeats: int, m: int, n: int, tile: int) -> int:
    """Return about how many L0C tiles a core has: `repeats` times m x n blocks in tiles of `tile`; rounded up if n is 1."""
    if n == 1:
        return repeats * ceil_div(m, min(m, tile))
    return repeats * m * n // min(m * n, tile)


def _load_from_gm(p: FilterProblem, part: _Parts, images: int, groups: int) -> int | None:
    """Return how much of A and B one core loads from GM to L1, in blocks of 16 times units of K; None if L1 holds no tile."""
    m, n, k = part.m, part.n, part.k
    if images == groups == 1 and part.whole(p.cin1):
        return (m + n) * k
    if images == 1 and (sides := list(part.sides())):
        found = []
        for _, axis, other, most in sides:
            lines = largest_divisor(axis, most)
            found.append((axis // lines * other * k + axis * k) * groups)
        return min(found)
    pairs = list(_shares_of_l1(part))
    loads = (m * n // held_m * k + m * n // held_n * k for held_m, held_n in pairs)
    return min(loads) * images * groups if pairs else None


def _shares_of_l1(part: _Parts) -> Iterator[tuple[int, int]]:
    """Yield (blocks of M, blocks of N) that L1 could hold at once with the least K: divisors near an even division of L1."""
    even = part.room // (part.least_a + part.least_b)
    for swapped in (False, True):
        axis, other, least, least_other = (
            (part.n, part.m, part.least_b, part.least_a) if swapped else (part.m, part.n, part.least_a, part.least_b)
        )
        limit = min((part.room - least_other) // least, axis)
        above = [held for held in divisors(axis, limit) if held > even][:1]
        below = list(reversed(divisors(axis, even)))[: 2 - len(above)]
        for held in above + below:
            room = min((part.room - least * held) // least_other, (part.room - least) // least_other, other)
            if room > 0:
                held_other = largest_divisor(other, room)
                yield (held_other, held) if swapped else (held, held_other)


# ---- the tile of L0 -------------------------------------------------------------------------------------------------


def _tile_of_l0(p: FilterProblem, share: Share) -> Tile:
    """Return the tile that is left of one pass over all m x n, each with the longest k that fits; those with two L0C buffers
    come first.

    A tile takes the place of the best before it if it has fewer loads to L0, as many loads and larger products (with products x
    L0C filled no smaller), or fills L0C at least 1.5 times as much for under 1.5 times as many loads.

    Raises TilingError if none fits L1.
    """
    best, best_load, best_products, best_filled = Tile(), 0, 0, 0
    for buffers, m, n in product((2, 1), divisors(share.m, p.l0_fractals), divisors(share.n, p.l0_fractals)):
        if m * n * buffers > p.l0c_fractals:
            continue
        tile = Tile(m_l0=m, n_l0=n, db_l0c=buffers)
        k = largest_divisor(share.k, min(p.l0_fractals // m, p.l0_fractals // n), p.fp32)
        while k and not fits(p, tile.same_k(k)):
            k = largest_divisor(share.k, k - 1, p.fp32)
        if not k:
            continue
        load, products, filled = _load_from_l1(p, share, tile.same_k(k)), m * k * n, m * n * buffers
        if best_load:
            fuller = load < best_load * 3 // 2 and 2 * filled >= 3 * best_filled
            larger = products > best_products and products * filled >= best_products * best_filled
            if not fuller and (load > best_load or (load == best_load and not larger)):
                continue
        best, best_load, best_products, best_filled = tile.same_k(k), load, products, filled
    if not best_load:
        raise TilingError(f"cache tiling: L1 of {p.l1_bytes} bytes holds no tile of this signal")
    return best


def _load_from_l1(p: FilterProblem, share: Share, tile: Tile) -> int:
    """Return how many blocks of A and B, each with all of K, a core loads from L1 to L0 for all its tiles of one image."""
    m, n = share.m, share.n
    rows, columns = window(p, tile.k_l0, tile.k_l0)
    least_b = rows * columns * ceil_div(tile.n_l0, p.taps) * FRACTAL
    part = _parts(p, m, n, share.k, tile.m_l0 * tile.k_l0 * p.k0 * FRACTAL, least_b)
    if share.batch != 1 or not (sides := list(part.sides())):
        return m * n // tile.m_l0 + m * n // tile.n_l0
    if share.group == 1 and part.whole(p.cin1):
        return m + n
    found = []
    for of_a, axis, other, lines in sides:
        of_tile = tile.m_l0 if of_a else tile.n_l0
        if lines >= of_tile:
            lines = next(held for held in reversed(divisors(axis, lines)) if held % of_tile == 0)
        found.append(axis // lines * other + axis)
    return min(found)


# ---- what L1 holds --------------------------------------------------------------------------------------------------


def _tile_of_l1(p: FilterProblem, share: Share, tile: Tile) -> Tile:
    """Return the tile with the fewest loads from GM among those that keep in L1 neither operand whole, all of A, all of
    B, or both.

    Of equal ones it is the one with the most tiles in L1.
    """
    m_tiles, n_tiles = ceil_div(share.m, tile.m_l0), ceil_div(share.n, tile.n_l0)
    found = [_neither_whole(p, share, tile)]
    if share.batch == share.group == 1:
        a = tile._replace(m_al1=m_tiles, k_al1=share.k)
        b = tile._replace(n_bl1=n_tiles, k_bl1=share.k)
        if fits(p, a):
            held = with_more_n(p, share, _lowered(p, share, with_k_of_b(p, share, _double_b(p, a)), "k_bl1"))
            found.append((share.m + share.n, held))
        if n_tiles * tile.n_l0 * FRACTAL <= p.load3d.k_extent:
            if fits(p, b):
                held = with_more_m(p, share, _lowered(p, share, with_k_of_a(p, share, _double_a(p, b)), "k_al1"))
                found.append((share.m + share.n, held))
            both = b._replace(m_al1=m_tiles, k_al1=share.k)
            if fits(p, both):
                found.append((share.m + share.n, both))
    return min(found, key=lambda option: (option[0], -option[1].m_al1 - option[1].n_bl1))[1]


def _double_a(p: FilterProblem, tile: Tile) -> Tile:
    """Return the tile with two L1 buffers of A, if they fit, else unchanged."""
    double = tile._replace(db_al1=2)
    return double if fits(p, double) else tile


def _double_b(p: FilterProblem, tile: Tile) -> Tile:
    """Return the tile with two L1 buffers of B, if they fit, else unchanged."""
    double = tile._replace(db_bl1=2)
    return double if fits(p, double) else tile


def _lowered(p: FilterProblem, share: Share, tile: Tile, name: str) -> Tile:
    """Return the tile with field `name` ("k_al1" or "k_bl1") lowered, by divisors of the share's K, until L1 holds A and B."""
    steps = share.k // tile.k_l0
    while not fits(p, tile):
        times = largest_divisor(steps, getattr(tile, name) // tile.k_l0 - 1)
        tile = tile._replace(**{name: times * tile.k_l0})
    return tile


def _neither_whole(p: FilterProblem, share: Share, tile: Tile) -> tuple[int, Tile]:
    """Return (loads from GM, tile) for a tile with as much K of B, then of A, as fits; the rest of L1 goes to second
    buffers, then to more tiles along N and M.
    """
    tile = one_divides_other(p, share, with_k_of_a(p, share, with_k_of_b(p, share, tile)))
    tile = _double_a(p, _double_b(p, tile))
    tile = with_more_m(p, share, with_more_n(p, share, tile))
    m_tiles, n_tiles = ceil_div(share.m, tile.m_l0), ceil_div(share.n, tile.n_l0)
    again_a, again_b = n_tiles // tile.n_bl1, m_tiles // tile.m_al1
    all_a, all_b = (share.batch == 1 and k == share.k for k in (tile.k_al1, tile.k_bl1))
    if (all_a and tile.m_al1 == m_tiles) or (all_b and tile.n_bl1 == n_tiles):
        again_a = again_b = 1
    elif all_a and all_b:  # the cheaper of the two is loaded once
        return min(share.m + again_b * share.n, again_a * share.m + share.n), tile
    elif all_a:
        again_a = 1
    elif all_b:
        again_b = 1
    return again_a * share.m + again_b * share.n, tile

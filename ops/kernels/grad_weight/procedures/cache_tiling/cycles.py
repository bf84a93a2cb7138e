"""Cycle estimate of the vendor's cache tiling: the cycles of one core for a tile, by which the procedure chooses.

A step is one tile of L0: its product, or its two loads if these take longer. Around it stand the loads to L1, as far
out as the operand is held, and the store of L0C once a tile. Source: NPUKernelBench 6b84216, cycle_calculator.cc
l.137-419: stated; for pieces of a row: derived. The numbers are in configs/cache_tiling.yaml.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field
from functools import cache

from ascend_sim.chip.fractal import ACCUMULATOR_FRACTAL_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Attach, Cuts, Share, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.tiles import a1_bytes, b1_bytes, rows_in, rows_out
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.shipped import read_config

LONGEST_PACKET = 16  # blocks of 32 bytes; what is left of a line goes in packets of 8, of 4, and one for the rest (stated)


@frozen
class CycleCosts:
    """Heads (cycles) and rates (bytes per cycle) of an architecture's cycle estimate; sources in configs/cache_tiling.yaml."""

    source: str
    mmad_head: int
    load2d_head: int
    load3d_head: int
    gm_head: int
    l0a_rate: int
    l0b_rate: int
    load2d_line_rate: int
    gm_rate: int
    fixpipe_read_rate: int
    fixpipe_write_rate: int
    load3d_cycles: Mapping[int, int] = field(hash=False)
    load3d_slow_rate: int
    most_loads_ahead: int


@cache
def cycle_costs(arch: str) -> CycleCosts:
    """Return the costs of an architecture, read once; KeyError for one that has none."""
    return CycleCosts(**read_config("cache_tiling.yaml")[arch])


class CycleModel:
    """Estimator of the cycles that a core needs for tiles of one problem. `mmad`, `to_l0a`, `to_l0b`, `to_l1_a`,
    `to_l1_b` and `way_out` are the cycles of one instruction each.
    """

    def __init__(self, p: FilterProblem, costs: CycleCosts) -> None:
        self.p, self.costs = p, costs

    # ---- one instruction each

    def mmad(self, t: Tile) -> int:
        """Return the cycles of one Mmad of the L0 tile."""
        passes = 2 if self.p.fp32 and not self.p.hf32 else 1
        return t.m_l0 * t.k_l0 * t.n_l0 * passes + self.costs.mmad_head

    def to_l0a(self, t: Tile) -> int:
        """Return the cycles of one load of A from L1 to L0A."""
        c, moved = self.costs, FRACTAL_BYTES * t.m_l0 * t.k_l0 // self.costs.l0a_rate
        if self.p.fp32:
            return c.load3d_head + moved
        return c.load2d_head + FRACTAL_BYTES * t.k_l0 // c.load2d_line_rate + moved

    def to_l0b(self, t: Tile) -> int:
        """Return the cycles of one load of B from L1 to L0B, by the problem's path."""
        c, size = self.costs, FRACTAL_BYTES * t.k_l0 * t.n_l0
        if self.p.load is Load.LOAD2D:
            return c.load2d_head + FRACTAL_BYTES * t.n_l0 // c.load2d_line_rate + size // c.l0b_rate
        return c.load3d_head + size // (c.l0b_rate if self.p.load is Load.DMA else self._load3d_rate)

    @property
    def _load3d_rate(self) -> int:
        """Return the bytes per cycle of load3d, by the stride along W and the row lengths."""
        problem = self.p.problem
        pixels = FRACTAL - 1 if FRACTAL % problem.w_out == 0 else FRACTAL
        cycles = self.costs.load3d_cycles.get(problem.stride_w)
        return FRACTAL_BYTES // (pixels // problem.w_in + cycles) if cycles else self.costs.load3d_slow_rate

    def to_l1_a(self, t: Tile) -> int:
        """Return the cycles of one load of A from GM to L1."""
        return self.costs.gm_head + t.m_al1 * t.m_l0 * t.k_al1 * FRACTAL_BYTES // self.costs.gm_rate

    def to_l1_b(self, t: Tile) -> int:
        """Return the cycles of one load of B from GM to L1, by the problem's path."""
        p, n = self.p, t.n_bl1 * t.n_l0
        if p.load is Load.LOAD2D:
            packets = n * t.k_bl1
        elif p.load is Load.DMA:
            packets = n * t.k_bl1 * FRACTAL
        else:
            cut = p.load is Load.SPLIT_W
            rows = rows_in(p, t.k_bl1 // t.k_l0 if cut else rows_out(p, t.k_bl1 * p.k0))
            line = p.columns(min(t.k_l0 * p.k0, p.problem.w_out) if cut else p.problem.w_out)
            rest = line % LONGEST_PACKET
            packets = line // LONGEST_PACKET + rest // 8 + rest % 8 // 4 + (1 if rest % 4 else 0)
            packets *= rows * ceil_div(n, p.taps)
        return self.costs.gm_head + packets * FRACTAL_BYTES // self.costs.gm_rate

    def way_out(self, t: Tile) -> int:
        """Return the cycles that the Fixpipe takes for one tile of results: to read L0C and to write GM."""
        size = t.m_l0 * t.n_l0 * ACCUMULATOR_FRACTAL_BYTES
        return size // self.costs.fixpipe_read_rate + size // self.costs.fixpipe_write_rate

    # ---- a core

    def attach(self, share: Share, tile: Tile) -> tuple[Attach, Attach]:
        """Return (loop level of the load of A, that of B): FULL once for all tiles, of one group; WHOLE_K once for a tile, if
        L1 has all of its K; else PART, with each step.

        Pieces of rows, gathered taps, and several images are always loaded with each step.
        """
        if self.p.load in (Load.SPLIT_W, Load.DMA) or share.batch != 1:
            return Attach.PART, Attach.PART

        def held(k: int, covers: bool) -> Attach:
            if k != share.k:
                return Attach.PART
            return Attach.FULL if share.group == 1 and covers else Attach.WHOLE_K

        a = held(tile.k_al1, tile.m_al1 * tile.m_l0 == share.m)
        return a, held(tile.k_bl1, tile.n_bl1 * tile.n_l0 == share.n)

    def buffered(self, share: Share, tile: Tile) -> Tile:
        """Return the tile with two buffers of L0C if they fit, then of A, then of B, each if they fit and it is loaded
        repeatedly.
        """
        a, b = self.attach(share, tile)
        size_a, size_b = a1_bytes(self.p, tile), b1_bytes(self.p, tile)
        double_c = 2 * tile.m_l0 * tile.n_l0 <= self.p.l0c_fractals
        double_a = a is not Attach.FULL and 2 * size_a + size_b <= self.p.l1_bytes
        size_a *= 1 + double_a
        double_b = b is not Attach.FULL and size_a + 2 * size_b <= self.p.l1_bytes
        return tile._replace(db_l0c=1 + double_c, db_al1=1 + double_a, db_bl1=1 + double_b)

    def tiles(self, cuts: Cuts, tile: Tile) -> tuple[int, int]:
        """Return (number of a core's L1 tiles along M, along N); N in blocks of C0 as stored, for fp32 twice as many."""
        p = self.p
        planes = math.gcd(p.problem.k_d, cuts.n * cuts.planes)
        channels = ceil_div(p.cin_c0, cuts.n * cuts.planes // planes)
        n = channels * (p.problem.k_d // planes) * p.taps
        return ceil_div(ceil_div(p.m, cuts.m), tile.m_al1 * tile.m_l0), ceil_div(n, tile.n_bl1 * tile.n_l0)

    def core(self, cuts: Cuts, share: Share, tile: Tile) -> int:
        """Return the estimated cycles of a core with a `share` under `cuts`; `tile` has its numbers of buffers already."""
        a, b = self.attach(share, tile)
        m_tiles, n_tiles = self.tiles(cuts, tile)
        if Attach.PART not in (a, b):
            return self._both_held(a, b, (m_tiles, n_tiles), share, tile)
        one, other = self.to_l1_a(tile), self.to_l1_b(tile)
        double_a, double_b = tile.db_al1 == 2, tile.db_bl1 == 2
        ratio = max(tile.k_al1, tile.k_bl1) // min(tile.k_al1, tile.k_bl1)
        step = max(self.mmad(tile), self.to_l0a(tile) + self.to_l0b(tile))
        steps_a, steps_b = tile.k_al1 // tile.k_l0 * step, tile.k_bl1 // tile.k_l0 * step
        out, images = self.way_out(tile), share.batch
        if b is not Attach.PART:
            inner = tile.n_bl1 * (images * ratio * _together(double_a, one, steps_a) + out)
            if b is Attach.FULL:
                return other + share.group * m_tiles * inner
            return share.group * n_tiles * (other + m_tiles * inner)
        if a is not Attach.PART:
            inner = tile.m_al1 * (images * ratio * _together(double_b, other, steps_b) + out)
            if a is Attach.FULL:
                return one + share.group * n_tiles * inner
            return share.group * n_tiles * m_tiles * (one + inner)
        loads = ceil_div(min(tile.k_al1, tile.k_bl1), tile.k_l0) * tile.m_l0
        ahead = loads < self.costs.most_loads_ahead
        far_ahead = loads * ratio < self.costs.most_loads_ahead
        if tile.k_al1 == tile.k_bl1:
            loop = _together(double_a and double_b and ahead, one + other, steps_a)
        elif tile.k_al1 > tile.k_bl1:
            loop = _together(double_a and far_ahead, one, ratio * _together(double_b and ahead, other, steps_b))
        else:
            loop = _together(double_b and far_ahead, other, ratio * _together(double_a and ahead, one, steps_a))
        outer, pieces = max(tile.k_al1, tile.k_bl1), 1
        if self.p.load is Load.SPLIT_W:
            outer, pieces = outer // tile.k_l0, ceil_div(self.p.row_units, tile.k_l0)
        return share.group * n_tiles * m_tiles * (images * pieces * (share.k // outer) * loop + out)

    def _both_held(self, a: Attach, b: Attach, tiles: tuple[int, int], share: Share, tile: Tile) -> int:
        """Return the cycles of a core if L1 holds all K of a tile for both operands; `a` and `b` are the loop levels of
        their loads, `tiles` the numbers of tiles of a core along M and N.
        """
        m_tiles, n_tiles = tiles
        one, other, out = self.to_l1_a(tile), self.to_l1_b(tile), self.way_out(tile)
        mmad, left, right = self.mmad(tile), self.to_l0a(tile), self.to_l0b(tile)
        if min(tile.k_al1, tile.k_bl1) == tile.k_l0:  # what is in L0B serves all tiles along M
            work = tile.n_bl1 * (right + tile.m_al1 * (max(left, share.batch * mmad) + out))
        else:
            steps = share.batch * (tile.k_al1 // tile.k_l0) * max(mmad, left + right)
            work = tile.n_bl1 * tile.m_al1 * (steps + out)
        if a is b is Attach.FULL:
            return one + other + share.group * work
        if a is Attach.FULL:
            return one + share.group * n_tiles * _together(tile.db_bl1 == 2, other, work)
        columns = m_tiles * _together(tile.db_al1 == 2, one, work)
        if b is Attach.FULL:
            return other + share.group * columns
        return share.group * n_tiles * (other + columns)


def _together(overlap: bool, load: int, work: int) -> int:
    """Return the cycles of a `load` and of `work`: the longer of the two if they `overlap`, else their sum."""
    return max(load, work) if overlap else load + work

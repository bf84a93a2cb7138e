"""The vendor's tiling of grad_input on coupled cores: the cache tiling of canndev Conv2DBackpropInput, 2022 (stated).

Derived from its host procedure and checked against its unit-test table. Lengths are in fractals of 16 pixels or channels; K
is (C_out blocks, k_h, k_w). Three choices follow each other: the share of a core, the block in L0, what L1 holds. Buffers of
the chip stand in for the constants of the procedure, which are those of the 910A.

How the procedure cuts UB is not followed, but for the room that it must leave: the kernels here give UB's quarters away.
"""

from __future__ import annotations

import math
from itertools import product

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.kernels.cube.vendor import Procedure
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import finish
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, divisors_down
from ascend_sim.ops.problem.tiling_input import TilingInput

# Numbers of the vendor's procedure (canndev conv2d_bp_input_cache_tiling, conv2d_backprop_input: stated)
UB_BYTES = 262000  # of UB, which has 262144
SMALLEST_SIDE, LARGEST_SIDE = 2, 4096  # of dx, and of gradOutput with its zeros
LONG_ROW = 4065  # longer rows of gradOutput are cut on their way through UB
ITEMSIZE = 2


@frozen
class DataCacheTiling:
    """Result of the procedure under the vendor's names: numbers of parts (`*_dim`), fractals of an L0 block (`*_l0`)
    and of L1 loads.

    `m_al1` and `n_bl1` count L0 blocks, 0 for all of a core's M (of an uncut map) or N with all K. `k_al1`, `k_bl1` count
    C_out blocks, `db_*` buffers, the bounds elements of one buffer.
    """

    batch_dim: int
    n_dim: int
    m_dim: int
    m_l0: int
    n_l0: int
    k_l0: int
    m_al1: int
    n_bl1: int
    k_al1: int
    k_bl1: int
    db_al1: int
    db_bl1: int
    al1_bound: int
    bl1_bound: int

    @property
    def block_dim(self) -> int:
        """Return the number of cores that get a share."""
        return self.batch_dim * self.n_dim * self.m_dim


def covers_grad_input_1001(inp: TilingInput) -> bool:
    """Return True if the procedure takes the problem: 2-D, 16-bit, one group, undilated; dx, and gradOutput with its zeros,
    have 2 to 4096 pixels a side.
    """
    p = inp.problem
    sides = (p.h_in, p.w_in, p.h_out * p.stride_h, p.w_out * p.stride_w)
    return (
        inp.itemsize == ITEMSIZE
        and p.groups == 1
        and p.k_d == p.d_in == p.d_out == 1
        and max(p.dilation_h, p.dilation_w) == 1
        and min(sides) >= SMALLEST_SIDE
        and max(sides) <= LARGEST_SIDE
    )


def vendor_grad_input_1001(inp: TilingInput) -> GradInputTiling:
    """Return the vendor's tiling for our kernel. TilingError where it does not apply or finds nothing that fits."""
    if not covers_grad_input_1001(inp):
        raise TilingError(
            "grad_input: the vendor's open procedure for dav-1001 needs a 2-D fp16 problem with one group, dilation 1 and "
            f"maps of {SMALLEST_SIDE} to {LARGEST_SIDE} pixels a side"
        )
    cache, p = cache_tiling(inp), inp.problem
    pixels = min(ceil_div(_pixels(inp), cache.m_dim) * FRACTAL, p.h_in * p.w_in)
    single_n = inp.cin1 // cache.n_dim
    step_m = cache.m_al1 or ceil_div(ceil_div(pixels, FRACTAL), cache.m_l0)
    shape = {
        "single_core_m": pixels,
        "single_core_cin": single_n * FRACTAL,
        "single_core_batch": p.n // cache.batch_dim,
        "block_dim": cache.block_dim,
    }
    tiling = GradInputTiling(
        cache.m_l0 * FRACTAL,
        cache.k_l0 * FRACTAL,
        cache.n_l0 * FRACTAL,
        step_m=step_m,
        step_n=cache.n_bl1 or single_n // cache.n_l0,
        step_ka=cache.k_al1 * inp.taps // cache.k_l0,
        step_kb=cache.k_bl1 * inp.taps // cache.k_l0,
        cl0_buffers=2,
        al1_buffers=cache.db_al1,
        bl1_buffers=cache.db_bl1,
    )
    tiling = finish(tiling.but(**shape), inp, keep=frozenset(shape))
    check_grad_input(tiling, inp)
    return tiling


def cache_tiling(inp: TilingInput, *, ragged: bool = False) -> DataCacheTiling:
    """Return the procedure's result under the vendor's names. Raises TilingError where nothing fits.

    `ragged` is for a kernel that writes dx as NCHW, in rows of pixels that do not fill 32-byte blocks: the end of a core's or
    tile's share then needs a whole block of its own, lest two cores write the same one. Our kernels write NC1HWC0.
    """
    grid = _core_grid(inp, ragged)
    single = _CoreShare(inp, ceil_div(_pixels(inp), grid.m), inp.cin1 // grid.n, grid.m, ragged)
    m0, n0, k0 = single.l0_block()
    found = single.l1_loads(m0, n0, k0) or single.l1_loads(m0, n0, 1)
    if found is None:
        raise TilingError(
            f"grad_input: no L1 load of the vendor's procedure fits {inp.buffers['L1']} bytes of L1 with base blocks of "
            f"{m0} x {n0} fractals"
        )
    load, k0 = found
    all_m = load.m * m0 == single.m and load.k_a == single.k_blocks and grid.m == 1
    all_n = load.n * n0 == single.n and load.k_b == single.k_blocks
    return DataCacheTiling(
        grid.batch,
        grid.n,
        grid.m,
        m0,
        n0,
        k0,
        m_al1=0 if all_m else load.m,
        n_bl1=0 if all_n else load.n,
        k_al1=load.k_a,
        k_bl1=load.k_b,
        db_al1=1 if all_m else load.a_buffers,
        db_bl1=1 if all_n else load.b_buffers,
        al1_bound=single.a_elements(load.k_a, load.m * m0),
        bl1_bound=single.b_elements(load.k_b, load.n * n0),
    )


def _pixels(inp: TilingInput) -> int:
    """Return the number of fractals that the pixels of a dx map fill."""
    return ceil_div(inp.problem.h_in * inp.problem.w_in, FRACTAL)


def _has_own_end(inp: TilingInput, fractals: int) -> bool:
    """Return True if dx, cut into shares of `fractals` fractals of pixels, has a last share of at least one whole fractal."""
    rest = inp.problem.h_in * inp.problem.w_in % (fractals * FRACTAL)
    return rest == 0 or rest >= FRACTAL


# ---- the share of a core -------------------------------------------------------------------------------------------


@frozen
class _PartGrid:
    """Division of dx over cores: parts of images, channels (`n`), pixels (`m`), rounds of tiles, elements that all load."""

    batch: int
    n: int
    m: int
    rounds: int
    load: int

    @property
    def cores(self) -> int:
        return self.batch * self.n * self.m

    def beats(self, other: _PartGrid) -> bool:
        """Return True if this grid has fewer rounds, or as many and more cores; or, whatever the rounds, as many cores and a
        smaller load (of equal loads, more parts of images and channels).
        """
        if self.rounds < other.rounds or (self.rounds == other.rounds and self.cores > other.cores):
            return True
        return self.cores == other.cores and (self.load, -self.batch * self.n) < (other.load, -other.batch * other.n)


def _core_grid(inp: TilingInput, ragged: bool) -> _PartGrid:
    """Return the last grid that `beats` the best before it: from one core on, then with fewer and fewer even parts of channels
    and images, and parts of pixels for the other cores. It has mostly the fewest rounds, then the most cores, then the least
    load.

    It is `_few_tiles` if dx has fewer fractals than cores, one core for images of less than 16 elements. `ragged`: a share has
    two fractals or more, the last at least one.
    """
    p, m_total = inp.problem, _pixels(inp)
    if p.h_in * p.w_in * p.c_in < FRACTAL:
        return _PartGrid(1, 1, 1, 1, 0)
    c_out, c_in = inp.cout_padded // FRACTAL, inp.cin1
    if p.n * m_total * c_in < inp.cores:
        return _few_tiles(inp, ragged)
    weights = c_out * c_in * inp.taps * FRACTAL * FRACTAL
    gradient = p.n * c_out * FRACTAL * p.h_out * p.w_out
    if (p.k_h - 1) // p.stride_h <= 1:
        gradient = p.n * c_out * FRACTAL * inp.taps * p.h_in * p.w_in

    def grid(batch: int, n: int, m: int) -> _PartGrid:
        share_m, share_n, images = ceil_div(m_total, m), c_in // n, p.n // batch
        rounds = images * share_m * share_n // min(share_m * share_n, _l0c_fractals(inp))
        if share_n == 1:
            rounds = images * ceil_div(share_m, min(share_m, _l0_fractals(inp)))
        return _PartGrid(batch, n, m, rounds, batch * m * weights + n * gradient)

    best = grid(1, 1, 1)
    for n, batch in product(divisors_down(c_in, inp.cores), divisors_down(p.n, inp.cores)):
        if batch * n > inp.cores:
            continue
        m = min(inp.cores // (batch * n), m_total)
        share = ceil_div(m_total, m)
        if ragged and (share < 2 or not _has_own_end(inp, share)):
            continue
        if (other := grid(batch, n, m)).beats(best):
            best = other
    return best


def _few_tiles(inp: TilingInput, ragged: bool) -> _PartGrid:
    """Return the grid for a dx with fewer fractals than cores: each core has one image and channel block, and pixels
    for about a microsecond of work.

    A map is not cut where one fractal takes longer, or `ragged` forbids it.
    """
    m_total, work = _pixels(inp), inp.cout_padded // FRACTAL * inp.taps
    parts = 1  # where one fractal of dx takes more than that (inferred: the procedure then leaves the number as it is)
    if work <= MICROSECOND:
        parts = min(max(m_total // ceil_div(MICROSECOND, work), 1), inp.cores)
    if ragged and not (ceil_div(m_total, parts) >= 2 and _has_own_end(inp, ceil_div(m_total, parts))):
        parts = 1
    return _PartGrid(inp.problem.n, inp.cin1, parts, 1, 0)


MICROSECOND = 1000
"""Fractal products in a microsecond, as the procedure counts them at 1 GHz (stated)."""


def _l0_fractals(inp: TilingInput) -> int:
    """Return the number of fractals that half of L0A holds."""
    return inp.buffers["L0A"] // 2 // (FRACTAL * FRACTAL * ITEMSIZE)


def _l0c_fractals(inp: TilingInput) -> int:
    """Return the number of fractals that half of L0C holds."""
    return inp.buffers["L0C"] // 2 // (FRACTAL * FRACTAL * ACCUMULATOR_BYTES)


# ---- L0 and L1 of a core -------------------------------------------------------------------------------------------


@frozen
class _Load:
    """Contents of L1 at a time: `m` and `n` L0 blocks, C_out blocks (`k_a`, `k_b`) and number of buffers of each operand."""

    m: int
    n: int
    k_a: int
    k_b: int
    a_buffers: int
    b_buffers: int


@frozen
class _CoreShare:
    """A core's share of dx: `m` x `n` fractals of pixels and channels an image; the pixels of a map are cut in `parts`."""

    inp: TilingInput
    m: int
    n: int
    parts: int
    ragged: bool

    @property
    def k_blocks(self) -> int:
        """Return the number of C_out blocks."""
        return self.inp.cout_padded // FRACTAL

    @property
    def l1_elements(self) -> int:
        return self.inp.buffers["L1"] // ITEMSIZE

    def rows(self, fractals: int) -> int:
        """Return an upper bound of the rows of zero-inserted gradOutput that `fractals` fractals of pixels read, exact for
        whole rows of dx, which are taken to begin with a row.
        """
        p, pixels = self.inp.problem, fractals * FRACTAL
        if pixels >= p.w_in and pixels % p.w_in == 0:
            return p.k_h - 1 + pixels // p.w_in
        return p.k_h - 1 + 2 + (pixels // p.w_in if pixels >= p.w_in else 0)

    def a_elements(self, k: int, fractals: int, buffers: int = 1) -> int:
        """Return the elements that gradOutput with zeros inserted takes in L1: `k` C_out blocks of the rows that `fractals`
        fractals of dx's pixels read at most (`rows`), times `buffers`.

        The whole map with all K, if one core has all pixels, takes one buffer.
        """
        p = self.inp.problem
        if fractals == self.m and k == self.k_blocks and self.parts == 1:
            return k * FRACTAL * ceil_to(p.h_out * p.stride_h * p.w_out * p.stride_w, FRACTAL)
        return k * FRACTAL * p.w_out * p.stride_w * self.rows(fractals) * buffers

    def b_elements(self, k: int, fractals: int, buffers: int = 1) -> int:
        """Return the elements that weights take in L1: all taps of `k` C_out blocks and `fractals` fractals of channels, times
        `buffers`. The share's whole K and N take one buffer.
        """
        if fractals == self.n and k == self.k_blocks:
            buffers = 1
        return k * FRACTAL * self.inp.taps * fractals * FRACTAL * buffers

    # -- L0

    def l0_block(self) -> tuple[int, int, int]:
        """Return (m0, n0, k0) in fractals with the fewest loads of L0; of equal ones the largest, then the one in which
        m0 and k0 differ most.

        UB must have room for two results, or for one where no block leaves room for two. (1, 1, 1) where none fits.
        """
        for results in (2, 1):
            best: tuple[int, int, int, tuple[int, int, int]] | None = None
            worst = self.m * self.n + self.n * self.m, -1, -1
            for n0, k0 in product(self._sides(self.n), self._sides(self.k_blocks * self.inp.taps)):
                m0 = self._longest(n0, k0)
                if not m0 or n0 * k0 > _l0_fractals(self.inp) or not self._leaves_ub(m0, results):
                    continue
                loads = ceil_div(self.m, m0) * self.n + ceil_div(self.n, n0) * self.m
                rated = loads, -m0 * n0 * k0, -(max(m0, k0) // min(m0, k0))
                if rated < (best[:3] if best else worst):
                    best = *rated, (m0, n0, k0)
            if best:
                return best[3]
        return 1, 1, 1

    def _sides(self, total: int) -> list[int]:
        return divisors_down(total, _l0_fractals(self.inp))

    def _longest(self, n0: int, k0: int) -> int:
        """Return the largest m0 with which half of L0A and of L0C and one load of L1 hold n0 and k0; 0 where none fits. If
        `ragged`, the last of the tiles must have a whole fractal.
        """
        inp = self.inp
        m0 = min(_l0_fractals(inp) // k0, _l0c_fractals(inp) // n0, self.m)
        k = math.lcm(k0, inp.taps) // inp.taps

        def fits(m0: int) -> bool:
            return self.a_elements(k, m0) + self.b_elements(k, n0) <= self.l1_elements

        while m0 and (not fits(m0) or (self.ragged and not _has_own_end(inp, m0))):
            m0 -= 1
        return m0

    def _leaves_ub(self, m0: int, results: int) -> bool:
        """Return True if UB has room for `results` tiles of dx beside a row of gradOutput with zeros (stride 1: two rows with
        the columns that the kernel adds, or from LONG_ROW columns on two windows of a pixel).
        """
        p = self.inp.problem
        row = p.w_out * p.stride_w * FRACTAL
        if p.stride_h == p.stride_w == 1:
            pixels = 1 if p.w_out + p.k_w - 1 >= LONG_ROW else p.w_out
            row = 2 * FRACTAL * ceil_to(pixels + p.k_w - 1, FRACTAL)
        return row + 2 * m0 * FRACTAL * FRACTAL * results <= UB_BYTES // ITEMSIZE

    # -- L1

    def l1_loads(self, m0: int, n0: int, k0: int) -> tuple[_Load, int] | None:
        """Return (contents of L1, `k0`) with the fewest elements loaded, then the longest K of A, then of B; None where nothing
        fits.
        """
        p, inp = self.inp.problem, self.inp
        least = math.lcm(k0, inp.taps) // inp.taps
        a, b = self._first_buffers(m0, n0, least)
        height = min(ceil_div(ceil_div(self.m * FRACTAL, p.w_in) + p.k_h - 1, p.stride_h), p.h_out)
        gradient = height * self.k_blocks * p.w_out * FRACTAL
        weights = self.k_blocks * inp.taps * FRACTAL * FRACTAL * self.n
        best: tuple[tuple[int, int, int], _Load] | None = None
        most = inp.buffers["L1"] // (FRACTAL * ITEMSIZE)  # pixels or channels of one block, whatever else L1 holds
        blocks, strips = sorted(divisors_down(self.k_blocks, most)), self.n // n0
        for k_b, k_a, n in product(blocks, blocks, sorted(divisors_down(strips, most))):
            if (n > 1 and k_b < self.k_blocks) or (k_a % k_b and k_b % k_a) or min(k_a, k_b) < least:
                continue
            if k_a * inp.taps % k0 or k_b * inp.taps % k0:
                continue
            shape = self._tiles_and_rows(m0, n * n0, k_a, k_b, (a, b), height)
            if shape is None:
                continue
            m, rows = shape
            times, passes = ceil_div(height, ceil_div(rows, p.stride_h)), ceil_div(self.n, n * n0)
            load, moved = _Load(m, n, k_a, k_b, a, b), times * weights + passes * gradient
            if passes == 1 and k_b == self.k_blocks:
                load, moved = _Load(m, n, k_a, k_b, a, 1), weights + gradient
            elif times == 1 and k_a == self.k_blocks:
                load, moved = _Load(m, n, k_a, k_b, 1, b), weights + gradient
            used = self.a_elements(k_a, m * m0, load.a_buffers) + self.b_elements(k_b, n * n0, load.b_buffers)
            rated = moved, -k_a, -k_b
            if used <= self.l1_elements and (best is None or rated < best[0]):
                best = rated, load
        return None if best is None else (best[1], k0)

    def _first_buffers(self, m0: int, n0: int, k: int) -> tuple[int, int]:
        """Return the buffers of (gradOutput, weights) that fit L1 with `k` C_out blocks: (2, 2), (1, 2), else (1, 1)."""
        p = self.inp.problem
        row = k * FRACTAL * p.w_out * p.stride_w
        a, b = row * self.rows(m0), k * FRACTAL * self.inp.taps * n0 * FRACTAL
        if 2 * a + 2 * b <= self.l1_elements:
            return 2, 2
        return (1, 2) if a + 2 * b <= self.l1_elements else (1, 1)

    def _tiles_and_rows(
        self, m0: int, n: int, k_a: int, k_b: int, buffers: tuple[int, int], height: int
    ) -> tuple[int, int] | None:
        """Return (L0 blocks along M, rows of zero-inserted gradOutput that they read) of one L1 load beside `n` fractals of
        weights; None where L1 has no room. `buffers`: (of gradOutput, of weights).

        A load of a part of K has one block; one of all K the most that fit L1 and divide the core's. Where these are
        all of the core's, the rows are `height` (rows of gradOutput) * stride_h.
        """
        p, whole = self.inp.problem, k_a == self.k_blocks
        if not whole:
            # A load of a part of K is taken to need two rows more even where it ends with a row
            blocks = m0 * FRACTAL
            return 1, p.k_h - 1 + 2 + (blocks // p.w_in if blocks >= p.w_in else 0)
        room = (self.l1_elements - self.b_elements(k_b, n, buffers[1])) // buffers[0]
        rows = p.k_h + 1 if height < p.k_h + 1 else room // (k_a * p.w_out * p.stride_w * FRACTAL)
        if rows < p.k_h + 1:
            return None
        pixels = (rows - p.k_h) * p.w_in - 1 if rows >= p.k_h + 2 else p.w_in
        tiles = ceil_div(p.h_in * p.w_in, self.parts * m0 * FRACTAL)
        m = divisors_down(tiles, max(pixels // (m0 * FRACTAL), 1))[0]
        if m * m0 == self.m:
            return m, height * p.stride_h
        return m, self._extent(m * m0 * FRACTAL)

    def _extent(self, pixels: int) -> int:
        """Return the vendor's estimate of the rows of zero-inserted gradOutput that a run of `pixels` dx pixels reads."""
        p = self.inp.problem
        if pixels < p.w_in:
            return p.k_h if p.w_in % pixels == 0 else p.k_h + 1
        return p.k_h + pixels // p.w_in + (-1 if pixels % p.w_in == 0 else 1)


PROCEDURE = Procedure(covers_grad_input_1001, lambda q: vendor_grad_input_1001(q.dealt))

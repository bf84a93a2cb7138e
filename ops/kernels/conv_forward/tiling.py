"""Tiling of the forward convolution, which is grad_input of a transposed call: a procedure of our own ("stand-in").

M = H_out*W_out pixels, N = C_out, K = (C_in blocks of C0, k_h, k_w, C0). Where whole rows of x do not fit L1, y is made in
strips of columns cut to a tile's width, and so are signals (one row), of which the library loads columns (its Conv2D has a
flag for them: stated). The vendor's Conv2D and Conv3D tilings are not documented here, so nothing of theirs is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, BLOCK_BYTES, FRACTAL
from ascend_sim.errors import TilingError
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.layout import PLANAR
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.strips import Strip, reach, strip_count, widest_reach
from ascend_sim.ops.problem.tiling_input import TilingInput

MOST_COLUMNS = 128  # channels of a tile
BUFFERS = 2  # ping-pong in L0A and L0B, and in L1 where it fits
RESERVED, COPIES = 256, 2  # bytes of UB that are kept free; copies of merged weights in UB (stated)
LEAST_BYTES = 2  # of an item: 8-bit weights are not turned here (ours)


@frozen
class ConvForwardTiling:
    """Tiling of the forward convolution: L0C tiles of `base_m` pixels x `base_n` channels, `base_k` of K per Mmad,
    `slices` C_in blocks per L1 load, on `block_dim` cores.

    With `split_wo` y is cut into strips of that width, each with its own tiles; 0 for whole rows. `l1_buffers`:
    2 if L1 gets the next loads while it is read, else 1.
    """

    base_m: int
    base_k: int
    base_n: int
    slices: int
    block_dim: int
    split_wo: int = 0
    l1_buffers: int = BUFFERS
    source: str = "stand-in"

    def to_vendor(self) -> dict[str, Any]:
        """Return the fields under names like the vendor's, and `source`; splitWo and l1Buffers only where they are not the
        default.
        """
        cut = {"splitWo": self.split_wo} if self.split_wo else {}
        cut |= {"l1Buffers": self.l1_buffers} if self.l1_buffers != BUFFERS else {}
        return {
            "baseM": self.base_m,
            "baseK": self.base_k,
            "baseN": self.base_n,
            "cin1PerLoad": self.slices,
            "usedCoreNum": self.block_dim,
            **cut,
            "source": self.source,
        }


def with_groups_merged(inp: TilingInput) -> TilingInput:
    """Return the problem with `merged` True, so that groups that fill whole blocks together are one real group, if the library
    merges them, else with False.

    It does, whatever the number of groups, in layout NCDHW with 16- or 32-bit operands, if the weights of a real group, both
    axes of channels padded to whole blocks, fit UB, less RESERVED bytes, twice (ops-nn, conv2d_v2_base_tiling.cpp and
    conv3d_v2_base_tiling.cpp of arch35: stated).
    """
    merged, p = replace(inp, merged=True), inp.problem
    weights = ceil_to(merged.cin_g, inp.c0) * p.k_d * inp.taps * ceil_to(merged.cout_g, FRACTAL) * inp.itemsize
    fits = COPIES * weights <= inp.buffers["UB"] - RESERVED
    return replace(inp, merged=inp.layout is PLANAR and inp.itemsize >= LEAST_BYTES and fits)


def beside_bias(inp: TilingInput) -> TilingInput:
    """Return the problem with L1 reduced by the bytes of the bias: 128 channels in float32."""
    return replace(inp, buffers={**inp.buffers, "L1": inp.buffers["L1"] - MOST_COLUMNS * ACCUMULATOR_BYTES})


def input_rows(inp: TilingInput, pixels: int) -> int:
    """Return the most input rows that a tile of `pixels` output pixels reads, at most the map's; tiles of whole rows begin with
    a row, others anywhere.
    """
    p = inp.problem
    rows = ceil_div(pixels, p.w_out) if pixels % p.w_out == 0 else ceil_div(pixels - 1, p.w_out) + 1
    rows = min(rows, p.h_out)
    return min((rows - 1) * p.stride_h + (p.k_h - 1) * p.dilation_h + 1, p.h_in)


def l1_bytes(inp: TilingInput, base_m: int, base_n: int, slices: int, buffers: int) -> tuple[int, int]:
    """Return (bytes of input, bytes of weights) in L1 for a tile and `slices` C_in blocks, with `buffers` of each."""
    a1 = input_rows(inp, base_m) * inp.problem.w_in * slices * BLOCK_BYTES * buffers
    b1 = slices * inp.taps * inp.c0 * base_n * inp.itemsize * buffers
    return a1, b1


def of_rows(inp: TilingInput, buffers: int) -> ConvForwardTiling:
    """Return the tiling that loads whole rows of x to L1. Raises TilingError where no tile fits.

    Tiles have all channels of a real group, at most 128, and at first as many pixels as half of L0C holds, which are halved
    until half of L0A and, in `buffers` buffers of each operand, L1 hold them. If no height fits, smaller tiles are tried, with
    fewer channels too and, if any of them fits with `buffers`, with fewer buffers: the one that loads the fewest lines to L0 is
    taken.
    """
    p = inp.problem
    pixels, channels = p.h_out * p.w_out, ceil_to(inp.cout_g, FRACTAL)
    tile = inp.buffers["L0C"] // BUFFERS // ACCUMULATOR_BYTES
    base_n = min(channels, MOST_COLUMNS)
    base_m = min(ceil_to(pixels, FRACTAL), tile // base_n // FRACTAL * FRACTAL)
    most_m = inp.buffers["L0A"] // BUFFERS // (inp.c0 * inp.itemsize)  # with the shortest K, one C0

    def fits(base_m: int, base_n: int, buffers: int) -> bool:
        return base_m <= most_m and _slices(inp, base_m, base_n, buffers) > 0

    block = next(((m, base_n, buffers) for m in _halves(base_m) if fits(m, base_n, buffers)), None)
    if block is None:  # fewer channels as well, and rows of y, which need no row of x for a pixel or two alone
        heights = (*range(FRACTAL, base_m + 1, FRACTAL), *range(p.w_out, base_m + 1, p.w_out))
        small = list(product(heights, range(FRACTAL, base_n + 1, FRACTAL)))
        # Where two buffers fit, one may let tiles be larger; where they do not, strips come before it.
        counts = range(buffers, 0, -1) if any(fits(*side, buffers) for side in small) else ()
        found = ((m, n, count) for (m, n), count in product(small, counts) if fits(m, n, count))
        block = min(found, key=lambda one: _l0_lines(inp, *one[:2]), default=None)
    if block is not None:
        base_m, base_n, buffers = block
        slices = _slices(inp, base_m, base_n, buffers)
        base_k = _base_k(inp, base_m, base_n, slices)
        tasks = inp.real_groups * ceil_div(channels, base_n) * ceil_div(pixels, base_m) * p.n * p.d_out
        return ConvForwardTiling(base_m, base_k, base_n, slices, min(tasks, inp.cores), l1_buffers=buffers)
    a1, b1 = l1_bytes(inp, FRACTAL, FRACTAL, 1, buffers)
    raise TilingError(
        f"L1: the rows for 16 output pixels and the weights for 16 channels of one C_in block need {a1} + {b1} bytes > "
        f"{inp.buffers['L1']}"
    )


def _halves(base_m: int) -> Iterator[int]:
    """Yield `base_m` and its halves in whole fractals, down to one fractal, which is yielded even for less."""
    while base_m > FRACTAL:
        yield base_m
        base_m = base_m // 2 // FRACTAL * FRACTAL or FRACTAL
    yield FRACTAL


def _l0_lines(inp: TilingInput, base_m: int, base_n: int) -> int:
    """Return the sum of pixels and channels over all tiles of a plane and real group, cut ones as whole: the lines that they
    load to L0 for each element of K.
    """
    pixels, channels = inp.problem.h_out * inp.problem.w_out, ceil_to(inp.cout_g, FRACTAL)
    return ceil_div(pixels, base_m) * ceil_div(channels, base_n) * (ceil_to(base_m, FRACTAL) + base_n)


def strips(p: ConvProblem, width: int) -> list[Strip]:
    """Return the strips of `width` columns of y; for 0 one strip of whole rows. The problem of the last one is as wide as the
    others', and a strip that reads no input has `w_in` 0.
    """
    if not width:
        return [Strip(p, 0, p.w_out, 0)]
    found = []
    for first in range(0, p.w_out, width):
        own = reach(first, width, p.stride_w, p.pad_left, (p.k_w - 1) * p.dilation_w + 1, p.w_in)
        problem = replace(p, w_out=width, w_in=own.count, pad_left=own.pad)
        found.append(Strip(problem, first, min(width, p.w_out - first), own.first))
    return found


def strip_input(inp: TilingInput, width: int) -> TilingInput:
    """Return the problem of a strip of `width` columns of y that reads the most columns of x."""
    p = inp.problem
    widest = widest_reach(width, p.stride_w, (p.k_w - 1) * p.dilation_w + 1, p.w_in)
    return replace(inp, problem=replace(p, w_out=width, w_in=widest))


def in_strips(inp: TilingInput, buffers: int, width: int) -> ConvForwardTiling:
    """Return the tiling for strips of `width` columns of y, on as many cores as there are tiles (`block_dim`), at most all.

    TilingError where none fits.
    """
    tiling, p = of_rows(strip_input(inp, width), buffers), inp.problem
    tiles = strip_count(p.w_out, width) * ceil_div(p.h_out * width, tiling.base_m)
    tasks = inp.real_groups * ceil_div(ceil_to(inp.cout_g, FRACTAL), tiling.base_n) * tiles * p.n * p.d_out
    return replace(tiling, split_wo=width, block_dim=min(tasks, inp.cores))


def may_fit(inp: TilingInput, buffers: int, width: int) -> bool:
    """Return True if L1 holds, in `buffers` buffers each, one C_in block of input and weights for 16 pixels x 16 channels of a
    strip, so that tilings are worth trying.

    Very wide strips, of which only whole rows fit, hold few channels in L1 and read more.
    """
    return _slices(strip_input(inp, width), FRACTAL, FRACTAL, buffers) > 0


def _slices(inp: TilingInput, base_m: int, base_n: int, buffers: int) -> int:
    """Return the most C_in blocks that a load to L1 can have, at most all; 0 if not even one fits in `buffers` buffers."""
    a1, b1 = l1_bytes(inp, base_m, base_n, 1, buffers)
    return min(inp.buffers["L1"] // (a1 + b1), inp.cin1)


def _base_k(inp: TilingInput, base_m: int, base_n: int, slices: int) -> int:
    """Return the longest K, in whole C0 (at least one), that half of L0A and of L0B holds, at most that of `slices` blocks."""
    half = min(inp.buffers["L0A"] // ceil_to(base_m, FRACTAL), inp.buffers["L0B"] // base_n) // BUFFERS // inp.itemsize
    return max(min(half // inp.c0, slices * inp.taps), 1) * inp.c0

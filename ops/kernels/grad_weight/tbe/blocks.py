"""Blocks of the older weight-gradient kernels: the part of dW and its sums that each block computes, and its tiles in order.

The flat block index is cut, from slowest to fastest, into K, images (and depths), groups, M and N (schedule of the 2-D operator
in CANN 8.1: stated; planes before channels in N, depths within images: inferred from the order of the tensors).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.operands import Span
from ascend_sim.ops.kernels.cube.tasks import chunk
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Cuts, Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@frozen
class TbeBlock:
    """Part of a block's work: ranges of groups, kernel planes, images, depths, channels (elements), and K (units, or rows)."""

    groups: range
    planes: range
    images: range
    depths: range
    out_channels: range
    in_channels: range
    k: range

    @property
    def empty(self) -> bool:
        """Return True if one of the ranges is empty, so that the block has no work."""
        return not all((self.groups, self.planes, self.images, self.depths, self.out_channels, self.in_channels, self.k))


def block_part(p: FilterProblem, cuts: Cuts, block: int) -> TbeBlock:
    """Return the part of block number `block`; empty where earlier shares, rounded up, left nothing, or beyond all blocks."""
    problem, parts = p.problem, []
    axes = (  # fastest first
        (cuts.n, p.cin1), (cuts.planes, problem.k_d), (cuts.m, p.m), (cuts.group, p.groups), (cuts.depth, problem.d_out),
        (cuts.batch, problem.n), (cuts.k, p.k),
    )  # fmt: skip
    for cut, total in axes:
        block, index = divmod(block, cut)
        start, count = chunk(index, ceil_div(total, cut), total)
        parts.append(range(start, start + max(count, 0)))
    cin, planes, cout, groups, depths, images, k = parts
    if block:  # more blocks were asked for than the tiling has
        k = range(0)
    return TbeBlock(groups, planes, images, depths, _elements(cout), _elements(cin), k)


def _elements(blocks: range) -> range:
    """Return the channels (elements) of a range of blocks of 16."""
    return range(blocks.start * FRACTAL, blocks.stop * FRACTAL)


class HeldTile(NamedTuple):
    """A tile of L0C: rows `m` and columns `n` of dW in one kernel plane of one group (elements), and the L1 tile around it.

    `m_held` and `n_held` are the rows and columns of the L1 tile; columns count (channel block, tap, channel). They read
    `channels` input channels in the channel `blocks`.
    """

    group: int
    plane: int
    m: Span
    n: Span
    m_held: Span
    n_held: Span
    blocks: Span
    channels: int

    def at(self, rows: int, block: int, group: int, per_block: int) -> HeldTile:
        """Return the tile moved by `rows` rows, `block` channel blocks (of `per_block` columns) and `group` groups."""
        return HeldTile(
            self.group + group,
            self.plane,
            Span(self.m.start + rows, self.m.length),
            Span(self.n.start + block * per_block, self.n.length),
            Span(self.m_held.start + rows, self.m_held.length),
            Span(self.n_held.start + block * per_block, self.n_held.length),
            Span(self.blocks.start + block, self.blocks.length),
            self.channels,
        )


def out_tiles(block: TbeBlock, tile: Tile, taps: int, c0: int, channels_out: int, channels_in: int) -> Iterator[HeldTile]:
    """Yield the tiles of a block: by group, kernel plane, L1 tile along N, along M, then L0 tiles along N, then M.

    A channel block has `taps` columns of dW for each of its `c0` channels. A group has `channels_out` output and `channels_in`
    input channels, to which tiles are cut.
    """
    m_l0, n_l0, per_block = tile.m_l0 * FRACTAL, tile.n_l0 * FRACTAL, taps * c0
    rows = range(block.out_channels.start, min(block.out_channels.stop, channels_out))
    columns = range(block.in_channels.start * taps, min(block.in_channels.stop, ceil_to(channels_in, c0)) * taps)
    for group in block.groups:
        for plane in block.planes:
            for n_held in _pieces(columns, tile.n_bl1 * n_l0):
                first, last = n_held.start // per_block, ceil_div(n_held.stop, per_block)
                blocks, present = Span(first, last - first), min(last * c0, channels_in) - first * c0
                for m_held in _pieces(rows, tile.m_al1 * m_l0):
                    for n in _pieces(n_held, n_l0):
                        for m in _pieces(m_held, m_l0):
                            of_tile, around = (_span(m), _span(n)), (_span(m_held), _span(n_held))
                            yield HeldTile(group, plane, *of_tile, *around, blocks, present)


def _pieces(whole: range, size: int) -> Iterator[range]:
    """Yield `whole` in ranges of `size`; the last one may be shorter."""
    for start in range(whole.start, whole.stop, size):
        yield range(start, min(start + size, whole.stop))


def _span(units: range) -> Span:
    return Span(units.start, len(units))

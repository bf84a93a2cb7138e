"""Steps of a block's program of the older weight-gradient kernels, with their places, for a stamped loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.steps import Where
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import HeldTile, TbeBlock, block_part, out_tiles
from ascend_sim.ops.kernels.grad_weight.tbe.walks import TbePart, TbeWalks, moves


class TbeBegin(NamedTuple):
    """Step of a program: begin a tile."""


class TbePlane(NamedTuple):
    """Step of a program: add part of a plane of gradOutput to a tile; tile and part are relative to the step's place.

    `depth_in` is the input plane that the tile's kernel plane reads, None in the padding.
    """

    tile: HeldTile
    part: TbePart
    depth: int
    depth_in: int | None


class TbeEnd(NamedTuple):
    """Step of a program: store a summed tile, which is relative to the step's place."""

    tile: HeldTile


Piece = TbeBegin | TbePlane | TbeEnd


class TbeWork:
    """Maker of the steps of all blocks of a launch; walks are computed once for all blocks."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling) -> None:
        self._call, self._p, self._tiling = call, p, tiling
        self._walks, self._moves, self._per_block = TbeWalks(call, p, tiling), moves(p), p.taps * call.inp.c0

    def pieces(self, number: int) -> Iterator[tuple[Piece, Where]]:
        """Yield (step, place) for the tiles of block `number`: begin, one step for each part of each plane of the
        block's images, end; nothing for an empty block.
        """
        block = block_part(self._p, self._tiling.cuts, number)
        if block.empty:
            return
        walk = self._walks.of(block.k)
        begin, end = (walk[0][1], walk[-1][1]) if walk else (0, 0)
        for group in block.groups:
            part = replace(block, groups=range(group, group + 1))
            rows = self._call.group_channels(group, self._call.inp.problem.c_out, self._call.inp.cout_g)
            channels = self._call.group_channels(group, self._call.inp.problem.c_in, self._call.inp.cin_g)
            for tile in out_tiles(part, self._tiling.tile, self._p.taps, self._call.inp.c0, rows, channels):
                m, n = (tile.m_held.start // FRACTAL, tile.blocks.start) if self._moves else (0, 0)
                shape = tile.at(-m * FRACTAL, -n, -group, self._per_block)
                depths = list(self._depths(block, tile.plane))
                sums = [(TbePlane(shape, one, *pair), row) for pair in depths for one, row in walk]
                yield TbeBegin(), Where(block.images[0], begin, m, n, group)
                for batch in block.images:
                    yield from [(one, Where(batch, row, m, n, group)) for one, row in sums]
                yield TbeEnd(shape), Where(block.images[-1], end, m, n, group)

    def _depths(self, block: TbeBlock, kernel_plane: int) -> Iterator[tuple[int, int | None]]:
        """Yield (depth of gradOutput, input plane that `kernel_plane` reads there, None in the padding) for the block."""
        p = self._call.inp.problem
        for depth in block.depths:
            depth_in = depth * p.stride_d - p.pad_front + kernel_plane * p.dilation_d
            yield depth, depth_in if 0 <= depth_in < p.d_in else None

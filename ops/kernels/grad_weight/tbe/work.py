"""Steps of a block's program of the older weight-gradient kernels, with their places, for a stamped loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from operator import sub
from typing import NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import CacheTiling
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.kernels.grad_weight.steps import Where
from ascend_sim.ops.kernels.grad_weight.tbe.blocks import HeldTile, TbeBlock, block_part, out_tiles
from ascend_sim.ops.kernels.grad_weight.tbe.walks import TbePart, TbeWalks, Walk, moves


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


class TileWork(NamedTuple):
    """Work of a block on a tile, which is relative to `where`: (depth of gradOutput, input plane or None) for each depth."""

    tile: HeldTile
    depths: tuple[tuple[int, int | None], ...]
    where: Where


class BlockWork(NamedTuple):
    """Work of a block: its walk through the pixels of each of its `images`, for each of its tiles."""

    images: range
    walk: Walk
    tiles: list[TileWork]

    @property
    def place(self) -> Where:
        """Return the place of the first step; an empty block has none (IndexError)."""
        return self.tiles[0].where

    def outline(self) -> Hashable:
        """Return a key of the block's steps, equal for blocks whose equal steps lie equally far from their first. An empty
        block has none (IndexError).
        """
        place, rows = self.place, tuple([(part, row - self.place.row) for part, row in self.walk])
        return len(self.images), rows, tuple([(*one[:2], *map(sub, one.where, place)) for one in self.tiles])

    def pieces(self) -> list[tuple[Piece, Where]]:
        """Return (step, place) for each tile: begin, one step for each part of each plane of the images, end."""
        found: list[tuple[Piece, Where]] = []
        for tile, depths, where in self.tiles:
            sums = [(TbePlane(tile, one, *pair), row) for pair in depths for one, row in self.walk]
            found.append((TbeBegin(), where))
            for batch in self.images:
                found += [(one, Where(batch, row, *where[2:])) for one, row in sums]
            found.append((TbeEnd(tile), where._replace(batch=self.images[-1], row=self.walk[-1][1] if self.walk else 0)))
        return found


class TbeWork:
    """Maker of the work of all blocks of a launch; walks are computed once for all blocks."""

    def __init__(self, call: CubeCall, p: FilterProblem, tiling: CacheTiling) -> None:
        self._call, self._p, self._tiling = call, p, tiling
        self._walks, self._moves, self._per_block = TbeWalks(call, p, tiling), moves(p), p.taps * call.inp.c0

    def of(self, number: int) -> BlockWork:
        """Return the work of block `number`; an empty block has no tiles."""
        block = block_part(self._p, self._tiling.cuts, number)
        if block.empty:
            return BlockWork(block.images, (), [])
        walk = self._walks.of(block.k)
        return BlockWork(block.images, walk, list(self._tiles(block, walk[0][1] if walk else 0)))

    def _tiles(self, block: TbeBlock, row: int) -> Iterator[TileWork]:
        """Yield the block's work on each of its tiles; its walk begins at `row`."""
        for group in block.groups:
            part = replace(block, groups=range(group, group + 1))
            rows = self._call.group_channels(group, self._call.inp.problem.c_out, self._call.inp.cout_g)
            channels = self._call.group_channels(group, self._call.inp.problem.c_in, self._call.inp.cin_g)
            for tile in out_tiles(part, self._tiling.tile, self._p.taps, self._call.inp.c0, rows, channels):
                m, n = (tile.m_held.start // FRACTAL, tile.blocks.start) if self._moves else (0, 0)
                shape = tile.at(-m * FRACTAL, -n, -group, self._per_block)
                yield TileWork(shape, tuple(self._depths(block, tile.plane)), Where(block.images[0], row, m, n, group))

    def _depths(self, block: TbeBlock, kernel_plane: int) -> Iterator[tuple[int, int | None]]:
        """Yield (depth of gradOutput, input plane that `kernel_plane` reads there, None in the padding) for the block."""
        p = self._call.inp.problem
        for depth in block.depths:
            depth_in = depth * p.stride_d - p.pad_front + kernel_plane * p.dilation_d
            yield depth, depth_in if 0 <= depth_in < p.d_in else None

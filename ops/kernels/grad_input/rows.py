"""Tiles of grad_input as a stamped loop takes them: counted from an image and from rows of dx.

Tiles further down in the map are the same where they see as much of gradOutput, so what a tile sees is worked out before the
loop, for each tile of an image once, and is a part of the tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.exchange import Exchange
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.loads import PartMap
from ascend_sim.ops.kernels.grad_input.parts import tiling_parts
from ascend_sim.ops.kernels.grad_input.pieces import kernel_pieces
from ascend_sim.ops.kernels.grad_input.split import SPLIT_HW
from ascend_sim.ops.kernels.grad_input.tiles import Tile, held_pixels, numbered
from ascend_sim.ops.kernels.grad_input.window import RowWindow, needed_rows

Place = tuple[int, int]
"""An image and a band of dx, which is as many rows as gradOutput is apart: the stride."""


class SeenPart(NamedTuple):
    """`pixels` pixels of a tile in part number `part` of dx, and what each piece of the kernel reads for them (and for those
    that L1 holds with them); None where that is padding only.
    """

    part: int
    pixels: int
    windows: tuple[RowWindow | None, ...]


class PlacedTile(NamedTuple):
    """A tile with a number (as of `numbered`), whose task, pixels and windows count from its place."""

    number: int
    tile: Tile
    parts: tuple[SeenPart, ...]


class TileRows:
    """The tiles of one launch, whose blocks share what is known of them."""

    def __init__(self, call: CubeCall, tiling: GradInputTiling, exchange: Exchange | None) -> None:
        p = call.inp.problem
        self._tiling = tiling
        self._turns = exchange.turns if exchange is not None else 0
        self.maps = [
            PartMap(i, part, kernel_pieces(p, part, tiling.load_b1))
            for i, part in enumerate(tiling_parts(tiling, call.inp))
        ]
        # A split kernel's vector cores take tiles from where they are.
        self._band = p.stride_h if exchange is None else 0
        self._known: dict[Tile, tuple[PlacedTile, int]] = {}

    def placed(self, tiles: Sequence[Tile]) -> Iterator[tuple[PlacedTile, Place]]:
        """The tiles of a block, and where they are."""
        for (number, tile), batch in numbered(tiles, self._turns):
            found = self._known.get(tile)
            if found is None:
                found = self._known[tile] = self._counted(tile)
            yield (found[0]._replace(number=number) if number else found[0]), (batch, found[1])

    def at(self, placed: PlacedTile, place: Place) -> PlacedTile:
        """The tile as it is."""
        batch, band = place
        tile = placed.tile._replace(task=placed.tile.task._replace(batch=batch))
        return self._further(placed._replace(tile=tile), band) if self._band else placed._replace(tile=tile)

    def _counted(self, tile: Tile) -> tuple[PlacedTile, int]:
        parts = []
        for part_map in self.maps:
            count = min(tile.m_count, part_map.pixels - tile.m)
            if count > 0 and (self._tiling.kernel_split == SPLIT_HW or part_map.index == tile.task.part):
                parts.append(SeenPart(part_map.index, count, tuple(self._windows(part_map, tile))))
        placed, band = PlacedTile(0, tile, tuple(parts)), 0
        if self._band:
            band = tile.m // self._width(tile) // self._band
        return (self._further(placed, -band) if band else placed), band

    def _windows(self, part_map: PartMap, tile: Tile) -> Iterator[RowWindow | None]:
        start, count = held_pixels(self._tiling, tile.task, tile.m)
        for piece in part_map.pieces:
            window = needed_rows(piece.p, start, min(count, piece.pixels - start))
            yield window if window.rows else None

    def _width(self, tile: Tile) -> int:
        """Pixels of a row as the tile counts them."""
        return self.maps[tile.task.part].p.w_in

    def _further(self, placed: PlacedTile, band: int) -> PlacedTile:
        """The tile so many bands further down."""
        rows, tile = band * self._band, placed.tile
        pixels = rows * self._width(tile)
        task = tile.task._replace(m_start=tile.task.m_start + pixels)
        parts = [
            part._replace(windows=tuple([w and w._replace(first_row=w.first_row + rows) for w in part.windows]))
            for part in placed.parts
        ]
        return PlacedTile(placed.number, tile._replace(task=task, m=tile.m + pixels), tuple(parts))

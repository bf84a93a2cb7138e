"""Tiles of grad_input relative to a place (image, band of rows, channel block, group), so that equal tiles share one
stamp of a loop.

Tiles further down in the map are equal where they read as many rows of gradOutput, and those of other channels and
groups where as many of them exist. So the window of a tile, and the operands in L1 with it, is computed before the
loop, once for each tile of an image.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.kernels.grad_input.exchange import Exchange
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.loads import PartMap
from ascend_sim.ops.kernels.grad_input.parts import SPLIT_HW, kernel_pieces, tiling_parts
from ascend_sim.ops.kernels.grad_input.tasks import GradInputTask
from ascend_sim.ops.kernels.grad_input.tiles import DataTile, held_channels, held_pixels, turn_of
from ascend_sim.ops.layouts import weights
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.window import RowWindow, listed_rows, needed_rows

Place = tuple[int, int, int, int]
"""Place of a tile: image, band of dx rows (`stride_h` rows high), block of its channels, real group."""


class SeenPart(NamedTuple):
    """Part number `part` of a tile: the count of its pixels, and the gradOutput rows that each kernel piece reads (None if
    it adds nothing).
    """

    part: int
    pixels: int
    windows: tuple[RowWindow | None, ...]


class TileChannels(NamedTuple):
    """Channel counts of a tile: `present` of its channels exist in dx. L1 holds weights of `held` channels, which begin
    `before` channels before the tile's; `weighted` of them exist. The group has `summed` channels of gradOutput.
    """

    present: int
    before: int
    held: int
    weighted: int
    summed: int


class PlacedTile(NamedTuple):
    """A tile relative to its place: number (see `numbered`), task, pixels, channels and windows of gradOutput rows."""

    number: int
    tile: DataTile
    channels: TileChannels
    parts: tuple[SeenPart, ...]


class TileRows:
    """Relative tiles of one launch; each is computed once, and all blocks share them."""

    def __init__(
        self, call: CubeCall, tiling: GradInputTiling, exchange: Exchange | None, open_rows: bool, cleared: bool
    ) -> None:
        p = call.inp.problem
        self._call, self._tiling, self._open_rows, self._cleared = call, tiling, open_rows, cleared
        self._turns = exchange.turns if exchange is not None else 0
        self.maps = [
            PartMap(i, part, kernel_pieces(p, part, tiling.load_b1)) for i, part in enumerate(tiling_parts(tiling, call.inp))
        ]
        # A split kernel's vector cores take tiles from where they are.
        self._band = p.stride_h if exchange is None else 0
        # Where maps and weights are in blocks of channels, each is loaded and drained as the one before.
        self._block = call.inp.c0 if exchange is None and weights(call.inp).uniform else 0
        # All channels of a real group but of the only one are whole blocks.
        self._grouped = exchange is None and call.inp.real_groups > 1
        self._known: dict[tuple[GradInputTask, bool], dict[tuple[int, ...], tuple[PlacedTile, int, int]]] = {}

    def placed(self, tiles: Sequence[DataTile]) -> Iterator[tuple[PlacedTile, Place]]:
        """Yield (relative tile, its place) for each of a block's tiles; equal tiles are one object but for the number."""
        final = self._call.inp.real_groups - 1  # it may have fewer channels
        task = None
        for number, tile in enumerate(tiles):
            if tile.task is not task:
                task = tile.task
                batch, group = task.batch, task.group if self._grouped else 0
                first = GradInputTask(task.group - group, 0, *task[2:])
                known = self._known.setdefault((first, group == final), {})
            corner = tile[1:]
            found = known.get(corner)
            if found is None:
                found = known[corner] = self._counted(tile._replace(task=first), task.group)
            placed, band, block = found
            if number and self._turns:
                placed = placed._replace(number=turn_of(number, self._turns))
            yield placed, (batch, band, block, group)

    def at(self, placed: PlacedTile, place: Place) -> PlacedTile:
        """Return the relative tile moved to a place: with absolute image, group, pixels, channels and windows."""
        batch, band, block, group = place
        task = placed.tile.task._replace(batch=batch)
        if self._grouped:
            task = task._replace(group=group)
        return self._beside(self._further(placed._replace(tile=placed.tile._replace(task=task)), band), block)

    def _counted(self, tile: DataTile, group: int) -> tuple[PlacedTile, int, int]:
        """Return (tile relative to its place, band of rows of the place, channel block of the place); not cached.

        `tile` has image 0, and group 0 if places count groups; `group` is its real group, which decides how many of its
        channels exist.
        """
        parts = []
        for part_map in self.maps:
            count = min(tile.m_count, part_map.pixels - tile.m)
            if count > 0 and (self._tiling.kernel_split == SPLIT_HW or part_map.index == tile.task.part):
                parts.append(SeenPart(part_map.index, count, tuple(self._windows(part_map, tile))))
        band = tile.m // self._width(tile) // self._band if self._band else 0
        block = tile.n // self._block if self._block else 0
        placed = PlacedTile(0, tile, self._channels(tile, group), tuple(parts))
        return self._beside(self._further(placed, -band), -block), band, block

    def _channels(self, tile: DataTile, group: int) -> TileChannels:
        """Return the channel counts of a tile in real group `group`."""
        call, inp = self._call, self._call.inp
        start, held = held_channels(self._tiling, tile.task, tile.n)
        exist = call.group_channels(group, inp.problem.c_in, inp.cin_g)
        weighted, summed = min(held, inp.cin_g - start), call.group_channels(group, inp.problem.c_out, inp.cout_g)
        return TileChannels(min(tile.n_count, exist - tile.n), tile.n - start, held, weighted, summed)

    def _windows(self, part_map: PartMap, tile: DataTile) -> Iterator[RowWindow | None]:
        """Yield, for each kernel piece of a part, the gradOutput rows that the pixels of the tile read (with open rows those
        that the library loads, `listed_rows`); None where they are padding only, or in a cleared dx only inserted zeros.
        """
        start, count = held_pixels(self._tiling, tile.task, tile.m)
        for piece in part_map.pieces:
            if self._open_rows:
                window = listed_rows(piece.p, start, self._tiling.base_m)
            else:
                window = needed_rows(piece.p, start, min(count, piece.pixels - start))
            # dx that was cleared needs no sums of inserted zeros.
            last, step = window.first_row + window.rows - 1, piece.p.stride_h
            seen = window.rows and (not self._cleared or last // step >= ceil_div(window.first_row, step))
            yield window if seen else None

    def _width(self, tile: DataTile) -> int:
        """Return the pixels of a row in the map of the tile's part."""
        return self.maps[tile.task.part].p.w_in

    def _further(self, placed: PlacedTile, band: int) -> PlacedTile:
        """Return the tile moved down by `band` bands of rows, with its windows; unchanged with a split kernel (no bands)."""
        if not self._band:
            return placed
        rows, tile = band * self._band, placed.tile
        pixels = rows * self._width(tile)
        task = tile.task._replace(m_start=tile.task.m_start + pixels)
        parts = [
            part._replace(windows=tuple([w and w._replace(first_row=w.first_row + rows) for w in part.windows]))
            for part in placed.parts
        ]
        return placed._replace(tile=tile._replace(task=task, m=tile.m + pixels), parts=tuple(parts))

    def _beside(self, placed: PlacedTile, block: int) -> PlacedTile:
        """Return the tile moved by `block` channel blocks; unchanged where places have none (plain layouts, split kernels)."""
        if not self._block:
            return placed
        tile, channels = placed.tile, block * self._block
        task = tile.task._replace(n_start=tile.task.n_start + channels)
        return placed._replace(tile=tile._replace(task=task, n=tile.n + channels))

"""Layouts whose last axis is a run of channels: maps NDHWC, weights DHWCN (both of conv_tbc_backward, which has no groups)."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices, ScatterLoops
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.layouts.layout import (
    DrainPiece,
    FilterBox,
    FilterTile,
    FinishedTile,
    MapBox,
    MapPixels,
    Pitches,
    Turned,
    Writing,
)
from ascend_sim.ops.layouts.planar import SUM_BYTES, PlainFilters, PlainMap
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut


@frozen
class ChannelsLastMap(PlainMap):
    """Layout of a feature map [N, D, H, W, C]."""

    @property
    def channel_stride(self) -> int:
        return self.itemsize

    @property
    def pixel_stride(self) -> int:
        return self.count * self.itemsize

    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """Load a box to L1 (whatever `space` says): one transfer for each row of pixels, or one for all if the rows have all
        columns of the map and adjoin in L1.

        SimError if `pitches.pixel` is not one block: pixels cannot be spread apart.
        """
        if pitches.pixel != BLOCK_BYTES:
            raise SimError("an NDHWC map is loaded in runs of pixels, which allows no stride")
        width, rows, pixels = self.volume[2], box.rows.length, box.columns.length
        if pixels == width and pitches.row == width * pitches.pixel:  # rows adjoin
            rows, pixels = 1, rows * pixels
        for row in range(rows):
            source = self.source(slot, box) + row * width * self.pixel_stride
            k.data_copy_nd2nz(
                address + row * pitches.row,
                source,
                pixels,
                box.channels,
                self.itemsize,
                self.pixel_stride,
                pitches.block // BLOCK_BYTES,
                operand,
            )

    def gather(self, k: KernelBuilder, slot: int, pixels: MapPixels, address: int, pitch: int, operand: str) -> None:
        """Load separate pixels to L1, back to back, one transfer for each row of the lattice; channel blocks lie `pitch` pixels
        apart.
        """
        place, channels, lattice = pixels
        step = lattice.column_step * self.pixel_stride
        for row in range(lattice.rows):
            source = gm_operand(slot, self.offset(place, lattice.first + row * lattice.row_step))
            to = address + row * lattice.columns * BLOCK_BYTES
            k.data_copy_nd2nz(to, source, lattice.columns, channels, self.itemsize, step, pitch, operand)


@frozen
class ChannelsLastFilters(PlainFilters):
    """Layout of weights [kD, kH, kW, C_in, C_out]."""

    @property
    def channel_stride(self) -> int:
        """Return the bytes from one input channel to the next: those of all filters."""
        return self.filters * self.itemsize

    def offset(self, row: int, channel: int, plane: int, tap: int) -> int:
        """Return the byte offset of the element of filter `row`, `channel`, kernel `plane` and `tap`."""
        line = (plane * self.inp.taps + tap) * self.channels + channel
        return line * self.channel_stride + row * self.itemsize

    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """Load a box of weights to L1 as [channel block][tap][`rows` filters][C0] in one transfer, which reads a matrix
        (channels x filters) for each tap.

        If the box has fewer filters than `rows`, zeros fill all of this place first.
        """
        line = rows * BLOCK_BYTES
        block = box.taps.length * line
        if box.filters.length < rows:
            k.fill("L1", address, ceil_div(box.channels.length, self.inp.c0) * block)
            k.pipe_barrier("MTE2")
        source = self.offset(box.filters.start, box.channels.start, box.plane, box.taps.start)
        matrices = ChannelMatrices(
            channels=box.channels.length,
            pixels=box.filters.length,
            itemsize=self.itemsize,
            channel_stride=self.channel_stride,
            pixel_stride=BLOCK_BYTES,
            block_stride=block,
            matrices=box.taps.length,
            src_step=self.channels * self.channel_stride,
            dst_step=line,
        )
        k.data_copy_dn2nz(address, gm_operand(slot, source), matrices, "B")

    # -- dW ------------------------------------------------------------------------------------------------------------

    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """Store a finished tile to its place in dW element by element, one piece for each block of columns (channels of
        one tap); `atomic_add` adds to the values in GM.
        """
        pieces = [
            DrainPiece(
                gm_operand(slot, self.offset(tile.row, channels.start, tile.plane, tap)), 0, tile.rows, column, len(channels)
            )
            for column, channels, tap in self.channel_pieces(tile)
        ]
        finished.drain_elements(pieces, tile.rows, SUM_BYTES, self.channel_stride, atomic_add)

    def turned(self, total: FilterTile, room: int) -> Iterator[Turned]:
        """Yield the parts of a tile's sum that go from UB to dW, each of at most the fractals of 16 columns that `room` bytes
        hold, at least one.

        A scatter in UB turns a part into lines, each with one column's numbers of all filters; each line is then stored to dW.
        """
        rows, line = total.rows, ceil_to(total.rows * SUM_BYTES, BLOCK_BYTES)
        row, pieces = FRACTAL * SUM_BYTES, list(self.channel_pieces(total))
        for first, count in cut(ceil_div(total.columns, FRACTAL), max(room // (FRACTAL * line), 1)):
            loops = ScatterLoops(count, rows, FRACTAL, rows * row, row, FRACTAL * line, SUM_BYTES, line)
            writings = [
                Writing(
                    (column - first * FRACTAL) * line,
                    self.offset(total.row, channels.start, total.plane, tap),
                    rows * SUM_BYTES,
                    len(channels),
                    (line, self.channel_stride),
                )
                for column, channels, tap in pieces
                if channels and first <= column // FRACTAL < first + count
            ]
            yield Turned([(first * rows * row, 0, loops)], writings)

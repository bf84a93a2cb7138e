"""Tensors whose last axis is a run of channels: maps NDHWC, weights DHWCN (both of conv_tbc_backward, which has no groups)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.layouts.layout import (
    DrainPiece,
    FilterBox,
    FilterTask,
    FilterTile,
    FinishedTile,
    Lattice,
    MapBox,
    Pitches,
    Place,
    Portion,
    Store,
)
from ascend_sim.ops.layouts.planar import SUM_BYTES, PlainFilters, PlainMap
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@dataclass(frozen=True)
class ChannelsLastMap(PlainMap):
    """A map [N, D, H, W, C]."""

    @property
    def channel_stride(self) -> int:
        """Bytes from one channel to the next."""
        return self.itemsize

    @property
    def pixel_stride(self) -> int:
        """Bytes from one pixel to the next."""
        return self.count * self.itemsize

    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """In one transfer for each run of pixels."""
        if pitches.pixel != BLOCK_BYTES:
            raise SimError("a map NDHWC is loaded in runs of pixels: its convolution has no stride")
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

    def gather(
        self,
        k: KernelBuilder,
        slot: int,
        place: Place,
        channels: int,
        pixels: Lattice,
        address: int,
        pitch: int,
        operand: str,
    ) -> None:
        """In one transfer for each row."""
        step = pixels.column_step * self.pixel_stride
        for row in range(pixels.rows):
            source = gm_operand(slot, self.offset(place, pixels.first + row * pixels.row_step))
            to = address + row * pixels.columns * BLOCK_BYTES
            k.data_copy_nd2nz(to, source, pixels.columns, channels, self.itemsize, step, pitch, operand)


@dataclass(frozen=True)
class ChannelsLastFilters(PlainFilters):
    """Weights [kD, kH, kW, C_in, C_out]; a slot holds lines [tap][channel] of a task's rows."""

    @property
    def channel_stride(self) -> int:
        """Bytes from one channel to the next."""
        return self.filters * self.itemsize

    def offset(self, row: int, channel: int, plane: int, tap: int) -> int:
        """Where an element stands."""
        line = (plane * self.inp.taps + tap) * self.channels + channel
        return line * self.channel_stride + row * self.itemsize

    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """In one transfer, a matrix for each tap."""
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
        """A C0 of columns at a time."""
        pieces = [
            DrainPiece(
                gm_operand(slot, self.offset(tile.row, channels.start, tile.plane, tap)),
                0,
                tile.rows,
                column,
                len(channels),
            )
            for column, channels, tap in self.channel_pieces(tile)
        ]
        finished.drain_elements(pieces, tile.rows, SUM_BYTES, self.channel_stride, atomic_add)

    def drain_to_slot(
        self, finished: FinishedTile, slot: int, offset: int, task: FilterTask, tile: FilterTile, atomic_add: bool
    ) -> None:
        """A C0 of columns at a time."""
        pitch, held, first = self._line(task.m_count), task.n_count // self.inp.taps, task.n_start // self.inp.taps
        start = offset + (tile.row - task.m_start) * SUM_BYTES
        pieces = []
        for column, channels, tap in self.channel_pieces(tile):
            target = gm_operand(slot, start + (tap * held + channels.start - first) * pitch)
            pieces.append(DrainPiece(target, 0, tile.rows, column, len(channels)))
        finished.drain_elements(pieces, tile.rows, SUM_BYTES, pitch, atomic_add)

    def _line(self, rows: int) -> int:
        """Bytes of a line of a slot."""
        return ceil_to(rows * SUM_BYTES, BLOCK_BYTES)

    def slot_bytes(self, rows: int, columns: int) -> int:
        """A line for each column."""
        return columns * self._line(rows)

    def shares(self, task: FilterTask) -> int:
        """Lines."""
        return self.inp.taps * len(self.channels_of(task))

    def portions(self, task: FilterTask, shares: range, room: int) -> Iterator[Portion]:
        """Lines of one tap, as many as there is room for: they adjoin in a slot, and lie a channel apart in dW."""
        pitch, held, channels = self._line(task.m_count), task.n_count // self.inp.taps, self.channels_of(task)
        at_once, width, line = max(room // pitch, 1), self.rows_of(task) * SUM_BYTES, shares.start
        while line < shares.stop:
            tap, channel = divmod(line, len(channels))
            count = min(at_once, shares.stop - line, len(channels) - channel)
            target = self.offset(task.m_start, channels.start + channel, task.plane or 0, tap)
            store = Store(0, target, width, count, pitch, self.channel_stride)
            yield Portion((tap * held + channel) * pitch, count * pitch, [store])
            line += count

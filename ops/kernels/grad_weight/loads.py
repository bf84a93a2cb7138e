"""The loads of grad_weight from GM to L1: boxes of pixels of a map, in blocks of channels or as NCDHW or NDHWC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices, Span
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.grad_weight.strips import Strip
from ascend_sim.ops.layouts.planar import Channels, MapBox, Pitches, Place, load_channels, load_run
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput


class Box(NamedTuple):
    """Rows and columns of a map."""

    row: int
    rows: int
    column: int
    columns: int


def boxes(strip: Strip, start: int, end: int) -> list[tuple[Box, int]]:
    """Pixels start .. end - 1 of a strip, row-major, as boxes of the strip, each with its place in L1 (bytes).

    They are what the first row has left, whole rows, and the beginning of the last one.
    """
    width, found, pixel = strip.problem.w_out, [], start
    while pixel < end:
        row, column = divmod(pixel, width)
        rows, columns = 1, min(width - column, end - pixel)
        if columns == width:
            rows = (end - pixel) // width
        found.append((Box(row, rows, column, columns), (pixel - start) * BLOCK_BYTES))
        pixel += rows * columns
    return found


@dataclass(frozen=True)
class MapLoads:
    """Loads of the map "in" or "out" of a problem, tensor `slot` of the launch, each as operand "B" or "A"."""

    inp: TilingInput
    side: str
    slot: int

    @property
    def operand(self) -> str:
        """What the counts call it."""
        return "B" if self.side == "in" else "A"

    @property
    def _map(self) -> Channels:
        return Channels.of(self.inp, self.side, self.inp.itemsize)

    def load(self, k: KernelBuilder, target: int, place: Place, channels: int, box: Box, pitch: int) -> None:
        """A box of `channels` channels from `place` to L1, row after row.

        `pitch` is the number of pixels from one channel block to the next in L1.
        """
        source_map = self._map
        depths, height, width = source_map.volume
        row, rows, column, columns = box
        if columns == width:  # rows adjoin
            rows, columns = 1, rows * columns
        if self.inp.direct:
            self._direct(k, target, place, channels, Box(row, rows, column, columns), pitch)
            return
        blocks, plane = ceil_div(channels, self.inp.c0), height * width * BLOCK_BYTES
        image = (place.batch * depths + place.depth) * ceil_div(source_map.count, self.inp.c0)
        source = (image + place.channel // self.inp.c0) * plane + (row * width + column) * BLOCK_BYTES
        size, line = columns * BLOCK_BYTES, width * BLOCK_BYTES
        if rows <= blocks:  # a copy per row, else one per channel block
            for index in range(rows):
                start, to = gm_operand(self.slot, source + index * line), target + index * size
                k.data_copy("GM", "L1", to, start, size, blocks, plane, pitch * BLOCK_BYTES, operand=self.operand)
            return
        for index in range(blocks):
            start, to = gm_operand(self.slot, source + index * plane), target + index * pitch * BLOCK_BYTES
            k.data_copy("GM", "L1", to, start, size, rows, line, size, operand=self.operand)

    def _direct(self, k: KernelBuilder, target: int, place: Place, channels: int, box: Box, pitch: int) -> None:
        """The same from NCDHW, where one transfer takes all rows, or NDHWC, where each takes a row."""
        source_map = self._map
        row, rows, column, columns = box
        if rows == 1 and columns == pitch:
            run = Span(row * source_map.volume[2] + column, columns)
            load_run(k, target, self.slot, source_map, place, channels, run, self.operand)
            return
        pitches = Pitches(columns * BLOCK_BYTES, BLOCK_BYTES, pitch * BLOCK_BYTES)
        together = 1 if source_map.channels_last else rows
        for index in range(0, rows, together):
            wanted = MapBox(place, channels, Span(row + index, together), Span(column, columns))
            to = target + index * columns * BLOCK_BYTES
            load_channels(k, to, self.slot, source_map, wanted, pitches, self.operand)

    def gather(
        self, k: KernelBuilder, target: int, place: Place, channels: int, box: Box, strip: Strip, pitch: int
    ) -> None:
        """The pixels that a tap meets from a box of gradOutput's, one after the other, of a map NCDHW or NDHWC."""
        source_map = self._map
        row, rows, column, columns = box
        width, step = source_map.volume[2], strip.column_step
        together = rows if step == 1 and not source_map.channels_last else 1
        for index in range(0, rows, together):
            pixel = ((row + index) * strip.row_step + strip.top) * width + strip.first + column * step
            source = gm_operand(self.slot, source_map.offset(*place, pixel))
            to = target + index * columns * BLOCK_BYTES
            if source_map.channels_last:
                pixel_stride = step * source_map.pixel
                k.data_copy_nd2nz(to, source, columns, channels, source_map.itemsize, pixel_stride, pitch, self.operand)
                continue
            adjoining = step == 1  # a matrix holds the pixels of a row; else each is a matrix of its own
            matrices = ChannelMatrices(
                channels=channels,
                pixels=columns if adjoining else 1,
                itemsize=source_map.itemsize,
                channel_stride=source_map.stride,
                pixel_stride=BLOCK_BYTES,
                block_stride=pitch * BLOCK_BYTES,
                matrices=together if adjoining else columns,
                src_step=(strip.row_step * width if adjoining else step) * source_map.itemsize,
                dst_step=(columns if adjoining else 1) * BLOCK_BYTES,
            )
            k.data_copy_dn2nz(to, source, matrices, self.operand)

"""The loads of grad_weight from GM to L1: boxes of pixels of a map, in blocks of channels or as NCDHW or NDHWC."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.pipeline import BLOCK_BYTES
from ascend_sim.ops.kernels.grad_weight.strips import Strip
from ascend_sim.ops.layouts.planar import Channels, load_channels, load_run
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.tiling_input import TilingInput

Box = tuple[int, int, int, int]
"""(first row, rows, first column, columns) of a map."""


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
        found.append(((row, rows, column, columns), (pixel - start) * BLOCK_BYTES))
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

    def load(
        self, k: KernelBuilder, target: int, place: tuple[int, int, int], channels: int, box: Box, pitch: int
    ) -> None:
        """A box of `channels` channels from `place` (batch, depth, channel) to L1, row after row.

        `pitch` is the number of pixels from one channel block to the next in L1.
        """
        of = Channels.of(self.inp, self.side, self.inp.itemsize)
        width = of.volume[2]
        row, rows, column, columns = box
        if columns == width:  # rows adjoin
            rows, columns = 1, rows * columns
        if self.inp.direct:
            self._direct(k, target, place, channels, (row, rows, column, columns), pitch)
            return
        batch, depth, channel = place
        blocks, plane = ceil_div(channels, self.inp.c0), of.volume[1] * width * BLOCK_BYTES
        image = (batch * of.volume[0] + depth) * ceil_div(of.count, self.inp.c0) + channel // self.inp.c0
        source = image * plane + (row * width + column) * BLOCK_BYTES
        size = columns * BLOCK_BYTES
        if rows <= blocks:  # a copy per row, else one per channel block
            for index in range(rows):
                start = gm_operand(self.slot, source + index * width * BLOCK_BYTES)
                self._copy(k, target + index * size, start, (size, blocks, plane, pitch * BLOCK_BYTES))
            return
        for index in range(blocks):
            start = gm_operand(self.slot, source + index * plane)
            move = (size, rows, width * BLOCK_BYTES, size)
            self._copy(k, target + index * pitch * BLOCK_BYTES, start, move)

    def _copy(self, k: KernelBuilder, target: int, source: int, move: tuple[int, int, int, int]) -> None:
        k.data_copy("GM", "L1", target, source, *move, operand=self.operand)

    def _direct(
        self, k: KernelBuilder, target: int, place: tuple[int, int, int], channels: int, box: Box, pitch: int
    ) -> None:
        """The same from NCDHW, where one transfer takes all rows, or NDHWC, where each takes a row."""
        of = Channels.of(self.inp, self.side, self.inp.itemsize)
        row, rows, column, columns = box
        batch, depth, channel = place
        start = row * of.volume[2] + column
        if rows == 1 and columns == pitch:
            load_run(k, target, self.slot, of, (batch, channel, depth), channels, (start, columns), self.operand)
            return
        pitches = (columns * BLOCK_BYTES, BLOCK_BYTES, pitch * BLOCK_BYTES)
        together = 1 if of.last else rows
        for index in range(0, rows, together):
            load_channels(
                k, target + index * columns * BLOCK_BYTES, self.slot, of, (batch, channel, depth), channels,
                (row + index, together), (column, columns), pitches, self.operand,
            )  # fmt: skip

    def gather(
        self, k: KernelBuilder, target: int, place: tuple[int, int, int], channels: int, box: Box, strip: Strip, pitch: int
    ) -> None:  # fmt: skip
        """The pixels that a tap meets from a box of gradOutput's, one after the other, of a map NCDHW or NDHWC."""
        of = Channels.of(self.inp, self.side, self.inp.itemsize)
        (row, rows, column, columns), (batch, depth, channel) = box, place
        width, step = of.volume[2], strip.column_step
        together = rows if step == 1 and not of.last else 1
        for index in range(0, rows, together):
            pixel = ((row + index) * strip.row_step + strip.top) * width + strip.first + column * step
            source = gm_operand(self.slot, of.offset(batch, channel, depth, pixel))
            to = target + index * columns * BLOCK_BYTES
            if of.last:
                k.data_copy_nd2nz(to, source, columns, channels, of.itemsize, step * of.pixel, pitch, self.operand)
                continue
            line = (columns, together, strip.row_step * width, columns) if step == 1 else (1, columns, step, 1)
            pixels, count, src, dst = line
            move = (
                channels, pixels, of.itemsize, of.stride, BLOCK_BYTES, pitch * BLOCK_BYTES, count, src * of.itemsize,
                dst * BLOCK_BYTES, self.operand,
            )  # fmt: skip
            k.data_copy_dn2nz(move, to, source)

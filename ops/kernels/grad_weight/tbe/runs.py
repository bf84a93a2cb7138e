"""Operands in L1 as runs of pixels, [c1][pixels][C0], that go to L0 by load2d: fractal by fractal, each transposed on the way.

They are 16-bit gradOutput, and the 16-bit input of a 1x1 kernel without strides and pads in 2-D (stated: schedule of
CANN 8.1, conv2d_backprop_filter_schedule.py; gradOutput in 3-D: the schedule of 2022 and the tiling's cost model, both
stated). The run of a channel block is padded to whole fractals (stated); behind the last pixel lie zeros, which no Mmad
multiplies (ours). How many loads a step takes is not known. Here they are as few as the strides of load2d allow: one
for each channel block or for each unit of K, whichever are fewer (inferred: the cost model has one start a step, and
two cycles more for each unit of K of gradOutput, or channel block of the input).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, Span
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.pipeline import zero_l1
from ascend_sim.ops.kernels.grad_weight.parts import boxes, inside, tap_offset
from ascend_sim.ops.layouts.layout import ChannelPlace, FeatureMap, MapBox
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.tiling_input import TilingInput


def gather_taps(
    k: KernelBuilder, inp: TilingInput, slot: int, address: int, place: ChannelPlace, columns: range, span: range
) -> None:
    """Load columns `columns` of dW (channel block, tap, channel) for the gradOutput pixels `span` to L1, as [column
    block][pixels][C0].

    `place` is the first channel of the group in the input NC1HWC0, tensor `slot` of the launch. With padding L1 is first
    filled with zeros there. It serves problems that load3d cannot express, because of a large stride or pad or because L1
    has no room for the rows (stated of the older kernels: an img2col DMA; that it moves one pixel a burst is inferred).
    """
    p, taps = inp.problem, inp.taps
    image = (place.batch * p.d_in + place.depth) * ceil_div(p.c_in, inp.c0) + place.channel // inp.c0
    pieces = list(boxes(Strip(p, 0, p.w_out, 0), Span(span.start, len(span))))
    if max(p.pad_up, p.pad_down, p.pad_left, p.pad_right) > 0:
        zero_l1(k, address, ceil_div(len(columns), inp.c0) * len(span) * BLOCK_BYTES)
        k.pipe_barrier("MTE2")
    for index, block in enumerate(range(columns.start // inp.c0, ceil_div(columns.stop, inp.c0))):
        channel_block, tap = divmod(block, taps)
        down, right = tap_offset(p, tap)
        target = address + index * len(span) * BLOCK_BYTES
        for (first_row, rows), (column, width), offset in pieces:
            for row in range(first_row, first_row + rows):
                y = row * p.stride_h + down
                met = inside(range(column, column + width), p.stride_w, right, p.w_in) if 0 <= y < p.h_in else range(0)
                if not met:
                    continue
                x = met.start * p.stride_w + right
                pixel = ((image + channel_block) * p.h_in + y) * p.w_in + x
                to = target + offset + ((row - first_row) * width + met.start - column) * BLOCK_BYTES
                k.copy_rows(
                    "GM->L1",
                    to,
                    gm_operand(slot, pixel * BLOCK_BYTES),
                    BLOCK_BYTES,
                    CopyLoop(len(met), p.stride_w * BLOCK_BYTES, BLOCK_BYTES),
                    operand="B",
                )


@frozen
class TbeRuns:
    """Runs of pixels in L1 of one kernel, padded to multiples of `whole` pixels; with `by_rows` each row of a strip is."""

    k: KernelBuilder
    whole: int
    by_rows: bool

    def load(
        self, tensor: FeatureMap, slot: int, place: ChannelPlace, channels: int, strip: Strip, span: Span, to: int
    ) -> None:
        """Load the pixels `span` of a strip to L1 at `to` as [c1][pixels][C0]: `channels` from `place` on, of tensor `slot`."""
        pitch = self.pitch(strip, span)
        step = self._row(strip) or span.length
        for first in range(0, span.length, step):
            at = to + self.place(strip, first) * BLOCK_BYTES
            for rows, columns, offset in boxes(strip, Span(span.start + first, step)):
                tensor.load_pixels(self.k, slot, MapBox(place, channels, rows, columns), at + offset, pitch, "AB"[slot])

    def pitch(self, strip: Strip, span: Span) -> int:
        """Return the pixels in L1 from one channel block of a run to the next."""
        return ceil_to(self.place(strip, span.length), self.whole)

    def place(self, strip: Strip, pixels: int) -> int:
        """Return the pixels of L1 that the first `pixels` pixels of a run take, padding between rows included."""
        row = self._row(strip)
        return pixels // row * ceil_to(row, self.whole) + pixels % row if row else pixels

    def _row(self, strip: Strip) -> int:
        """Return the pixels of a row if each row is padded by itself, 0 if none is or needs to be."""
        width = strip.problem.w_out
        return width if self.by_rows and width % self.whole else 0

    def turn(self, destination: str, dst: int, src: int, strip: Strip, held: Span, pixels: Span, blocks: Span) -> None:
        """Load `pixels` of the run `held` (in L1 at `src`), for channel `blocks`, transposed by load2d to `dst`, in L0A
        as [c1][K1] or in L0B as [K1][c1] (`destination`).
        """
        pitch = self.pitch(strip, held)
        source = src + (blocks.start * pitch + self.place(strip, pixels.start - held.start)) * BLOCK_BYTES
        count, units = blocks.length, ceil_div(pixels.length, FRACTAL)
        # Loads, and fractals of each: their number, and how far apart they are in L1 and in L0.
        along_c, along_k = (count, pitch // FRACTAL, 1), (units, 1, count)
        if destination == "L0A":
            along_c, along_k = (count, pitch // FRACTAL, units), (units, 1, 1)
            if pitch == units * FRACTAL:
                along_c, along_k = (1, 0, 0), (count * units, 1, 1)
        (loads, far, apart), (repeat, stride, place) = sorted((along_c, along_k), key=lambda axis: axis[0])
        for index in range(loads):
            to, start = dst + index * apart * FRACTAL_BYTES, source + index * far * FRACTAL_BYTES
            self.k.load_data_2d(destination, to, start, 2, repeat, stride, True, place)

"""Gather of operand B from GM: for each tap the input pixel of each gradOutput pixel, a block of channels at a time.

It serves problems that load3d cannot express, because of a large stride or pad or because L1 has no room for the rows
(stated of the older kernels: an img2col DMA; that it moves one pixel a burst is inferred).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop, Span
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.kernels.cube.pipeline import zero_l1
from ascend_sim.ops.kernels.grad_weight.parts import boxes
from ascend_sim.ops.layouts.layout import ChannelPlace
from ascend_sim.ops.problem.sizes import ceil_div
from ascend_sim.ops.problem.strips import Strip
from ascend_sim.ops.problem.tiling_input import TilingInput


def gather_taps(
    k: KernelBuilder, inp: TilingInput, slot: int, address: int, place: ChannelPlace, columns: range, span: range
) -> None:
    """Load columns `columns` of dW (channel block, tap, channel) for the gradOutput pixels `span` to L1, as [column
    block][pixels][C0].

    `place` is the first channel of the group in the input NC1HWC0, tensor `slot` of the launch. With padding the place
    is first filled with zeros.
    """
    p, taps = inp.problem, inp.taps
    image = (place.batch * p.d_in + place.depth) * ceil_div(p.c_in, inp.c0) + place.channel // inp.c0
    pieces = list(boxes(Strip(p, 0, p.w_out, 0), Span(span.start, len(span))))
    if max(p.pad_up, p.pad_down, p.pad_left, p.pad_right) > 0:
        zero_l1(k, address, ceil_div(len(columns), inp.c0) * len(span) * BLOCK_BYTES)
        k.pipe_barrier("MTE2")
    for index, block in enumerate(range(columns.start // inp.c0, ceil_div(columns.stop, inp.c0))):
        channel_block, tap = divmod(block, taps)
        down, right = (tap // p.k_w) * p.dilation_h - p.pad_up, tap % p.k_w * p.dilation_w - p.pad_left
        target = address + index * len(span) * BLOCK_BYTES
        for (first_row, rows), (column, width), offset in pieces:
            for row in range(first_row, first_row + rows):
                y = row * p.stride_h + down
                met = _inside(range(column, column + width), p.stride_w, right, p.w_in) if 0 <= y < p.h_in else range(0)
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


def _inside(columns: range, stride: int, offset: int, size: int) -> range:
    """Return the `columns` for which column * stride + offset lies in 0 .. size - 1."""
    first = max(columns.start, ceil_div(-offset, stride))
    last = min(columns.stop, (size - 1 - offset) // stride + 1)
    return range(first, max(last, first))

"""Loads of the cube kernels that read plain tensors themselves (dav-3510), through transfers that put channels into blocks.

Maps are NCDHW (dn2nz) or NDHWC (nd2nz), weights [C_out, C_in, kD, kH, kW] or DHWCN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Protocol

from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import FRACTAL, TilingInput

BLOCK_BYTES = 32


@dataclass(frozen=True)
class Channels:
    """A map [N, C, D, H, W] in GM, or [N, D, H, W, C] with `last`: C, (D, H, W), bytes of an element."""

    count: int
    volume: tuple[int, int, int]
    itemsize: int
    last: bool = False

    @classmethod
    def of(cls, inp: TilingInput, side: str, itemsize: int) -> Channels:
        """The map "in" or "out" of the problem of a tiling."""
        p = inp.problem
        if side == "in":
            return cls(p.c_in, (p.d_in, p.h_in, p.w_in), itemsize, inp.channels_last)
        return cls(p.c_out, (p.d_out, p.h_out, p.w_out), itemsize, inp.channels_last)

    @property
    def stride(self) -> int:
        """Bytes from one channel to the next."""
        return self.itemsize if self.last else prod(self.volume) * self.itemsize

    @property
    def pixel(self) -> int:
        """Bytes from one pixel to the next."""
        return self.count * self.itemsize if self.last else self.itemsize

    def offset(self, batch: int, channel: int, depth: int, pixel: int) -> int:
        """Byte offset of a pixel of a plane."""
        _, height, width = self.volume
        image = batch * self.count * prod(self.volume) * self.itemsize
        return image + channel * self.stride + (depth * height * width + pixel) * self.pixel


class Corner(Protocol):
    """The part of dW, rows and columns (channels and taps), that a task computes."""

    @property
    def m_start(self) -> int:
        """First row."""

    @property
    def m_count(self) -> int:
        """Rows."""

    @property
    def n_start(self) -> int:
        """First column."""

    @property
    def n_count(self) -> int:
        """Columns."""


@dataclass(frozen=True)
class DirectWeights:
    """dW [C_out, C_in / groups, kD, kH, kW] in fp32, as the real groups of a tiling see it; strides in bytes.

    A StreamK slot holds the rows of a task, [channel][tap] each; `channel_pitch` is what a channel's taps take there: whole
    32-byte blocks, where a row of the slot is not stored in one piece (`dense`). With `last` dW is DHWCN, of one group, and a
    slot [tap][channel] lines of a task's rows.
    """

    taps: int
    kd: int
    filters: int
    channels: int
    real_filters: int
    dense: bool
    last: bool = False

    @classmethod
    def of(cls, inp: TilingInput) -> DirectWeights:
        """For the problem of a tiling."""
        p = inp.problem
        dense = p.k_d == 1 and inp.group_extension == 1
        filters, channels = p.c_out // p.groups, p.c_in // p.groups
        return cls(inp.taps, p.k_d, filters, channels, inp.cout_g, dense, inp.channels_last)

    @property
    def channel_stride(self) -> int:
        """From one input channel to the next."""
        return self.filters * 4 if self.last else self.kd * self.taps * 4

    @property
    def filter_stride(self) -> int:
        """From one output channel to the next."""
        return 4 if self.last else self.channels * self.channel_stride

    @property
    def channel_pitch(self) -> int:
        """Of one channel in a row of a slot."""
        return self.taps * 4 if self.dense else ceil_to(self.taps * 4, BLOCK_BYTES)

    def pitch_of(self, columns: int) -> int:
        """Bytes of a slot's row of `columns` columns (channels and taps)."""
        return ceil_to(columns // self.taps * self.channel_pitch, BLOCK_BYTES)

    def slot_pitch(self, task: Corner) -> int:
        """Bytes of a row in the slot of a task, with `last` of a line."""
        return ceil_to(task.m_count * 4, BLOCK_BYTES) if self.last else self.pitch_of(task.n_count)

    def slot_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the slot of a task."""
        if self.last:
            return columns * ceil_to(rows * 4, BLOCK_BYTES)
        return ceil_to(rows, FRACTAL) * self.pitch_of(columns)

    def slot_offset(self, task: Corner, row: int, channel: int, tap: int) -> int:
        """Where an element of a task stands in its slot."""
        row, channel = row - task.m_start, channel - task.n_start // self.taps
        if self.last:
            return (tap * (task.n_count // self.taps) + channel) * self.slot_pitch(task) + row * 4
        return row * self.slot_pitch(task) + channel * self.channel_pitch + tap * 4

    def slot_strides(self, task: Corner) -> tuple[int, int]:
        """Bytes from row to row and from channel to channel in a slot."""
        return (4, self.slot_pitch(task)) if self.last else (self.slot_pitch(task), self.channel_pitch)

    def offset(self, real_group: int, row: int, channel: int, plane: int, tap: int) -> int:
        """Where an element of a real group stands: `row` and `channel` count in that."""
        if self.last:
            return ((plane * self.taps + tap) * self.channels + channel) * self.channel_stride + row * 4
        own = channel - row // self.filters * self.channels
        filters = real_group * self.real_filters + row
        return filters * self.filter_stride + own * self.channel_stride + (plane * self.taps + tap) * 4

    def own(self, rows: range, channels: range) -> Iterator[tuple[int, int, int, int]]:
        """(first row, rows, first channel, channels) of the rectangles in which rows and channels are of one group."""
        for group in range(rows.start // self.filters, (rows.stop - 1) // self.filters + 1):
            top, bottom = max(rows.start, group * self.filters), min(rows.stop, (group + 1) * self.filters)
            left, right = max(channels.start, group * self.channels), min(channels.stop, (group + 1) * self.channels)
            if top < bottom and left < right:
                yield top, bottom - top, left, right - left

    def own_rows(self, rows: range, channels: range) -> Iterator[tuple[int, int, int, int]]:
        """The same row by row."""
        for row in rows:
            yield from self.own(range(row, row + 1), channels)


def load_channels(
    k: KernelBuilder, target: int, slot: int, of: Channels, place: tuple[int, int, int], channels: int,
    rows: tuple[int, int], columns: tuple[int, int], pitches: tuple[int, int, int], operand: str,
) -> None:  # fmt: skip
    """Rows and columns, (first, count) each, of `channels` channels from `place` (batch, channel, depth) to L1.

    `pitches` are the bytes between rows, between pixels and between channel blocks there.
    """
    width = of.volume[2]
    row_pitch, pixel_pitch, block_pitch = pitches
    source = of.offset(*place, rows[0] * width + columns[0])
    count, pixels = rows[1], columns[1]
    if pixels == width and row_pitch == width * pixel_pitch:
        count, pixels = 1, count * pixels
    if of.last:
        if count > 1 or pixel_pitch != BLOCK_BYTES:
            raise SimError(
                "a map NDHWC is loaded in runs of pixels: its convolution has no stride and no part of a row"
            )
        k.data_copy_nd2nz(
            target,
            gm_operand(slot, source),
            pixels,
            channels,
            of.itemsize,
            of.pixel,
            block_pitch // BLOCK_BYTES,
            operand,
        )
        return
    move = (
        channels, pixels, of.itemsize, of.stride, pixel_pitch, block_pitch, count, width * of.itemsize, row_pitch, operand,
    )  # fmt: skip
    k.data_copy_dn2nz(move, target, gm_operand(slot, source))


def load_run(
    k: KernelBuilder, target: int, slot: int, of: Channels, place: tuple[int, int, int], channels: int,
    pixels: tuple[int, int], operand: str,
) -> None:  # fmt: skip
    """A run of pixels (first, count) of a plane, [c1][pixels][C0] in L1."""
    start, count = pixels
    if of.last:
        source = gm_operand(slot, of.offset(*place, start))
        k.data_copy_nd2nz(target, source, count, channels, of.itemsize, of.pixel, count, operand)
        return
    move = (channels, count, of.itemsize, of.stride, BLOCK_BYTES, count * BLOCK_BYTES, 1, 0, 0, operand)
    k.data_copy_dn2nz(move, target, gm_operand(slot, of.offset(*place, start)))


def load_filters(
    k: KernelBuilder, target: int, slot: int, p: ConvProblem, filters: tuple[int, int], channels: tuple[int, int],
    plane: int, rows: int, itemsize: int, last: bool = False, some: tuple[int, int] | None = None,
) -> None:  # fmt: skip
    """Filters (first, count) and their channels (first in the group, count) of one kernel plane, as FRACTAL_Z in L1.

    That is [channel block][tap][`rows` filters][C0]; filters that fill up the rows are zeros. With `last` the weights are
    DHWCN, where the filters of a channel adjoin. `some` are the taps wanted, (first, count); else all.
    """
    whole, c0 = p.k_h * p.k_w, BLOCK_BYTES // itemsize
    first, taps = some or (0, whole)
    line = rows * BLOCK_BYTES
    channel_stride = p.k_d * whole * itemsize
    filter_stride = p.c_in // p.groups * channel_stride
    if filters[1] < rows:
        k.fill("L1", target, -(-channels[1] // c0) * taps * line)
        k.pipe_barrier("MTE2")
    if last:
        step = p.c_out * itemsize
        source = (((plane * whole + first) * p.c_in + channels[0]) * p.c_out + filters[0]) * itemsize
        move = (channels[1], filters[1], itemsize, step, BLOCK_BYTES, taps * line, taps, p.c_in * step, line, "B")
        k.data_copy_dn2nz(move, target, gm_operand(slot, source))
        return
    source = filters[0] * filter_stride + channels[0] * channel_stride + (plane * whole + first) * itemsize
    move = (
        channels[1], taps, itemsize, channel_stride, line, taps * line, filters[1], filter_stride, BLOCK_BYTES, "B",
    )  # fmt: skip
    k.data_copy_dn2nz(move, target, gm_operand(slot, source))

"""Loads of the cube kernels that read plain tensors themselves (dav-3510), through transfers that put channels into blocks.

Maps are NCDHW (dn2nz) or NDHWC (nd2nz), weights [C_out, C_in, kD, kH, kW] or DHWCN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import NamedTuple, Protocol

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices, Span
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.sizes import ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput


class Place(NamedTuple):
    """A channel of one plane of a map."""

    batch: int
    channel: int
    depth: int


class MapBox(NamedTuple):
    """Rows and columns of one plane, in `channels` channels from that of `place` on."""

    place: Place
    channels: int
    rows: Span
    columns: Span


class Pitches(NamedTuple):
    """Bytes in L1 from one row to the next, from one pixel to the next, from one channel block to the next."""

    row: int
    pixel: int
    block: int


class FilterBox(NamedTuple):
    """Filters, their channels (counted in the group) and taps of one kernel plane."""

    filters: Span
    channels: Span
    plane: int
    taps: Span


@dataclass(frozen=True)
class Channels:
    """A map [N, C, D, H, W] in GM, or [N, D, H, W, C] with `channels_last`: C, (D, H, W), bytes of an element."""

    count: int
    volume: tuple[int, int, int]
    itemsize: int
    channels_last: bool = False

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
        return self.itemsize if self.channels_last else prod(self.volume) * self.itemsize

    @property
    def pixel(self) -> int:
        """Bytes from one pixel to the next."""
        return self.count * self.itemsize if self.channels_last else self.itemsize

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
    32-byte blocks, where a row of the slot is not stored in one piece (`dense`). With `channels_last` dW is DHWCN, of one
    group, and a slot [tap][channel] lines of a task's rows.
    """

    taps: int
    kd: int
    filters: int
    channels: int
    real_filters: int
    dense: bool
    channels_last: bool = False

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
        return self.filters * 4 if self.channels_last else self.kd * self.taps * 4

    @property
    def filter_stride(self) -> int:
        """From one output channel to the next."""
        return 4 if self.channels_last else self.channels * self.channel_stride

    @property
    def channel_pitch(self) -> int:
        """Of one channel in a row of a slot."""
        return self.taps * 4 if self.dense else ceil_to(self.taps * 4, BLOCK_BYTES)

    def pitch_of(self, columns: int) -> int:
        """Bytes of a slot's row of `columns` columns (channels and taps)."""
        return ceil_to(columns // self.taps * self.channel_pitch, BLOCK_BYTES)

    def slot_pitch(self, task: Corner) -> int:
        """Bytes of a row in the slot of a task, with `channels_last` of a line."""
        return ceil_to(task.m_count * 4, BLOCK_BYTES) if self.channels_last else self.pitch_of(task.n_count)

    def slot_bytes(self, rows: int, columns: int) -> int:
        """Bytes of the slot of a task."""
        if self.channels_last:
            return columns * ceil_to(rows * 4, BLOCK_BYTES)
        return ceil_to(rows, FRACTAL) * self.pitch_of(columns)

    def slot_offset(self, task: Corner, row: int, channel: int, tap: int) -> int:
        """Where an element of a task stands in its slot."""
        row, channel = row - task.m_start, channel - task.n_start // self.taps
        if self.channels_last:
            return (tap * (task.n_count // self.taps) + channel) * self.slot_pitch(task) + row * 4
        return row * self.slot_pitch(task) + channel * self.channel_pitch + tap * 4

    def slot_strides(self, task: Corner) -> tuple[int, int]:
        """Bytes from row to row and from channel to channel in a slot."""
        return (4, self.slot_pitch(task)) if self.channels_last else (self.slot_pitch(task), self.channel_pitch)

    def offset(self, real_group: int, row: int, channel: int, plane: int, tap: int) -> int:
        """Where an element of a real group stands: `row` and `channel` count in that."""
        if self.channels_last:
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
    k: KernelBuilder, target: int, slot: int, source_map: Channels, box: MapBox, pitches: Pitches, operand: str
) -> None:
    """A box of a map, tensor `slot` of the launch, to L1; `operand` is what the counts call it."""
    width = source_map.volume[2]
    source = gm_operand(slot, source_map.offset(*box.place, box.rows.start * width + box.columns.start))
    count, pixels = box.rows.length, box.columns.length
    if pixels == width and pitches.row == width * pitches.pixel:
        count, pixels = 1, count * pixels
    if source_map.channels_last:
        if count > 1 or pitches.pixel != BLOCK_BYTES:
            raise SimError(
                "a map NDHWC is loaded in runs of pixels: its convolution has no stride and no part of a row"
            )
        rows_padded = pitches.block // BLOCK_BYTES
        k.data_copy_nd2nz(
            target, source, pixels, box.channels, source_map.itemsize, source_map.pixel, rows_padded, operand
        )
        return
    matrices = ChannelMatrices(
        channels=box.channels,
        pixels=pixels,
        itemsize=source_map.itemsize,
        channel_stride=source_map.stride,
        pixel_stride=pitches.pixel,
        block_stride=pitches.block,
        matrices=count,
        src_step=width * source_map.itemsize,
        dst_step=pitches.row,
    )
    k.data_copy_dn2nz(target, source, matrices, operand)


def load_run(
    k: KernelBuilder,
    target: int,
    slot: int,
    source_map: Channels,
    place: Place,
    channels: int,
    pixels: Span,
    operand: str,
) -> None:
    """A run of pixels of a plane, [c1][pixels][C0] in L1."""
    source, count = gm_operand(slot, source_map.offset(*place, pixels.start)), pixels.length
    if source_map.channels_last:
        k.data_copy_nd2nz(target, source, count, channels, source_map.itemsize, source_map.pixel, count, operand)
        return
    matrices = ChannelMatrices(
        channels=channels,
        pixels=count,
        itemsize=source_map.itemsize,
        channel_stride=source_map.stride,
        pixel_stride=BLOCK_BYTES,
        block_stride=count * BLOCK_BYTES,
    )
    k.data_copy_dn2nz(target, source, matrices, operand)


def load_filters(
    k: KernelBuilder,
    target: int,
    slot: int,
    p: ConvProblem,
    box: FilterBox,
    rows: int,
    itemsize: int,
    channels_last: bool,
) -> None:
    """Weights as FRACTAL_Z in L1: [channel block][tap][`rows` filters][C0]; filters that fill up the rows are zeros.

    With `channels_last` the weights are DHWCN, where the filters of a channel adjoin.
    """
    filters, channels, plane, taps = box
    whole, c0 = p.k_h * p.k_w, BLOCK_BYTES // itemsize
    line = rows * BLOCK_BYTES
    block = taps.length * line
    if filters.length < rows:
        k.fill("L1", target, -(-channels.length // c0) * block)
        k.pipe_barrier("MTE2")
    first_tap = plane * whole + taps.start
    if channels_last:  # a matrix for each tap
        source = ((first_tap * p.c_in + channels.start) * p.c_out + filters.start) * itemsize
        matrices = ChannelMatrices(
            channels=channels.length,
            pixels=filters.length,
            itemsize=itemsize,
            channel_stride=p.c_out * itemsize,
            pixel_stride=BLOCK_BYTES,
            block_stride=block,
            matrices=taps.length,
            src_step=p.c_in * p.c_out * itemsize,
            dst_step=line,
        )
    else:  # a matrix for each filter
        channel_stride = p.k_d * whole * itemsize
        filter_stride = p.c_in // p.groups * channel_stride
        source = filters.start * filter_stride + channels.start * channel_stride + first_tap * itemsize
        matrices = ChannelMatrices(
            channels=channels.length,
            pixels=taps.length,
            itemsize=itemsize,
            channel_stride=channel_stride,
            pixel_stride=line,
            block_stride=block,
            matrices=filters.length,
            src_step=filter_stride,
            dst_step=BLOCK_BYTES,
        )
    k.data_copy_dn2nz(target, gm_operand(slot, source), matrices, "B")

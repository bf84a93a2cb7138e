"""Loads of the cube kernels that read NCDHW tensors themselves (dav-3510), through transfers that turn channels into blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.fields import FRACTAL, TilingInput, ceil_to
from ascend_sim.ops.tiling.tasks import GradWeightTask

BLOCK_BYTES = 32


@dataclass(frozen=True)
class Channels:
    """A map [N, C, D, H, W] in GM: C, (D, H, W), bytes of an element."""

    count: int
    volume: tuple[int, int, int]
    itemsize: int

    @property
    def stride(self) -> int:
        """Bytes from one channel to the next."""
        return prod(self.volume) * self.itemsize

    def offset(self, batch: int, channel: int, depth: int, pixel: int) -> int:
        """Byte offset of a pixel of a plane."""
        _, height, width = self.volume
        return (batch * self.count + channel) * self.stride + (depth * height * width + pixel) * self.itemsize


@dataclass(frozen=True)
class DirectWeights:
    """dW [C_out, C_in / groups, kD, kH, kW] in fp32, as the real groups of a tiling see it; strides in bytes.

    `channel_pitch` is what a channel's taps take in a row of a StreamK slot: whole 32-byte blocks, where a row of the slot is
    not stored in one piece (`dense`).
    """

    taps: int
    kd: int
    filters: int
    channels: int
    real_filters: int
    dense: bool

    @classmethod
    def of(cls, inp: TilingInput) -> DirectWeights:
        """For the problem of a tiling."""
        p = inp.problem
        dense = p.k_d == 1 and inp.group_extension == 1
        return cls(inp.taps, p.k_d, p.c_out // p.groups, p.c_in // p.groups, inp.cout_g, dense)

    @property
    def channel_stride(self) -> int:
        """From one input channel to the next."""
        return self.kd * self.taps * 4

    @property
    def filter_stride(self) -> int:
        """From one output channel to the next."""
        return self.channels * self.channel_stride

    @property
    def channel_pitch(self) -> int:
        """Of one channel in a row of a slot."""
        return self.taps * 4 if self.dense else ceil_to(self.taps * 4, BLOCK_BYTES)

    def pitch_of(self, columns: int) -> int:
        """Bytes of a slot's row of `columns` columns (channels and taps)."""
        return ceil_to(columns // self.taps * self.channel_pitch, BLOCK_BYTES)

    def slot_pitch(self, task: GradWeightTask) -> int:
        """Bytes of a row in the slot of a task."""
        return self.pitch_of(task.n_count)

    def offset(self, real_group: int, row: int, channel: int, plane: int, tap: int) -> int:
        """Where an element of a real group stands: `row` and `channel` count in that."""
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
    move = (channels, count, of.itemsize, of.stride, BLOCK_BYTES, count * BLOCK_BYTES, 1, 0, 0, operand)
    k.data_copy_dn2nz(move, target, gm_operand(slot, of.offset(*place, start)))


def load_filters(
    k: KernelBuilder, target: int, slot: int, p: ConvProblem, filters: tuple[int, int], channels: tuple[int, int],
    plane: int, blocks: int, itemsize: int,
) -> None:  # fmt: skip
    """Filters (first, count) and their channels (first in the group, count) of one kernel plane, as FRACTAL_Z in L1.

    That is [channel block][tap][`blocks`][16 filters][C0]; filters that fill up the last 16 are zeros.
    """
    taps, c0 = p.k_h * p.k_w, BLOCK_BYTES // itemsize
    line = blocks * FRACTAL * BLOCK_BYTES
    channel_stride = p.k_d * taps * itemsize
    filter_stride = p.c_in // p.groups * channel_stride
    if filters[1] < blocks * FRACTAL:
        k.fill("L1", target, -(-channels[1] // c0) * taps * line)
        k.pipe_barrier("MTE2")
    source = filters[0] * filter_stride + channels[0] * channel_stride + plane * taps * itemsize
    move = (
        channels[1], taps, itemsize, channel_stride, line, taps * line, filters[1], filter_stride, BLOCK_BYTES, "B",
    )  # fmt: skip
    k.data_copy_dn2nz(move, target, gm_operand(slot, source))

"""Loads of the cube kernels that read NCDHW tensors themselves (dav-3510), through transfers that turn channels into blocks."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.fields import FRACTAL

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

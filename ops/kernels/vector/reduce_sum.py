"""ReduceSum: [N, C, HW] summed over N and HW, the gradient of a bias.

Everything is added in fp32 in one fixed order and rounded once. A channel belongs to one block, so no sum crosses cores. With
HW > 1 the rows of a UB tile are reduced by the row reduction of the vector unit (published rows of a 910B2 show its rate,
7 cycles per 256 bytes), then the images of the tile, then tiles are added in turn. With HW = 1 channels lie side by side, and
tiles of [images][channels] are halved image-wise.

Where copies count whole blocks (the 910 and 310P) rows are loaded rounded up, and what is summed together fills whole blocks of
sums: so a block has channels of 32 bytes of them, as compiled reductions there need 32 bytes a core (assumed).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.memory.gm import gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    SOURCE,
    TARGET,
    Loop,
    buffer_queue,
    call_info,
    known_loop,
    padded,
    require_positive,
    vector_cores,
)
from ascend_sim.ops.kernels.vector.whole_blocks import load_rows, store_end
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut

DTYPES = ("float16", "bfloat16", "float32")
_WIDE = "float32"
_WIDE_BYTES = 4
_PER_BLOCK = BLOCK_BYTES // _WIDE_BYTES
_TILES = 3  # UB holds two fp32 tiles, or one beside two of half its size, and a third for the sums


def reduce_sum_work(chip: ChipSpec, shape: tuple[int, int, int], dtype: str, name: str) -> Loop:
    """Return the work of a ReduceSum of `shape` [n][c][hw] to [c], both in `dtype`, for `work_task`.

    Raises SimError for a size below 1, and for a dtype other than float16, bfloat16 and float32.
    """
    n, c, hw = shape
    require_positive(name, n=n, c=c, hw=hw)
    if dtype not in DTYPES:
        raise SimError(f"{name}: dtype is {dtype}; it sums {', '.join(DTYPES)}")
    info = call_info((dtype, dtype), ("ND", "ND"), ([n, c, hw], [c]))
    template = "ReduceSum_columns" if hw == 1 and n > 1 else ""
    return replace(_loop(chip, shape, dtype), info=info, template=template)


@known_loop
def _loop(chip: ChipSpec, shape: tuple[int, int, int], dtype: str) -> Loop:
    n, c, hw = shape
    sums = _Sums(chip, n, c, hw, dtype)
    per_block = ceil_div(ceil_div(c, sums.unit), vector_cores(chip)) * sums.unit

    def pieces_of(block: int) -> Iterator[tuple[_Tile, tuple[int, int]]]:
        return sums.pieces(block * per_block, min(per_block, c - block * per_block))

    return Loop(ceil_div(c, per_block), pieces_of, lambda k, pieces: _Kernel(k, sums).write(pieces))


class _Tile(NamedTuple):
    """Tile of `channels` channels, whose sums leave UB together: of each the pixels `pixel` .. `pixel + columns - 1` of
    `images` images. `is_first` and `is_last`: among the tiles of these channels.
    """

    channels: int
    images: int
    pixel: int
    columns: int
    is_first: bool
    is_last: bool

    @property
    def channel_step(self) -> int:
        """Return the bytes in UB from the sums of one channel's images to the next channel's: whole 32-byte blocks if the tile
        has several channels.
        """
        size = self.images * _WIDE_BYTES
        return size if self.channels == 1 else padded(size)


@frozen
class _Sums:
    """Sizes of a sum and of its tiles; `unit` channels are summed together, so that their sums fill whole blocks."""

    chip: ChipSpec
    n: int
    c: int
    hw: int
    dtype: str

    @cached_property
    def itemsize(self) -> int:
        """Return the bytes of an element."""
        return int(numpy_dtype(self.dtype).itemsize)

    @cached_property
    def unit(self) -> int:
        """Return the channels that are summed together at least: 32 bytes of them if HW = 1 or copies count blocks, else 1."""
        return BLOCK_BYTES // self.itemsize if self.hw == 1 or copies_whole_blocks(self.chip) else 1

    @cached_property
    def third(self) -> int:
        """Return the bytes of a fp32 tile in UB: a third, in whole 32-byte blocks."""
        return self.chip.buffers["UB"] // _TILES // BLOCK_BYTES * BLOCK_BYTES

    @property
    def elements(self) -> int:
        """Return the most elements of a tile."""
        return self.third // _WIDE_BYTES

    @property
    def most_channels(self) -> int:
        """Return the most channels of a tile: as many as `third` has 32-byte blocks, as a multiple of 8 (a block of sums)."""
        return self.third // BLOCK_BYTES // _PER_BLOCK * _PER_BLOCK

    def pieces(self, first: int, count: int) -> Iterator[tuple[_Tile, tuple[int, int]]]:
        """Yield (tile, (first image, first channel)) for `count` channels from `first` on; all tiles of some channels, then
        those of the next.
        """
        width = 1 if self.hw == 1 else self.pitch(self.hw)
        largest = max(min(self.elements // width, self.most_channels) // self.unit, 1) * self.unit
        for start, channels in cut(count, largest, self.unit):
            tiles = list(self._tiles(channels))
            for number, (image, images, pixel, columns) in enumerate(tiles):
                ends = not number, number == len(tiles) - 1
                yield _Tile(channels, images, pixel, columns, *ends), (image, first + start)

    def _tiles(self, channels: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield (first image, images, first pixel, pixels) of each tile of `channels` channels."""
        if self.hw == 1:
            most = max(self.elements // ceil_to(channels, BLOCK_BYTES // self.itemsize), 1)
            yield from ((image, images, 0, 1) for image, images in cut(self.n, most))
            return
        block = BLOCK_BYTES // self.itemsize
        pieces = cut(self.hw, self.elements // min(channels, self.unit) // block * block, block)
        most = max(min(self.elements // (self.pitch(pieces[0][1]) * channels), self.n), 1)
        for image, images in cut(self.n, most):
            yield from ((image, images, pixel, columns) for pixel, columns in pieces)

    def pitch(self, columns: int) -> int:
        """Return the elements in a tile from one row of `columns` elements to the next: whole 32-byte blocks."""
        return padded(columns * self.itemsize) // self.itemsize


class _Kernel:
    """Builder of the instructions of one ReduceSum block."""

    def __init__(self, k: KernelBuilder, sums: _Sums) -> None:
        self.k, self.sums, self.itemsize = k, sums, sums.itemsize
        self.narrow = sums.dtype != _WIDE
        self.incoming = buffer_queue(k, "in", "MTE2", "V", sums.elements * sums.itemsize, 1)
        self.wide = k.allocate("UB", sums.third, "fp32") if self.narrow else 0
        room = sums.most_channels * _WIDE_BYTES
        self.outgoing = buffer_queue(k, "out", "V", "MTE3", room)
        self.part, self.total = (k.allocate("UB", room, what) for what in ("tile sums", "total"))
        self.row_sums = k.allocate("UB", _PER_BLOCK // 2 * room, "row sums")  # two images of a channel take a block
        self.result = 0
        k.carry(self, "result")

    def write(self, pieces: Sequence[tuple[_Tile, tuple[int, int]]]) -> None:
        """Append the sums over all tiles, the store of each group of channels after its last tile, and the queues' end."""
        for tile, (image, channel) in self.k.stamped(pieces):
            if tile.is_first:
                self.result = self.outgoing.acquire()
            total = self.total if self.narrow else self.result
            (self._add_columns if self.sums.hw == 1 else self._add_rows)(total, tile, image, channel)
            if tile.is_last:
                self._store(total, channel, tile.channels)
        self.incoming.close()
        self.outgoing.close()

    def _store(self, total: int, channel: int, channels: int) -> None:
        """Append the store of the sums of `channels` channels from `channel` on, rounded once to their dtype."""
        if self.narrow:
            self.k.vector_cast(self.result, total, _WIDE, self.sums.dtype, channels)
        self.outgoing.publish()
        out = gm_operand(TARGET, channel * self.itemsize)
        store_end(self.k, out, self.outgoing.take(), channels * self.itemsize)
        self.outgoing.release()

    def _load(self, dst: int, first: int, columns: int, rows: int, stride: int, step: int) -> None:
        """Load rows of `columns` elements from element `first` on; rows are `stride` elements apart in GM and `step` in UB."""
        size = self.itemsize
        place, loop = gm_operand(SOURCE, first * size), CopyLoop(rows, stride * size, step * size)
        load_rows(self.k, dst, place, columns * size, loop)

    def _element(self, image: int, channel: int, pixel: int) -> int:
        """Return the index of an element in the flat source [n][c][hw]."""
        return (image * self.sums.c + channel) * self.sums.hw + pixel

    def _widened(self, tile: int, elements: int) -> int:
        """Return the address of a tile's values in fp32; for 16-bit ones, append a cast to the fp32 tile first."""
        if not self.narrow:
            return tile
        self.k.vector_cast(self.wide, tile, self.sums.dtype, _WIDE, elements)
        self.k.pipe_barrier("V")
        return self.wide

    def _add_rows(self, total: int, tile: _Tile, image: int, channel: int) -> None:
        """Append, for HW > 1, the load of a tile, [channel][image] rows of pixels, and its sums, added to fp32 `total`; the
        first tile's are written there.
        """
        k, images, channels, columns = self.k, tile.images, tile.channels, tile.columns
        k.next_tile()
        pitch, hw = self.sums.pitch(columns), self.sums.hw
        buffer = self.incoming.acquire()
        if channels < images:
            for i in range(channels):
                to = buffer + i * images * pitch * self.itemsize
                begin = self._element(image, channel + i, tile.pixel)
                self._load(to, begin, columns, images, self.sums.c * hw, pitch)
        else:
            for i in range(images):
                to = buffer + i * pitch * self.itemsize
                self._load(to, self._element(image + i, channel, tile.pixel), columns, channels, hw, images * pitch)
        self.incoming.publish()
        rows = channels * images
        loaded = self.incoming.take()
        self._issue_repeats(rows, columns)
        values = self._widened(loaded, rows * pitch)
        part = total if tile.is_first else self.part
        row, step = pitch * _WIDE_BYTES, tile.channel_step
        if images == 1:
            k.reduce_rows(part, values, rows, columns, row)
        elif step == images * _WIDE_BYTES:
            k.reduce_rows(self.row_sums, values, rows, columns, row)
        else:  # the sums of a channel's images begin at a block
            for i in range(channels):
                k.reduce_rows(self.row_sums + i * step, values + i * images * row, images, columns, row)
        self.incoming.release()
        k.pipe_barrier("V")
        if images > 1:
            k.reduce_rows(part, self.row_sums, channels, images, step)
            k.pipe_barrier("V")
        if not tile.is_first:
            k.vector_binary("add", total, total, part, _WIDE, channels)
            k.pipe_barrier("V")

    def _issue_repeats(self, rows: int, columns: int) -> None:
        """Append the scalar unit's wait for V, and the cycles in which it issues the reduction's repeats one by one (so
        published counters show): one issue for each 256 bytes of each of `rows` rows of `columns` fp32 numbers.
        """
        repeat = self.k.chip.vector.repeat_bytes
        self.k.scalar_wait("V")
        self.k.scalar(rows * ceil_div(columns * _WIDE_BYTES, repeat) * self.k.issue_cycles)

    def _add_columns(self, total: int, tile: _Tile, image: int, channel: int) -> None:
        """Append, for HW = 1, the load of a tile, [image][channel], and its sums, halved along images and added to fp32
        `total`, which the first tile zeroes before.
        """
        k, images, channels = self.k, tile.images, tile.channels
        pitch = ceil_to(channels, BLOCK_BYTES // self.itemsize)
        if tile.is_first:
            k.vector_duplicate(total, _WIDE, channels)
            if images == 1 and not self.narrow:
                k.pipe_barrier("V")  # no cast and no sum of images stands between the zeros and what is added to them
        k.next_tile()
        self._load(self.incoming.acquire(), self._element(image, channel, 0), channels, images, self.sums.c, pitch)
        self.incoming.publish()
        values = self._widened(self.incoming.take(), images * pitch)
        while images > 1:
            half = images // 2
            images -= half
            k.vector_binary("add", values, values, values + images * pitch * _WIDE_BYTES, _WIDE, half * pitch)
            k.pipe_barrier("V")
        k.vector_binary("add", total, total, values, _WIDE, channels)
        self.incoming.release()
        k.pipe_barrier("V")

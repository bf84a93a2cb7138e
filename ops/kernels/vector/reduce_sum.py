"""ReduceSum: [N, C, HW] summed over N and HW, the gradient of a bias.

Everything is added in fp32 in one fixed order and rounded once. A channel belongs to one block, so no sum crosses cores. With
HW > 1 the rows of a UB tile are reduced by the row reduction of the vector unit (published rows of a 910B2 show its rate,
7 cycles per 256 bytes), then the images of the tile, then tiles are added in turn. With HW = 1 channels lie side by side, and
tiles of [images][channels] are halved image-wise.

Where copies count whole blocks (the 910 and 310P) rows are loaded rounded up, and what is summed together fills whole blocks of
sums: so a block has channels of 32 bytes of them, as compiled reductions there need 32 bytes a core (assumed).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.kernel.abilities import copies_whole_blocks
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    SOURCE,
    TARGET,
    TaskWords,
    buffer_queue,
    call_info,
    padded,
    require_positive,
    vector_cores,
    vector_task,
)
from ascend_sim.ops.kernels.vector.whole_blocks import load_rows, store_end
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut
from ascend_sim.runtime import Task

DTYPES = ("float16", "bfloat16", "float32")
_WIDE = "float32"
_WIDE_BYTES = 4
_TILES = 3  # UB holds two fp32 tiles, or one beside two of half its size, and a third for the sums


def reduce_sum_task(
    chip: ChipSpec,
    source: Allocation,
    target: Allocation,
    shape: tuple[int, int, int],
    dtype: str,
    *,
    name: str = "",
    disarm: Collection[str] = (),
) -> Task:
    """Return a launch that sums the source, `shape` [n][c][hw], to [c], both in `dtype`.

    Raises SimError for a dtype other than float16, bfloat16 and float32.
    """
    name, (n, c, hw) = name or f"ReduceSum_{source.name}", shape
    require_positive(name, n=n, c=c, hw=hw)
    if dtype not in DTYPES:
        raise SimError(f"{name}: dtype is {dtype}; it sums {', '.join(DTYPES)}")
    itemsize = int(numpy_dtype(dtype).itemsize)
    unit = BLOCK_BYTES // itemsize if hw == 1 or copies_whole_blocks(chip) else 1
    per_block = ceil_div(ceil_div(c, unit), vector_cores(chip)) * unit
    blocks = ceil_div(c, per_block)

    def body(k: KernelBuilder, block: int) -> None:
        kernel = _Kernel(k, n, c, hw, dtype, itemsize, unit)
        first = block * per_block
        kernel.write(first, min(per_block, c - first))

    info = call_info((dtype, dtype), ("ND", "ND"), ([n, c, hw], [c]))
    template = "ReduceSum_columns" if hw == 1 and n > 1 else ""
    return vector_task(chip, TaskWords("ReduceSum", name, disarm, template), blocks, [source, target], body, info)


@dataclass
class _Kernel:
    """Builder of the instructions of one ReduceSum block; `unit` channels are summed together, so that their sums fill
    whole blocks.
    """

    k: KernelBuilder
    n: int
    c: int
    hw: int
    dtype: str
    itemsize: int
    unit: int

    def __post_init__(self) -> None:
        k = self.k
        third = k.chip.buffers["UB"] // _TILES // BLOCK_BYTES * BLOCK_BYTES
        self.elements = third // _WIDE_BYTES
        self.narrow = self.dtype != _WIDE
        self.incoming = buffer_queue(k, "in", "MTE2", "V", self.elements * self.itemsize, 1)
        self.wide = k.allocate("UB", third, "fp32") if self.narrow else 0
        self.channels = third // BLOCK_BYTES  # the most rows of a tile, so of their sums
        self.outgoing = buffer_queue(k, "out", "V", "MTE3", padded(self.channels * _WIDE_BYTES))
        self.sums, self.part, self.total = (
            k.allocate("UB", padded(self.channels * _WIDE_BYTES), what) for what in ("row sums", "tile sums", "total")
        )

    def write(self, first: int, count: int) -> None:
        """Append the sums of `count` channels from `first` on and their stores, in groups of channels whose sums leave
        UB together.
        """
        width = 1 if self.hw == 1 else self._pitch(self.hw)
        largest = max(min(self.elements // width, self.channels) // self.unit, 1) * self.unit
        for start, channels in cut(count, largest, self.unit):
            result = self.outgoing.acquire()
            total = self.total if self.narrow else result
            if self.hw == 1:
                self._add_columns(total, first + start, channels)
            else:
                self._add_rows(total, first + start, channels)
            if self.narrow:
                self.k.vector_cast(result, total, _WIDE, self.dtype, channels)
            self.outgoing.publish()
            out = gm_operand(TARGET, (first + start) * self.itemsize)
            store_end(self.k, out, self.outgoing.take(), channels * self.itemsize)
            self.outgoing.release()
        self.incoming.close()
        self.outgoing.close()

    def _pitch(self, columns: int) -> int:
        """Return the elements in a tile from one row of `columns` elements to the next: whole 32-byte blocks."""
        return padded(columns * self.itemsize) // self.itemsize

    def _load(self, dst: int, first: int, columns: int, rows: int, stride: int, step: int) -> None:
        """Load rows of `columns` elements from element `first` on; rows are `stride` elements apart in GM and `step` in UB."""
        size = self.itemsize
        place, loop = gm_operand(SOURCE, first * size), CopyLoop(rows, stride * size, step * size)
        load_rows(self.k, dst, place, columns * size, loop)

    def _element(self, image: int, channel: int, pixel: int) -> int:
        """Return the index of an element in the flat source [n][c][hw]."""
        return (image * self.c + channel) * self.hw + pixel

    def _widened(self, tile: int, elements: int) -> int:
        """Return the address of a tile's values in fp32; for 16-bit ones, append a cast to the fp32 tile first."""
        if not self.narrow:
            return tile
        self.k.vector_cast(self.wide, tile, self.dtype, _WIDE, elements)
        self.k.pipe_barrier("V")
        return self.wide

    def _add_rows(self, total: int, channel: int, channels: int) -> None:
        """Append, for HW > 1, the sums of `channels` channels from `channel` on, to fp32 `total`; a tile is
        [channel][image] rows of pixels.
        """
        k = self.k
        tiles = self._tiles(channel, channels)
        for (images, pixel, columns, started), (image, channel) in k.stamped(tiles, "rows", total, channels):
            k.next_tile()
            pitch = self._pitch(columns)
            tile = self.incoming.acquire()
            if channels < images:
                for i in range(channels):
                    to = tile + i * images * pitch * self.itemsize
                    self._load(to, self._element(image, channel + i, pixel), columns, images, self.c * self.hw, pitch)
            else:
                for i in range(images):
                    to = tile + i * pitch * self.itemsize
                    self._load(to, self._element(image + i, channel, pixel), columns, channels, self.hw, images * pitch)
            self.incoming.publish()
            rows = channels * images
            loaded = self.incoming.take()
            self._issue_repeats(rows, columns)
            values = self._widened(loaded, rows * pitch)
            part = self.part if started else total
            per_row = self.sums if images > 1 else part
            k.reduce_rows(per_row, values, rows, columns, pitch * _WIDE_BYTES)
            self.incoming.release()
            k.pipe_barrier("V")
            if images > 1:
                k.reduce_rows(part, per_row, channels, images, images * _WIDE_BYTES)
                k.pipe_barrier("V")
            if started:
                k.vector_binary("add", total, total, part, _WIDE, channels)
                k.pipe_barrier("V")

    def _tiles(self, channel: int, channels: int) -> Iterator[tuple[tuple[int, int, int, bool], tuple[int, int]]]:
        """Yield ((images, first pixel, pixels, True if `total` already has a sum), (first image, first channel)) of
        each tile.
        """
        block = BLOCK_BYTES // self.itemsize
        pieces = cut(self.hw, self.elements // min(channels, self.unit) // block * block, block)
        images_per_tile = max(min(self.elements // (self._pitch(pieces[0][1]) * channels), self.n), 1)
        started = False
        for image, images in cut(self.n, images_per_tile):
            for pixel, columns in pieces:
                yield (images, pixel, columns, started), (image, channel)
                started = True

    def _issue_repeats(self, rows: int, columns: int) -> None:
        """Append the scalar unit's cycles for a row reduction, whose repeats it issues one by one (published counters)."""
        repeat = self.k.chip.vector.repeat_bytes
        self.k.scalar_wait("V")
        self.k.scalar(rows * ceil_div(columns * _WIDE_BYTES, repeat) * self.k.issue_cycles)

    def _add_columns(self, total: int, channel: int, channels: int) -> None:
        """Append, for HW = 1, the sums of `channels` channels from `channel` on, to fp32 `total`; a tile
        [image][channel] is halved along images.
        """
        k = self.k
        pitch = ceil_to(channels, BLOCK_BYTES // self.itemsize)
        k.vector_duplicate(total, _WIDE, channels)
        tiles = [(images, (image, channel)) for image, images in cut(self.n, max(self.elements // pitch, 1))]
        if tiles[0][0] == 1 and not self.narrow:
            k.pipe_barrier("V")  # no cast and no sum of images stands between the zeros and what is added to them
        for images, (image, channel) in k.stamped(tiles, "columns", total, channels):
            k.next_tile()
            self._load(self.incoming.acquire(), self._element(image, channel, 0), channels, images, self.c, pitch)
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

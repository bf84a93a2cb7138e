"""BiasAdd: [N, C, pixels] plus one number for each channel, added in fp32 and rounded once.

The vector unit adds element by element, so a bias is spread over a tile first: eight channels of fp32 fill one 32-byte
block, copies of that block (each step doubles them) make [pixels][8], and a transpose makes [8][pixels] of it. That is done
once for a group of eight channels; then the tiles of all its images are added to it.

The vendor's kernel is a closed one: how it divides the work is assumed, one group of channels of one image at a time, as
evenly over the cores as it goes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.local_tensor import LocalTensor
from ascend_sim.kernel.operands import TurnLayout
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.vector.common import (
    BLOCK_BYTES,
    Launch,
    buffer_queue,
    require_positive,
    share,
    vector_cores,
    vector_task,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut
from ascend_sim.runtime import Task

DTYPES = ("float16", "bfloat16", "float32")
SOURCE, BIAS, TARGET = 0, 1, 2
_WIDE = "float32"
_WIDE_BYTES = 4
_GROUP = BLOCK_BYTES // _WIDE_BYTES
"""Channels that are added together: as many fp32 numbers as a block holds."""


def bias_add_task(
    chip: ChipSpec,
    tensors: list[Allocation],
    n: int,
    c: int,
    pixels: int,
    dtype: str,
    *,
    name: str = "BiasAdd",
    disarm: Collection[str] = (),
) -> Task:
    """The launch; `tensors` are source [n][c][pixels], bias [c] and target like the source, all in `dtype`.

    Raises SimError for a dtype other than float16, bfloat16 and float32.
    """
    require_positive(name, n=n, c=c, pixels=pixels)
    if dtype not in DTYPES:
        raise SimError(f"{name}: dtype is {dtype}; it adds {', '.join(DTYPES)}")
    units = ceil_div(c, _GROUP) * n
    blocks = min(units, vector_cores(chip))

    def body(k: KernelBuilder, block: int) -> None:
        _Kernel(k, n, c, pixels, dtype).write(*share(units, blocks, block))

    shapes = {"input": [n, c, pixels], "bias": [c], "output": [n, c, pixels]}
    info: dict[str, Any] = {
        "dtypes": dict.fromkeys(shapes, dtype), "formats": dict.fromkeys(shapes, "ND"), "shapes": shapes,
    }  # fmt: skip
    return vector_task(chip, Launch("BiasAdd", name, disarm), blocks, tensors, body, info)


@dataclass
class _Kernel:
    """Writes the program of one block."""

    k: KernelBuilder
    n: int
    c: int
    pixels: int
    dtype: str

    def __post_init__(self) -> None:
        k = self.k
        self.itemsize = int(numpy_dtype(self.dtype).itemsize)
        self.narrow = self.dtype != _WIDE
        # Two tiles in, two out, the bias spread out, the same before its transpose and, for narrow numbers, a wide tile.
        per_pixel = _GROUP * (4 * self.itemsize + (3 if self.narrow else 2) * _WIDE_BYTES)
        unit = BLOCK_BYTES // 2  # a row of either width begins on a block
        room = k.chip.buffers["UB"] - 2 * BLOCK_BYTES
        self.pitch = min(ceil_to(self.pixels, unit), room // per_pixel // unit * unit)
        tile = _GROUP * self.pitch
        self.bias = buffer_queue(k, "bias", "MTE2", "V", BLOCK_BYTES, 1)
        self.incoming = buffer_queue(k, "in", "MTE2", "V", tile * self.itemsize)
        self.outgoing = buffer_queue(k, "out", "V", "MTE3", tile * self.itemsize)
        self.spread = k.allocate("UB", tile * _WIDE_BYTES, "spread")
        self.copies = k.allocate("UB", tile * _WIDE_BYTES, "copies")
        self.wide = k.allocate("UB", tile * _WIDE_BYTES, "fp32") if self.narrow else 0

    def write(self, first: int, count: int) -> None:
        """Units `first` ..: unit u is image u % n of the channels from u // n * 8 on."""
        for (channels, begins), (image, channel) in self.k.stamped(self.units(first, count)):
            if begins:
                self.spread_bias(channel, channels)
            for pixel, columns in cut(self.pixels, self.pitch):
                self.add(image, channel, channels, pixel, columns)
        for queue in (self.bias, self.incoming, self.outgoing):
            queue.close()

    def units(self, first: int, count: int) -> Iterator[tuple[tuple[int, bool], tuple[int, int]]]:
        """((channels, whether their bias is not spread out yet), (image, first channel)) of each unit."""
        for unit in range(first, first + count):
            group, image = divmod(unit, self.n)
            yield (min(_GROUP, self.c - group * _GROUP), unit == first or image == 0), (image, group * _GROUP)

    def spread_bias(self, channel: int, channels: int) -> None:
        """[8][pitch] of fp32, each row one bias over and over."""
        k, block = self.k, self.copies
        source = gm_operand(BIAS, channel * self.itemsize)
        k.data_copy("GM", "UB", self.bias.acquire(), source, channels * self.itemsize)
        self.bias.publish()
        k.vector_duplicate(block, _WIDE, _GROUP)  # channels that there are not
        k.pipe_barrier("V")
        narrow = self.bias.take()
        if self.narrow:
            k.vector_cast(block, narrow, self.dtype, _WIDE, channels)
        else:
            k.copy(LocalTensor(block, (channels,), _WIDE), LocalTensor(narrow, (channels,), _WIDE))
        self.bias.release()
        done = 1
        while done < self.pitch:
            more = min(done, self.pitch - done)
            k.pipe_barrier("V")
            k.copy(self._blocks(block + done * BLOCK_BYTES, more), self._blocks(block, more))
            done += more
        k.pipe_barrier("V")
        layout = TurnLayout(self.pitch * _WIDE_BYTES)
        k.transpose_blocks(self.spread, block, False, _WIDE_BYTES, _GROUP, self.pitch, layout)
        k.pipe_barrier("V")

    @staticmethod
    def _blocks(address: int, count: int) -> LocalTensor:
        return LocalTensor(address, (count * _GROUP,), _WIDE)

    def add(self, image: int, channel: int, channels: int, pixel: int, columns: int) -> None:
        """One tile: `columns` pixels of `channels` channels of an image."""
        k, size = self.k, self.itemsize
        k.next_tile()
        offset = ((image * self.c + channel) * self.pixels + pixel) * size
        row, step, pitch = columns * size, self.pixels * size, self.pitch * size
        k.data_copy("GM", "UB", self.incoming.acquire(), gm_operand(SOURCE, offset), row, channels, step, pitch)
        self.incoming.publish()
        values, result = self.incoming.take(), self.outgoing.acquire()
        whole = columns == self.pitch  # no gaps between the rows
        for first, count in (
            [(0, channels * columns)] if whole else [(r * self.pitch, columns) for r in range(channels)]
        ):
            self._add_run(result, values, first, count)
        self.incoming.release()
        self.outgoing.publish()
        k.data_copy("UB", "GM", gm_operand(TARGET, offset), self.outgoing.take(), row, channels, pitch, step)
        self.outgoing.release()

    def _add_run(self, result: int, values: int, first: int, count: int) -> None:
        """`count` elements of the tile from element `first` on."""
        k, at, wide = self.k, first * self.itemsize, first * _WIDE_BYTES
        if not self.narrow:
            k.vector_binary("add", result + at, values + at, self.spread + wide, _WIDE, count)
            return
        k.vector_cast(self.wide + wide, values + at, self.dtype, _WIDE, count)
        k.pipe_barrier("V")
        k.vector_binary("add", self.wide + wide, self.wide + wide, self.spread + wide, _WIDE, count)
        k.pipe_barrier("V")
        k.vector_cast(result + at, self.wide + wide, _WIDE, self.dtype, count)

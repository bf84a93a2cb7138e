"""Layouts without channel blocks: base classes of plain maps and weights, and maps NCDHW, weights [C_out, C_in, kD, kH,
kW]; loads arrange the channels in blocks.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from math import prod

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ChannelMatrices, ScatterLoops
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.layouts.layout import (
    ChannelPlace,
    DrainPiece,
    FeatureMap,
    FilterBox,
    Filters,
    FilterTile,
    FinishedTile,
    MapBox,
    MapPixels,
    MapTile,
    Pitches,
    Turned,
    Writing,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to, cut
from ascend_sim.ops.problem.tiling_input import TilingInput

SUM_BYTES = 4
"""Bytes of an element of dW, which is fp32."""


@frozen
class PlainMap(FeatureMap):
    """Base of feature maps without channel blocks (NCDHW and NDHWC), whose elements leave L0C one by one."""

    @property
    @abstractmethod
    def channel_stride(self) -> int:
        """Return the bytes from one channel to the next."""

    @property
    @abstractmethod
    def pixel_stride(self) -> int:
        """Return the bytes from one pixel to the next."""

    def offset(self, place: ChannelPlace, pixel: int) -> int:
        """Return the byte offset of a pixel in the plane and channel of `place`."""
        _, height, width = self.volume
        image = place.batch * self.count * prod(self.volume) * self.itemsize
        return image + place.channel * self.channel_stride + (place.depth * height * width + pixel) * self.pixel_stride

    def source(self, slot: int, box: MapBox) -> int:
        """Return the operand (tensor `slot` and byte offset) of a box's first pixel in GM."""
        return gm_operand(slot, self.offset(box.place, box.rows.start * self.volume[2] + box.columns.start))

    def drain(self, finished: FinishedTile, slot: int, tile: MapTile, dtype: str, atomic_add: bool = False) -> None:
        """Store a finished tile element by element to its place in the map; only its `channels` existing channels.
        `atomic_add` adds to the values in GM.
        """
        pieces = [
            DrainPiece(gm_operand(slot, self.offset(tile.place, pixel)), row, count, 0, tile.channels)
            for row, pixel, count in tile.runs
        ]
        finished.drain_elements(pieces, tile.height, self.pixel_stride, self.channel_stride, atomic_add, dtype)


@frozen
class PlanarMap(PlainMap):
    """Layout of a feature map [N, C, D, H, W]. `most_bytes_per_cycle` limits its loads to L1; 0 means the rate of the path."""

    most_bytes_per_cycle: float = 0

    def turned_at(self, most_bytes_per_cycle: float) -> PlanarMap:
        """Return the map with all loads limited to that rate, since every load transposes."""
        return replace(self, most_bytes_per_cycle=most_bytes_per_cycle)

    @property
    def channel_stride(self) -> int:
        return prod(self.volume) * self.itemsize

    @property
    def pixel_stride(self) -> int:
        return self.itemsize

    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """Load a box to L1 (whatever `space` says) in one transfer, a matrix (channels x pixels) for each row, or one
        matrix where rows adjoin.
        """
        width, rows, pixels = self.volume[2], box.rows.length, box.columns.length
        if pixels == width and pitches.row == width * pitches.pixel:  # rows adjoin
            rows, pixels = 1, rows * pixels
        matrices = ChannelMatrices(
            channels=box.channels,
            pixels=pixels,
            itemsize=self.itemsize,
            channel_stride=self.channel_stride,
            pixel_stride=pitches.pixel,
            block_stride=pitches.block,
            matrices=rows,
            src_step=width * self.itemsize,
            dst_step=pitches.row,
        )
        k.data_copy_dn2nz(address, self.source(slot, box), matrices, operand, self.most_bytes_per_cycle)

    def gather(self, k: KernelBuilder, slot: int, pixels: MapPixels, address: int, pitch: int, operand: str) -> None:
        """Load separate pixels to L1, back to back, channel blocks `pitch` pixels apart: in one transfer if the lattice's
        columns adjoin, else one for each of its rows.
        """
        place, channels, lattice = pixels
        adjoining = lattice.column_step == 1
        matrices = ChannelMatrices(
            channels=channels,
            pixels=lattice.columns if adjoining else 1,
            itemsize=self.itemsize,
            channel_stride=self.channel_stride,
            pixel_stride=BLOCK_BYTES,
            block_stride=pitch * BLOCK_BYTES,
            matrices=lattice.rows if adjoining else lattice.columns,
            src_step=(lattice.row_step if adjoining else lattice.column_step) * self.itemsize,
            dst_step=(lattice.columns if adjoining else 1) * BLOCK_BYTES,
        )
        for row in range(1 if adjoining else lattice.rows):
            source = gm_operand(slot, self.offset(place, lattice.first + row * lattice.row_step))
            to = address + row * lattice.columns * BLOCK_BYTES
            k.data_copy_dn2nz(to, source, matrices, operand, self.most_bytes_per_cycle)


@frozen
class PlainFilters(Filters):
    """Base of the layouts of weights (or dW) without channel blocks: [C_out, C_in, kD, kH, kW] and DHWCN."""

    inp: TilingInput
    itemsize: int

    @property
    def filters(self) -> int:
        """Return the number of filters (output channels) of a group as the caller gave it, not merged."""
        return self.inp.problem.c_out // self.inp.problem.groups

    @property
    def channels(self) -> int:
        """Return the number of input channels of a filter, those of one unmerged group."""
        return self.inp.problem.c_in // self.inp.problem.groups

    def channels_in(self, first: int, count: int) -> range:
        """Return the channels of a real group among `count` from `first` on, without the padding behind the group's
        last channel.

        Channels that only the last real group lacks are not left out.
        """
        return range(first, min(first + count, self.inp.cin_g))

    def channel_pieces(self, tile: FilterTile) -> Iterator[tuple[int, range, int]]:
        """Yield (column in the tile, channels, tap) for each block of a tile's columns: a block is `n0` channels of one tap.

        The first and last block may be parts: a tile of 8 bits may begin or end inside a block, which is two fractals.
        """
        c0, at, end = self.inp.n0, tile.column, tile.column + tile.columns
        while at < end:
            block, tap = divmod(at // c0, self.inp.taps)
            count = min(c0 - at % c0, end - at)
            yield at - tile.column, self.channels_in(block * c0 + at % c0, count), tap
            at += count

    @abstractmethod
    def turned(self, total: FilterTile, room: int) -> Iterator[Turned]:
        """Yield the parts in which a tile's sum goes from UB to dW, each of at most `room` bytes once it is scattered: several
        filters (in DHWCN fractals of 16 columns), at least one.
        """


@frozen
class PlanarFilters(PlainFilters):
    """Layout of weights or dW [C_out, C_in / groups, kD, kH, kW]."""

    @property
    def channel_stride(self) -> int:
        """Return the bytes from one channel to the next."""
        return self.inp.problem.k_d * self.inp.taps * self.itemsize

    @property
    def filter_stride(self) -> int:
        """Return the bytes from one filter to the next."""
        return self.channels * self.channel_stride

    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """Load a box of weights to L1 as [channel block][tap][`rows` filters][C0] in one transfer, which reads a matrix
        (channels x taps) for each filter.

        If the box has fewer filters than `rows`, zeros fill all of this place first.
        """
        taps, line = self.inp.taps, rows * BLOCK_BYTES
        block = box.taps.length * line
        if box.filters.length < rows:
            k.fill("L1", address, ceil_div(box.channels.length, self.inp.c0) * block)
            k.pipe_barrier("MTE2")
        filters, tap = box.group * self.inp.cout_g + box.filters.start, box.plane * taps + box.taps.start
        source = filters * self.filter_stride + box.channels.start * self.channel_stride + tap * self.itemsize
        matrices = ChannelMatrices(
            channels=box.channels.length,
            pixels=box.taps.length,
            itemsize=self.itemsize,
            channel_stride=self.channel_stride,
            pixel_stride=line,
            block_stride=block,
            matrices=box.filters.length,
            src_step=self.filter_stride,
            dst_step=BLOCK_BYTES,
        )
        k.data_copy_dn2nz(address, gm_operand(slot, source), matrices, "B")

    # -- dW ------------------------------------------------------------------------------------------------------------

    def offset(self, group: int, row: int, channel: int, plane: int, tap: int) -> int:
        """Return the byte offset of an element; `row` and `channel` count within a real group."""
        own = channel - row // self.filters * self.channels
        filters = group * self.inp.cout_g + row
        taps = (plane * self.inp.taps + tap) * self.itemsize
        return filters * self.filter_stride + own * self.channel_stride + taps

    def rectangles(self, rows: range, channels: range) -> Iterator[tuple[range, range]]:
        """Yield the parts (rows, channels) of a range of rows and channels of a real group whose filters and channels are of
        one group; dW has no other elements.
        """
        for group in range(rows.start // self.filters, (rows.stop - 1) // self.filters + 1):
            top, bottom = max(rows.start, group * self.filters), min(rows.stop, (group + 1) * self.filters)
            left, right = max(channels.start, group * self.channels), min(channels.stop, (group + 1) * self.channels)
            if top < bottom and left < right:
                yield range(top, bottom), range(left, right)

    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """Store a finished tile to its place in dW element by element, one piece for each block of columns and group;
        `atomic_add` adds to the values in GM.
        """
        pieces = []
        for column, channels, tap in self.channel_pieces(tile):
            for rows, own in self.rectangles(range(tile.row, tile.row + tile.rows), channels):
                target = gm_operand(slot, self.offset(tile.group, rows.start, own.start, tile.plane, tap))
                first = column + own.start - channels.start
                pieces.append(DrainPiece(target, rows.start - tile.row, len(rows), first, len(own)))
        finished.drain_elements(pieces, tile.rows, self.filter_stride, self.channel_stride, atomic_add)

    def turned(self, total: FilterTile, room: int) -> Iterator[Turned]:
        """Yield the parts of a tile's sum that go from UB to dW, each of at most the filters that `room` bytes hold, at least
        one.

        A part holds its filters as [channel][tap] if the tile has whole blocks of all taps of a plane, else as single columns.
        It is single columns also if the kernel has several planes and groups are not merged, since dW then has other planes'
        taps between a tile's (ops-nn, Conv3DBackpropFilterV2 of arch35: stated). With merged groups each channel begins at a
        32-byte block of UB, since only some of them are stored.
        """
        taps, merged = self.inp.taps, self.inp.group_extension > 1
        block = taps * self.inp.n0
        whole = not (total.column % block or total.columns % block) and (merged or self.inp.problem.k_d == 1)
        if whole:
            run, runs = taps * SUM_BYTES, total.columns // taps
            pieces = [(0, self.channels_in(total.column // taps, runs), 0)]
        else:
            run, runs = SUM_BYTES, ceil_to(total.columns, FRACTAL)
            pieces = list(self.channel_pieces(total))
        pitch = ceil_to(run, BLOCK_BYTES) if merged else run
        width = runs * pitch
        for top, count in cut(total.rows, max(room // width, 1)):
            rows = range(total.row + top, total.row + top + count)
            writings = [
                self._writing(
                    (filters.start - rows.start) * width + (column + own.start - channels.start) * pitch,
                    self.offset(total.group, filters.start, own.start, total.plane, tap),
                    (run, pitch, len(own)),
                    (width, len(filters)),
                )
                for column, channels, tap in pieces
                for filters, own in self.rectangles(rows, channels)
            ]
            yield Turned(list(self._scatters(total, top, count, whole, pitch, width)), writings)

    def _writing(self, source: int, target: int, runs: tuple[int, int, int], filters: tuple[int, int]) -> Writing:
        """Return the store from byte `source` of UB to byte `target` of dW of `runs` of bytes (size, pitch, number) in
        each of `filters` (pitch, number); runs that adjoin in both become one.
        """
        (run, pitch, count), (width, planes) = runs, filters
        if run == pitch == self.channel_stride:  # they adjoin
            return Writing(source, target, count * run, planes, (width, self.filter_stride))
        return Writing(source, target, run, count, (pitch, self.channel_stride), planes, (width, self.filter_stride))

    def _scatters(
        self, total: FilterTile, top: int, count: int, whole: bool, pitch: int, width: int
    ) -> Iterator[tuple[int, int, ScatterLoops]]:
        """Yield (source, target, loops) of each scatter within UB of `count` rows, from `top` on, of a sum [column /
        16][row][16].

        With `whole` a filter's columns become [channel][tap], else they stay in order; `pitch` and `width` are the
        bytes from channel (column) to channel and from filter to filter in the target.
        """
        taps, c0, line = self.inp.taps, self.inp.n0, FRACTAL * SUM_BYTES
        column = total.rows * line
        if not whole:
            groups = ceil_div(total.columns, FRACTAL)
            yield top * line, 0, ScatterLoops(groups, count, FRACTAL, column, line, FRACTAL * pitch, width, pitch)
        elif c0 == FRACTAL:
            for block in range(total.columns // (taps * c0)):
                loops = ScatterLoops(taps, count, c0, column, line, SUM_BYTES, width, pitch)
                yield block * taps * column + top * line, block * c0 * pitch, loops
        else:
            run = min(c0, FRACTAL)  # a fractal has half of a block of 8 bits
            for at in range(0, total.columns, run):
                (fractal, part), (block, tap) = divmod(at, FRACTAL), divmod(at // c0, taps)
                source, target = fractal * column + top * line + part * SUM_BYTES, (block * c0 + at % c0) * pitch
                yield source, target, ScatterLoops(1, count, run, 0, line, 0, width, pitch, tap * SUM_BYTES)

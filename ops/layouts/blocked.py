"""Tensors in blocks of C0 channels: NDC1HWC0 of maps, FRACTAL_Z of weights."""

from __future__ import annotations

from collections.abc import Iterator

from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.memory.gm import gm_operand
from ascend_sim.ops.layouts.layout import (
    ChannelPlace,
    DrainPiece,
    FeatureMap,
    FilterBox,
    FilterTask,
    FilterTile,
    FinishedTile,
    MapBox,
    MapTile,
    Pitches,
    Portion,
    RowStore,
    SlottedFilters,
)
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to
from ascend_sim.ops.problem.tiling_input import TilingInput


@frozen
class BlockedMap(FeatureMap):
    """Layout of a feature map [N][D][C1][H][W][C0]: channels in C1 blocks of C0, 32 bytes each."""

    @property
    def c0(self) -> int:
        """Return the number of channels of a block: elements in 32 bytes."""
        return BLOCK_BYTES // self.itemsize

    @property
    def plane_bytes(self) -> int:
        """Return the bytes of a plane of one channel block."""
        _, height, width = self.volume
        return height * width * BLOCK_BYTES

    def offset(self, place: ChannelPlace, pixel: int) -> int:
        """Return the byte offset of a pixel of a plane, in the block of `place`'s channel."""
        image = place.batch * self.volume[0] + place.depth
        block = image * ceil_div(self.count, self.c0) + place.channel // self.c0
        return block * self.plane_bytes + pixel * BLOCK_BYTES

    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """Load a box to `address` of the buffer `space`: in one copy if whole rows lie back to back there, in one for each
        channel block if rows lie apart or are parts of the map's rows. It takes more where a field cannot hold rows or gaps.

        If pixels lie apart, it is one copy for each row of each block. SimError if a copy cannot have as many pixels.
        """
        width, rows, columns = self.volume[2], box.rows.length, box.columns.length
        source = gm_operand(slot, self.offset(box.place, box.rows.start * width + box.columns.start))
        line, plane, size = width * BLOCK_BYTES, self.plane_bytes, columns * BLOCK_BYTES
        blocks = ceil_div(box.channels, self.c0)
        if pitches.pixel > BLOCK_BYTES:
            for block in range(blocks):
                for row in range(rows):
                    to, start = address + block * pitches.block + row * pitches.row, source + block * plane + row * line
                    k.data_copy("GM", space, to, start, BLOCK_BYTES, columns, BLOCK_BYTES, pitches.pixel, operand=operand)
        elif pitches.row > size or columns < width:
            for block in range(blocks):
                to, start = address + block * pitches.block, source + block * plane
                k.copy_rows(f"GM->{space}", to, start, size, CopyLoop(rows, line, pitches.row), operand=operand)
        else:
            k.copy_rows(f"GM->{space}", address, source, rows * size, CopyLoop(blocks, plane, pitches.block), operand=operand)

    def load_pixels(self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitch: int, operand: str) -> None:
        """Load a box to L1 with pixels back to back and channel blocks `pitch` pixels apart, in a copy for each row or for each
        channel block, whichever are fewer; rows of the map's full width count as one. It takes more as `load` does.
        """
        width, rows, columns = self.volume[2], box.rows.length, box.columns.length
        source = gm_operand(slot, self.offset(box.place, box.rows.start * width + box.columns.start))
        if columns == width:  # rows adjoin
            rows, columns = 1, rows * columns
        blocks, plane, line, size = (
            ceil_div(box.channels, self.c0), self.plane_bytes, width * BLOCK_BYTES, columns * BLOCK_BYTES
        )  # fmt: skip
        if rows <= blocks:
            for row in range(rows):
                to, start = address + row * size, source + row * line
                k.copy_rows("GM->L1", to, start, size, CopyLoop(blocks, plane, pitch * BLOCK_BYTES), operand=operand)
            return
        for block in range(blocks):
            to, start = address + block * pitch * BLOCK_BYTES, source + block * plane
            k.copy_rows("GM->L1", to, start, size, CopyLoop(rows, line, size), operand=operand)

    def drain(self, finished: FinishedTile, slot: int, tile: MapTile, dtype: str, atomic_add: bool = False) -> None:
        """Store a finished tile from L0C to its place in the map, in whole channel blocks: `tile.channels` is rounded
        up to C0. `atomic_add` adds to the values in GM.
        """
        pieces = [DrainPiece(gm_operand(slot, self.offset(tile.place, pixel)), row, count) for row, pixel, count in tile.runs]
        columns = ceil_to(tile.channels, self.c0)
        finished.drain_rows(pieces, tile.height, columns, dtype, self.c0, self.plane_bytes, atomic_add)


@frozen
class FractalZ(SlottedFilters):
    """Layout FRACTAL_Z of weights or dW: [real group][k_d][cin1][k_h*k_w][cout1][16 co][C0 ci]; sizes are those of a
    real group.

    A workspace slot holds a task's columns in blocks of C0, each with all rows of the task. With `joined`, a load of
    all filters is one run of bytes; else it has a row of bytes for each tap.
    """

    uniform = True

    planes: int
    cin1: int
    taps: int
    cout1: int
    itemsize: int
    c0: int
    joined: bool = True

    @classmethod
    def of(cls, inp: TilingInput, itemsize: int) -> FractalZ:
        """Return the layout of weights (`itemsize` of the compute dtype) or of dW (4: fp32 in blocks of the same C0)."""
        return cls(inp.problem.k_d, inp.cin1, inp.taps, ceil_div(inp.cout_g, FRACTAL), itemsize, inp.c0)

    @property
    def row_bytes(self) -> int:
        """Return the bytes of one filter's C0 channels at one tap."""
        return self.c0 * self.itemsize

    @property
    def line_bytes(self) -> int:
        """Return the bytes of all filters of a real group at one tap of one channel block."""
        return self.cout1 * FRACTAL * self.row_bytes

    def offset(self, group: int, plane: int, cin1: int, tap: int, cout1: int) -> int:
        """Return the byte offset of block `cout1` of 16 filters, at one tap of one channel block of a kernel plane."""
        line = ((group * self.planes + plane) * self.cin1 + cin1) * self.taps + tap
        return line * self.line_bytes + cout1 * FRACTAL * self.row_bytes

    def total_bytes(self, groups: int) -> int:
        """Return the bytes that `groups` real groups of weights take in GM."""
        return self.offset(groups, 0, 0, 0, 0)

    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """Load a box of weights to L1 in one copy, or in one for each channel block if the box lacks some taps; in more where
        a field cannot hold rows or gaps.

        Each tap gets `rows` filters from the box's first on, also those beyond the box: behind the group's last filter
        FRACTAL_Z holds zeros, up to a multiple of 16. Channels are loaded in whole blocks.
        """
        blocks, taps, row = ceil_div(box.channels.length, self.c0), box.taps.length, rows * self.row_bytes
        pieces = [(0, blocks * taps)] if taps == self.taps else [(block, taps) for block in range(blocks)]
        for block, count in pieces:
            source = self.offset(box.group, box.plane, box.channels.start // self.c0 + block, box.taps.start, 0)
            source, lines, pitch, size = source + box.filters.start * self.row_bytes, count, self.line_bytes, row
            if self.joined and size == pitch:
                size, lines, pitch = row * count, 1, 0
            to = address + block * taps * row
            k.copy_rows("GM->L1", to, gm_operand(slot, source), size, CopyLoop(lines, pitch, size), operand="B")

    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """Store a finished tile to its place in dW, in whole blocks of 16 filters; `atomic_add` adds to the values in GM."""
        column = tile.column // self.c0 * self.line_bytes
        target = self.offset(tile.group, tile.plane, 0, 0, 0) + column + tile.row * self.row_bytes
        self._drain(finished, gm_operand(slot, target), tile, self.line_bytes, atomic_add)

    def drain_to_slot(
        self, finished: FinishedTile, slot: int, offset: int, task: FilterTask, tile: FilterTile, atomic_add: bool
    ) -> None:
        """Store a finished tile to its task's slot in whole blocks of 16 filters; `atomic_add` adds to the values in GM."""
        block = (tile.column - task.n_start) // self.c0 * self._slot_block(task)
        target = offset + block + (tile.row - task.m_start) * self.row_bytes
        self._drain(finished, gm_operand(slot, target), tile, self._slot_block(task), atomic_add)

    def _drain(self, finished: FinishedTile, target: int, tile: FilterTile, pitch: int, atomic_add: bool) -> None:
        rows = ceil_to(tile.rows, FRACTAL)
        finished.drain_rows([DrainPiece(target, 0, rows)], rows, tile.columns, "float32", self.c0, pitch, atomic_add)

    def _slot_block(self, task: FilterTask) -> int:
        return ceil_to(task.m_count, FRACTAL) * self.row_bytes

    def slot_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a slot for a task of `rows` x `columns`, both rounded up to 16."""
        return ceil_to(rows, FRACTAL) * ceil_to(columns, FRACTAL) * self.itemsize

    def shares(self, task: FilterTask) -> int:
        """Return the number of column blocks of a task's slot, each of which is a share."""
        return ceil_div(task.n_count, self.c0)

    def portions(self, task: FilterTask, shares: range, room: int) -> Iterator[Portion]:
        """Yield portions of a slot's `shares` (column blocks of C0), with stores to dW: as many as fit `room` bytes, at least
        one.
        """
        size, per_plane = self._slot_block(task), self.cin1 * self.taps * self.c0
        at_once = max(room // size, 1)
        for start in range(shares.start, shares.stop, at_once):
            stores = []
            for block in range(start, min(start + at_once, shares.stop)):
                plane, column = divmod(task.n_start + block * self.c0, per_plane)
                plane = plane if task.plane is None else task.plane
                line = self.offset(task.group, plane, 0, 0, 0) + column // self.c0 * self.line_bytes
                stores.append(RowStore((block - start) * size, line + task.m_start * self.row_bytes, size))
            yield Portion(start * size, len(stores) * size, stores)

"""Interface of tensor layouts in GM: loads of boxes to L1, stores of finished tiles from L0C.

A layout is one class for feature maps and one for weights; `ops.layouts` finds those of a call. A program names a box
of the tensor and its destination in the classes of this file; the layout's class issues the transfers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import ClassVar, NamedTuple, Protocol

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import ScatterLoops, Span

# -- maps ----------------------------------------------------------------------------------------------------------------


class ChannelPlace(NamedTuple):
    """Position of a channel in one plane of a map: number of the image, of the channel, and of the depth."""

    batch: int
    channel: int
    depth: int


class MapBox(NamedTuple):
    """Box of a map: a span of rows and one of columns in one plane, for `channels` channels from `place` on."""

    place: ChannelPlace
    channels: int
    rows: Span
    columns: Span


class Pitches(NamedTuple):
    """Distances in a buffer, in bytes: from one row, one pixel, one channel block to the next."""

    row: int
    pixel: int
    block: int


class Lattice(NamedTuple):
    """Regularly spaced pixels of a plane: `rows` x `columns` from pixel `first` on; `row_step`, `column_step` in pixels."""

    first: int
    rows: int
    row_step: int
    columns: int
    column_step: int


class MapPixels(NamedTuple):
    """Regularly spaced pixels (`lattice`) of one plane, for `channels` channels from `place` on."""

    place: ChannelPlace
    channels: int
    lattice: Lattice


class TileRun(NamedTuple):
    """Run of `pixels` adjoining pixels of a plane from `pixel` on, which a finished tile holds in its rows from `row` on."""

    row: int
    pixel: int
    pixels: int


class MapTile(NamedTuple):
    """Finished tile of a map in L0C: `height` pixels, which lie in `runs` of the plane, by `channels` from `place` on."""

    place: ChannelPlace
    runs: list[TileRun]
    height: int
    channels: int


# -- weights -------------------------------------------------------------------------------------------------------------


class FilterBox(NamedTuple):
    """Box of weights: spans of filters and channels, within real group `group`, and a span of taps of one kernel plane."""

    group: int
    filters: Span
    channels: Span
    plane: int
    taps: Span


class FilterTile(NamedTuple):
    """Finished tile of dW: filters from `row` on in a real group, and columns from `column` on in a kernel plane.

    Columns are numbered by (block of channels, tap, channel in the block), the last fastest.
    """

    group: int
    plane: int
    row: int
    rows: int
    column: int
    columns: int


class FilterTask(Protocol):
    """Interface of a task's part of dW: rows (filters) and columns (channels and taps) of a real group."""

    @property
    def group(self) -> int:
        """Return the number of the real group."""

    @property
    def plane(self) -> int | None:
        """Return the number of the kernel plane; None where the task's columns go through all planes."""

    @property
    def m_start(self) -> int:
        """Return the first row (filter) of the task."""

    @property
    def m_count(self) -> int:
        """Return the number of rows (filters)."""

    @property
    def n_start(self) -> int:
        """Return the first column (channel and tap) of the task."""

    @property
    def n_count(self) -> int:
        """Return the number of columns (channels and taps)."""


class RowStore(NamedTuple):
    """Store from UB to dW: `rows` rows of `row_bytes` (strides: from row to row), from byte `source` of a portion to `target`
    of dW.
    """

    source: int
    target: int
    row_bytes: int
    rows: int = 1
    source_stride: int = 0
    target_stride: int = 0


class Writing(NamedTuple):
    """Store from UB to dW: `planes` planes of `rows` rows of `row_bytes` bytes, from byte `source` of UB to byte
    `target` of dW.

    Each pair of strides is (bytes in UB, bytes in dW): `strides` from row to row, `plane_strides` from plane to plane.
    """

    source: int
    target: int
    row_bytes: int
    rows: int
    strides: tuple[int, int]
    planes: int = 1
    plane_strides: tuple[int, int] = (0, 0)


class Turned(NamedTuple):
    """Part of a sum that UB holds as L0C does, [column / 16][row][16]: its `scatters` (source, target, loops) to
    another place in UB, then its stores from there to dW.
    """

    scatters: Sequence[tuple[int, int, ScatterLoops]]
    writings: Sequence[Writing]


class Portion(NamedTuple):
    """Part of a task's slot that vector cores add up at a time: `size` bytes from byte `offset` on, and the `stores` to dW."""

    offset: int
    size: int
    stores: Sequence[RowStore]


# -- the way out of L0C --------------------------------------------------------------------------------------------------


class DrainPiece(NamedTuple):
    """Part of a finished tile, `rows` x `columns` from row `row` and column `column` on, and its GM operand `target`.

    `column` and `columns` are 0 where whole rows are stored.
    """

    target: int
    row: int
    rows: int
    column: int = 0
    columns: int = 0


class FinishedTile(Protocol):
    """Interface of a finished L0C tile, with two ways to store it to GM; `height` is the number of its rows."""

    def drain_rows(
        self, pieces: list[DrainPiece], height: int, n: int, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False
    ) -> None:
        """Store pieces of the tile to GM as whole rows of `n` columns in `dtype`: blocks of `c0` columns, which lie
        `dst_stride` bytes apart. The tile is then free.

        `atomic_add` adds to the values in GM.
        """

    def drain_elements(
        self,
        pieces: list[DrainPiece],
        height: int,
        row_stride: int,
        column_stride: int,
        atomic_add: bool = False,
        dtype: str = "float32",
    ) -> None:
        """Store pieces of the tile to GM in `dtype` element by element; rows and columns are `row_stride` and `column_stride`
        bytes apart there. The tile is then free.

        `atomic_add` adds to the values in GM.
        """


# -- what a layout can do ------------------------------------------------------------------------------------------------


@frozen
class FeatureMap(ABC):
    """Layout of a map in GM: `count` channels, planes of (D, H, W) = `volume`, elements of `itemsize` bytes.

    Its loads bring boxes of the map to L1 as [channel block][row][pixel][C0]. In all methods `slot` is the number of
    the tensor in the launch, and `operand` the name under which reports count a load.
    """

    count: int
    volume: tuple[int, int, int]
    itemsize: int

    def turned_at(self, most_bytes_per_cycle: float) -> FeatureMap:
        """Return the map with its transposing loads limited to `most_bytes_per_cycle`; itself if no load transposes."""
        return self

    @abstractmethod
    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """Load a box to `address` of the buffer `space`, with rows, pixels and channel blocks `pitches` apart there."""

    def load_pixels(self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitch: int, operand: str) -> None:
        """Load a box to `address` of L1 with its pixels back to back; channel blocks lie `pitch` pixels apart."""
        row = box.columns.length * BLOCK_BYTES
        self.load(k, slot, box, address, Pitches(row, BLOCK_BYTES, pitch * BLOCK_BYTES), operand)

    def gather(self, k: KernelBuilder, slot: int, pixels: MapPixels, address: int, pitch: int, operand: str) -> None:
        """Load the separate `pixels` to `address` of L1, back to back, channel blocks `pitch` pixels apart; SimError in
        layouts without such loads.
        """
        raise SimError(f"{type(self).__name__}: no kernel gathers pixels that lie apart from maps in this layout")

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: MapTile, dtype: str, atomic_add: bool = False) -> None:
        """Store a finished tile to its place in the map in `dtype`, and free it; `atomic_add` adds to the values in GM."""


class Filters(ABC):
    """Layout in GM of weights, or of dW in fp32; a tile of dW is [filters][columns].

    `uniform` is True if tiles of one size are stored by the same instructions wherever they lie, in whole blocks of C0
    channels.
    """

    uniform: ClassVar[bool] = False

    @abstractmethod
    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """Load a box of weights to L1 as FRACTAL_Z, [channel block][tap][`rows` filters][C0]. Filters beyond the box are zeros,
        or in FRACTAL_Z those that follow it.
        """

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """Store a finished tile of dW to its place, and free it; `atomic_add` adds to the values in GM."""


class SlottedFilters(Filters):
    """Layout of dW with workspace slots, one for each core's partial sum (StreamK), in the order of dW."""

    @abstractmethod
    def drain_to_slot(
        self, finished: FinishedTile, slot: int, offset: int, task: FilterTask, tile: FilterTile, atomic_add: bool
    ) -> None:
        """Store a finished tile to its task's slot at byte `offset` of tensor `slot` (`atomic_add`: add it), and free it."""

    @abstractmethod
    def slot_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a slot for a task of `rows` x `columns`."""

    @abstractmethod
    def shares(self, task: FilterTask) -> int:
        """Return into how many shares the vector cores can divide a task's slot."""

    @abstractmethod
    def portions(self, task: FilterTask, shares: range, room: int) -> Iterator[Portion]:
        """Yield the portions of a task's slot to add up in turn for some `shares`: at most `room` bytes each, but at least a
        share.
        """

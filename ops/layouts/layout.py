"""Interface of tensor layouts in GM: loads of boxes to L1, stores of finished tiles from L0C.

A layout is one class for feature maps and one for weights; `ops.layouts` finds those of a call. A program names the box and its
destination in the classes of this file; the layout decides which transfers bring it.
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
    """A channel of one plane of a map: image, channel, depth."""

    batch: int
    channel: int
    depth: int


class MapBox(NamedTuple):
    """Box of a map: rows and columns of one plane, `channels` channels from `place` on."""

    place: ChannelPlace
    channels: int
    rows: Span
    columns: Span


class Pitches(NamedTuple):
    """Bytes in a buffer from one row, one pixel, one channel block to the next."""

    row: int
    pixel: int
    block: int


class Lattice(NamedTuple):
    """Pixels of a plane: `rows` x `columns` of them from pixel `first` on, with both steps in pixels."""

    first: int
    rows: int
    row_step: int
    columns: int
    column_step: int


class MapPixels(NamedTuple):
    """Separate pixels of one plane, `channels` channels from `place` on."""

    place: ChannelPlace
    channels: int
    lattice: Lattice


class TileRun(NamedTuple):
    """Run of adjoining pixels of a plane, from `pixel` on, that a finished tile has in its rows from `row` on."""

    row: int
    pixel: int
    pixels: int


class MapTile(NamedTuple):
    """Finished tile of a map: `height` pixels, in `runs`, by `channels` channels from `place` on."""

    place: ChannelPlace
    runs: list[TileRun]
    height: int
    channels: int


# -- weights -------------------------------------------------------------------------------------------------------------


class FilterBox(NamedTuple):
    """Box of weights: filters and channels, counted within a real group, and taps of one kernel plane."""

    group: int
    filters: Span
    channels: Span
    plane: int
    taps: Span


class FilterTile(NamedTuple):
    """Finished tile of dW: filters from `row` on in a real group, and columns from `column` on in a kernel plane.

    Columns count (block of channels, tap, channel).
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
        """Return the number of the kernel plane; None where columns include all planes."""

    @property
    def m_start(self) -> int:
        """Return the first row."""

    @property
    def m_count(self) -> int:
        """Return the number of rows."""

    @property
    def n_start(self) -> int:
        """Return the first column."""

    @property
    def n_count(self) -> int:
        """Return the number of columns."""


class RowStore(NamedTuple):
    """Store of `rows` rows of bytes, from byte `source` of a portion to byte `target` of dW."""

    source: int
    target: int
    row_bytes: int
    rows: int = 1
    source_stride: int = 0
    target_stride: int = 0


class Writing(NamedTuple):
    """Store of planes of rows of bytes from `source` in UB to `target` in dW; strides are (of the source, of the target)."""

    source: int
    target: int
    row_bytes: int
    rows: int
    strides: tuple[int, int]
    planes: int = 1
    plane_strides: tuple[int, int] = (0, 0)


class Turned(NamedTuple):
    """Part of a sum that UB holds as L0C does, [column / 16][row][16]: its scatters within UB, then its stores to dW."""

    scatters: Sequence[tuple[int, int, ScatterLoops]]
    writings: Sequence[Writing]


class Portion(NamedTuple):
    """Part of a task's slot that is added up at a time: `size` bytes from `offset` on, and the stores of its sum to dW."""

    offset: int
    size: int
    stores: Sequence[RowStore]


# -- the way out of L0C --------------------------------------------------------------------------------------------------


class DrainPiece(NamedTuple):
    """Part of a finished tile, `rows` x `columns` from row `row` and column `column` on, and its place `target` in GM.

    Where whole rows are stored, columns are not given.
    """

    target: int
    row: int
    rows: int
    column: int = 0
    columns: int = 0


class FinishedTile(Protocol):
    """Interface of a finished L0C tile, with two ways to store it; `height` is the number of its rows."""

    def drain_rows(
        self,
        pieces: list[DrainPiece],
        height: int,
        n: int,
        dtype: str,
        c0: int,
        dst_stride: int,
        atomic_add: bool = False,
    ) -> None:
        """Store pieces of the tile as whole rows of `n` columns, in blocks of C0 columns `dst_stride` bytes apart."""

    def drain_elements(
        self,
        pieces: list[DrainPiece],
        height: int,
        row_stride: int,
        column_stride: int,
        atomic_add: bool = False,
        dtype: str = "float32",
    ) -> None:
        """Store pieces of the tile element by element, with the strides of rows and columns in bytes."""


# -- what a layout can do ------------------------------------------------------------------------------------------------


@frozen
class FeatureMap(ABC):
    """Layout of a map in GM: `count` channels, planes of (D, H, W) = `volume`, elements of `itemsize` bytes.

    In L1 it is [channel block][row][pixel][C0]. `slot` is the number of the tensor in the launch; `operand` is the name
    under which a load is counted.
    """

    count: int
    volume: tuple[int, int, int]
    itemsize: int

    def turned_at(self, most_bytes_per_cycle: float) -> FeatureMap:
        """Return the map with its transposing loads limited to that rate; a map whose loads do not transpose stays as it is."""
        return self

    @abstractmethod
    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """Load a box to `address` of the buffer `space`, with rows, pixels and channel blocks `pitches` apart."""

    def load_pixels(self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitch: int, operand: str) -> None:
        """Load a box to L1, its pixels back to back, channel blocks `pitch` pixels apart."""
        row = box.columns.length * BLOCK_BYTES
        self.load(k, slot, box, address, Pitches(row, BLOCK_BYTES, pitch * BLOCK_BYTES), operand)

    def gather(
        self,
        k: KernelBuilder,
        slot: int,
        pixels: MapPixels,
        address: int,
        pitch: int,
        operand: str,
    ) -> None:
        """Load separate pixels to L1, back to back, channel blocks `pitch` pixels apart."""
        raise SimError(f"{type(self).__name__}: no kernel gathers pixels that lie apart from maps in this layout")

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: MapTile, dtype: str, atomic_add: bool = False) -> None:
        """Store a finished tile to its place in the map."""


class Filters(ABC):
    """Layout in GM of weights, or of dW in fp32, of which a tile is [filters][columns].

    `uniform`: equal tiles are stored by equal instructions at any place, in whole C0 channels.
    """

    uniform: ClassVar[bool] = False

    @abstractmethod
    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """Load a box of weights to L1 in the order of FRACTAL_Z, [channel block][tap][`rows` filters][C0]; filters
        beyond the box are zeros.
        """

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """Store a finished tile of dW to its place."""


class SlottedFilters(Filters):
    """Layout of dW with workspace slots for shared tasks (StreamK). Slots have the order of dW; vector cores add them up."""

    @abstractmethod
    def drain_to_slot(
        self, finished: FinishedTile, slot: int, offset: int, task: FilterTask, tile: FilterTile, atomic_add: bool
    ) -> None:
        """Store a finished tile to its task's slot, which begins `offset` bytes into the tensor `slot` of the launch."""

    @abstractmethod
    def slot_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of a slot for a task of `rows` x `columns`."""

    @abstractmethod
    def shares(self, task: FilterTask) -> int:
        """Return the number of shares into which vector cores can divide a task's slot."""

    @abstractmethod
    def portions(self, task: FilterTask, shares: range, room: int) -> Iterator[Portion]:
        """Yield the portions to add up for some `shares` of a task's slot, each of about `room` bytes at most."""

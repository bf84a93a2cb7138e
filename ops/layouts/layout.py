"""Interface of tensors in GM, whatever their layout: boxes of them to L1, finished tiles of L0C back.

A layout is one class for feature maps and one for weights; `ops.layouts` finds those of a call. A program says which box it
wants and where that goes, in the words of this file; which transfers bring it follows from the layout alone.
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
    """A channel of one plane of a map."""

    batch: int
    channel: int
    depth: int


class MapBox(NamedTuple):
    """Rows and columns of one plane, in `channels` channels from that of `place` on."""

    place: ChannelPlace
    channels: int
    rows: Span
    columns: Span


class Pitches(NamedTuple):
    """Bytes in a buffer from one row to the next, from one pixel to the next, from one channel block to the next."""

    row: int
    pixel: int
    block: int


class Lattice(NamedTuple):
    """Pixels of a plane: `rows` x `columns` of them from `first` on, the steps of both axes in pixels."""

    first: int
    rows: int
    row_step: int
    columns: int
    column_step: int


class MapPixels(NamedTuple):
    """Pixels of one plane that lie apart, in `channels` channels from that of `place` on."""

    place: ChannelPlace
    channels: int
    lattice: Lattice


class TileRun(NamedTuple):
    """`pixels` rows of a finished tile, from row `row` on: pixels of a plane that adjoin, from `pixel` on."""

    row: int
    pixel: int
    pixels: int


class MapTile(NamedTuple):
    """A finished tile of a map: `height` pixels, in `runs`, x `channels` from that of `place` on."""

    place: ChannelPlace
    runs: list[TileRun]
    height: int
    channels: int


# -- weights -------------------------------------------------------------------------------------------------------------


class FilterBox(NamedTuple):
    """Filters and channels of a real group, counted in that, and taps of one kernel plane."""

    group: int
    filters: Span
    channels: Span
    plane: int
    taps: Span


class FilterTile(NamedTuple):
    """A finished tile of dW: filters `row` .. of a real group and columns, (C0 channels, tap, channel), of a kernel plane."""

    group: int
    plane: int
    row: int
    rows: int
    column: int
    columns: int


class FilterTask(Protocol):
    """The part of dW that a task computes, rows (filters) and columns (channels and taps) of a real group."""

    @property
    def group(self) -> int:
        """Return the real group."""

    @property
    def plane(self) -> int | None:
        """Return the kernel plane; None where columns count through all of them."""

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


class RowStore(NamedTuple):
    """Rows of bytes of a portion, from `source` in it to `target` in dW."""

    source: int
    target: int
    row_bytes: int
    rows: int = 1
    source_stride: int = 0
    target_stride: int = 0


class Writing(NamedTuple):
    """Planes of rows of bytes from `source` in UB to `target` in dW; strides of UB and dW."""

    source: int
    target: int
    row_bytes: int
    rows: int
    strides: tuple[int, int]
    planes: int = 1
    plane_strides: tuple[int, int] = (0, 0)


class Turned(NamedTuple):
    """Part of a sum that lies in UB as it left L0C, its fractals [column / 16][row][16]: from where to where its elements go
    in UB (byte offsets, and the loops), and what is written to dW from there."""

    scatters: Sequence[tuple[int, int, ScatterLoops]]
    writings: Sequence[Writing]


class Portion(NamedTuple):
    """`size` bytes of a task's slot, from `offset` on, that are added up at a time, and the way of the sum to dW."""

    offset: int
    size: int
    stores: Sequence[RowStore]


# -- the way out of L0C --------------------------------------------------------------------------------------------------


class DrainPiece(NamedTuple):
    """`rows` x `columns` of a finished tile, from row `row` and column `column` on, and the place in GM that they go to.

    Where rows leave whole no columns are named.
    """

    target: int
    row: int
    rows: int
    column: int = 0
    columns: int = 0


class FinishedTile(Protocol):
    """The two ways of a finished tile, `height` rows high, out of L0C."""

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
        """Whole rows of `n` columns, as blocks of C0 columns that lie `dst_stride` bytes apart."""

    def drain_elements(
        self,
        pieces: list[DrainPiece],
        height: int,
        row_stride: int,
        column_stride: int,
        atomic_add: bool = False,
        dtype: str = "float32",
    ) -> None:
        """Single elements, the strides of both axes in bytes."""


# -- what a layout can do ------------------------------------------------------------------------------------------------


@frozen
class FeatureMap(ABC):
    """A map of `count` channels in GM, planes of (D, H, W) = `volume`, elements of `itemsize` bytes.

    In L1 it is [channel block][row][pixel][C0]. `slot` is the number of the tensor in the launch; `operand` is what the counts
    call a load.
    """

    count: int
    volume: tuple[int, int, int]
    itemsize: int

    def turned_at(self, most_bytes_per_cycle: float) -> FeatureMap:
        """Return the map whose loads that turn channels on their way to L1 have that rate at most; other maps keep theirs."""
        return self

    @abstractmethod
    def load(
        self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitches: Pitches, operand: str, space: str = "L1"
    ) -> None:
        """A box to `address` of a buffer."""

    def load_pixels(self, k: KernelBuilder, slot: int, box: MapBox, address: int, pitch: int, operand: str) -> None:
        """A box to L1, its pixels one after the other, channel blocks `pitch` pixels apart."""
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
        """Pixels that lie apart to L1, one after the other, channel blocks `pitch` pixels apart."""
        raise SimError(f"{type(self).__name__}: no kernel gathers pixels that lie apart from maps in this layout")

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: MapTile, dtype: str, atomic_add: bool = False) -> None:
        """A finished tile to its plane."""


class Filters(ABC):
    """Weights or their gradient in GM; dW is fp32, and a tile of it [filters][columns].

    `uniform`: equal tiles leave alike wherever they stand, in whole C0 channels.
    """

    uniform: ClassVar[bool] = False

    @abstractmethod
    def load(self, k: KernelBuilder, slot: int, box: FilterBox, address: int, rows: int) -> None:
        """A box of weights as FRACTAL_Z in L1, [channel block][tap][`rows` filters][C0]; further filters are zeros."""

    @abstractmethod
    def drain(self, finished: FinishedTile, slot: int, tile: FilterTile, atomic_add: bool) -> None:
        """A finished tile of dW to its place."""


class SlottedFilters(Filters):
    """dW whose shared tasks (StreamK) leave sums in slots that have its order; vector cores add them up."""

    @abstractmethod
    def drain_to_slot(
        self, finished: FinishedTile, slot: int, offset: int, task: FilterTask, tile: FilterTile, atomic_add: bool
    ) -> None:
        """A finished tile of a task to the task's slot, `offset` bytes into the tensor `slot`."""

    @abstractmethod
    def slot_bytes(self, rows: int, columns: int) -> int:
        """Return the bytes of the slot of a task of so many rows and columns."""

    @abstractmethod
    def shares(self, task: FilterTask) -> int:
        """In how many pieces the vector cores can share a task's slot."""

    @abstractmethod
    def portions(self, task: FilterTask, shares: range, room: int) -> Iterator[Portion]:
        """Yield the portions of a task's slot that are added at a time for `shares` of it, of about `room` bytes at most."""

"""Transfers of the MTE2 and MTE3 pipes: strided copies, ND to NZ conversion on the way to L1, and constant fill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import gcd
from typing import Any, ClassVar

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa import effect
from ascend_sim.isa.base import LOCAL, TRANSFER, Cost, GmAccess, Instruction, ceil_div, cycles_of
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, listed, loops, moves, offsets_of
from ascend_sim.memory.regions import Region


@frozen
class DataCopy(Instruction):
    """Copy `rows` rows of `row_bytes` from `source` to `destination` (buffer names or "GM"), strides in bytes.

    `atomic_add` is the format in which the numbers are added in GM, "" for a plain copy. `operand` ("A", "B", ...) names the
    kernel's operand to which the bytes are counted.
    """

    source: str
    destination: str
    row_bytes: int
    rows: int = 1
    src_stride: int = 0
    dst_stride: int = 0
    atomic_add: str = ""
    operand: str = ""

    name = "data_copy"

    @property
    def kind(self) -> int:  # type: ignore[override]
        return TRANSFER if "GM" in (self.source, self.destination) else LOCAL

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return bool(self.atomic_add)

    @property
    def held_bytes(self) -> int:
        """Return the bytes of a row in the local buffer: those copied and, in a padded copy, its padding."""
        return self.row_bytes

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path(self.source, self.destination).pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path(self.source, self.destination)
        if self.kind != TRANSFER:
            work = cycles_of(self.row_bytes * self.rows, path.bytes_per_cycle)
        else:
            work = self.rows * (path.unaligned_row or 0) if self._unaligned(chip.alignment.block) else 0
        return Cost(path.head, path.head, work, path.latency)

    def _unaligned(self, block: int) -> bool:
        """Return True if a row begins or ends inside a block of GM, as far as length and stride show; the address is not known
        here.
        """
        stride = self.src_stride if self.source == "GM" else self.dst_stride
        return self.row_bytes % block > 0 or (self.rows > 1 and stride % block > 0)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        rate = chip.path(self.source, self.destination).bytes_per_cycle
        if self.source == "GM":
            return GmAccess("read", self.reads()[0], rate)
        if self.destination == "GM":
            return GmAccess("atomic" if self.atomic_add else "write", self.writes()[0], rate)
        return None

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", self.source, self.row_bytes, self.src_stride, self.rows),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", self.destination, self.row_bytes, self.dst_stride, self.rows),)

    def moves(self, model: ValueModel) -> Moves:
        take = loops("src0", self.source, (self.rows, self.row_bytes), (self.src_stride, 1), 1)
        if not self.atomic_add:
            return moves(take, put=loops("dst", self.destination, (self.rows, self.row_bytes), (self.dst_stride, 1), 1))
        item = np.dtype(self.atomic_add).itemsize
        put = loops("dst", self.destination, (self.rows, self.row_bytes // item), (self.dst_stride, item), item)
        return moves(take, put=put, adds=self.atomic_add, settles=model.saturate)

    def label(self) -> str:
        return self.operand

    def path(self) -> str:
        return f"{self.source}->{self.destination}"


@frozen
class DataCopyPastL2(DataCopy):
    """A copy out of GM that leaves no lines in the L2 (asc-devkit, CacheMode)."""

    name = "data_copy_past_l2"

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        access = super().gm_access(chip)
        return access and replace(access, kept=False)


@frozen
class KeepsExtreme(Instruction):
    """Base of writes to GM that keep the larger or the smaller of both numbers, by `keep` "max" or "min" (else SimError).

    The subclass's `moves` must add numbers, in whose format they are compared (asc-devkit, SetAtomicMax and SetAtomicMin).
    """

    keep: str = "max"

    def __post_init__(self) -> None:
        if self.keep not in effect.EXTREMES:
            raise SimError(f"{self.name}: keep is {self.keep!r}; allowed are {', '.join(effect.EXTREMES)}")

    def moves(self, model: ValueModel) -> Moves:
        told = super().moves(model)
        assert told is not None
        return replace(told, keeps=self.keep)


@frozen
class DataCopyExtreme(KeepsExtreme, DataCopy):
    """A copy to GM that keeps the larger or smaller of the new and the stored number (`keep`), in the format `atomic_add`."""


FIRST_OF_ROW = -1
"""Padding that is each row's own first element."""


@frozen
class DataCopyPadded(DataCopy):
    """Copy from GM whose rows get `left` bytes before and `right` bytes behind them of `value`, a number of `itemsize` bytes,
    or of their own first element (FIRST_OF_ROW; asc-devkit, DataCopyPad).

    The padding costs nothing of its own (assumed). Raises SimError for rows or padding that are not whole elements, and for a
    value that does not fit one.
    """

    left: int = 0
    right: int = 0
    value: int = 0
    itemsize: int = 1

    name = "data_copy_padded"

    def __post_init__(self) -> None:
        for what, size in (("rows", self.row_bytes), ("left", self.left), ("right", self.right)):
            if self.itemsize < 1 or size % self.itemsize or size < 0:
                raise SimError(
                    f"{self.name}: {what} of {size} bytes; they are whole elements of {self.itemsize} bytes "
                    f"(asc-devkit, DataCopyPad)"
                )
        if self.value != FIRST_OF_ROW and not 0 <= self.value < 1 << 8 * self.itemsize:
            raise SimError(
                f"{self.name}: value {self.value}; it is the bits of an element, 0 to {(1 << 8 * self.itemsize) - 1:#x}"
            )

    @property
    def held_bytes(self) -> int:
        return self.left + self.row_bytes + self.right

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", self.destination, self.held_bytes, self.dst_stride, self.rows),)

    def moves(self, model: ValueModel) -> Moves:
        item = self.itemsize
        taken = offsets_of((self.rows, self.row_bytes // item), (self.src_stride, item))
        padded = np.pad(taken, ((0, 0), (self.left // item, self.right // item)), constant_values=-1)
        put = loops("dst", self.destination, (self.rows, self.held_bytes), (self.dst_stride, 1), 1)
        if self.value == FIRST_OF_ROW:
            return moves(listed("src0", self.source, np.where(padded < 0, taken[:, :1], padded), item), put=put)
        return moves(listed("src0", self.source, padded, item), put=put, fill=self.value.to_bytes(item, "little"))


@frozen
class DataCopyPlanes(DataCopy):
    """Copy of `planes` planes of rows, `src_plane` and `dst_plane` bytes apart (asc-devkit, SetLoopModePara). `pipe` raises
    SimError for an `atomic_add`.
    """

    planes: int = 1
    src_plane: int = 0
    dst_plane: int = 0

    name = "data_copy_planes"

    def pipe(self, chip: ChipSpec) -> str:
        if self.atomic_add:
            raise SimError(f"{self.name}: atomic_add={self.atomic_add!r}; planes replace what GM holds, data_copy can add")
        return super().pipe(chip)

    def cost(self, chip: ChipSpec) -> Cost:
        return replace(super().cost(chip), work=self.planes * super().cost(chip).work)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", self.source, self.row_bytes, self.src_stride, self.rows, self.src_plane, self.planes),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", self.destination, self.row_bytes, self.dst_stride, self.rows, self.dst_plane, self.planes),)

    def moves(self, model: ValueModel) -> Moves:
        shape = (self.planes, self.rows, self.row_bytes)
        take = loops("src0", self.source, shape, (self.src_plane, self.src_stride, 1), 1)
        return moves(take, put=loops("dst", self.destination, shape, (self.dst_plane, self.dst_stride, 1), 1))


class BlocksToL1(Instruction):
    """Base of the conversions of matrices in GM to blocks in L1; `layouts` is the variant of the chip's path."""

    operand: str
    layouts: ClassVar[str]

    kind = TRANSFER

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path("GM", "L1", self.layouts).pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path("GM", "L1", self.layouts)
        return Cost(path.head, path.head, 0, path.latency)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        return GmAccess("read", self.reads()[0], chip.path("GM", "L1", self.layouts).bytes_per_cycle)

    def label(self) -> str:
        return self.operand

    def path(self) -> str:
        return "GM->L1"


@frozen
class DataCopyNd2Nz(BlocksToL1):
    """Convert a row-major matrix in GM to NZ fractals in L1: [ceil(cols/C0)][rows_padded][C0].

    `rows` x `cols` elements of `itemsize` bytes, rows `src_stride` bytes apart; `rows_padded` rows per column block, of which
    those behind `rows` are not written. The columns behind `cols` in the last block become zero. In L1 a row begins `row_step`
    blocks behind the one before it (asc-devkit, DataCopy GM to L1 ND2NZ: dstNzNStride).
    """

    rows: int
    cols: int
    itemsize: int
    src_stride: int
    rows_padded: int
    operand: str = ""
    row_step: int = 1

    name = "data_copy_nd2nz"
    layouts = "nd2nz"
    left_out: ClassVar[Mapping[str, Any]] = {"row_step": 1}

    @property
    def _c0(self) -> int:
        return BLOCK_BYTES // self.itemsize

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "GM", self.cols * self.itemsize, self.src_stride, self.rows),)

    def writes(self) -> tuple[Region, ...]:
        blocks, apart = ceil_div(self.cols, self._c0), self.rows_padded * BLOCK_BYTES
        if self.row_step == 1:
            return (Region("dst", "L1", self.rows * BLOCK_BYTES, apart, blocks),)
        return (Region("dst", "L1", BLOCK_BYTES, self.row_step * BLOCK_BYTES, self.rows, apart, blocks),)

    def moves(self, model: ValueModel) -> Moves:
        row_bytes, blocks = self.cols * self.itemsize, ceil_div(self.cols, self._c0)
        shape, steps = (blocks, self.rows, BLOCK_BYTES), (self.rows_padded * BLOCK_BYTES, self.row_step * BLOCK_BYTES, 1)
        put = loops("dst", "L1", shape, steps, 1)
        if row_bytes % BLOCK_BYTES == 0:
            return moves(loops("src0", "GM", shape, (BLOCK_BYTES, self.src_stride, 1), 1), put=put)
        unit = gcd(row_bytes, BLOCK_BYTES)  # the largest pieces that are data or padding as a whole
        pieces = (blocks, self.rows, BLOCK_BYTES // unit)
        column = offsets_of(pieces, (BLOCK_BYTES, 0, unit))
        offsets = column + offsets_of(pieces, (0, self.src_stride, 0))
        return moves(listed("src0", "GM", np.where(column < row_bytes, offsets, -1), unit), put=put)


@frozen
class Fill(Instruction):
    """Set `size` bytes of the buffer `destination`, whole numbers of `itemsize` bytes, to copies of the one with the bits
    `value`; zeros by default.
    """

    destination: str
    size: int
    value: int = 0
    itemsize: int = 1

    name = "fill"

    def parameters(self) -> dict[str, Any]:
        """Return the fields by name, without `value` and `itemsize` if the value is 0."""
        return vars(self) if self.value else {"destination": self.destination, "size": self.size}

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path("FILL", self.destination).pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path("FILL", self.destination)
        return Cost(path.head, path.head, cycles_of(self.size, path.bytes_per_cycle), path.latency)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", self.destination, self.size),)

    def moves(self, model: ValueModel) -> Moves:
        fill = self.value.to_bytes(self.itemsize, "little")
        return moves(put=loops("dst", self.destination, (self.size,), (1,), 1), fill=fill)

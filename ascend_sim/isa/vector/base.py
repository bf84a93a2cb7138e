"""Common part of all vector instructions: operands in the Unified Buffer, rows of repeats, masks and costs.

An operand is `rows` rows of `count` elements, the rows `stride` bytes apart. A source whose stride is 0 gives every row of the
result the same numbers (the vendor's repeat stride of 0); one row of any length is what the vendor calls the count mode. Where
blocks of 32 bytes do not adjoin, each row is one repeat, and its blocks lie a block stride apart; with 0 all are one block.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, Instruction, ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.moves import Place, listed, loops, offsets_of
from ascend_sim.isa.vector.banks import OperandBlocks, bank_cycles
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.distinct import distinct
from ascend_sim.numerics.integers import storage

OPERANDS = ("dst", "src0", "src1")
"""Operands in the order of their entries in `blocks`."""


def size_of(dtype: str) -> int:
    """Return the bytes of one element."""
    return int(storage(dtype).itemsize)


def bits_of(dtype: str) -> str:
    """Return the unsigned integer dtype as wide as `dtype`, for moving bits unchanged, NaN patterns too."""
    return f"uint{8 * size_of(dtype)}"


@frozen
class Mask:
    """The vendor's bitwise mask: bit i (1 << i) is 1 if element i of every repeat takes part.

    `period` is the number of elements of a repeat (256 bytes: 64 of fp32, 128 of fp16). Elements that take no part are neither
    written nor read; the time is that of the whole repeat. Raises SimError for bits that select nothing, or beyond `period`.
    """

    bits: int
    period: int

    def __post_init__(self) -> None:
        if not isinstance(self.bits, int | np.integer) or isinstance(self.bits, bool):
            raise SimError(f"mask {self.bits!r}; a whole number whose bits select elements is allowed")
        if not 0 < self.bits < 1 << self.period:
            raise SimError(
                f"mask {self.bits:#x} does not select from a repeat of {self.period} elements: "
                f"it must be from 1 to {(1 << self.period) - 1:#x}"
            )

    def runs(self, count: int) -> list[tuple[int, int]]:
        """Return (first, end) of every run of selected elements among the first `count` elements."""
        edges = np.flatnonzero(np.diff(np.concatenate([[0], self.selected(count).astype(np.int8), [0]])))
        return [(int(first), int(past)) for first, past in edges.reshape(-1, 2)]

    def selected(self, count: int) -> NDArray[np.bool_]:
        """Return a cached array of bool, True for each of `count` elements that takes part; the mask repeats every `period`."""
        return _selected(self, count)


@lru_cache(maxsize=256)
def _selected(mask: Mask, count: int) -> NDArray[np.bool_]:
    return np.resize(np.array([mask.bits >> i & 1 for i in range(mask.period)], np.bool_), count)


def rows_of(
    operand: str, dtype: str, count: int, rows: int = 1, stride: int = 0, mask: Mask | None = None
) -> tuple[Region, ...]:
    """Return the regions in UB of `rows` rows of `count` elements, `stride` bytes apart; with a mask only those of selected
    elements.
    """
    size = size_of(dtype)
    if mask is None:
        return (Region(operand, "UB", count * size, stride, rows),)
    whole, rest = divmod(count, mask.period)
    repeat = mask.period * size
    regions = [
        Region(operand, "UB", (past - first) * size, repeat, whole, stride, rows, first * size)
        for first, past in mask.runs(mask.period)
        if whole
    ]
    regions += [
        Region(operand, "UB", (past - first) * size, stride, rows, offset=whole * repeat + first * size)
        for first, past in mask.runs(rest)
    ]
    return tuple(regions)


def items_of(operand: str, dtype: str, count: int, rows: int = 1, stride: int = 0, mask: Mask | None = None) -> Place:
    """Return the Place in UB of an operand's elements, row by row, or of those that a mask selects in each row."""
    size = size_of(dtype)
    if mask is None:
        return loops(operand, "UB", (rows, count), (stride, size), size)
    return listed(operand, "UB", offsets_of((rows, count), (stride, size))[:, mask.selected(count)], size)


def blocks_of(
    operand: str, dtype: str, layout: tuple[int, int, int], block: int, mask: Mask | None = None
) -> tuple[Region, ...]:
    """Return the regions of an operand whose 32-byte blocks lie `block` bytes apart, or of its elements that a mask selects.

    `layout` is its (count of elements in a row, rows, bytes from row to row); a row is whole blocks.
    """
    count, rows, stride = layout
    size = size_of(dtype)
    per, whole = BLOCK_BYTES // size, count * size // BLOCK_BYTES
    if mask is None:
        return (Region(operand, "UB", BLOCK_BYTES, block, whole, stride, rows),)
    runs = [
        (number, max(first, number * per) - number * per, min(past, (number + 1) * per) - number * per)
        for number in range(whole)
        for first, past in mask.runs(count)
        if first < (number + 1) * per and past > number * per
    ]
    return tuple(
        Region(operand, "UB", (past - first) * size, stride, rows, offset=number * block + first * size)
        for number, first, past in runs
    )


def view_of_blocks(memory: Memory, address: int, dtype: str, layout: tuple[int, int, int], block: int) -> NDArray[Any]:
    """Return a view [rows, blocks, elements] of an operand whose blocks lie `block` bytes apart; `layout` as in `blocks_of`."""
    count, rows, stride = layout
    held = storage(dtype)
    per = BLOCK_BYTES // held.itemsize
    return memory.array("UB", address, (rows, count // per, per), held, (stride, block, held.itemsize))


def regions_of(
    operand: str, dtype: str, layout: tuple[int, int, int], mask: Mask | None = None, blocks: tuple[int, ...] = ()
) -> tuple[Region, ...]:
    """Return the regions of an operand's bytes; `layout` is its (count of elements in a row, rows, bytes from row to row),
    `blocks` the block strides of all operands in the order of OPERANDS, or ().
    """
    if blocks:
        return blocks_of(operand, dtype, layout, blocks[OPERANDS.index(operand)], mask)
    return rows_of(operand, dtype, *layout, mask)


def banked_blocks(operand: str, dtype: str, layout: tuple[int, int, int], blocks: tuple[int, ...] = ()) -> OperandBlocks:
    """Return the blocks of an operand for its bank conflicts; arguments of `regions_of`. A mask leaves none out."""
    count, rows, stride = layout
    return OperandBlocks(count * size_of(dtype), rows, stride, blocks[OPERANDS.index(operand)] if blocks else BLOCK_BYTES)


def place_of(
    operand: str, dtype: str, layout: tuple[int, int, int], mask: Mask | None = None, blocks: tuple[int, ...] = ()
) -> Place:
    """Return the Place in UB of an operand's elements in order, or of those that a mask selects; arguments of `regions_of`."""
    if not blocks:
        return items_of(operand, dtype, *layout, mask)
    count, rows, stride = layout
    size = size_of(dtype)
    per = BLOCK_BYTES // size
    shape, steps = (rows, count // per, per), (stride, blocks[OPERANDS.index(operand)], size)
    if mask is None:
        return loops(operand, "UB", shape, steps, size)
    return listed(operand, "UB", offsets_of(shape, steps).reshape(rows, count)[:, mask.selected(count)], size)


def elements(
    memory: Memory, address: int, operand: str, dtype: str, layout: tuple[int, int, int], blocks: tuple[int, ...] = ()
) -> NDArray[Any]:
    """Return a view of an operand's elements: [rows, count], [count] for one row, or with block strides [rows, blocks, elements
    of a block]; `layout` and `blocks` as in `regions_of`.
    """
    if blocks:
        return view_of_blocks(memory, address, dtype, layout, blocks[OPERANDS.index(operand)])
    return view(memory, address, dtype, *layout)


def operands_fit(
    chip: ChipSpec,
    what: str,
    dtype: str,
    layout: tuple[int, int, int],
    sources: tuple[int, ...] = (),
    blocks: tuple[int, ...] = (),
) -> None:
    """Raise SimError if rows or blocks of dst overlap, a stride is not a multiple of 32-byte blocks, or a row with block
    strides is more than a repeat or no whole blocks. One row without block strides always fits.

    `layout` is that of dst, `sources` are the strides of the sources, `what` begins the message.
    """
    count, rows, stride = layout
    if blocks:
        whole_blocks(chip, what, stride, *sources, *blocks)
        blocks_fit(chip, what, count * size_of(dtype), rows, (stride, blocks[0]))
    else:
        rows_fit(chip, what, dtype, count, rows, stride, *sources)


def view(memory: Memory, address: int, dtype: str, count: int, rows: int = 1, stride: int = 0) -> NDArray[Any]:
    """Return a view of an operand's elements in UB: [count] for one row, else [rows, count]; rows begin `stride` bytes apart
    (0: all are the same row).
    """
    held = storage(dtype)
    if rows == 1:
        return memory.array("UB", address, (count,), held)
    return memory.array("UB", address, (rows, count), held, (stride, held.itemsize))


_STRIDES = ("dst_stride", "src_stride", "src1_stride")


class VectorInstruction(Instruction):
    """Base of the vector instructions: cost by `opcode`, a row of the chip's table of vector operations.

    `pipe` raises SimError if the chip lacks the operation, or lacks it in this format.
    """

    dtype: str
    count: int

    left_out: ClassVar[Mapping[str, Any]] = dict.fromkeys((*_STRIDES, "bits_stride"), 0) | {
        "rows": 1, "mask": None, "blocks": (), "scale": 1.0,
    }  # fmt: skip

    @property
    def opcode(self) -> str:
        """Return the operation's row in the chip's table of vector costs: its name, unless a subclass has another."""
        return self.name

    def _cost_key(self) -> tuple[str, int]:
        """Return (format whose cost counts, bytes of a row, which the cost cuts into repeats)."""
        return self.dtype, self.count * size_of(self.dtype)

    def _rows(self) -> int:
        """Return the number of rows for the cost; 1 unless a subclass has rows."""
        return 1

    def _farthest(self) -> int:
        """Return the largest of the operands' strides in bytes, which a repeat stride must hold; 0 without strides."""
        return max(int(getattr(self, name, 0)) for name in _STRIDES)

    def pipe(self, chip: ChipSpec) -> str:
        dtype, _ = self._cost_key()
        entry = chip.vector.ops.get(self.opcode)
        if entry is None or dtype not in entry.cycles_per_repeat:
            has = ", ".join(chip.vector.ops if entry is None else entry.cycles_per_repeat)
            kind = "" if entry is None else f" of {dtype}"
            raise SimError(
                f"{self.name}: {chip.name} ({chip.identity.arch}) has no {self.opcode}{kind}; it has {has} "
                f"({chip.vector.ops_source}; chip file, vector.ops{'' if entry is None else '.' + self.opcode})"
            )
        return "V"

    def banked(self) -> dict[str, OperandBlocks]:
        """Return the blocks of the operands between which bank conflicts are counted; {}: it has no conflicts (assumed)."""
        return {}

    def bank_cycles(self, chip: ChipSpec) -> NDArray[np.int64] | None:
        """Return the cycles that bank conflicts add (`banks.bank_cycles`); None if none, or if the chip lacks the operation."""
        operands, entry = self.banked(), chip.vector.ops.get(self.opcode)
        slopes: Mapping[Any, float] = entry.cycles_per_repeat if operands and entry is not None else {}
        return bank_cycles(chip, slopes.get(self._cost_key()[0], 0.0), operands) if slopes else None

    def cost(self, chip: ChipSpec) -> Cost:
        dtype, size = self._cost_key()
        return row_cost(chip, self.opcode, dtype, size, self._rows(), self._farthest())


class RowsInstruction(VectorInstruction):
    """Base of instructions that write `rows` rows of `count` elements; strides are the bytes from row to row.

    `mask` leaves elements out; `blocks` are the bytes from block to block of dst and of each source, () if all adjoin. `pipe`
    raises SimError as `operands_fit`, and for an operation or a format of it that the chip lacks.
    """

    rows: int
    dst_stride: int
    src_stride: int
    mask: Mask | None
    blocks: tuple[int, ...]

    def _rows(self) -> int:
        return self.rows

    @property
    def _what(self) -> str:
        """Return the words that begin a refusal."""
        return self.name

    def _format(self, operand: str) -> str:
        """Return the format of an operand's elements."""
        return self.dtype

    def _fit(self, chip: ChipSpec) -> None:
        """Raise SimError if rows or blocks do not fit (`operands_fit`)."""
        layout, sources = (self.count, self.rows, self.dst_stride), [int(getattr(self, name, 0)) for name in _STRIDES[1:]]
        operands_fit(chip, self._what, self._format("dst"), layout, tuple(sources), self.blocks)

    def pipe(self, chip: ChipSpec) -> str:
        self._fit(chip)
        return super().pipe(chip)

    def _bytes(self, operand: str, stride: int) -> tuple[Region, ...]:
        """Return the regions of an operand whose rows lie `stride` bytes apart."""
        return regions_of(operand, self._format(operand), (self.count, self.rows, stride), self.mask, self.blocks)

    def _place(self, operand: str, stride: int) -> Place:
        """Return the Place of an operand's elements, as `_bytes`."""
        return place_of(operand, self._format(operand), (self.count, self.rows, stride), self.mask, self.blocks)

    def _view(self, memory: Memory, address: int, operand: str, stride: int) -> NDArray[Any]:
        """Return a view of the elements of an operand whose rows lie `stride` bytes apart, in the shape of `elements`."""
        return elements(memory, address, operand, self._format(operand), (self.count, self.rows, stride), self.blocks)

    def reads(self) -> tuple[Region, ...]:
        return self._bytes("src0", self.src_stride)

    def writes(self) -> tuple[Region, ...]:
        return self._bytes("dst", self.dst_stride)


class TwoFormats(RowsInstruction):
    """Base of instructions from the format `source` to `target`, that of dst; a repeat has the elements of the wider."""

    source: str
    target: str

    def _format(self, operand: str) -> str:
        return self.target if operand == "dst" else self.source

    def _cost_key(self) -> tuple[str, int]:
        wide = max(self.source, self.target, key=size_of)
        return wide, self.count * size_of(wide)


class ComputedRows(RowsInstruction):
    """Base of instructions that compute rows of numbers: `read` returns them in the shape of the view of dst."""

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        store(self._view(memory, dst, "dst", self.dst_stride), pending, self.mask)


@frozen
class Elementwise(ComputedRows):
    """`rows` rows of `count` elements of `dtype`; each element of dst is computed from the elements at its place.

    Strides are bytes from row to row; `row_cost` is the cost of several rows. `blocks` are the bytes from block to block of dst
    and of each source, empty where all blocks adjoin; gaps between blocks cost nothing (assumed).
    """

    operation: str
    dtype: str
    count: int
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()

    @property
    def opcode(self) -> str:
        return self.operation

    @property
    def _what(self) -> str:
        return f"{self.name} {self.operation}"

    def banked(self) -> dict[str, OperandBlocks]:
        strides = ((one, getattr(self, name)) for one, name in zip(OPERANDS, _STRIDES, strict=True) if hasattr(self, name))
        return {one: banked_blocks(one, self.dtype, (self.count, self.rows, stride), self.blocks) for one, stride in strides}

    def source(self, memory: Memory, address: int) -> NDArray[Any]:
        """Return a view of the elements of src0 at `address`, in the shape of `elements`."""
        return self._view(memory, address, "src0", self.src_stride)


def store(target: NDArray[Any], values: Any, mask: Mask | None) -> None:
    """Write `values` to an operand's view in place; elements that the mask leaves out stay."""
    if mask is None:
        target[...] = values
    else:
        row = target.shape[-1:] if target.ndim < 3 else target.shape[1:]
        np.copyto(target, values, where=mask.selected(math.prod(row)).reshape(row))


def rows_fit(chip: ChipSpec, what: str, dtype: str, count: int, rows: int, dst_stride: int, *src_strides: int) -> None:
    """Raise SimError if rows of dst overlap, or if a stride is not a multiple of 32-byte blocks; one row always fits."""
    if rows == 1:
        return
    if dst_stride < count * size_of(dtype):
        raise SimError(f"{what}: rows of {count} {dtype} elements would be written {dst_stride} bytes apart, over each other")
    whole_blocks(chip, what, dst_stride, *src_strides)


def blocks_fit(chip: ChipSpec, what: str, row_bytes: int, rows: int, steps: tuple[int, int]) -> None:
    """Raise SimError if a row is more than a repeat or no whole blocks, or if blocks of dst are written over each other.

    `steps` are the bytes from row to row and from block to block of dst.
    """
    if row_bytes > chip.vector.repeat_bytes or row_bytes % BLOCK_BYTES:
        raise SimError(
            f"{what}: rows of {row_bytes} bytes with a block stride; they are whole blocks of {BLOCK_BYTES} bytes of one "
            f"repeat of {chip.vector.repeat_bytes} (chip {chip.name}, vector.repeat_bytes)"
        )
    starts = offsets_of((rows, row_bytes // BLOCK_BYTES), steps)
    if len(distinct(starts)) < starts.size:
        raise SimError(
            f"{what}: blocks of dst {steps[1]} bytes and {rows} rows {steps[0]} bytes apart would be written over each other"
        )


def whole_blocks(chip: ChipSpec, what: str, *strides: int) -> None:
    """Raise SimError if one of the strides is not a multiple of the Unified Buffer's blocks."""
    block = chip.alignment.block
    for stride in strides:
        if stride % block:
            raise SimError(
                f"{what}: rows {stride} bytes apart; they must lie a multiple of {block} bytes apart "
                f"(chip {chip.name}, alignment.block)"
            )


def row_cost(chip: ChipSpec, opcode: str, dtype: str, row_bytes: int, rows: int = 1, stride: int = 0) -> Cost:
    """Return the cost of an operation on `rows` rows of `row_bytes`; each row begins a repeat of its own.

    One row is one instruction, with a surcharge for a broken last repeat. More rows are as many instructions as it takes, each
    with its own head: the repeats of one go down the rows or along a row, whichever takes fewer; they go along if `stride`, the
    bytes between two rows of an operand, is more than a repeat stride holds. Where the unit loops over rows by itself it is one
    instruction.
    """
    unit = chip.vector.repeat_bytes
    if rows == 1:
        head, work = chip.vector.cycles(opcode, dtype, row_bytes)
    else:
        repeats = ceil_div(row_bytes, unit)
        head, work = chip.vector.cycles(opcode, dtype, repeats * unit, rows=rows)
        if chip.vector.row_overhead is None:
            limit = chip.vector.repeats_per_instruction or rows * repeats
            along, down = rows * ceil_div(repeats, limit), repeats * ceil_div(rows, limit)
            far = stride > (chip.vector.repeat_stride_blocks or stride) * BLOCK_BYTES
            work += ((along if far else min(down, along)) - 1) * head
    return Cost(head, head, work, chip.vector.latency)

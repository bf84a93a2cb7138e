"""Vector instructions that rearrange: transposition, conversion to and from C0 blocks, interleaving, scatter."""

from __future__ import annotations

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, ceil_div
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, listed, loops, moves, offsets_of
from ascend_sim.isa.vector.base import VectorInstruction, rows_fit, rows_of, size_of, whole_blocks
from ascend_sim.memory.regions import Region


@frozen
class Transpose(VectorInstruction):
    """dst[c, r] = src0[r, c] for `rows` x `columns` elements; the rows of each side lie `dst_stride` and `src_stride` bytes
    apart.

    Stands for TransDataTo5HD on squares of 16 x 16 elements. The rows of dst are whole blocks of 32 bytes; the rest of their
    last block becomes zero. `pipe` raises SimError for rows of dst that overlap and rows that do not begin at blocks.
    """

    dtype: str
    rows: int
    columns: int
    dst_stride: int
    src_stride: int

    name = "transpose"

    def _cost_key(self) -> tuple[str, int]:
        squares = ceil_div(self.rows, FRACTAL) * ceil_div(self.columns, FRACTAL)
        return self.dtype, squares * FRACTAL * FRACTAL * size_of(self.dtype)

    @property
    def _row_bytes(self) -> int:
        """Return the bytes that are written of each row of dst."""
        return ceil_div(self.rows * size_of(self.dtype), BLOCK_BYTES) * BLOCK_BYTES

    def pipe(self, chip: ChipSpec) -> str:
        rows_fit(chip, self.name, self.dtype, self.rows, self.columns, self.dst_stride)
        if self.rows > 1:
            whole_blocks(chip, self.name, self.src_stride)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, self.columns, self.rows, self.src_stride)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self._row_bytes, self.dst_stride, self.columns),)

    def moves(self, model: ValueModel) -> Moves:
        item, shape = size_of(self.dtype), (self.columns, self.rows)
        return _filled_rows(shape, self._row_bytes, item, (item, self.src_stride), (self.dst_stride, item))


@frozen
class TransposeHalves(VectorInstruction):
    """Transpose 16 x 16 elements of 1 byte between halves of 32-byte blocks (TransDataTo5HD of 8 bits).

    Each row is the lower or the upper half of a block, by `dst_upper` and `src_upper`. The other halves of dst stay. `pipe`
    raises SimError for strides that are not whole blocks.
    """

    dtype: str
    dst_stride: int
    src_stride: int
    dst_upper: bool = False
    src_upper: bool = False

    name = "transpose_halves"
    opcode = "transpose"

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, FRACTAL * BLOCK_BYTES

    def pipe(self, chip: ChipSpec) -> str:
        rows_fit(chip, self.name, self.dtype, FRACTAL, FRACTAL, self.dst_stride, self.src_stride)
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "UB", FRACTAL, self.src_stride, FRACTAL, offset=FRACTAL * self.src_upper),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", FRACTAL, self.dst_stride, FRACTAL, offset=FRACTAL * self.dst_upper),)

    def moves(self, model: ValueModel) -> Moves:
        shape, to = (FRACTAL, FRACTAL), FRACTAL * self.dst_upper
        take = loops("src0", "UB", shape, (1, self.src_stride), 1, FRACTAL * self.src_upper)
        return moves(take, put=loops("dst", "UB", shape, (self.dst_stride, 1), 1, to))


def _filled_rows(
    shape: tuple[int, ...], row: int, item: int, src: tuple[int, ...], dst: tuple[int, ...], offset: int = 0
) -> Moves:
    """Return the `Moves` of items from loops in src0, from byte `offset` on, to rows of `row` bytes in dst, filled up with
    zeros.

    The innermost loop of `shape` is a row; `src` and `dst` have the strides of the loops in bytes.
    """
    filled = (*shape[:-1], row // item)
    put = loops("dst", "UB", filled, dst, item)
    if filled == shape:
        return moves(loops("src0", "UB", shape, src, item, offset), put=put)
    inside = np.arange(filled[-1]) < shape[-1]
    return moves(listed("src0", "UB", np.where(inside, offsets_of(filled, src) + offset, -1), item), put=put)


@frozen
class TransposeBlocks(VectorInstruction):
    """Transpose between [channels][pixels] and [pixels][C0] (TransDataTo5HD); `to_c0` is the direction.

    `channels` rows of `pixels` items of 2 or 4 bytes lie `row_stride` bytes apart on the plain side; on the C0 side each pixel
    is a 32-byte block, `block_stride` bytes apart, and row 0 is element `first` of a block. Elements of a block that belong to
    no row become zero on the way to C0 and are dropped on the way back (the unit takes one address per row, so such a row comes
    from zeros or goes to waste). All of it `repeats` times, `plain_step` and `block_step` bytes apart. The unit turns squares
    of 16 pixels, with one address per block: pixels behind the last one fill up the last block of a plain row with zeros, or go
    to waste. Rows that do not start on a 32-byte block are first copied to such, 32 bytes at a time; of them only the pixels
    are written. `pipe` raises SimError for other items, rows beyond a block, and plain rows that would overlap.
    """

    to_c0: bool
    itemsize: int
    channels: int
    pixels: int
    row_stride: int
    block_stride: int = 32
    first: int = 0
    repeats: int = 1
    plain_step: int = 0
    block_step: int = 0

    name = "transpose_blocks"
    opcode = "transpose"

    def pipe(self, chip: ChipSpec) -> str:
        if self.itemsize not in (2, 4):
            raise SimError(f"transpose_blocks: items of {self.itemsize} bytes; it turns items of 2 or 4 (API TransDataTo5HD)")
        last, c0 = self.first + self.channels, 32 // self.itemsize
        if not 0 <= self.first < last <= c0:
            raise SimError(f"transpose_blocks: rows {self.first} to {last} given; allowed are rows 0 to {c0} of a block")
        if not self.to_c0 and self.channels > 1 and self.row_stride < self._written:
            raise SimError(
                f"transpose_blocks: row_stride {self.row_stride} given; at least {self._written} bytes are allowed, which "
                f"{self.pixels} pixels take in whole blocks (API TransDataTo5HD)"
            )
        return super().pipe(chip)

    def _cost_key(self) -> tuple[str, int]:
        squares = self.repeats * ceil_div(self.pixels, FRACTAL)
        return ("float16" if self.itemsize == 2 else "float32"), squares * FRACTAL * 32

    def cost(self, chip: ChipSpec) -> Cost:
        if self._on_blocks:
            return super().cost(chip)
        if self.pixels == 1:  # nothing to turn
            head, work = chip.vector.cycles("copy", self._cost_key()[0], self.repeats * 32)
            return Cost(head, head, work, chip.vector.latency)
        # One instruction turns 16 rows of 32 bytes, after one that copies them.
        times = ceil_div(self.repeats * self.channels * ceil_div(self.pixels * self.itemsize, 32), 16)
        dtype, _ = self._cost_key()
        head, work = map(sum, zip(*(chip.vector.cycles(op, dtype, 512) for op in ("copy", "transpose")), strict=True))
        return Cost(head, head, (times - 1) * head + times * work, chip.vector.latency)

    @property
    def _on_blocks(self) -> bool:
        """Return True if every plain row begins on a 32-byte block, as far as its strides show."""
        return self.row_stride % 32 == 0 and (self.repeats == 1 or self.plain_step % 32 == 0)

    @property
    def _written(self) -> int:
        """Return the bytes that are written of each plain row: whole blocks if rows begin on blocks, else the pixels alone."""
        unit = 32 if self._on_blocks else self.itemsize
        return ceil_div(self.pixels * self.itemsize, unit) * unit

    def _plain(self, operand: str, row_bytes: int) -> Region:
        return Region(operand, "UB", row_bytes, self.row_stride, self.channels, self.plain_step, self.repeats)

    def _blocks(self, operand: str) -> Region:
        return Region(operand, "UB", 32, self.block_stride, self.pixels, self.block_step, self.repeats)

    def reads(self) -> tuple[Region, ...]:
        return (self._plain("src0", self.pixels * self.itemsize) if self.to_c0 else self._blocks("src0"),)

    def writes(self) -> tuple[Region, ...]:
        return (self._blocks("dst") if self.to_c0 else self._plain("dst", self._written),)

    def moves(self, model: ValueModel) -> Moves:
        item, c0 = self.itemsize, 32 // self.itemsize
        plain, steps = (self.plain_step, self.row_stride, item), (self.block_step, self.block_stride, item)
        if not self.to_c0:
            shape, source = (self.repeats, self.channels, self.pixels), (steps[0], item, steps[1])
            return _filled_rows(shape, self._written, item, source, plain, self.first * item)
        shape, strides = (self.repeats, self.pixels, c0), (plain[0], item, plain[1])
        put = loops("dst", "UB", shape, steps, item)
        if self.channels == c0:
            return moves(loops("src0", "UB", shape, strides, item), put=put)
        channel = offsets_of(shape, (0, 0, 1)) - self.first
        offsets = offsets_of(shape, strides) - self.first * self.row_stride
        taken = (channel >= 0) & (channel < self.channels)
        return moves(listed("src0", "UB", np.where(taken, offsets, -1), item), put=put)


@frozen
class Interleave(VectorInstruction):
    """dst[2 * i] = src0[i] and dst[2 * i + 1] = src1[i], for `count` elements of `itemsize` bytes each (1, 2, 4, 8; else
    SimError).
    """

    itemsize: int
    count: int

    name = "interleave"

    def __post_init__(self) -> None:
        if self.itemsize not in (1, 2, 4, 8):
            raise SimError(f"interleave: items of {self.itemsize} bytes; it has 1, 2, 4 or 8 (asc-devkit, Interleave page)")

    def _cost_key(self) -> tuple[str, int]:
        return ("float16" if self.itemsize == 2 else "float32"), 2 * self.count * self.itemsize

    def reads(self) -> tuple[Region, ...]:
        size = self.count * self.itemsize
        return (Region("src0", "UB", size), Region("src1", "UB", size))

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", 2 * self.count * self.itemsize),)

    def moves(self, model: ValueModel) -> Moves:
        item = self.itemsize
        takes = [loops(operand, "UB", (self.count,), (item,), item) for operand in ("src0", "src1")]
        return moves(*takes, put=loops("dst", "UB", (2, self.count), (item, 2 * item), item))


@frozen
class Scatter(VectorInstruction):
    """Copy elements to separate places: `groups` of `rows` of `columns`, with strides in bytes on each side.

    In src0 the columns of a row adjoin; in dst the first element lies `dst_first` bytes behind its address. A repeat takes as
    many whole rows as a register holds and puts elements by an index register that all repeats of the loop share (Scatter in a
    vector function of asc-devkit; the index is not modelled). `pipe` raises SimError unless whole rows fill a register.
    """

    dtype: str
    groups: int
    rows: int
    columns: int
    src_group: int
    src_row: int
    dst_group: int
    dst_row: int
    dst_column: int
    dst_first: int = 0

    name = "scatter"

    @property
    def _shape(self) -> tuple[int, int, int]:
        return self.groups, self.rows, self.columns

    @property
    def _places(self) -> tuple[int, int, int]:
        return self.dst_group, self.dst_row, self.dst_column

    @property
    def _sources(self) -> tuple[int, int, int]:
        return self.src_group, self.src_row, size_of(self.dtype)

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.groups * self.rows * self.columns * size_of(self.dtype)

    def cost(self, chip: ChipSpec) -> Cost:
        unit = chip.vector.repeat_bytes
        rows = max(unit // (self.columns * size_of(self.dtype)), 1)
        head, work = chip.vector.cycles("scatter", self.dtype, self.groups * ceil_div(self.rows, rows) * unit)
        return Cost(head, head, work, chip.vector.latency)

    def pipe(self, chip: ChipSpec) -> str:
        if chip.vector.repeat_bytes % (self.columns * size_of(self.dtype)):
            raise SimError(
                f"scatter: rows of {self.columns} {self.dtype} elements; whole rows must fill a register of "
                f"{chip.vector.repeat_bytes} bytes (chip file, vector.repeat_bytes)"
            )
        return super().pipe(chip)

    def reads(self) -> tuple[Region, ...]:
        row_bytes = self.columns * size_of(self.dtype)
        return (Region("src0", "UB", row_bytes, self.src_row, self.rows, self.src_group, self.groups),)

    def writes(self) -> tuple[Region, ...]:
        """Return the regions written; elements that adjoin are merged to runs, the smallest stride innermost."""
        run, left = size_of(self.dtype), sorted(zip(self._places, self._shape, strict=True))
        while left and (left[0][0] == run or left[0][1] == 1):
            run *= left.pop(0)[1]
        (inner, rows), (outer, planes), (step, times) = [*left, (0, 1), (0, 1), (0, 1)][:3]
        offsets = [self.dst_first + i * step for i in range(times)]
        return tuple([Region("dst", "UB", run, inner, rows, outer, planes, offset) for offset in offsets])

    def moves(self, model: ValueModel) -> Moves:
        item = size_of(self.dtype)
        take = loops("src0", "UB", self._shape, self._sources, item)
        return moves(take, put=loops("dst", "UB", self._shape, self._places, item, self.dst_first))

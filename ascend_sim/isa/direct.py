"""Moves between NCDHW tensors in GM and the cube's layouts: channels that lie far apart in GM stand side by side in a block."""

from __future__ import annotations

import math
from dataclasses import replace
from numbers import Real

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, ACCUMULATOR_ROW_BYTES, BLOCK_BYTES, FRACTAL
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import GmAccess, ceil_div
from ascend_sim.isa.cube import Drain, Fixpipe, fixpipe_moves
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, listed, loops, moves, offsets_of
from ascend_sim.isa.transfer import BlocksToL1
from ascend_sim.memory.regions import Region


@frozen
class DataCopyDn2Nz(BlocksToL1):
    """`count` column-major matrices in GM become blocks of C0 = 32 bytes in L1; a last block of channels is filled up with
    zeros.

    Element (channel, pixel) of matrix i is in GM at i * `src_step` + channel * `channel_stride` + pixel * `itemsize` and goes
    to i * `dst_step` + channel // C0 * `block_stride` + pixel * `pixel_stride` + channel % C0 * `itemsize` in L1 (bytes).
    `most_bytes_per_cycle` is a rate that it does not exceed, 0 for that of the path (SimError unless finite and from 0).
    `operand` labels the counted bytes.
    """

    channels: int
    pixels: int
    itemsize: int
    channel_stride: int
    pixel_stride: int
    block_stride: int
    count: int = 1
    src_step: int = 0
    dst_step: int = 0
    operand: str = ""
    most_bytes_per_cycle: float = 0

    name = "data_copy_dn2nz"
    layouts = "dn2nz"

    def __post_init__(self) -> None:
        """Raise SimError for a rate that is not a finite number from 0."""
        rate = self.most_bytes_per_cycle
        if not isinstance(rate, Real) or not 0 <= rate < math.inf:
            raise SimError(f"data_copy_dn2nz: most_bytes_per_cycle = {rate!r}; it is a number from 0 (0: the path's rate)")

    @property
    def _blocks(self) -> int:
        return -(-self.channels * self.itemsize // BLOCK_BYTES)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        access = super().gm_access(chip)
        return access and replace(access, rate=min(access.rate, self.most_bytes_per_cycle or access.rate))

    def reads(self) -> tuple[Region, ...]:
        row = self.pixels * self.itemsize
        return (Region("src0", "GM", row, self.channel_stride, self.channels, self.src_step, self.count),)

    def writes(self) -> tuple[Region, ...]:
        few, many = (self._blocks, self.block_stride), (self.count, self.dst_step)
        if self._blocks > self.count:
            few, many = many, few
        row, (planes, plane) = (BLOCK_BYTES, self.pixel_stride, self.pixels), many
        return tuple(Region("dst", "L1", *row, plane, planes, number * few[1]) for number in range(few[0]))

    def moves(self, model: ValueModel) -> Moves:
        c0 = BLOCK_BYTES // self.itemsize
        shape = (self.count, self._blocks, self.pixels, c0)
        strides = (self.src_step, c0 * self.channel_stride, self.itemsize, self.channel_stride)
        steps = (self.dst_step, self.block_stride, self.pixel_stride, 1)
        put = loops("dst", "L1", (self.count, self._blocks, self.pixels, BLOCK_BYTES), steps, 1)
        if self.channels % c0 == 0:
            return moves(loops("src0", "GM", shape, strides, self.itemsize), put=put)
        padding = offsets_of(shape, (0, c0, 0, 1)) >= self.channels
        return moves(listed("src0", "GM", np.where(padding, -1, offsets_of(shape, strides)), self.itemsize), put=put)


@frozen
class FixpipeDn(Drain):
    """`m` x `n` of an L0C tile of `m_padded` rows, from row `row` and column `first` (below 16, else SimError; 0 on every chip
    so far) on, to single elements of GM.

    Element (i, j) goes to i * `row_stride` + j * `column_stride` (bytes), as `dtype`. `atomic_add` adds to what GM holds. The
    rate is that of the Fixpipe's other layouts: a separate one for this is not in the chip files.
    """

    m: int
    n: int
    m_padded: int
    first: int
    dtype: str
    row_stride: int
    column_stride: int
    atomic_add: bool = False
    row: int = 0

    name = "fixpipe_dn"
    pre = None  # without arithmetic: formats that need a scale are refused

    def __post_init__(self) -> None:
        """Raise SimError for a negative `row`, or a `first` outside 0 to 15."""
        if self.row < 0 or not 0 <= self.first < FRACTAL:
            raise SimError(
                f"fixpipe_dn: row = {self.row}, first = {self.first}; a piece begins at row 0 or more, and at column 0 to "
                f"{FRACTAL - 1} of a fractal"
            )

    @property
    def _plain(self) -> Fixpipe:
        """Return the Fixpipe of the same tile in blocks of 16 columns, from row 0 and column 0 on, whose rate holds here."""
        return Fixpipe(self.m, self.first + self.n, self.m_padded, self.dtype, FRACTAL, 0)

    def gm_access(self, chip: ChipSpec) -> GmAccess | None:
        plain = self._plain.gm_access(chip)
        assert plain is not None
        return GmAccess("atomic" if self.atomic_add else "write", self.writes()[0], plain.rate)

    @property
    def _offset(self) -> int:
        return self.row * ACCUMULATOR_ROW_BYTES

    def reads(self) -> tuple[Region, ...]:
        return tuple(replace(region, offset=self._offset) for region in self._plain.reads())

    def writes(self) -> tuple[Region, ...]:
        item = self.itemsize
        if self.row_stride == item:
            return (Region("dst", "GM", self.m * item, self.column_stride, self.n),)
        if self.column_stride == item:
            return (Region("dst", "GM", self.n * item, self.row_stride, self.m),)
        return (Region("dst", "GM", item, self.column_stride, self.n, self.row_stride, self.m),)

    def moves(self, model: ValueModel) -> Moves:
        item, end = self.itemsize, self.first + self.n
        # Column by column: rows mostly stand side by side in GM.
        shape, column = (ceil_div(end, FRACTAL), FRACTAL, self.m), self.m_padded * ACCUMULATOR_ROW_BYTES
        strides = (column, ACCUMULATOR_BYTES, ACCUMULATOR_ROW_BYTES)
        if self.first or end % FRACTAL:
            offsets = offsets_of(shape, strides).reshape(-1, self.m)[self.first : end] + self._offset
            take = listed("src0", "L0C", offsets, ACCUMULATOR_BYTES)
        else:
            take = loops("src0", "L0C", shape, strides, ACCUMULATOR_BYTES, self._offset)
        put = loops("dst", "GM", (self.n, self.m), (self.column_stride, self.row_stride), item)
        return fixpipe_moves(model, self.dtype, take, put, self.atomic_add)

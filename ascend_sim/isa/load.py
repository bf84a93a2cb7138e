"""The MTE1 loads from L1 into L0A and L0B: plain fractals (load_data_2d) and img2col (load_data_3d).

L0A holds [M1][K1] fractals of 16 rows x 32 bytes, on the 950 [K1][M1]; L0B holds [K1][N1] fractals of 16 columns x 32 bytes,
K inside (asc-devkit, Mmad and LoadData pages). C0 = 32 bytes / item size is the K extent of one fractal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, FRACTAL, FRACTAL_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, Instruction, ceil_div
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, listed, loops, moves
from ascend_sim.isa.not_simulated import refuse_not_simulated
from ascend_sim.memory.regions import Region


@frozen
class LoadData2D(Instruction):
    """Load `repeat` fractals of 512 bytes, `src_stride` fractals apart in L1, to fractals of L0A or L0B that are `dst_stride`
    fractals apart.

    With `transpose` squares are moved instead, each transposed: a fractal of 16 x 16 2-byte items, or two consecutive fractals
    of other items: 32 x 32 of 1 byte, one below the other, or 16 x 16 of 4 bytes, side by side. The square is split into
    fractals again, which lie `fractal_stride` fractals apart (asc-devkit, LoadDataWithTranspose). Raises SimError if they
    overlap.
    """

    destination: str
    itemsize: int
    repeat: int
    src_stride: int = 1
    transpose: bool = False
    dst_stride: int = 1
    fractal_stride: int = 1

    name = "load_data_2d"
    left_out: ClassVar[Mapping[str, Any]] = {"fractal_stride": 1}

    def __post_init__(self) -> None:
        """Raise SimError for transposed squares of two fractals that would overlap in the destination."""
        apart, inner = self.dst_stride, self.fractal_stride
        steps = inner // apart if apart and inner % apart == 0 else 0  # from a square to the one that begins at its second half
        if self.fractals == 2 and (not inner or (self.repeat > 1 and not apart) or 0 < abs(steps) < self.repeat):
            raise SimError(
                f"load_data_2d: squares of two fractals {inner} apart, from {apart} fractals on the next; they overlap"
            )

    def pipe(self, chip: ChipSpec) -> str:
        if self.transpose and self.itemsize > 2:
            refuse_not_simulated(chip, self.name, self.itemsize)
        return chip.path("L1", self.destination).pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path("L1", self.destination)
        work = math.ceil(self.repeat * self.fractals * FRACTAL_BYTES / path.bytes_per_cycle)
        return Cost(path.head, path.head, work, path.latency)

    @property
    def fractals(self) -> int:
        """Return the number of fractals that are moved at a time: two in a square of items that are not of 2 bytes."""
        return 2 if self.transpose and self.itemsize != 2 else 1

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "L1", self.fractals * FRACTAL_BYTES, self.src_stride * FRACTAL_BYTES, self.repeat),)

    def writes(self) -> tuple[Region, ...]:
        step, inner = self.dst_stride * FRACTAL_BYTES, self.fractal_stride * FRACTAL_BYTES
        if inner == FRACTAL_BYTES:
            return (Region("dst", self.destination, self.fractals * FRACTAL_BYTES, step, self.repeat),)
        return (Region("dst", self.destination, FRACTAL_BYTES, step, self.repeat, inner, self.fractals),)

    def moves(self, model: ValueModel) -> Moves:
        shape = (self.repeat, self.fractals, FRACTAL_BYTES)
        strides = (self.dst_stride * FRACTAL_BYTES, self.fractal_stride * FRACTAL_BYTES, 1)
        put = loops("dst", self.destination, shape, strides, 1)
        step, c0 = self.src_stride * FRACTAL_BYTES, BLOCK_BYTES // self.itemsize
        if not self.transpose:
            return moves(loops("src0", "L1", (self.repeat, FRACTAL_BYTES), (step, 1), 1), put=put)
        if self.itemsize == 4:  # column halves of the square become row halves: repeat, fractal, its half, row, column
            taken = loops("src0", "L1", (self.repeat, 2, 2, c0, c0), (step, c0 * BLOCK_BYTES, FRACTAL_BYTES, 4, BLOCK_BYTES), 4)
        else:  # repeat, fractal, row, column
            steps = step, FRACTAL, self.itemsize, BLOCK_BYTES
            taken = loops("src0", "L1", (self.repeat, self.fractals, FRACTAL, c0), steps, self.itemsize)
        return moves(taken, put=put)

    def path(self) -> str:
        return f"L1->{self.destination}"


@frozen
class LoadData3D(Instruction):
    """img2col: rows `m_start` .. of the matrix [output pixels, (channel block, kh, kw, C0)] of a feature map in L1.

    The map lies in L1 as [c1][height][width][C0]; `k_start` (a multiple of C0) and `k_extent` count columns (elements),
    `m_extent` rows. Pixels outside the map, and rows behind the last output pixel, read as zero. To L0A the matrix is the
    left operand (rows are M) or, with `transpose`, its transpose (rows are K); to L0B its rows are K and its columns N.
    There `transpose` says only that the chip takes its slow transposing path (32-bit weights of grad_input do, the input of
    grad_weight does not: measured). That 1-byte items are turned as others are is assumed.
    Extents along K are rounded up to C0, along M and N to 16. `out_width` pixels make one output row.

    With `k_repeat` the columns are that many runs of `k_extent`, from `k_start` on and `k_stride` blocks of C0 apart; in L0B
    they adjoin. `dst_stride` is the fractals from one row of fractals in L0B to the next, 0 where they adjoin (asc-devkit,
    SetLoadDataRepeat of dav-3510; that a run may fill half of a fractal: the vendor's weight gradient of float32).

    `padding` are the bits of the number that pixels outside the map read as (asc-devkit, SetLoadDataPaddingValue). Raises
    SimError for one with rows or columns that are no part of the matrix, for which no page has a number.
    """

    destination: str
    itemsize: int
    height: int
    width: int
    k_h: int
    k_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    out_height: int
    out_width: int
    m_start: int
    m_extent: int
    k_start: int
    k_extent: int
    transpose: bool = False
    k_repeat: int = 1
    k_stride: int = 0
    dst_stride: int = 0
    padding: int = 0

    name = "load_data_3d"
    left_out: ClassVar[Mapping[str, Any]] = {"k_repeat": 1, "k_stride": 0, "dst_stride": 0, "padding": 0}

    def __post_init__(self) -> None:
        """Raise SimError for a window without positions, for starts or distances below 0, and for `padding` of a part of
        fractals.
        """
        least = {"out_height": 1, "out_width": 1, "m_start": 0, "k_start": 0, "k_stride": 0, "dst_stride": 0}
        for name, low in least.items():
            if getattr(self, name) < low:
                raise SimError(f"load_data_3d: {name} = {getattr(self, name)}; it is {low} or more")
        rows = min(self.m_extent, self.out_height * self.out_width - self.m_start)
        if self.padding and (rows < self.rows or self.k_repeat * self.k_extent < self.blocks * self.c0):
            raise SimError(
                f"load_data_3d: padding {self.padding:#x} of {rows} rows and {self.k_extent} columns, which do not fill "
                f"fractals; 0 is possible there"
            )

    @property
    def c0(self) -> int:
        """Return the number of channels in one 32-byte block."""
        return BLOCK_BYTES // self.itemsize

    @property
    def rows(self) -> int:
        """Return the number of matrix rows moved, rounded up to whole fractals: to C0 if rows are K, else to 16."""
        rows_are_k = self.transpose or self.destination == "L0B"
        unit = self.c0 if rows_are_k else FRACTAL
        return ceil_div(self.m_extent, unit) * unit

    @property
    def blocks(self) -> int:
        """Return the number of column blocks of C0 moved, over all runs; if rows are K, columns are rounded up to 16 first."""
        rows_are_k = self.transpose or self.destination == "L0B"
        columns = self.k_repeat * self.k_extent
        return ceil_div(ceil_div(columns, FRACTAL) * FRACTAL if rows_are_k else columns, self.c0)

    @property
    def is_repeated(self) -> bool:
        """Return True if columns are taken in several runs, or `dst_stride` is given."""
        return self.k_repeat > 1 or self.dst_stride > 0

    @property
    def fractals(self) -> int:
        """Return the number of fractals side by side in one row of fractals in L0B, over all runs of columns. Only for rows
        that are K.
        """
        return self.blocks * self.c0 // FRACTAL

    def pipe(self, chip: ChipSpec) -> str:
        return chip.path("L1", self.destination).pipe

    def cost(self, chip: ChipSpec) -> Cost:
        rate = chip.load3d.rate(self.destination, self.stride_w, self.itemsize, self.transpose)
        work = math.ceil(self.rows * self.blocks * BLOCK_BYTES / rate)
        return Cost(chip.load3d.head, chip.load3d.head, work, chip.load3d.latency)

    def reads(self) -> tuple[Region, ...]:
        begin, run, rows, c1_first, c1_last = _touched_blocks(self)
        if run <= 0 or rows <= 0:
            return ()
        plane, planes = self.height * self.width * BLOCK_BYTES, c1_last - c1_first + 1
        # The base operand is channel block 0, row 0; regions are relative to it, so the offset is part of the region.
        offset = c1_first * plane + begin * BLOCK_BYTES
        if rows == 1:
            return (Region("src0", "L1", run * BLOCK_BYTES, plane, planes, 0, 1, offset),)
        return (Region("src0", "L1", run * BLOCK_BYTES, self.width * BLOCK_BYTES, rows, plane, planes, offset),)

    def writes(self) -> tuple[Region, ...]:
        if self.dst_stride > self.fractals:
            line, rows = self.fractals * FRACTAL_BYTES, self.rows // self.c0
            return (Region("dst", self.destination, line, self.dst_stride * FRACTAL_BYTES, rows),)
        return (Region("dst", self.destination, self.rows * self.blocks * BLOCK_BYTES),)

    def moves(self, model: ValueModel) -> Moves:
        index, outside = _block_index(self)
        places = index * BLOCK_BYTES
        if outside is not None:
            places[outside] = -1
        take = listed("src0", "L1", places, BLOCK_BYTES)
        fill = self.padding.to_bytes(self.itemsize, "little") * self.c0 if self.padding else b""
        by_columns = self.destination == "L0B" or model.chip.cube.l0a_by_columns
        if self.destination == "L0A" and not self.transpose:  # taken as [M1][K1]
            m1, k1 = self.rows // FRACTAL, self.blocks
            steps = (1, m1) if by_columns else (k1, 1)
            whole = (steps[0] * FRACTAL_BYTES, steps[1] * FRACTAL_BYTES, 1)
            return moves(take, put=loops("dst", self.destination, (m1, k1, FRACTAL_BYTES), whole, 1), fill=fill)
        k1, across = self.rows // self.c0, self.fractals
        # In fractals, along K and along the other side.
        steps = (self.dst_stride or across, 1) if by_columns else (1, k1)
        strides = (steps[0] * FRACTAL_BYTES, self.itemsize, steps[1] * FRACTAL_BYTES, BLOCK_BYTES)
        put = loops("dst", self.destination, (k1, self.c0, across, FRACTAL), strides, self.itemsize)
        return moves(take, put=put, fill=fill)

    def path(self) -> str:
        return f"L1->{self.destination}"


@lru_cache(maxsize=4096)
def _block_index(load: LoadData3D) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Return (index in the map of the block for every 32-byte block of the result, positions of blocks that read nothing, or
    None).

    Those lie outside the map or beyond the extents and become `padding`; their index is 0. To L0A untransposed they are in
    order [M1][K1][16], else by rows. Both arrays are cached and must not be changed.
    """
    rows = np.arange(load.m_start, load.m_start + load.rows)
    run = ceil_div(load.k_extent, load.c0) if load.k_repeat > 1 else load.blocks
    repeat, block = np.divmod(np.arange(load.blocks), run)
    columns = block + repeat * load.k_stride + load.k_start // load.c0
    taps = load.k_h * load.k_w
    c1, tap = columns // taps, columns % taps
    k_h, k_w = tap // load.k_w, tap % load.k_w
    out_row, out_column = rows // load.out_width, rows % load.out_width
    height = out_row[:, None] * load.stride_h - load.pad_top + k_h[None, :] * load.dilation_h
    width = out_column[:, None] * load.stride_w - load.pad_left + k_w[None, :] * load.dilation_w
    inside = (height >= 0) & (height < load.height) & (width >= 0) & (width < load.width)
    inside &= (np.arange(load.rows) < load.m_extent)[:, None] & (out_row < load.out_height)[:, None]
    inside &= (np.arange(load.blocks) * load.c0 < load.k_repeat * load.k_extent)[None, :]
    index = np.where(inside, (c1[None, :] * load.height + height) * load.width + width, 0)
    if load.destination == "L0A" and not load.transpose:  # fractal order [M1][K1][16]
        order = (load.rows // FRACTAL, FRACTAL, load.blocks)
        index = np.ascontiguousarray(index.reshape(order).transpose(0, 2, 1))
        inside = inside.reshape(order).transpose(0, 2, 1)
    outside = np.flatnonzero(~inside.ravel())
    return index.ravel(), (outside if outside.size else None)


@lru_cache(maxsize=4096)
def _touched_blocks(load: LoadData3D) -> tuple[int, int, int, int, int]:
    """Return the part of a channel block that the load reads, and the first and last channel block, as five numbers. Cached.

    The part is (its first 32-byte block, blocks of a row, rows); where one of the last two is not positive (all in padding)
    nothing is read. It is a window of columns and rows of the map if the output pixels are of one row, else whole rows as one
    run. A map that is a matrix (one tap, stride 1, no padding before it, `out_width` its width) is read pixel by pixel, over
    rows too.
    """
    taps, pixels = load.k_h * load.k_w, load.out_height * load.out_width
    c1_first = load.k_start // load.c0 // taps
    c1_last = ((load.k_start + load.k_extent - 1) // load.c0 + (load.k_repeat - 1) * load.k_stride) // taps
    start, stop = load.m_start, min(load.m_start + load.m_extent, pixels) - 1
    steps = (taps, load.stride_h, load.stride_w, load.pad_top, load.pad_left)
    if steps == (1, 1, 1, 0, 0) and load.out_width == load.width:
        return start, min(stop, load.height * load.width - 1) - start + 1, 1, c1_first, c1_last
    top, bottom = (pixel // load.out_width * load.stride_h - load.pad_top for pixel in (start, stop))
    first, last = max(top, 0), min(bottom + (load.k_h - 1) * load.dilation_h, load.height - 1)
    if top != bottom:
        return first * load.width, (last - first + 1) * load.width, 1, c1_first, c1_last
    left, right = (pixel % load.out_width * load.stride_w - load.pad_left for pixel in (start, stop))
    left, right = max(left, 0), min(right + (load.k_w - 1) * load.dilation_w, load.width - 1)
    return first * load.width + left, right - left + 1, last - first + 1, c1_first, c1_last

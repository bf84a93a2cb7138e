"""Parameters of instructions that belong together, by name.

They are tuples because the builder looks an instruction up by its parameters, once for every row of a program.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from ascend_sim.chip.fractal import BLOCK_BYTES


class Span(NamedTuple):
    """Range of `length` units from `start` on."""

    start: int
    length: int


class ColumnRuns(NamedTuple):
    """Runs of columns of an img2col matrix that adjoin in L0B: `repeat` runs of `length`, `stride` blocks of C0 apart.

    `line` is the distance in L0B of one row of fractals to the next, in fractals: 1 or more for several runs. Fields as in
    `LoadData3D`.
    """

    start: int
    length: int
    repeat: int = 1
    stride: int = 0
    line: int = 0


class MapWindow(NamedTuple):
    """A feature map in L1, [c1][height][width][C0], and the kernel that `load_data_3d` slides over it; all in pixels.

    The kernel has `out_height` x `out_width` positions; the defaults are those of a 1x1 kernel. Fields as in `LoadData3D`.
    """

    height: int
    width: int
    k_h: int = 1
    k_w: int = 1
    stride_h: int = 1
    stride_w: int = 1
    dilation_h: int = 1
    dilation_w: int = 1
    pad_top: int = 0
    pad_left: int = 0
    out_height: int = 1
    out_width: int = 1


@lru_cache(maxsize=1024)
def matrix_window(rows: int) -> MapWindow:
    """Return the window of a matrix [c1][rows][C0]: a map one pixel high, each row a pixel, under a 1x1 kernel."""
    return MapWindow(height=1, width=rows, out_width=rows)


class ChannelMatrices(NamedTuple):
    """Matrices [channels][pixels] in GM that `data_copy_dn2nz` turns to blocks; the fields of `DataCopyDn2Nz`, in bytes."""

    channels: int
    pixels: int
    itemsize: int
    channel_stride: int
    pixel_stride: int
    block_stride: int
    matrices: int = 1
    src_step: int = 0
    dst_step: int = 0


class TilePiece(NamedTuple):
    """Part of an L0C tile of `m_padded` rows: `m` x `n` elements from row `row` and column `first` (below 16) on.

    The chips' instructions begin at a whole fractal: on them `first` is 0.
    """

    m: int
    n: int
    m_padded: int
    first: int = 0
    row: int = 0


class CopyLoop(NamedTuple):
    """Outer loop of a copy: its number of turns, and the bytes from turn to turn in source and destination."""

    times: int
    src_stride: int
    dst_stride: int


class ScatterLoops(NamedTuple):
    """Loops of `scatter` over groups, rows and columns, with the strides of source and destination; fields as in `Scatter`."""

    groups: int
    rows: int
    columns: int
    src_group: int
    src_row: int
    dst_group: int
    dst_row: int
    dst_column: int
    dst_first: int = 0


class TurnLayout(NamedTuple):
    """Places of the rows and blocks of `transpose_blocks`; fields as in `TransposeBlocks` (bytes, `first` in elements)."""

    row_stride: int
    block_stride: int = BLOCK_BYTES
    first: int = 0
    repeats: int = 1
    plain_step: int = 0
    block_step: int = 0


class CubeProduct(NamedTuple):
    """Parameters of a product except its addresses, in the order of `KernelBuilder.mmad`; see `Mmad`. `gemv` does not follow
    from `m`.
    """

    m: int
    k: int
    n: int
    dtype: str
    accumulate: bool
    hf32_bits: int = 0
    gemv: bool = False
    bias: int = -1

"""What a tile occupies in L1: A is gradOutput's pixels, B the input rows, columns or pixels behind them (bytes, one buffer).

Source: host tiling of Conv2DBackpropFilter (NPUKernelBench 6b84216, cube_util.cc: stated).
"""

from __future__ import annotations

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.fields import Tile
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem, Load
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


def rows_out(p: FilterProblem, pixels: int) -> int:
    """Rows of gradOutput that a run of pixels touches, wherever it begins."""
    width = p.problem.w_out
    return ceil_div(pixels, width) + (0 if pixels % width == 0 or width % pixels == 0 else 1)


def rows_in(p: FilterProblem, rows: int) -> int:
    """Rows of the input behind rows of gradOutput."""
    return min((rows - 1) * p.stride_h + p.kh_dilated, p.h_in)


def window(p: FilterProblem, k_l0: int, k_l1: int) -> tuple[int, int]:
    """Rows and columns of the input behind `k_l1` units; `k_l0` is the piece where a row is cut."""
    if p.conv1d:
        return 1, p.columns(k_l1 * p.k0)
    if p.load is Load.SPLIT_W:
        return rows_in(p, k_l1 // k_l0), p.columns(k_l0 * p.k0)
    return rows_in(p, rows_out(p, k_l1 * p.k0)), p.problem.w_in


def channel_blocks(p: FilterProblem, n: int) -> int:
    """Blocks of input channels that `n` neighbouring blocks of N touch, wherever they begin."""
    blocks = ceil_div(n, p.taps)
    if n < p.taps:
        return blocks + (1 if p.taps % n else 0)
    if n % p.taps == 0:
        return blocks
    return blocks + (1 if 2 * n % p.taps == 0 else 2)


def a1_bytes(p: FilterProblem, tile: Tile) -> int:
    """One buffer of A."""
    return tile.m_al1 * tile.m_l0 * FRACTAL * tile.k_al1 * p.k0 * p.itemsize


def b1_bytes(p: FilterProblem, tile: Tile) -> int:
    """One buffer of B."""
    n = tile.n_bl1 * tile.n_l0
    if p.load is Load.DMA:
        return tile.k_bl1 * p.k0 * n * FRACTAL * p.itemsize
    rows, columns = window(p, tile.k_l0, tile.k_bl1)
    elements = rows * columns * FRACTAL
    if p.load is Load.LOAD2D:
        elements = ceil_to(elements, FRACTAL * FRACTAL)
    return elements * channel_blocks(p, n) * p.itemsize


def fits(p: FilterProblem, tile: Tile) -> bool:
    """Whether L1 holds A and B, each as often as the tile says."""
    return 0 < tile.db_al1 * a1_bytes(p, tile) + tile.db_bl1 * b1_bytes(p, tile) <= p.l1_bytes

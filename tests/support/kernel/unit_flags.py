"""Products into tiles that are handed over by the unit flag."""

from __future__ import annotations

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CubeProduct
from ascend_sim.kernel.unit_flag import UnitFlagTiles


def product_into(
    k: KernelBuilder, tiles: UnitFlagTiles, accumulator: int, sizes: tuple[int, int, int], accumulate: bool
) -> None:
    """Write a float16 product of sizes (m, k, n) into the tile at `accumulator`, behind what it has to wait for."""
    tiles.before(CubeProduct(*sizes, "float16", accumulate))
    k.mmad(accumulator, 0, 0, *sizes, "float16", accumulate)

"""Tiles of L0C that the cube and the Fixpipe hand to each other by the unit flag, fractal by fractal.

tiles = UnitFlagTiles(k, "L0C", addresses)
accumulator = tiles.acquire()
tiles.before(CubeProduct(m, k, n, "float16", accumulate=False))                # before every step of K
k.mmad(accumulator, left, right, m, k, n, "float16", accumulate=False)
tiles.drain(target, TilePiece(m, n, m_padded), "float32", 8, dst_stride)

The drain begins while the last Mmad of its tile still runs, the first Mmad of the next tile while the drain still runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.chip import ChipSpec
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import FixpipeUnitFlag, Mmad
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CubeProduct, TilePiece
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.kernel.sync import Flag


def before_free(product: Instruction, drain: Instruction, chip: ChipSpec) -> int | None:
    """Return the cycles by which a product may begin before the flag of its tile's last drain arrives; None without a pace.

    The drain has read its tile by the end of its occupancy, and the product begins to write after its head.
    """
    behind, before = product.pace(chip), drain.pace(chip)
    if behind is None or before is None:
        return None
    head = min(behind.head, before.head)
    return chip.sync.flag_latency + drain.cost(chip).latency + head + behind.overlap(before)


def before_full(product: Instruction, drain: Instruction, chip: ChipSpec) -> int | None:
    """Return the cycles by which a drain may begin before the flag of its tile's last product arrives; None without a pace.

    The two overlap without overtaking (`Pace.overlap`).
    """
    before, behind = product.pace(chip), drain.pace(chip)
    return None if before is None or behind is None else before.overlap(behind) + chip.sync.flag_latency


class UnitFlagTiles(BufferQueue[int]):
    """Queue of L0C tiles at `addresses` whose flags are unit flags, so that cube and Fixpipe overlap. Raises SimError where
    the chip has none.

    A tile that leaves by `publish`, `take` and `release` instead of `drain` is handed over as a whole.
    """

    def __init__(self, builder: KernelBuilder, name: str, addresses: Sequence[int]) -> None:
        super().__init__(builder, name, "M", "FIX", addresses)
        self._waits: int | None = None
        self._last: CubeProduct | None = None
        self._drains: tuple[FixpipeUnitFlag | None, ...] = (None,) * len(addresses)
        builder.carry(self, "_waits", "_last", "_drains")

    def _flag(self, source: str, destination: str, name: str) -> Flag:
        return self._builder.unit_flag(source, destination, name)

    def _await_free(self, index: int) -> None:
        self._waits = index  # its first Mmad does

    def before(self, product: CubeProduct) -> None:
        """Append the wait for the flag that lets `product` overwrite the tile, if it is the first product in a tile that is
        used again.

        To be called before every product: `drain` needs the tile's last one, which is noted here.
        """
        self._last = product
        if self._waits is not None:
            self._builder.wait_flag(self._free[self._waits], self._early(self._waits, product))
            self._waits = None

    def _early(self, index: int, product: CubeProduct) -> int:
        """Return the number of cycles by which a product into tile `index` may begin before its flag arrives; 0 if no drain is
        noted.

        The flag is set by the drain that last read the tile. That drain is forgotten here, so that a second call returns 0.
        """
        drain = self._drains[index]
        if drain is None:
            return 0
        self._drained(index, None)
        return before_free(Mmad(*product), drain, self._builder.chip) or 0

    def _drained(self, index: int, drain: FixpipeUnitFlag | None) -> None:
        """Note `drain` as the one that last read tile `index`; None forgets it."""
        self._drains = (*self._drains[:index], drain, *self._drains[index + 1 :])

    def drain(self, target: int, piece: TilePiece, dtype: str, c0: int, dst_stride: int, atomic_add: bool = False) -> None:
        """Publish the oldest tile not yet published, append its drain to the GM operand `target` (see `Fixpipe`) and free it.

        The drain may begin before the last product ends (`before_full`). Row and column of `piece` are not used.
        """
        m, n, m_padded, *_ = piece
        drain = FixpipeUnitFlag(m, n, m_padded, dtype, c0, dst_stride, atomic_add)
        early = 0
        if self._last is not None:
            early, self._last = before_full(Mmad(*self._last), drain, self._builder.chip) or 0, None
        self.publish()
        index = self._taken % len(self._addresses)
        self._builder.wait_flag(self._full[index], early)
        self._taken += 1
        source = self._addresses[index]
        self._builder.fixpipe(target, source, m, n, m_padded, dtype, c0, dst_stride, atomic_add, unit_flag=True)
        self.release()
        self._drained(index, drain)

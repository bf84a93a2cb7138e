"""Reductions in repeat mode: masks, block strides, and gaps between results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.moves import offsets_of
from ascend_sim.isa.vector.base import Mask, VectorInstruction, elements, regions_of, size_of, storage, whole_blocks
from ascend_sim.isa.vector.reduction import extremes, numbers_of, reduced
from ascend_sim.memory.regions import Region

REDUCES = {"block": "block_reduce", "pair": "pair_reduce", "repeat": "reduce"}
"""Pieces by name, and the first part of the chip's operation."""
ORDERS = ("", "value index", "index value", "index")


@frozen
class ReducePieces(VectorInstruction):
    """Sum, max or min of each `piece` of each of `rows` repeats: the whole repeat, each block, or each pair of elements.

    A repeat has `count` elements, `src_stride` bytes apart from the one before; its results begin `dst_stride` bytes behind
    those of the one before. `mask` leaves elements out; a piece without an element has no result, and its place in dst is
    unchanged (stated: asc-devkit, ReduceDataBlock). `blocks` are the bytes from block to block of dst (not used) and of src0.
    `order` is that of ReduceWithIndex for max or min of a repeat, "" for the value alone. Raises SimError for another piece or
    order, `pipe` for another operation.
    """

    piece: str
    operation: str
    dtype: str
    count: int
    rows: int = 1
    src_stride: int = 0
    dst_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()
    order: str = ""

    name = "reduce_pieces"

    def __post_init__(self) -> None:
        if self.piece not in REDUCES:
            raise SimError(f"reduce_pieces: piece {self.piece!r}; allowed are {', '.join(REDUCES)}")
        if self.order not in ORDERS or (self.order and (self.piece != "repeat" or self.operation == "sum")):
            raise SimError(
                f"reduce_pieces: order {self.order!r} of {self.operation} of a {self.piece}; max and min of a repeat have one "
                f"of {', '.join(map(repr, ORDERS[1:]))}"
            )

    @property
    def opcode(self) -> str:
        return f"{REDUCES[self.piece]}_{self.operation}"

    def pipe(self, chip: ChipSpec) -> str:
        whole_blocks(chip, self.name, self.src_stride, *self.blocks)
        return super().pipe(chip)

    def cost(self, chip: ChipSpec) -> Cost:
        unit = chip.vector.repeat_bytes
        dtype, row_bytes = self._cost_key()
        head, work = chip.vector.cycles(self.opcode, dtype, self.rows * ceil_div(row_bytes, unit) * unit)
        return Cost(head, head, work, chip.vector.latency)

    def aligned(self) -> Mapping[str, int]:
        results = {"block": 8, "pair": BLOCK_BYTES // size_of(self.dtype), "repeat": self._each}
        return {"dst": results[self.piece] * size_of(self.dtype)}

    @property
    def _each(self) -> int:
        """Return how many numbers of `dtype` a result takes: 1 for the value alone, 2 for value and index, and the 4 bytes of
        an index alone (1 number of 32 bits or 2 of 16).
        """
        return numbers_of(self.order, self.dtype) if self.order else 1

    @property
    def _layout(self) -> tuple[int, int, int]:
        return self.count, self.rows, self.src_stride

    def _chosen(self) -> list[NDArray[np.int64]]:
        """Return, for each piece of a repeat, an array of the indices in the repeat of its elements in the mask, empty for
        none.
        """
        taken = np.arange(self.count) if self.mask is None else np.flatnonzero(self.mask.selected(self.count))
        size = {"block": BLOCK_BYTES // size_of(self.dtype), "pair": 2, "repeat": self.count}[self.piece]
        return [taken[taken // size == number] for number in range(ceil_div(self.count, size))]

    def _places(self) -> NDArray[np.int64]:
        """Return the offsets in bytes behind dst of the results' numbers, [rows, numbers]; an empty piece has none."""
        size = size_of(self.dtype)
        kept = np.array([number for number, one in enumerate(self._chosen()) if len(one)])
        each = kept[:, None] * self._each + np.arange(self._each)
        return offsets_of((self.rows, 1), (self.dst_stride, 0)) + each.ravel() * size

    def reads(self) -> tuple[Region, ...]:
        return regions_of("src0", self.dtype, self._layout, self.mask, self.blocks)

    def writes(self) -> tuple[Region, ...]:
        size, places = size_of(self.dtype), self._places()
        edges = np.flatnonzero(np.diff(places[0]) != size) + 1
        return tuple(
            Region("dst", "UB", len(run) * size, self.dst_stride, self.rows, offset=int(run[0]))
            for run in np.split(places[0], edges)
        )

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        taken = elements(memory, src0, "src0", self.dtype, self._layout, self.blocks).reshape(self.rows, self.count)
        if self.order:
            return extremes(self.operation, taken, self._chosen()[0], self.order)
        found = [reduced(self.operation, taken[:, one]) for one in self._chosen() if len(one)]
        return memory.model.settled(np.stack(found, axis=1))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        held = storage(self.dtype)
        for number, at in enumerate(self._places()[0].tolist()):
            view = memory.array("UB", dst + at, (self.rows,), held, (self.dst_stride,))
            view[...] = pending[:, number]

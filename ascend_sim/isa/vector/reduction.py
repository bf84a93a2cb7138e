"""Reductions of the vector unit: the sum, the largest or the smallest of each row, or of each 32-byte block."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import BLOCK_BYTES, REPEAT_BLOCKS
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, ceil_div
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector.base import Mask, VectorInstruction, rows_of, size_of, storage, view
from ascend_sim.memory.regions import Region

_ORDERS = ("value index", "index value", "index")
_INDEX_BYTES = 4
"""Bytes of an index without its value (asc-devkit, ReduceRepeat, products A2 and A3: stated)."""
_REDUCTIONS = {"sum": None, "max": np.maximum, "min": np.minimum}


def reduced(operation: str, rows: NDArray[Any]) -> NDArray[Any]:
    """Return [rows, columns] reduced to [rows] in the format of the elements.

    Sums are pairwise, like the unit's adder tree: of float32 in numpy's order, of other formats as in `_tree`.
    """
    function = _REDUCTIONS[operation]
    if function is not None:
        return np.asarray(function.reduce(rows, axis=1))
    if rows.dtype == np.float32:
        return np.asarray(rows.sum(axis=1, dtype=np.float32))
    return _tree(rows)


def _tree(rows: NDArray[Any]) -> NDArray[Any]:
    """Return the sum of each row, adding neighbours until one number is left; each sum is rounded to the format.

    The last of an odd number goes on alone. numpy would sum 16-bit floats in 32 bits.
    """
    while rows.shape[1] > 1:
        pairs = rows[:, : rows.shape[1] // 2 * 2]
        rows = np.concatenate([pairs[:, ::2] + pairs[:, 1::2], rows[:, pairs.shape[1] :]], axis=1)
    return rows[:, 0]


def _listed(operation: str) -> None:
    if operation not in _REDUCTIONS:
        raise SimError(f"no reduction {operation!r} here; there are {', '.join(_REDUCTIONS)}")


@frozen
class ReduceRows(VectorInstruction):
    """dst[r] = sum, max or min of row r of src0: `rows` rows of `columns` elements, `row_stride` bytes apart.

    Stands for a sequence of WholeReduceSum (Max, Min) repeats; the results lie one behind the other, from any element on
    (stated: asc-devkit, ReduceRepeat). Raises SimError for another operation, and for rows that do not begin at whole blocks.
    """

    rows: int
    columns: int
    row_stride: int
    operation: str = "sum"
    dtype: str = "float32"

    name = "reduce_rows"

    def __post_init__(self) -> None:
        _listed(self.operation)
        if self.rows > 1 and self.row_stride % BLOCK_BYTES:
            raise SimError(
                f"{self.name}: rows lie {self.row_stride} bytes apart; a repeat begins at a whole block of {BLOCK_BYTES} bytes "
                f"(asc-devkit, WholeReduceSum: srcRepStride counts blocks)"
            )

    @property
    def opcode(self) -> str:
        return f"reduce_{self.operation}"

    def _cost_key(self) -> tuple[str, int]:
        return self.dtype, self.columns * size_of(self.dtype)

    def cost(self, chip: ChipSpec) -> Cost:
        unit = chip.vector.repeat_bytes
        dtype, row_bytes = self._cost_key()
        repeats = self.rows * ceil_div(row_bytes, unit)  # a row begins a new one
        head, work = chip.vector.cycles(self.opcode, dtype, repeats * unit)
        return Cost(head, head, work, chip.vector.latency)

    def aligned(self) -> Mapping[str, int]:
        return {"dst": size_of(self.dtype)}

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, self.columns, self.rows, self.row_stride)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.rows)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        held = storage(self.dtype)
        rows = memory.array("UB", src0, (self.rows, self.columns), held, (self.row_stride, held.itemsize))
        return memory.model.settled(reduced(self.operation, rows))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, self.dtype, len(pending))[...] = pending


@frozen
class ReduceWithIndex(ReduceRows):
    """The largest or smallest element of each row of src0, and its index in the row; SimError for a sum or another order.

    `order`: "value index" or "index value" in turn, or "index" alone. An index beside its value is an unsigned number as wide
    as an element, an index alone has 4 bytes; of equal elements the first counts. A mask leaves elements out (WholeReduceMax,
    WholeReduceMin). dst begins at whole results (stated: asc-devkit, ReduceRepeat).
    """

    order: str = "value index"
    mask: Mask | None = None

    name = "reduce_with_index"

    def __post_init__(self) -> None:
        if self.operation not in ("max", "min"):
            raise SimError(f"reduce_with_index: operation {self.operation!r}; allowed are max and min")
        super().__post_init__()
        if self.order not in _ORDERS:
            raise SimError(f"reduce_with_index: order {self.order!r}; allowed are {', '.join(_ORDERS)}")

    def aligned(self) -> Mapping[str, int]:
        return {"dst": self._each * size_of(self.dtype)}

    @property
    def _each(self) -> int:
        return numbers_of(self.order, self.dtype)

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, self.columns, self.rows, self.row_stride, self.mask)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, self.rows * self._each)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        held = storage(self.dtype)
        rows = memory.array("UB", src0, (self.rows, self.columns), held, (self.row_stride, held.itemsize))
        chosen = np.arange(self.columns) if self.mask is None else np.flatnonzero(self.mask.selected(self.columns))
        return extremes(self.operation, rows, chosen, self.order).ravel()


def numbers_of(order: str, dtype: str) -> int:
    """Return how many numbers of `dtype` one result takes: 2 for `order` "value index" or "index value" (the index is as wide
    as the value); for "index" alone the 4 bytes of an index, 1 number of 32 bits or 2 of 16.
    """
    return _INDEX_BYTES // size_of(dtype) if order == "index" else len(order.split())


def extremes(operation: str, rows: NDArray[Any], chosen: NDArray[np.int64], order: str) -> NDArray[Any]:
    """Return the largest or smallest of the `chosen` elements of each row and its index in the row, by `order`: [rows,
    numbers].

    Of equal elements the first counts, and a NaN before all others. All numbers have the elements' format; indices are unsigned
    integers under its bits.
    """
    picked = rows[:, chosen]
    place = (np.argmax if operation == "max" else np.argmin)(picked, axis=1)
    if order == "index":
        return chosen[place].astype(f"uint{8 * _INDEX_BYTES}").view(rows.dtype).reshape(len(rows), -1)
    index = chosen[place].astype(f"uint{8 * rows.itemsize}").view(rows.dtype)
    parts = {"value": picked[np.arange(len(rows)), place], "index": index}
    return np.stack([parts[name] for name in order.split()], axis=1)


@frozen
class ReduceBlocks(VectorInstruction):
    """dst[b] = sum, max or min (else SimError) of the 32-byte block b of src0, for `count` elements of src0.

    Of a last block that is not full only its elements count. (BlockReduceSum, BlockReduceMax, BlockReduceMin.)
    """

    operation: str
    dtype: str
    count: int

    name = "reduce_blocks"

    def __post_init__(self) -> None:
        _listed(self.operation)

    @property
    def opcode(self) -> str:
        return f"block_reduce_{self.operation}"

    def aligned(self) -> Mapping[str, int]:
        return {"dst": REPEAT_BLOCKS * size_of(self.dtype)}  # stated: asc-devkit, ReduceDataBlock

    @property
    def _block(self) -> int:
        return BLOCK_BYTES // size_of(self.dtype)

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.dtype, self.count)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.dtype, ceil_div(self.count, self._block))

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        values = view(memory, src0, self.dtype, self.count)
        whole = self.count // self._block * self._block
        parts = [reduced(self.operation, values[:whole].reshape(-1, self._block))] if whole else []
        if whole < self.count:
            parts.append(reduced(self.operation, values[None, whole:]))
        return memory.model.settled(np.concatenate(parts))

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, self.dtype, len(pending))[...] = pending

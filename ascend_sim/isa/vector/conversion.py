"""Conversion between number formats in the vector unit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Memory, ValueModel
from ascend_sim.isa.moves import Moves, loops, moves
from ascend_sim.isa.vector.base import INTEGERS, VectorInstruction, rows_fit, rows_of, size_of, storage, view
from ascend_sim.memory.regions import Region
from ascend_sim.numerics import cast
from ascend_sim.numerics.widen import to_float32

_TO_WHOLE: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "RINT": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "ROUND": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


@frozen
class VectorCast(VectorInstruction):
    """dst = src0 in another format; `rounding` is a cast mode of the vector unit (RINT is nearest even).

    A pair of formats or a mode that the chip lacks is refused when the instruction is made (chip file, vector.casts). `rows`
    rows of `count` elements, strides in bytes. Integers take the nearest of their range, and 0 for NaN (assumed).
    """

    source: str
    target: str
    count: int
    rounding: str
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0

    name = "vector_cast"

    def pipe(self, chip: ChipSpec) -> str:
        chip.vector.cast_mode(self.source, self.target, self.rounding)
        rows_fit(chip, self.name, self.target, self.count, self.rows, self.dst_stride, self.src_stride)
        return super().pipe(chip)

    @property
    def opcode(self) -> str:
        return "cast"

    def _cost_key(self) -> tuple[str, int]:
        wide = self.source if size_of(self.source) >= size_of(self.target) else self.target
        return wide, self.count * size_of(wide)

    def _rows(self) -> int:
        return self.rows

    def reads(self) -> tuple[Region, ...]:
        return rows_of("src0", self.source, self.count, self.rows, self.src_stride)

    def writes(self) -> tuple[Region, ...]:
        return rows_of("dst", self.target, self.count, self.rows, self.dst_stride)

    def read(self, memory: Memory, dst: int, src0: int, src1: int) -> Any:
        values = view(memory, src0, self.source, self.count, self.rows, self.src_stride)
        if self.target in INTEGERS:
            return _to_integers(values, self.target, self.rounding)
        if self.source in INTEGERS:
            return _from_integers(values, self.target, self.rounding)
        saturate = memory.model.saturate
        if self.target == "float32" and self.source in ("float16", "bfloat16") and not saturate:
            return to_float32(values)
        return cast(values, self.target, self.rounding, saturate, source=self.source)

    def commit(self, memory: Memory, dst: int, pending: Any) -> None:
        view(memory, dst, self.target, self.count, self.rows, self.dst_stride)[...] = pending

    def moves(self, model: ValueModel) -> Moves | None:
        narrow = ("float16", "bfloat16")
        widens = self.source in narrow and self.target == "float32" and not model.saturate
        if not widens and not (self.source == "float32" and self.target in narrow and self.rounding == "RINT"):
            return None
        shape, wide, item = (self.rows, self.count), size_of(self.source), size_of(self.target)
        take = loops("src0", "UB", shape, (self.src_stride, wide), wide)
        put = loops("dst", "UB", shape, (self.dst_stride, item), item)
        return moves(take, put=put, source=self.source, target=self.target, saturate=model.saturate)


def _from_integers(values: NDArray[Any], target: str, rounding: str) -> NDArray[Any]:
    """Integers in a float format that holds their magnitude; only here has float32 modes other than the nearest."""
    wide = values.astype(np.float64)
    nearest = wide.astype(storage(target))
    below = np.where(nearest > wide, np.nextafter(nearest, nearest.dtype.type(-np.inf)), nearest)
    above = np.where(nearest < wide, np.nextafter(nearest, nearest.dtype.type(np.inf)), nearest)
    inward, outward = np.where(wide < 0, above, below), np.where(wide < 0, below, above)
    ties_away = np.where(np.abs(outward - wide) <= np.abs(wide - inward), outward, inward)
    chosen = {"FLOOR": below, "CEIL": above, "TRUNC": inward, "ROUND": ties_away}
    return np.asarray(chosen.get(rounding, nearest))


def _to_integers(values: NDArray[Any], target: str, rounding: str) -> NDArray[Any]:
    limits = np.iinfo(storage(target))
    wide = values.astype(np.float64)  # holds every integer of 32 bits
    whole = _TO_WHOLE[rounding](wide) if rounding in _TO_WHOLE else wide
    return np.where(np.isnan(wide), 0, np.clip(whole, limits.min, limits.max)).astype(storage(target))

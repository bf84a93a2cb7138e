"""Conversion between number formats in the vector unit."""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, moves
from ascend_sim.isa.vector.base import VectorInstruction, items_of, rows_fit, rows_of, size_of
from ascend_sim.memory.regions import Region


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

    def moves(self, model: ValueModel) -> Moves:
        take = items_of("src0", self.source, self.count, self.rows, self.src_stride)
        put = items_of("dst", self.target, self.count, self.rows, self.dst_stride)
        how = {"source": self.source, "target": self.target, "rounding": self.rounding, "saturate": model.saturate}
        return moves(take, put=put, **how)

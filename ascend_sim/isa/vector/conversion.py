"""Conversion between number formats in the vector unit."""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, moves
from ascend_sim.isa.quantisation import Scaling
from ascend_sim.isa.vector.base import Mask, RowsInstruction, operands_fit, place_of, regions_of, size_of
from ascend_sim.memory.regions import Region


@frozen
class VectorCast(RowsInstruction):
    """dst = src0 in another format; `rounding` is a cast mode of the vector unit (RINT is nearest even).

    `pipe` raises SimError for a pair of formats or a mode that the chip lacks (chip file, vector.casts), and as `operands_fit`.
    `rows` rows of `count` elements, strides in bytes; `blocks` are the bytes from block to block of dst and of src0. Integers
    take the nearest of their range, and 0 for NaN (assumed). int32 is multiplied by the float16 number `scale` on its way to
    float16 (asc-devkit, SetDeqScale: stated; that the product is rounded once is assumed).
    """

    source: str
    target: str
    count: int
    rounding: str
    rows: int = 1
    dst_stride: int = 0
    src_stride: int = 0
    mask: Mask | None = None
    blocks: tuple[int, ...] = ()
    scale: float = 1.0

    name = "vector_cast"
    opcode = "cast"

    def pipe(self, chip: ChipSpec) -> str:
        chip.vector.cast_mode(self.source, self.target, self.rounding)
        operands_fit(chip, self.name, self.target, self._dst, (self.src_stride,), self.blocks)
        return super().pipe(chip)

    def _cost_key(self) -> tuple[str, int]:
        wide = self.source if size_of(self.source) >= size_of(self.target) else self.target
        return wide, self.count * size_of(wide)

    def reads(self) -> tuple[Region, ...]:
        return regions_of("src0", self.source, self._src, self.mask, self.blocks)

    def writes(self) -> tuple[Region, ...]:
        return regions_of("dst", self.target, self._dst, self.mask, self.blocks)

    def moves(self, model: ValueModel) -> Moves:
        take = place_of("src0", self.source, self._src, self.mask, self.blocks)
        put = place_of("dst", self.target, self._dst, self.mask, self.blocks)
        how = {"source": self.source, "target": self.target, "rounding": self.rounding, "saturate": model.saturate}
        return moves(take, put=put, scaling=None if self.scale == 1.0 else Scaling(self.scale), **how)

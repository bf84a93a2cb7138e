"""Conversion between number formats in the vector unit."""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, moves
from ascend_sim.isa.quantisation import Scaling
from ascend_sim.isa.vector.base import Mask, TwoFormats


@frozen
class VectorCast(TwoFormats):
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
        return super().pipe(chip)

    def moves(self, model: ValueModel) -> Moves:
        take, put = self._place("src0", self.src_stride), self._place("dst", self.dst_stride)
        how = {"source": self.source, "target": self.target, "rounding": self.rounding, "saturate": model.saturate}
        return moves(take, put=put, scaling=None if self.scale == 1.0 else Scaling(self.scale), **how)

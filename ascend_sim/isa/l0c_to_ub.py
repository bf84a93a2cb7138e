"""L0C to UB through the vector unit: the way out of the cube on chips without a Fixpipe.

L0C holds [N1][M1*16][16] fp32 (NZ fractals); whole fractals leave it, as [N1][rows][16] in UB, or single rows.
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES, ACCUMULATOR_ROW_BYTES, FRACTAL
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, Instruction, ceil_div, cycles_of
from ascend_sim.isa.cube import fixpipe_moves, taken_as
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, loops
from ascend_sim.memory.regions import Region
from ascend_sim.numerics.integers import storage


@frozen
class L0cToUb(Instruction):
    """Move `rows` rows (rounded up to whole fractals) of `columns` blocks of 16 columns from an L0C tile of `m_padded` rows to
    UB, as [columns][rows][16].

    One row is not rounded up: 16 numbers of each block leave alone (asc-devkit, DataCopy L0C to UB page: BLOCK_MODE_VECTOR), as
    the result of a GEMV product does, which fills no more of a fractal.

    `dtype` is the format in UB: fp32 is kept, and int32 of a product of int8; a narrower one is rounded once to nearest even
    (overflow as in `ValueModel`). The path's rate counts fp32 bytes out of L0C (assumed: msopprof calls it the width at which
    L0C is read).
    """

    rows: int
    columns: int
    m_padded: int
    dtype: str

    name = "l0c_to_ub"

    @property
    def taken(self) -> str:  # type: ignore[override]
        return taken_as(self.dtype)

    @property
    def _rows(self) -> int:
        return self.rows if self.rows == 1 else ceil_div(self.rows, FRACTAL) * FRACTAL

    def pipe(self, chip: ChipSpec) -> str:
        if self.dtype not in ("float32", "int32"):
            chip.vector.cast_mode("float32", self.dtype)
        return chip.path("L0C", "UB").pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path("L0C", "UB")
        moved = self.columns * self._rows * ACCUMULATOR_ROW_BYTES
        return Cost(path.head, path.head, cycles_of(moved, path.bytes_per_cycle), path.latency)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "L0C", self._rows * ACCUMULATOR_ROW_BYTES, self.m_padded * ACCUMULATOR_ROW_BYTES, self.columns),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "UB", self.columns * self._rows * FRACTAL * storage(self.dtype).itemsize),)

    def moves(self, model: ValueModel) -> Moves:
        shape = (self.columns, self._rows, FRACTAL)
        strides = (self.m_padded * ACCUMULATOR_ROW_BYTES, ACCUMULATOR_ROW_BYTES, ACCUMULATOR_BYTES)
        item = storage(self.dtype).itemsize
        put = loops("dst", "UB", (self.columns * self._rows * FRACTAL,), (item,), item)
        return fixpipe_moves(model, self.dtype, loops("src0", "L0C", shape, strides, ACCUMULATOR_BYTES), put)

    def path(self) -> str:
        return "L0C->UB"

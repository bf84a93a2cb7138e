"""The bias table (BT): numbers per column with which the sums of a product may begin (`Mmad`, bias)."""

from __future__ import annotations

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.fractal import ACCUMULATOR_BYTES
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Cost, Instruction, cycles_of
from ascend_sim.isa.memory import ValueModel
from ascend_sim.isa.moves import Moves, loops, moves
from ascend_sim.memory.regions import Region

_FORMATS = {"float16": np.float16, "float32": np.float32, "int32": np.int32}


@frozen
class LoadBias(Instruction):
    """Move `count` numbers of `dtype` from L1 to the bias table, 4 bytes each there: float16 widened to float32, float32 and
    int32 as they are.

    Widening is the conversion bit of copy_cbuf_to_bt (dav-2201's words: derived), as ops-nn's Conv3DV2 loads a bias of float16.
    `pipe` raises SimError for another dtype, and on a chip without a bias table.
    """

    count: int
    dtype: str

    name = "load_bias"

    @property
    def _size(self) -> int:
        return self.count * self._item

    @property
    def _item(self) -> int:
        return np.dtype(_FORMATS[self.dtype]).itemsize

    def pipe(self, chip: ChipSpec) -> str:
        if self.dtype not in _FORMATS:
            raise SimError(
                f"load_bias: dtype {self.dtype}; {', '.join(_FORMATS)} are possible (asc-devkit, DataCopy L1 to BiasTable)"
            )
        return chip.path("L1", "BT").pipe

    def cost(self, chip: ChipSpec) -> Cost:
        path = chip.path("L1", "BT")
        return Cost(path.head, path.head, cycles_of(self._size, path.bytes_per_cycle), path.latency)

    def reads(self) -> tuple[Region, ...]:
        return (Region("src0", "L1", self._size),)

    def writes(self) -> tuple[Region, ...]:
        return (Region("dst", "BT", self.count * ACCUMULATOR_BYTES),)

    def moves(self, model: ValueModel) -> Moves:
        item = self._item
        put = loops("dst", "BT", (self.count,), (ACCUMULATOR_BYTES,), ACCUMULATOR_BYTES)
        how = {"source": "float16", "target": "float32"} if self.dtype == "float16" else {}
        return moves(loops("src0", "L1", (self.count,), (item,), item), put=put, **how)

    def path(self) -> str:
        return "L1->BT"

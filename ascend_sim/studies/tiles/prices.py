"""What the instructions of the cube kernels cost at least, and the work of a block that is summed from them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.isa.cube import Fixpipe, Mmad
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData3D
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to


@dataclass
class Work:
    """Cycles of one block by pipe."""

    cube: float = 0
    mte1: float = 0
    mte2: float = 0
    out: float = 0
    tiles: int = 0
    steps: int = 0


@dataclass
class Moved:
    """Bytes that all blocks move through the L2."""

    read: int = 0
    written: int = 0


class TilingWork(NamedTuple):
    """What a tiling gives a kernel to do: its tasks, the work of a block, what all blocks move, what the L2 cannot have."""

    tasks: int
    of_block: Callable[[int], Work]
    moved: Moved
    missed: int


def cuts(total: int, size: int) -> list[int]:
    """Pieces of `size`, the last one what is left."""
    return [min(size, total - start) for start in range(0, total, size)]


def lengths(total: int, size: int) -> list[tuple[int, int]]:
    """The lengths of `cuts` and how often each comes up."""
    count, rest = divmod(total, size)
    return [(length, times) for length, times in ((size, count), (rest, 1)) if length and times]


class Prices:
    """Cycles of the instructions that both cube kernels issue, with the shorter heads and transfers at their port's speed."""

    cached: tuple[str, ...] = ("mmad", "copy", "drain", "left")
    """Methods that many tilings ask with the same numbers."""

    def __init__(self, call: CubeCall) -> None:
        self.call, self.inp, self.chip = call, call.inp, call.chip
        self.problem = call.inp.problem
        for name in self.cached:
            setattr(self, name, cache(getattr(self, name)))

    def cycles(self, instruction: Any) -> float:
        """Occupancy of its pipe with the shorter head."""
        cost, access = instruction.cost(self.chip), instruction.gm_access(self.chip)
        moved = access.region.total / access.rate if access is not None else 0.0
        return float(min(cost.head_first, cost.head_stream) + cost.work + moved)

    def mmad(self, m: int, k: int, n: int) -> float:
        return self.cycles(Mmad(m, k, n, self.call.dtype, False))

    def copy(self, row_bytes: int, rows: int = 1) -> float:
        """GM to L1."""
        return self.cycles(DataCopy("GM", "L1", row_bytes, rows)) if row_bytes and rows else 0.0

    def drain(self, m: int, n: int, dtype: str, atomic: bool = False) -> float:
        """The way out of L0C: the Fixpipe, or the vector unit of a coupled core."""
        if self.inp.family.coupled:
            return self.cycles(L0cToUb(m, ceil_div(n, FRACTAL), ceil_to(m, FRACTAL), dtype))
        return self.cycles(Fixpipe(m, n, ceil_to(m, FRACTAL), dtype, self.inp.c0, 0, atomic))

    def left(self, m: int, k: int, turned: bool) -> float:
        """img2col to L0A: `m` x `k`, or with `turned` rows of K."""
        rows, columns = (k, m) if turned else (m, k)
        return self.load3d("L0A", 1, rows, columns, turned)

    def load3d(self, to: str, stride_w: int, rows: int, columns: int, turned: bool) -> float:
        fields = (1, 1, 1, 1, 1, stride_w, 1, 1, 0, 0, 1, 1, 0, rows, 0, columns)
        return self.cycles(LoadData3D(to, self.inp.itemsize, *fields, turned))

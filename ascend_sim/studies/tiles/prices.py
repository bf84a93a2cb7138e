"""Least costs of the cube kernels' instructions, and the work of blocks that is summed from them.

Work is summed for many tilings at once: a kernel's loops become rows of arrays, each with the tiling that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import FRACTAL
from ascend_sim.frozen import mutable
from ascend_sim.isa.base import Instruction
from ascend_sim.isa.cube import Fixpipe, Mmad
from ascend_sim.isa.l0c_to_ub import L0cToUb
from ascend_sim.isa.load import LoadData2D, LoadData3D
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.ops.kernels.cube.call import CubeCall
from ascend_sim.ops.problem.sizes import ceil_div, ceil_to

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Key = TypeVar("Key", bound=Hashable)


@mutable
class LeastCycles:
    """Least work of one block of each tiling, in arrays with an element for each tiling.

    Cycles: `cube` (products), `mte1`, `out` (stores from L0C), and MTE2's `load_a`, `load_b` by operand and `load` for an
    unknown one. Counts: `tiles`, `steps` along K, `loads_a`, `loads_b`. `firsts` counts the steps that take the first half of
    L0, `first` has their cycles of MTE1 and cube.
    """

    cube: Floats
    mte1: Floats
    load: Floats
    load_a: Floats
    load_b: Floats
    out: Floats
    tiles: Floats
    steps: Floats
    loads_a: Floats
    loads_b: Floats
    first: Floats
    firsts: Floats

    @classmethod
    def none(cls, count: int) -> LeastCycles:
        """Return zero work for `count` tilings."""
        return cls(*(np.zeros(count) for _ in fields(cls)))

    @property
    def mte2(self) -> Floats:
        """Return the cycles of all loads from GM into L1."""
        return self.load + self.load_a + self.load_b

    def add(self, what: str, owner: Ints, amounts: Any) -> None:
        """Add `amounts` to the field `what`; each belongs to the tiling whose number stands at its place in `owner`."""
        own = getattr(self, what)
        own += np.bincount(owner, np.broadcast_to(amounts, owner.shape), minlength=len(own))

    def loaded(self, operand: str, owner: Ints, times: Any, cycles: Floats, copied: Any = True) -> None:
        """Add `times` loads of operand "a" or "b" into L1, of `cycles` each; each row belongs to the tiling whose index is in
        `owner`.

        A load that takes no cycles, or whose `copied` is False, adds its cycles but is not counted as a turn of the L1 buffer.
        """
        self.add(f"load_{operand}", owner, times * cycles)
        self.add(f"loads_{operand}", owner, times * (copied & (cycles > 0)))


class Latencies(NamedTuple):
    """Least cycles from the end of an instruction's occupancy to its retirement, by kind of instruction.

    The kinds are loads into L1 and into L0, products, and stores from L0C.
    """

    into_l1: int
    into_l0: int
    cube: int
    out: int


class TilingWork(NamedTuple):
    """Work of a kernel for many tilings. Tilings with equal work share an entry: `place` has the index of each tiling's entry.

    The other arrays have an element for each entry: `tasks` counts tasks, `read` and `written` are the bytes that all blocks
    move through the L2, `missed` the least of them that come from HBM. `of_blocks(blocks)` returns the least cycles of block
    `blocks[i]` of each entry i.
    """

    place: Ints
    tasks: Ints
    of_blocks: Callable[[Ints], LeastCycles]
    read: Ints
    written: Ints
    missed: Ints


def numbered(keys: Iterable[Key]) -> tuple[list[Key], Ints]:
    """Return (distinct keys in order of first appearance, array with each key's index among them)."""
    known: dict[Key, int] = {}
    places = [known.setdefault(key, len(known)) for key in keys]
    return list(known), np.array(places, np.int64)


class Ragged:
    """Table of lists of rows of `width` integers, with each list under its number, for lookups of many lists at once."""

    def __init__(self, lists: Sequence[Sequence[tuple[int, ...]]], width: int) -> None:
        self.counts = np.array([len(rows) for rows in lists], np.int64)
        self._first = np.cumsum(self.counts) - self.counts
        self._rows = np.array([row for rows in lists for row in rows], np.int64).reshape(-1, width)

    def of(self, numbers: Ints) -> tuple[Ints, Ints]:
        """Return the rows of the lists `numbers` one after the other: (for each row the index in `numbers` of its list, array
        of the rows' columns, `width` x rows).
        """
        counts = self.counts[numbers]
        owner = np.repeat(np.arange(len(numbers)), counts)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
        return owner, self._rows[np.repeat(self._first[numbers], counts) + within].T


def priced(price: Callable[..., float], *columns: Ints) -> Floats:
    """Return the array of `price(*row)` for the rows of numbers from 0 in `columns`, calling it once for each distinct row."""
    if not len(columns[0]):
        return np.zeros(0)
    packed = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        packed = packed * (int(column.max()) + 1) + column
    _, first, place = np.unique(packed, return_index=True, return_inverse=True)
    rows = zip(*(column[first].tolist() for column in columns), strict=True)
    return np.array([price(*row) for row in rows])[place]


def cuts(total: int, size: int) -> list[int]:
    """Return the sizes of the pieces into which `total` is cut: `size` each, the last one the rest."""
    return [min(size, total - start) for start in range(0, total, size)]


def lengths(total: Ints, size: Ints) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Cut each element of `total` into pieces of `size` and yield three arrays: indices of totals, length of their pieces,
    number of these pieces.

    They come twice: for the whole pieces, then for the rests. Totals without such a piece are left out.
    """
    count, rest = np.divmod(total, size)
    for length, times in ((size, count), (rest, (rest > 0).astype(np.int64))):
        (which,) = np.nonzero(times)
        yield which, length[which], times[which]


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
        """Return the least cycles that an instruction occupies its pipe: the shorter head, its work, and its bytes in GM at
        the speed of the port.
        """
        cost, access = instruction.cost(self.chip), instruction.gm_access(self.chip)
        moved = access.region.total / access.rate if access is not None else 0.0
        return float(min(cost.head_first, cost.head_stream) + cost.work + moved)

    def latencies(self) -> Latencies:
        """Return the least latencies of the instructions that fill and empty the buffers of a core."""
        chip, item = self.chip, self.inp.itemsize
        into_l1 = [path.latency for key, path in chip.paths.items() if key.startswith("GM->L1")]
        into_l0 = [self._img2col("L0A", 1, 1, 1, False), LoadData2D("L0B", item, 1)]
        return Latencies(
            into_l1=min(into_l1),
            into_l0=min(load.cost(chip).latency for load in into_l0),
            cube=Mmad(1, 1, 1, self.call.dtype, False).cost(chip).latency,
            out=self._way_out(1, 1, "float32", False).cost(chip).latency,
        )

    def mmad(self, m: int, k: int, n: int) -> float:
        return self.cycles(Mmad(m, k, n, self.call.dtype, False))

    def copy(self, row_bytes: int, rows: int = 1) -> float:
        """Return the least cycles of a copy of `rows` rows from GM to L1; 0 for no bytes."""
        return self.cycles(DataCopy("GM", "L1", row_bytes, rows)) if row_bytes and rows else 0.0

    def drain(self, m: int, n: int, dtype: str, atomic: bool = False) -> float:
        """Return the least cycles of a store of `m` x `n` sums from L0C: by the Fixpipe, or by the vector unit of a coupled
        core; `atomic`: it adds to GM.
        """
        return self.cycles(self._way_out(m, n, dtype, atomic))

    def _way_out(self, m: int, n: int, dtype: str, atomic: bool) -> Instruction:
        if self.inp.family.coupled:
            return L0cToUb(m, ceil_div(n, FRACTAL), ceil_to(m, FRACTAL), dtype)
        return Fixpipe(m, n, ceil_to(m, FRACTAL), dtype, self.inp.c0, 0, atomic)

    def left(self, m: int, k: int, turned: bool) -> float:
        """Return the least cycles of loading an `m` x `k` block by img2col from L1 into L0A, read transposed if `turned`."""
        rows, columns = (k, m) if turned else (m, k)
        return self.load3d("L0A", 1, rows, columns, turned)

    def load3d(self, to: str, stride_w: int, rows: int, columns: int, turned: bool) -> float:
        return self.cycles(self._img2col(to, stride_w, rows, columns, turned))

    def _img2col(self, to: str, stride_w: int, rows: int, columns: int, turned: bool) -> Instruction:
        fields = (1, 1, 1, 1, 1, stride_w, 1, 1, 0, 0, 1, 1, 0, rows, 0, columns)
        return LoadData3D(to, self.inp.itemsize, *fields, turned)

"""Following one item of a tensor through the run that made it: backwards to its sources, then its values forwards.

A `Follower` observes `replay`. Before the first value is computed it follows the item's bytes backwards (`provenance`) to the
instruction that took them out of L0C, to every mmad that added to them, and to the operands of those. While values are computed
it reads memory where the item passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.flow import CONSTANT, cube_flow_of, flow_of, item_dtypes
from ascend_sim.engine.provenance import Provenance
from ascend_sim.engine.replay import Row
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.memory import Memory
from ascend_sim.isa.vector import VectorBinary
from ascend_sim.numerics import decode, numpy_dtype

Array = NDArray[Any]
_ACCUMULATOR = "float32"
"""Format of the items in L0C."""


@mutable(eq=False)
class ItemStep:
    """One instruction that the item went through; `bits` and `value` are the item in its destination afterwards.

    `space` and `address` are that destination (GM addresses are absolute), `dtype` is the item's format there. `sources` are
    the steps or sums from which the item came: none where the instruction made it up (a zero) or copied what no program
    wrote, several where it added.
    """

    row: Row
    space: str
    address: int
    dtype: str
    sources: list[ItemStep | SumPart] = field(default_factory=list)
    bits: int = 0
    value: float = math.nan


@frozen
class OperandLoad:
    """One instruction that moved `items` operands of an mmad from `space`; of a fill `space` is the one that it wrote."""

    row: Row
    space: str
    items: int


@mutable(eq=False)
class MmadOperand:
    """One side of the `k` products of an mmad, in the order of L0.

    `addresses` [k] are bytes of L0A or L0B; `origins` [k] the GM bytes of the numbers in tensors that no program wrote,
    CONSTANT for zeros that the machine put there. `loads` filled L0, `l1_loads` filled L1. `values` [k] are the numbers as
    they are multiplied.
    """

    space: str
    addresses: Array
    origins: Array
    loads: list[OperandLoad]
    l1_loads: list[OperandLoad]
    values: Array = field(default_factory=lambda: np.zeros(0, np.float32))


@mutable(eq=False)
class Multiplication:
    """One mmad that added to the item: row `m` of its left operand times column `n` of its right one.

    `partial` is the item in L0C when it retired, `tile` [M, N] all of the tile then, where that was asked for.
    """

    row: Row
    m: int
    n: int
    left: MmadOperand
    right: MmadOperand
    partial: np.float32 = field(default_factory=lambda: np.float32(np.nan))
    tile: Array | None = None

    @property
    def products(self) -> Array:
        """Return the products as float64 [k]; exact, because no operand has more than 24 bits."""
        return self.left.values.astype(np.float64) * self.right.values


@mutable(eq=False)
class SumPart:
    """One L0C tile that held the sum or, where it is split, a part of it: the item's byte in L0C, and its mmads in order."""

    address: int
    mmads: list[Multiplication]

    @property
    def owner(self) -> int:
        """Return the number of the program whose L0C holds the tile."""
        return self.mmads[0].row[0]


class Follower:
    """Follows the item of format `dtype` at byte `offset` of the tensor called `tensor`.

    After the run: `output` is the step that left the item there, `way` all steps and parts, each behind its
    sources, `provenance` the run. `tiles` keeps the whole L0C tile after every mmad.
    """

    def __init__(self, tensor: str, offset: int, dtype: str, *, tiles: bool = False) -> None:
        self.output: ItemStep
        self.provenance: Provenance
        self.way: list[ItemStep | SumPart] = []
        self._target = (tensor, offset, dtype)
        self._tiles = tiles
        self._watched: dict[Row, list[ItemStep | Multiplication]] = {}
        self._parts: dict[tuple[Row, int], SumPart] = {}

    # -- the way back --------------------------------------------------------------------------------------------------

    def watch(self, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> Mapping[Row, object]:
        """Follow the item back through `programs` and return the rows that it passed, to be observed.

        Raises SimError if no task has the tensor or no instruction wrote it, or if `flow_of` refuses one on the way.
        """
        self.provenance = Provenance(tasks, programs)
        name, offset, dtype = self._target
        tensors = {tensor.name: tensor for task in reversed(tasks) for tensor in reversed(task.tensors)}
        if (target := tensors.get(name)) is None:
            raise SimError(f"no tensor {name}; the run has {', '.join(sorted(tensors)) or 'none'}")
        output = self._trace(None, "GM", target.base + offset, dtype)
        if not isinstance(output, ItemStep):
            raise SimError(f"{name}: no instruction wrote the byte {offset}")
        self.output = output
        return self._watched

    def _trace(self, reader: Row | None, space: str, address: int, dtype: str) -> ItemStep | SumPart | None:
        """Follow an item backwards from `reader` (None: from the end of the run) and record all that it passed.

        Return the step that wrote it, or for L0C its sum; None if no program wrote it.
        """
        assert reader is None or space != "L0C" or dtype == _ACCUMULATOR
        if space == "L0C" and reader is not None:
            return self._part(reader, address)
        added = []
        step = None
        for row in self.provenance.writers(reader, space, address, address + 1):
            source = self._source(row, space, address)
            if source is None:
                continue
            if not self.provenance.instruction(row).atomic:
                step = self._step(row, space, address, dtype, source)
                break
            added.append((row, source))
        for row, source in reversed(added):
            before = [step] if step is not None else []
            step = self._step(row, space, address, dtype, source, before)
        return step

    def _source(self, row: Row, space: str, address: int) -> int | None:
        """Return the source byte that `row` copied to byte `address`; CONSTANT for a zero, None if the row writes others."""
        flow = flow_of(self.provenance.instruction(row), self.provenance.programs[row[0]].program.table.chip)
        hit, source = flow.find(np.asarray([address - self.provenance.address(row, "dst", space)]))
        return int(source[0]) if hit[0] else None

    def _step(
        self, row: Row, space: str, address: int, dtype: str, source: int, before: Sequence[ItemStep | SumPart] = ()
    ) -> ItemStep:
        """Record the step in which `row` wrote the item, follow its sources further back, and return it.

        `source` is the item's byte in the operand (CONSTANT: made up); `before` are earlier contents to which the row added.
        """
        instruction = self.provenance.instruction(row)
        step = ItemStep(row, space, address, dtype, list(before))
        operands = instruction.reads() if source != CONSTANT else ()
        if not isinstance(instruction, VectorBinary):
            operands = operands[:1]
        came_as = (item_dtypes(instruction) or (dtype, dtype))[0]
        for region in operands:
            at = self.provenance.address(row, region.operand, region.space) + source
            found = self._trace(row, region.space, at, came_as)
            if found is not None:
                step.sources.append(found)
        self.way.append(step)
        self._watched.setdefault(row, []).append(step)
        return step

    # -- the sum in L0C ------------------------------------------------------------------------------------------------

    def _part(self, reader: Row, address: int) -> SumPart:
        """Record and return the sum in L0C that `reader` found at `address`: its mmads back to the one that began it."""
        mmads: list[Multiplication] = []
        for row in self.provenance.writers(reader, "L0C", address, address + 1):
            instruction = self.provenance.instruction(row)
            assert isinstance(instruction, Mmad)
            mmads.append(self._multiplication(row, instruction, address))
            if not instruction.accumulate:
                break
        mmads.reverse()
        part = SumPart(address, mmads)
        self.way.append(part)
        for mmad in mmads:
            self._watched.setdefault(mmad.row, []).append(mmad)
        return part

    def _multiplication(self, row: Row, mmad: Mmad, address: int) -> Multiplication:
        chip = self.provenance.programs[row[0]].program.table.chip
        flow = cube_flow_of(mmad, chip)
        m, n = flow.element(address - self.provenance.address(row, "dst", "L0C"))
        left = self._operand(row, "L0A", self.provenance.address(row, "src0", "L0A") + flow.left[m])
        right = self._operand(row, "L0B", self.provenance.address(row, "src1", "L0B") + flow.right[n])
        return Multiplication(row, m, n, left, right)

    def _operand(self, row: Row, space: str, addresses: Array) -> MmadOperand:
        """Return one side of the products of the mmad `row`: its loads to L0 and L1, and the GM bytes of its numbers."""
        origins = np.full(len(addresses), CONSTANT)
        loads, l1_loads = [], []
        for hop in self.provenance.back(row, space, addresses):
            loads.append(OperandLoad(hop.row, hop.space, len(hop.index)))
            moved = hop.source != CONSTANT
            inside = hop.index[moved]
            for deeper in self.provenance.back(hop.row, hop.space, hop.source[moved]):
                l1_loads.append(OperandLoad(deeper.row, deeper.space, len(deeper.index)))
                known = deeper.source != CONSTANT
                target = inside[deeper.index[known]]
                origins[target] = self.provenance.origins(deeper.row, deeper.space, deeper.source[known])
        return MmadOperand(space, addresses, origins, sorted(loads, key=_row), sorted(l1_loads, key=_row))

    # -- the values ----------------------------------------------------------------------------------------------------

    def started(self, row: Row, memory: Memory) -> None:
        """Record the factors of observed mmads, as they are read at their start."""
        for watched in self._watched[row]:
            if isinstance(watched, Multiplication):
                mmad = self.provenance.instruction(row)
                assert isinstance(mmad, Mmad)
                address = self.provenance.address
                left, right = mmad.factors(memory, address(row, "src0", "L0A"), address(row, "src1", "L0B"))
                watched.left.values = left[watched.m].copy()
                watched.right.values = right[watched.n].copy()

    def retired(self, row: Row, memory: Memory) -> None:
        """Record the item in memory after an observed instruction; for an mmad the partial sum, and the tile if wanted."""
        for watched in self._watched[row]:
            if isinstance(watched, Multiplication):
                self._look_at_tile(watched, memory)
            else:
                size = numpy_dtype(watched.dtype).itemsize
                item = self._bytes(watched, memory)[:size]
                watched.bits = int.from_bytes(item.tobytes(), "little")
                watched.value = float(decode(watched.bits, watched.dtype))

    def _bytes(self, step: ItemStep, memory: Memory) -> NDArray[np.uint8]:
        """Return memory as bytes, from the step's item on."""
        if step.space != "GM":
            return memory.buffers[step.space][step.address :]
        operand = int(self.provenance.programs[step.row[0]].program.rows[step.row[1], 1])
        behind = step.address - self.provenance.address(step.row, "dst", "GM")
        return memory.array("GM", operand + behind, (numpy_dtype(step.dtype).itemsize,), np.uint8)

    def _look_at_tile(self, watched: Multiplication, memory: Memory) -> None:
        mmad = self.provenance.instruction(watched.row)
        assert isinstance(mmad, Mmad)
        flow = cube_flow_of(mmad, self.provenance.programs[watched.row[0]].program.table.chip)
        dst = self.provenance.address(watched.row, "dst", "L0C")
        tile = memory.array("L0C", dst, flow.place.shape, np.float32)
        watched.partial = tile[flow.place == watched.m * flow.columns + watched.n][0]
        if self._tiles:
            kept = np.empty(len(tile), np.float32)
            kept[flow.place] = tile
            watched.tile = kept.reshape(-1, flow.columns)[: mmad.m, : mmad.n]


def _row(load: OperandLoad) -> Row:
    return load.row

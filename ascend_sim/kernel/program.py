"""A Program: one int64 row per instruction, and the table of parameter objects that the rows point into.

A row is (instruction index, dst, src0, src1, tile). What follows from the parameters alone (pipe, cost, regions) is kept
once per distinct instruction in the `InstructionTable` of the task, so a row costs 40 bytes and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.chip.headroom import MOST_CYCLES
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPE_INDEX, Cost, GmAccess, Instruction
from ascend_sim.isa.sync import CrossCoreWaitFlag, cross_name
from ascend_sim.kernel.inspection import Notes
from ascend_sim.kernel.stamp import Stamps
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import Region

COLUMNS = ("instruction", "dst", "src0", "src1", "tile")
OPERAND_COLUMN = {"dst": 1, "src0": 2, "src1": 3}


@dataclass(frozen=True)
class RegionColumns:
    """The regions of a table's instructions in one space: those of instruction `i` from `first[i]` to `first[i + 1]`, reads
    before writes. `column` is where a row has the operand that a region is relative to; `offset` and `extent` are in bytes.
    """

    first: NDArray[np.int64]
    regions: list[Region]
    column: NDArray[np.int64]
    offset: NDArray[np.int64]
    extent: NDArray[np.int64]
    writes: NDArray[np.bool_]

    @classmethod
    def of(cls, entries: Sequence[tuple[int, Region, bool]], instructions: int) -> RegionColumns:
        """From (instruction, region, whether it is written), in order of instructions, of which there are so many."""
        owners = np.array([owner for owner, _, _ in entries], np.int64)
        regions = [region for _, region, _ in entries]
        return cls(
            np.searchsorted(owners, np.arange(instructions + 1)),
            regions,
            np.array([OPERAND_COLUMN[region.operand] for region in regions], np.int64),
            np.array([region.offset for region in regions], np.int64),
            np.array([region.extent for region in regions], np.int64),
            np.array([writes for _, _, writes in entries], np.bool_),
        )


class InstructionTable:
    """The distinct instructions of a task on one chip; `index[key]` is the row value of instruction `key`.

    `kind` is the kind of core where it decides the cost: vector-only cores beside AI Cores need a table of their own.
    `stamps` are those of the task's programs, `checked` the (kind of core, instruction) that were found to go together.
    """

    def __init__(self, chip: ChipSpec, kind: str = "") -> None:
        self.chip, self.kind = chip.seen_by(kind), kind
        self.index: dict[tuple[Any, ...], int] = {}
        self.stamps = Stamps()
        self.instructions: list[Instruction] = []
        self.pipes: list[int] = []
        self.kinds: list[int] = []
        self.costs: list[Cost] = []
        self.accesses: list[GmAccess | None] = []
        self._columns: dict[str, NDArray[np.int64]] = {}
        self._regions: dict[str, RegionColumns] = {}
        self._limits = np.zeros((3, len(OPERAND_COLUMN), 0), np.int64)
        self.checked: set[tuple[str, int]] = set()

    def add(self, key: tuple[Any, ...]) -> int:
        """Make the instruction `key` = (class, *parameters); raises SimError when the chip lacks its path, or for one that
        lasts longer than an engine counts.
        """
        instruction: Instruction = key[0](*key[1:])
        pipe = PIPE_INDEX[instruction.pipe(self.chip)]  # first: it refuses what the chip lacks, and says so best
        cost, access = instruction.cost(self.chip), instruction.gm_access(self.chip)
        head, scalar_time = max(cost.head_first, cost.head_stream), getattr(instruction, "cycles", 0)
        longest = max(head + cost.work, cost.latency, scalar_time)
        if longest > MOST_CYCLES:
            raise SimError(
                f"{instruction.name} lasts {longest} cycles on {self.chip.name}; at most {MOST_CYCLES}, or an engine's "
                f"int64 clock could wrap"
            )
        self.instructions.append(instruction)
        self.pipes.append(pipe)
        self.kinds.append(instruction.kind)
        self.costs.append(cost)
        self.accesses.append(access)
        self._columns.clear()
        self._regions.clear()
        self.index[key] = len(self.instructions) - 1
        return len(self.instructions) - 1

    def column(self, name: str) -> NDArray[np.int64]:
        """One property of every distinct instruction: "pipe", "kind", "head_first", "head_stream", "work", "latency"."""
        if name not in self._columns:
            if name == "pipe":
                values = self.pipes
            elif name == "kind":
                values = self.kinds
            else:
                values = [getattr(cost, name) for cost in self.costs]
            self._columns[name] = np.asarray(values, np.int64)
        return self._columns[name]

    def limits(self) -> NDArray[np.int64]:
        """What instructions ask of their addresses, [extent, capacity, unit][operand][instruction], in bytes.

        Bytes from an operand's address to the end of what it covers (0: there is no such operand), those of its buffer (-1: it
        is in GM), and what its address is a multiple of.
        """
        new = self.instructions[self._limits.shape[2] :]
        if new:
            self._limits = np.concatenate(
                (self._limits, np.stack([self._limits_of(one) for one in new], axis=-1)), axis=-1
            )
        return self._limits

    def _limits_of(self, instruction: Instruction) -> NDArray[np.int64]:
        found = np.zeros((3, len(OPERAND_COLUMN)), np.int64)
        found[2] = 1
        for region in (*instruction.reads(), *instruction.writes()):
            operand = OPERAND_COLUMN[region.operand] - 1
            capacity = -1 if region.space == "GM" else self.chip.buffers.get(region.space, 0)  # type: ignore[call-overload]
            unit = self.chip.alignment.unit(region.space)
            found[:, operand] = max(found[0, operand], region.extent), capacity, unit
        return found

    def regions(self, space: str) -> RegionColumns:
        """What the distinct instructions read and write in one buffer, or in "GM"."""
        if not self._regions:
            found: dict[str, list[tuple[int, Region, bool]]] = {}
            for index, instruction in enumerate(self.instructions):
                for writes, regions in ((False, instruction.reads()), (True, instruction.writes())):
                    for region in regions:
                        found.setdefault(region.space, []).append((index, region, writes))
            self._regions = {name: RegionColumns.of(entries, len(self.instructions)) for name, entries in found.items()}
        return self._regions.get(space) or RegionColumns.of([], len(self.instructions))


def ranges(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """`counts[i]` numbers that ascend from `first[i]`, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(first - before, counts)


@dataclass(frozen=True)
class InstructionView:
    """A readable copy of one row, made on demand."""

    index: int
    pipe: str
    instruction: Instruction
    dst: int
    src0: int
    src1: int
    tile: int

    def __str__(self) -> str:
        used = {region.operand for region in (*self.instruction.reads(), *self.instruction.writes())}
        spaces = {r.operand: r.space for r in (*self.instruction.reads(), *self.instruction.writes())}
        parts = []
        for operand in ("dst", "src0", "src1"):
            if operand in used:
                address = getattr(self, operand)
                if spaces[operand] == "GM":
                    parts.append(f"{operand}=GM[{address >> SLOT_SHIFT}]+{address & OFFSET_MASK:#x}")
                else:
                    parts.append(f"{operand}={spaces[operand]}+{address:#x}")
        fields = ", ".join(f"{k}={v}" for k, v in self.instruction.parameters().items())
        where = " ".join(parts)
        return f"{self.index} {self.pipe} {self.instruction.name} {where}{' ' if where else ''}({fields})"


@dataclass
class Program:
    """What one core of one block runs. `core_kind` is "AIC", "AIV" or "AI_CORE"; `sub_block` counts the AIVs of a block."""

    block: int
    core_kind: str
    sub_block: int
    table: InstructionTable
    rows: NDArray[np.int64]
    tiles: int = 0
    flags: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)
    notes: Notes | None = None
    """Where its rows came from, if it was inspected when it was built."""

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> InstructionView:
        argument, dst, src0, src1, tile = (int(value) for value in self.rows[index])
        instruction = self.table.instructions[argument]
        pipe = instruction.pipe(self.table.chip)
        return InstructionView(index % len(self.rows), pipe, instruction, dst, src0, src1, tile)

    def __iter__(self) -> Iterator[InstructionView]:
        return (self[index] for index in range(len(self)))

    def per_row(self, name: str) -> NDArray[np.int64]:
        """A property of the instruction table for every row."""
        return self.table.column(name)[self.rows[:, 0]]

    def accesses(self, space: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Row and region (a place in the table's `regions(space)`) of every access to `space`, in order of rows."""
        first, instruction = self.table.regions(space).first, self.rows[:, 0]
        counts = np.diff(first)[instruction]
        row = np.repeat(np.arange(len(self)), counts)
        return row, ranges(first[instruction], counts)

    def flag_names(self) -> set[str]:
        """Everything whose waits can be disarmed in its task."""
        cross = (i.flag for i in self.table.instructions if isinstance(i, CrossCoreWaitFlag))
        return {*self.flags, *map(cross_name, cross)}

    @property
    def issue_cycles(self) -> int:
        """What the scalar unit of its core needs for one instruction."""
        return self.table.chip.scalar.issue_cycles[self.core_kind]  # type: ignore[index]

    @property
    def where(self) -> str:
        """Block and core in words, for messages."""
        return f"block {self.block} {self.core_kind}{self.sub_block if self.core_kind == 'AIV' else ''}"

"""A Program: one int64 row per instruction (a `Sheet`), and the table of parameter objects that the rows point into.

A row is (instruction index, dst, src0, src1, tile). What follows from the parameters alone (pipe, cost, regions) is kept
once per distinct instruction in the `InstructionTable` of the task, so a row costs 40 bytes and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.base import PIPES, Cost, GmAccess, Instruction
from ascend_sim.isa.sync import CrossCoreWaitFlag, SetFlag, WaitFlag, cross_name
from ascend_sim.isa.vector.banks import PAIRS, cycles_at
from ascend_sim.kernel.described import TRAITS, DescribedInstruction, Key, ThisChip, described
from ascend_sim.kernel.inspection import Notes, SourceLines
from ascend_sim.kernel.sheet import Sheet
from ascend_sim.kernel.stamp import Stamps
from ascend_sim.kernel.touches import OPERAND_COLUMN, SPACES, Touches
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

_NONE = np.empty(0, np.int64)
_OF_INSTRUCTIONS = frozenset(("lead", "at_work", "reads_late", "has_values", "multiplies", "publishes"))
"""Columns of a table that are attributes of its instructions; others are of their costs, or computed."""
COLUMNS = ("instruction", "dst", "src0", "src1", "tile")


class InstructionTable:
    """The distinct instructions of a task on one chip; `index[key]` is the row value of instruction `key`.

    `kind` is the kind of core where it decides the cost: vector-only cores beside AI Cores need a table of their own.
    `stamps` are those of the task's programs, and `source` the lines that wrote them.
    """

    def __init__(self, chip: ChipSpec, kind: str = "") -> None:
        self.chip, self.kind = chip.seen_by(kind), kind
        self._this = ThisChip(self.chip)
        self.index: dict[Key, int] = {}
        self.stamps, self.source = Stamps(), SourceLines()
        self.flags_count = False
        self.instructions: list[Instruction] = []
        self.pipes: list[int] = []
        self.kinds: list[int] = []
        self.costs: list[Cost] = []
        self.accesses: list[GmAccess | None] = []
        self.disarmed: list[int] = []
        """Numbers of the waits that an experiment ignores."""
        self._columns: dict[str, NDArray[np.int64]] = {}
        self._conflicts = np.zeros((0, len(PAIRS), self.chip.vector.banks.groups), np.int64)
        self._flags: dict[tuple[str, str, int], int] = {}
        self._limits = np.zeros((0, len(OPERAND_COLUMN), 3), np.int64)
        self._unfit: dict[str, NDArray[np.bool_]] = {}
        self.copies: dict[tuple[str, str, int, int, int, int], bool] = {}
        """True if the chip has one instruction for rows, by from, to, bytes, rows and strides."""
        self.overlaps: dict[tuple[int, int, int], str] = {}
        """Faults of a source at a distance behind dst, by (instruction, operand, distance); "" for none."""
        self.apart: set[int] = set()
        """Stamps whose vector operands were found to lie as they may."""
        self.traits: set[str] = set()
        """Names of `TRAITS` that some instruction has."""
        self._described: list[DescribedInstruction] = []
        self._touches = Touches.together(())

    def add(self, key: Key) -> int:
        """Append the instruction `key`, which the table does not have yet, and return its number.

        Raises SimError for what the chip lacks or its instructions cannot express, for a field of another type, and for cycles
        or offsets too large for an engine.
        """
        one = described(self._this, *key)
        number = len(self.instructions)
        self.instructions.append(one.instruction)
        self.pipes.append(one.pipe)
        self.kinds.append(one.instruction.kind)
        if not getattr(one.instruction, "armed", True):
            self.disarmed.append(number)
        self.costs.append(one.cost)
        self.accesses.append(one.access)
        self._described.append(one)
        self.traits |= one.traits
        self.index[one.key] = number
        return number

    def on(self, chip: ChipSpec) -> InstructionTable:
        """Return a new table of the same instructions, in their order, with the costs of another chip. Raises SimError as
        `add`.
        """
        table = InstructionTable(chip, self.kind)
        for key in self.index:
            table.add(key)
        return table

    def column(self, name: str) -> NDArray[np.int64]:
        """Return an array with the property `name` of every distinct instruction, by its number in the table.

        Names: "pipe", "kind", the cycles of `Cost` ("head_first", "head_stream", "work", "latency"), of waits "lead", "at_work"
        and "by_unit_flag", "flag", the number of the flag that is set or waited for (-1: none), and flags 0 or 1: "reads_late",
        "has_values", "multiplies", "publishes", "paced" and the `TRAITS`.
        """
        known = self._columns.get(name, _NONE)
        if len(known) < len(self.instructions):
            more = np.asarray([self._property(name, number) for number in range(len(known), len(self.instructions))])
            known = self._columns[name] = np.concatenate((known, more))
        return known

    def _property(self, name: str, number: int) -> int:
        """Return the property `name` of one instruction, as `column` has it."""
        one = self.instructions[number]
        if name == "pipe":
            return self.pipes[number]
        if name == "kind":
            return self.kinds[number]
        if name == "flag":
            if not isinstance(one, SetFlag | WaitFlag):
                return -1
            return self._flags.setdefault((one.source, one.destination, one.flag), len(self._flags))
        if name in TRAITS:
            return int(name in self._described[number].traits)
        if name == "paced":
            return int(one.pace(self.chip) is not None)
        return int(getattr(one if name in _OF_INSTRUCTIONS else self.costs[number], name))

    def conflicts(self) -> NDArray[np.int64]:
        """Return [instruction][pair of operands, groups between them]: the cycles of bank conflicts (`banks.bank_cycles`).

        Kept, and extended when instructions were added.
        """
        known = len(self._conflicts)
        if known < len(self.instructions):
            more = np.zeros((len(self.instructions) - known, *self._conflicts.shape[1:]), np.int64)
            for cycles, one in zip(more, self._described[known:], strict=True):
                if one.conflicts is not None:
                    cycles[:] = one.conflicts
            self._conflicts = np.concatenate((self._conflicts, more))
        return self._conflicts

    def conflicts_of(self, number: int) -> NDArray[np.int64] | None:
        """Return the cycles of bank conflicts of one instruction, kept as long as the table; None if it has none."""
        return self._described[number].conflicts

    def limits(self) -> NDArray[np.int64]:
        """Return the limits of operands' addresses as [instruction][operand][extent, capacity, unit], in bytes.

        `extent`: from the address to the end of the bytes touched (0: no such operand). `capacity`: bytes of its buffer (-1: it
        is in GM). `unit`: the alignment of its address. Kept, and extended when instructions were added.
        """
        known = len(self._limits)
        if known < len(self.instructions):
            more = np.array([one.limits for one in self._described[known:]], np.int64)
            self._limits = np.concatenate((self._limits, more))
        return self._limits

    def unfit(self, core: str) -> NDArray[np.bool_]:
        """Return an array of bool: True for instructions that this kind of core cannot run, that move no bytes or that step
        backwards.

        A core cannot run an instruction on a pipe or buffer that it lacks.
        """
        found = self._unfit.get(core, np.zeros(0, np.bool_))
        known = len(found)
        if known < len(self.instructions):
            parts = self.chip.cores.kinds[core]  # type: ignore[index]
            more = [
                one.moves_nothing or PIPES[one.pipe] not in parts.pipes or not one.spaces.issubset(parts.buffers)
                for one in self._described[known:]
            ]
            found = self._unfit[core] = np.concatenate((found, more))
        return found

    def in_gm(self) -> NDArray[np.bool_]:
        """Return an array of bool at [instruction][operand], True for operands in GM."""
        limits = self.limits()
        return (limits[..., 0] > 0) & (limits[..., 1] < 0)

    def cross_flag_names(self) -> set[str]:
        """Return the names of the cross-core flags that instructions wait for."""
        return {cross_name(one.flag) for one in self.instructions if isinstance(one, CrossCoreWaitFlag)}

    @property
    def touches(self) -> Touches:
        """Return the regions that the distinct instructions read and write; extended when instructions were added."""
        known = len(self._touches.first) - 1
        if known < len(self.instructions):
            self._touches = self._touches.and_of([one.touched for one in self._described[known:]])
        return self._touches


def ranges(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return `counts[i]` ascending numbers from `first[i]`, one range after the other."""
    before = np.cumsum(counts) - counts
    return np.arange(counts.sum()) + np.repeat(first - before, counts)


def accesses(
    touches: Touches, instruction: NDArray[np.int64], chosen: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return two arrays for all accesses to the `chosen` regions of rows with these instructions, in order of rows: the index
    of each row, and that of the region in `touches`.
    """
    first = np.concatenate(([0], np.cumsum(chosen)))[touches.first]  # of each instruction among the chosen ones
    counts = np.diff(first)
    rows = np.flatnonzero((counts > 0)[instruction])
    which = instruction[rows]
    return np.repeat(rows, counts[which]), np.flatnonzero(chosen)[ranges(first[which], counts[which])]


@frozen
class InstructionView:
    """A row of a program in readable form: a copy with its instruction object, made on request."""

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


@mutable
class Program:
    """Program of one core of one block. `core_kind` is "AIC", "AIV" or "AI_CORE"; `sub_block` counts the AIVs of a block.

    `flags` is {name: (setting pipe, waiting pipe, id within the pair)}; `tiles` counts those that are `counted`.
    """

    block: int
    core_kind: str
    sub_block: int
    table: InstructionTable
    sheet: Sheet = field(repr=False)
    tiles: int = 0
    flags: Mapping[str, tuple[str, str, int]] = field(default_factory=dict)
    notes: Notes | None = None
    """Lines that wrote the rows, if the program was built under inspection."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Return an array with (instruction, dst, src0, src1, tile) of every row; made and kept as `Sheet.rows` says."""
        return self.sheet.rows

    def __repr__(self) -> str:
        return f"<Program of {self.where}: {len(self):,} instructions>"

    def __len__(self) -> int:
        return len(self.sheet)

    def __getitem__(self, index: int) -> InstructionView:
        argument, dst, src0, src1, tile = (int(value) for value in self.rows[index])
        instruction = self.table.instructions[argument]
        pipe = instruction.pipe(self.table.chip)
        return InstructionView(index % len(self), pipe, instruction, dst, src0, src1, tile)

    def __iter__(self) -> Iterator[InstructionView]:
        return (self[index] for index in range(len(self)))

    def per_row(self, name: str) -> NDArray[np.int64]:
        """Return for every row the property `name` of its instruction (`InstructionTable.column`)."""
        return self.table.column(name)[self.rows[:, 0]]

    def bank_cycles(self) -> NDArray[np.int64]:
        """Return [2][row]: the cycles by which conflicts over bank groups, or over banks, lengthen a row (`cycles_at`)."""
        conflicts = self.table.conflicts()
        found = np.zeros((2, len(self)), np.int64)
        rows = np.flatnonzero((conflicts.sum(axis=(1, 2)) > 0)[self.rows[:, 0]])
        addresses = {name: self.rows[rows, column] for name, column in OPERAND_COLUMN.items()}
        found[:, rows] = cycles_at(self.table.chip, conflicts[self.rows[rows, 0]], addresses)
        return found

    def accesses(self, *spaces: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return two arrays for all accesses to `spaces`, in order of rows: the row of each, and its index in `touches`."""
        asked = np.array([space in spaces for space in SPACES])
        return accesses(self.table.touches, self.rows[:, 0], asked[self.table.touches.columns["space"]])

    def with_rows(self, rows: NDArray[np.int64]) -> Program:
        """Return a copy of the program with other rows; table, flags, tiles and notes stay those of this one."""
        return replace(self, sheet=Sheet.of(rows))

    def counts(self) -> NDArray[np.int64]:
        """Return for each instruction of the table, by its number, how often it occurs in the program."""
        counts = self.sheet.counts()
        return np.concatenate((counts, np.zeros(len(self.table.instructions) - len(counts), np.int64)))

    def flag_names(self) -> set[str]:
        """Return the names of the flags whose waits can be disarmed: the program's own, and cross-core flags of its table."""
        return {*self.flags, *self.table.cross_flag_names()}

    @property
    def flag_max(self) -> int:
        """Return how often a flag can be set before a wait: the chip's limit, or 0 for no limit.

        There is no limit where the builder has already held the program to it in the order of issue
        (`InstructionTable.flags_count`), nor in an experiment with a disarmed wait in this program: flags then count on, so
        that endangered bytes show where the chip would hang.
        """
        disarmed = self.table.disarmed
        if self.table.flags_count:
            return 0
        return 0 if disarmed and self.counts()[disarmed].any() else self.table.chip.sync.flag_max

    @property
    def issue_cycles(self) -> int:
        """Return the cycles that the scalar unit needs to issue one instruction on this kind of core."""
        return self.table.chip.scalar.issue_cycles[self.core_kind]  # type: ignore[index]

    @property
    def where(self) -> str:
        """Return block, kind of core and number of the AIV in words, "block 3 AIV1", for messages."""
        return f"block {self.block} {self.core_kind}{self.sub_block if self.core_kind == 'AIV' else ''}"

"""Subject of a check: a task with its programs, their order, their accesses, and those that nothing orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field
from functools import cached_property

import numpy as np

from ascend_sim.check.accesses import Accesses, Shapes, gather
from ascend_sim.check.clocks import Clocks
from ascend_sim.check.findings import FindingPlace
from ascend_sim.check.halves import halves
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.questions import PARTS, Questions
from ascend_sim.check.regions import Stack, stacks
from ascend_sim.check.sharing import Pairs, pairs_among, sharing_pairs
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows, SyncRows
from ascend_sim.chip import ChipSpec
from ascend_sim.engine.task import Task
from ascend_sim.frozen import frozen, mutable
from ascend_sim.isa.base import PIPES
from ascend_sim.isa.vector.base import OPERANDS
from ascend_sim.kernel.execution_order import rows_in_order
from ascend_sim.kernel.inspection import Line, SourceLines
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import Allocation
from ascend_sim.numerics.distinct import distinct


class Needs:
    """Knowledge that keeps accesses in order: for each event of `order`, the rows of each pipe that must have retired.

    `own` has those of the event's own program, `others` those of other programs.
    """

    def __init__(self, order: TaskOrder) -> None:
        self.order, self.own = order, np.zeros_like(order.clocks.retired)
        self._others: list[Ints] = []

    def add(self, program: Ints, event: Ints, owner: Ints, rows: Ints) -> None:
        """Require that `rows[i]` rows of pipe `owner[i]` have retired at event `event[i]` of program `program[i]`."""
        mine = owner // WIDTH == program
        place = event[mine].astype(np.int64) * self.own.shape[1] + self.order.clocks.column[owner[mine] % WIDTH]
        np.maximum.at(self.own.reshape(-1), place, rows[mine])
        if not mine.all():
            self._others.append(np.stack((program[~mine], event[~mine], owner[~mine], rows[~mine])))

    @cached_property
    def others(self) -> Ints:
        """Return (programs, events, owners, rows) of all requirements on pipes of other programs, without repetitions.

        Computed at first use: later calls of `add` do not change it.
        """
        return distinct(np.concatenate([np.empty((4, 0), np.int64), *self._others], axis=1), axis=1)

    def enough(self, clocks: Clocks, part: Ints | None = None) -> bool:
        """Return True if by the clocks all required rows have retired, at all events or only at those of `part`, the ascending
        indices of events (their numbers - 1).
        """
        here = slice(None) if part is None else part + 1
        if (clocks.retired[here] < self.own[here]).any():
            return False
        program, event, owner, rows = self.others
        if part is not None:
            mine = np.searchsorted(part + 1, event)
            mine = np.flatnonzero(np.append(part + 1, 0)[mine] == event)
            program, event, owner, rows = program[mine], event[mine], owner[mine], rows[mine]
        return bool((clocks.at(program, event, owner) >= rows).all())


MOST_TOLD = 20_000
"""Pairs of a space that are looked at: one forgotten flag of a long loop makes many alike."""


@frozen(eq=False)
class Disorder:
    """Accesses to one space that nothing orders: at most `MOST_TOLD` pairs (`first[i]`, `second[i]`), and all racing
    `footprints`.
    """

    first: Ints
    second: Ints
    footprints: Ints


@mutable
class Subject:
    """One task under check: its programs, and what is computed of them at first use; it is launch number `index`.

    `shapes` are shared by all tasks of a check.
    """

    chip: ChipSpec
    task: Task
    programs: Sequence[Program]
    shapes: Shapes
    index: int = 0
    _lines: dict[Line, int] = field(default_factory=dict)
    _sources: dict[int, tuple[SourceLines, list[int]]] = field(default_factory=dict)

    @cached_property
    def synced(self) -> list[SyncRows]:
        """Return for each program its rows that synchronise."""
        return [SyncRows(program) for program in self.programs]

    def stacks(self) -> Iterator[Stack]:
        """Return the rows of all programs of the task in stacks (`regions.stacks`), a new iterator each time."""
        return stacks(enumerate(self.programs))

    @cached_property
    def order(self) -> TaskOrder:
        """Return the order that flags and barriers impose on the task's rows, computed once."""
        return TaskOrder(self.task, self.synced)

    @cached_property
    def accesses(self) -> dict[str, Accesses]:
        """Return {space: accesses of all programs to it}."""
        return gather(self.stacks(), self.synced, self.shapes, self.task.tensors)

    @cached_property
    def pairs(self) -> dict[str, Pairs | None]:
        """Return {space: pairs of footprints that share a byte and must be in order}; None for too many: see `halves`."""
        return {space: sharing_pairs(a, self.shapes) for space, a in self.accesses.items()}

    @cached_property
    def disorder(self) -> dict[str, Disorder]:
        """Return {space: the accesses to it that nothing orders}; computing it also fills `needs`."""
        return {space: self._disorder(space) for space in self.accesses}

    @cached_property
    def _racing(self) -> dict[str, set[int]]:
        """Return {space: the footprints that race}."""
        return {space: set(found.footprints.tolist()) for space, found in self.disorder.items()}

    def races(self, space: str, footprint: int) -> bool:
        """Return True if the footprint takes part in a race of the space."""
        return footprint in self._racing[space]

    @property
    def needs(self) -> list[Needs]:
        """Return the knowledge that keeps the task's accesses in order, a Needs for L0C and one for others if they differ."""
        assert self.disorder is not None  # computing it has filled the needs
        return self._needs

    @cached_property
    def _needs(self) -> list[Needs]:
        order = self.order
        return [Needs(one) for one in ([order] if order.beside_tiles is order else [order, order.beside_tiles])]

    def need(self, space: str, questions: Questions) -> bool:
        """Add the knowledge that orders the accesses asked about to `needs` and return True.

        Returns False if some are in no order; a part of the knowledge may then have been added.
        """
        for need in questions.needs(self.order.clocks_in(space)):
            if need is None:
                return False
            self._needs[0 if space == "L0C" else -1].add(*need)
        return True

    def _disorder(self, space: str) -> Disorder:
        """Return the accesses to a space that nothing orders: at most `MOST_TOLD` pairs, but all footprints that race.

        If there are none, `needs` gets the knowledge that orders the accesses, else only a part of it. Where pairs are too
        many, they are asked for halves of the bytes (`halves`), and pairs are then listed among racing footprints only.
        """
        a, pairs, clocks = self.accesses[space], self.pairs[space], self.order.clocks_in(space)
        none = np.empty(0, np.int64)
        if pairs is not None:
            questions = Questions.of_pairs(a, *pairs)
            b, x = (none, none) if self.need(space, questions) else questions.unordered(clocks)
            return Disorder(b[:MOST_TOLD], x[:MOST_TOLD], distinct(a.footprint[np.concatenate((b, x))]))
        racing = [none]
        for some in halves(a, self.shapes, clocks.group):
            questions = Questions.of_pairs(some.accesses, *some.pairs)
            racing.append(some.apart)
            if not self.need(space, questions):
                racing.append(a.footprint[some.of[questions.racing(clocks)]])
        chosen = distinct(np.concatenate(racing))
        first, second, left = [none], [none], MOST_TOLD
        parts = PARTS if len(distinct(a.owner[chosen])) > 1 else PARTS[1:]
        for part, pair in ((part, pair) for part in parts for pair in pairs_among(a, self.shapes, chosen)):
            b, x = Questions.of_pairs(a, *pair, (part,)).unordered(clocks, left)
            first.append(b)
            second.append(x)
            left -= len(b)
            if not left:
                break
        return Disorder(np.concatenate(first), np.concatenate(second), chosen)

    @cached_property
    def ranks(self) -> dict[int, Ints]:
        """Return {program: array with the place of each of its rows in an order of execution that flags allow}.

        Programs that can run in their order of issue are left out.
        """
        if self.order.matches.in_rows:
            return {}
        orders = {number: rows_in_order(program) for number, program in enumerate(self.programs)}
        return {number: np.argsort(found[0]) for number, found in orders.items() if found is not None}

    def place(self, program: int, row: int, access: str = "", address: int | None = None) -> FindingPlace:
        """Return row `row` of program number `program` as the place of a finding, with its source line if that was noted;
        `access` ("read", "write") and `address` are the finding's.
        """
        one = self.programs[program]
        view, notes = one[row], one.notes
        line = None if notes is None else notes.line(row)
        return FindingPlace(
            one.block,
            one.core_kind,
            one.sub_block if one.core_kind == "AIV" else 0,
            view.pipe,
            row,
            view.instruction.name,
            access,
            address,
            line,
            task=self.index,
            call="" if notes is None or line is None else notes.text(line),
        )

    def line_key(self, program: int, row: int) -> tuple[object, ...]:
        """Return a key that is equal for rows of the same kind of core, source line, instruction name and pipe."""
        one = self.programs[program]
        line = None if one.notes is None else one.notes.line(row)
        return (one.core_kind, line, one.table.instructions[int(one.rows[row, 0])].name, int(self.synced[program].pipe[row]))

    def chooses_from(self, program: int, row: int, address: int) -> bool:
        """Return True if a row reads, at `address`, only elements that values choose."""
        one = self.programs[program]
        operand = one.table.instructions[int(one.rows[row, 0])].chooses
        return bool(operand) and int(one.rows[row, 1 + OPERANDS.index(operand)]) == address

    def lines(self, program: int, rows: Ints | Rows) -> Ints:
        """Return the numbers of the source lines that wrote `rows` of a program, the same in all programs; -1 for none."""
        notes = self.programs[program].notes
        if notes is None:
            return np.full(len(rows), -1)
        held, numbers = self._sources.get(id(notes.source), (notes.source, [-1]))
        for line in notes.source.lines[len(numbers) - 1 :]:
            numbers.insert(-1, self._lines.setdefault(line, len(self._lines)))
        self._sources[id(held)] = held, numbers
        return np.asarray(numbers)[notes.numbers(rows)]

    def line_keys(self, program: Ints | Rows, row: Ints | Rows) -> Ints:
        """Return a number for each (program, row): two are equal where `line_key` is equal."""
        keys = np.empty((4, len(row)), np.int64)
        kinds: dict[str, int] = {}
        names: dict[str, int] = {}
        of_table: dict[int, Ints] = {}
        order = np.argsort(program, kind="stable")
        first = np.flatnonzero(np.diff(program[order], prepend=-1))
        for mine in np.split(order, first[1:]):
            one, synced = self.programs[program[mine[0]]], self.synced[program[mine[0]]]
            table = one.table
            if id(table) not in of_table:
                of_table[id(table)] = np.asarray([names.setdefault(i.name, len(names)) for i in table.instructions])
            keys[0, mine] = kinds.setdefault(one.core_kind, len(kinds))
            keys[1, mine] = self.lines(int(program[mine[0]]), row[mine])
            keys[2, mine] = of_table[id(table)][one.rows[row[mine], 0]]
            keys[3, mine] = synced.pipe[row[mine]]
        return np.unique(keys, axis=1, return_inverse=True)[1].ravel()

    def slots(self, address: Ints) -> Ints:
        """Return the slot of the task's tensor at each GM address, the last where tensors overlap; -1 for none."""
        tensors = [(number, tensor) for number, tensor in enumerate(self.task.tensors) if tensor.size]
        tensors.sort(key=lambda entry: entry[1].base)
        base = np.asarray([tensor.base for _, tensor in tensors], np.int64)
        end = base + np.asarray([tensor.size for _, tensor in tensors], np.int64)
        if (base[1:] < end[:-1]).any():  # of overlapping tensors the last one
            found = np.full(len(address), -1)
            for number, tensor in enumerate(self.task.tensors):
                found[(address >= tensor.base) & (address < tensor.base + tensor.size)] = number
            return found
        at = np.searchsorted(base, address, side="right") - 1
        numbers = np.asarray([*(number for number, _ in tensors), -1], np.int64)
        return np.where(address < np.append(end, 0)[at], numbers[at], -1)

    def tensor_at(self, address: int) -> tuple[Allocation | None, int]:
        """Return (first tensor of the task at an address of GM, offset in it); (None, address) where none lies there.

        An empty tensor counts as one byte.
        """
        for tensor in self.task.tensors:
            if tensor.base <= address < tensor.base + max(tensor.size, 1):
                return tensor, address - tensor.base
        return None, address

    def name_at(self, space: str, address: int, program: int) -> str:
        """Return the name of the tensor in GM, or of the allocation in a program's buffer, at an address; "" for none."""
        if space == "GM":
            tensor, _ = self.tensor_at(address)
            return "" if tensor is None else tensor.name
        notes = self.programs[program].notes
        held = [] if notes is None else notes.allocated
        return next((one.name for one in held if one.buffer == space and one.start <= address < one.start + one.size), "")

    def spot(self, space: str, address: int) -> str:
        """Return an address in words: "0x40 on L1 in TASK", or with tensor and offset "0x1040 on GM in TASK, weight+0x40"
        (without them where no tensor lies there).
        """
        if space != "GM":
            return f"{address:#x} on {space} in {self.task.name}"
        tensor, offset = self.tensor_at(address)
        return f"{address:#x} on GM in {self.task.name}" + (f", {tensor.name}+{offset:#x}" if tensor is not None else "")


def pipe_of(owner: int) -> str:
    """Return the name of a pipe from an owner's number (program * WIDTH + pipe)."""
    return PIPES[owner % len(PIPES)]

"""Hazards: accesses in flight at the same time to the same bytes, at least one of them a write.

An access is in flight from its start to its retirement. On one pipe only a read or write of bytes that an earlier,
unretired instruction writes counts (reading before a later write is in order); Mmads that share a large L0C tile
interlock, and atomics to the same bytes are ordered by the L2. A product and a drain with the unit flag may be at one tile
of L0C together as long as neither can overtake the other.

This is how numpy finds them in the columns of programs; C finds the same while it runs or afterwards (compiled/hazards.c).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task, order_of, task_of
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.engine.values import Access, Clash, Finding
from ascend_sim.frozen import frozen
from ascend_sim.isa.cube import Mmad
from ascend_sim.kernel.program import InstructionTable, InstructionView
from ascend_sim.kernel.touches import SPACES, operand_values
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.memory.regions import overlap
from ascend_sim.numerics.distinct import distinct

LIMIT = 200
"""Most hazards that are reported for each task; all are counted. One forgotten flag can make hundreds of thousands."""

HAZARD = np.dtype(
    [(name, np.int64, 2) for name in ("program", "table", "row", "writes")]
    + [("values", np.int64, (2, 5))]
    + [(name, np.int64) for name in ("space", "low", "high", "start", "retire")]
)
"""Record of one hazard. Pairs are (earlier, later access): order of its program, its table's number, row, True if it writes,
row's values.

Then the space (index in SPACES), the first byte and the end of the bytes that both touch, the later one's start, the earlier
one's retirement.
"""


@frozen(eq=False)
class Hazards:
    """Hazards by the later access, then the earlier one: `total` counts all, `records` (dtype HAZARD) are the first of them."""

    records: NDArray[np.void]
    total: int

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hazards):
            return NotImplemented
        return self.total == other.total and self.records.tobytes() == other.records.tobytes()


NO_HAZARDS = Hazards(np.empty(0, HAZARD), 0)


@frozen
class TimedAccesses:
    """Accesses of one or more programs as columns, by start, program and row; `owner` is a place in `orders` and `tables`."""

    orders: NDArray[np.int64]
    tables: Sequence[tuple[int, InstructionTable]]
    owner: NDArray[np.int64]
    row: NDArray[np.int64]
    place: NDArray[np.int64]
    values: NDArray[np.int64]
    address: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    retire: NDArray[np.int64]

    @classmethod
    def of(cls, run: ProgramRun, table: int, bases: Sequence[int], *spaces: str) -> TimedAccesses:
        """Return the accesses of one program to `spaces`; `table` is its table's number, `bases` its tensors' addresses."""
        program = run.program
        row, place = program.accesses(*spaces)
        values = np.asarray(program.rows)[row]
        touch = program.table.touches.columns[place]
        address = operand_values(values, np.arange(len(row)), touch["column"])
        in_gm = touch["space"] == 0
        slots = np.asarray([*bases, 0], np.int64)
        address = np.where(in_gm, slots[np.where(in_gm, address >> SLOT_SHIFT, 0)] + (address & OFFSET_MASK), address)
        order = np.array([order_of(run.task, program)], np.int64)
        columns = np.zeros(len(row), np.int64), row, place, values, address
        times = run.start[row], run.end[row], run.retire[row]
        return cls(order, [(table, program.table)], *columns, *times).sorted()

    @classmethod
    def joined(cls, parts: Sequence[TimedAccesses]) -> TimedAccesses:
        """Return the accesses of several programs as one, sorted."""
        owner = np.concatenate([np.full(len(part.row), i) for i, part in enumerate(parts)])
        names = ("row", "place", "values", "address", "start", "end", "retire")
        columns = [np.concatenate([getattr(part, name) for part in parts]) for name in names]
        orders = np.concatenate([part.orders for part in parts])
        return cls(orders, [table for part in parts for table in part.tables], owner, *columns).sorted()

    def sorted(self) -> TimedAccesses:
        """Return a copy sorted by start, program, row and place in the instruction."""
        order = np.lexsort((self.place, self.row, self.orders[self.owner], self.start))
        names = ("owner", "row", "place", "values", "address", "start", "end", "retire")
        return TimedAccesses(self.orders, self.tables, *(getattr(self, name)[order] for name in names))

    def touched(self, name: str) -> NDArray[np.int64]:
        """Return column `name` of the instruction tables' `touches`, for every access."""
        column = np.zeros(len(self.row), np.int64)
        for owner, (_, table) in enumerate(self.tables):
            mine = self.owner == owner
            column[mine] = table.touches.columns[name][self.place[mine]]
        return column

    def pipes(self) -> NDArray[np.int64]:
        """Return the number of the pipe for every access."""
        column = np.zeros(len(self.row), np.int64)
        for owner, (_, table) in enumerate(self.tables):
            mine = self.owner == owner
            column[mine] = table.column("pipe")[self.values[mine, 0]]
        return column

    def hazards(self) -> NDArray[np.void]:
        """Return all hazards among the accesses as records (HAZARD), by the later access and then the earlier one."""
        space, writes, ordered = (self.touched(name) for name in ("space", "writes", "ordered"))
        low, high = (self.address + self.touched(name) for name in ("offset", "extent"))
        pipe = self.pipes()
        pairs = [np.empty((0, 2), np.int64)]
        for number in distinct(space).tolist():
            mine = np.flatnonzero(space == number)
            pairs.append(self._sweep(mine, low, high, writes, ordered, pipe, number == SPACES.index("L0C")))
        found = np.concatenate(pairs)
        found = found[np.lexsort((found[:, 0], found[:, 1]))]
        records = np.zeros(len(found), HAZARD)
        numbers = np.array([number for number, _ in self.tables], np.int64)
        early, late = found.T
        owner = self.owner[found]
        records["program"], records["table"] = self.orders[owner], numbers[owner]
        records["row"], records["writes"], records["values"] = self.row[found], writes[found], self.values[found]
        records["space"], records["start"], records["retire"] = space[late], self.start[late], self.retire[early]
        records["low"], records["high"] = np.maximum(low[early], low[late]), np.minimum(high[early], high[late])
        return records

    def _sweep(
        self,
        chosen: NDArray[np.int64],
        low: NDArray[np.int64],
        high: NDArray[np.int64],
        writes: NDArray[np.int64],
        ordered: NDArray[np.int64],
        pipe: NDArray[np.int64],
        in_l0c: bool,
    ) -> NDArray[np.int64]:
        """Return the hazards among the accesses `chosen` as pairs (earlier, later).

        Each access is compared with those that start while it is in flight; `in_l0c` marks L0C, where a drain may follow its
        product by the unit flag.
        """
        start, retire = self.start[chosen], self.retire[chosen]
        pairs = [np.empty((0, 2), np.int64)]
        lag = 1
        # They are in order of their starts: who meets somebody so far ahead meets all between.
        while len(near := np.flatnonzero(start[lag:] < retire[:-lag])):
            e, l = chosen[near], chosen[near + lag]  # noqa: E741 - earlier and later
            both = (low[l] < high[e]) & (low[e] < high[l]) & ((writes[e] | writes[l]) > 0) & ((ordered[e] & ordered[l]) == 0)
            same = (self.owner[e] == self.owner[l]) & (pipe[e] == pipe[l])
            both &= ~same | ((writes[e] > 0) & (self.row[e] != self.row[l]))
            touch = [
                (one, other)
                for one, other in zip(e[both].tolist(), l[both].tolist(), strict=True)
                if self._meet(one, other) and not (in_l0c and self._in_step(one, other))
            ]
            pairs.append(np.array(touch, np.int64).reshape(-1, 2))
            lag += 1
        return np.concatenate(pairs)

    def _in_step(self, early: int, late: int) -> bool:
        """Return True if two accesses to L0C are a product and a drain with the unit flag, and neither overtakes the other."""
        (_, first), (_, second) = (self.tables[self.owner[i]] for i in (early, late))
        one, other = first.instructions[self.values[early, 0]], second.instructions[self.values[late, 0]]
        a, b = one.pace(first.chip), other.pace(second.chip)
        if a is None or b is None or isinstance(one, Mmad) == isinstance(other, Mmad):
            return False
        over = self.retire[early] if isinstance(one, Mmad) else self.end[early] - b.head
        return bool(self.start[late] >= over - (a.overlap(b) if self.address[early] == self.address[late] else 0))

    def _meet(self, early: int, late: int) -> bool:
        """Return True if both accesses share a byte; so far only their hulls were compared."""
        one, other = (self.tables[self.owner[i]][1].touches.regions[self.place[i]] for i in (early, late))
        return overlap(one, other, int(self.address[late] - self.address[early]))


class HazardList:
    """Hazards of a run's programs, added as blocks end in any order; not many more are held than will be reported."""

    def __init__(self) -> None:
        self._of_program: dict[int, list[tuple[int, Hazards]]] = {}
        self._total: dict[int, int] = {}

    def add(self, order: int, hazards: Hazards) -> None:
        """Add the hazards in the local buffers of one program, with its `order_of`."""
        if not hazards.total:
            return
        task = task_of(order)
        self._total[task] = self._total.get(task, 0) + hazards.total
        held = self._of_program.setdefault(task, [])
        held.append((order, hazards))
        if len(held) > 2 * LIMIT:
            held.sort(key=lambda one: one[0])
            del held[LIMIT:]  # each has one at least: the first ones are enough

    def findings(
        self, tasks: Sequence[Task], in_gm: Mapping[int, Hazards], tables: Sequence[InstructionTable]
    ) -> list[Finding]:
        """Return the findings task by task: up to LIMIT hazards, inside programs first, then in GM; then one on how many more,
        if any.
        """
        findings = []
        for index, task in enumerate(tasks):
            shared = in_gm.get(index, NO_HAZARDS)
            total = self._total.get(index, 0) + shared.total
            parts = [hazards.records for _, hazards in sorted(self._of_program.get(index, ()), key=lambda one: one[0])]
            for record in np.concatenate([*parts, shared.records])[:LIMIT]:
                findings.append(Finding("hazard", task.name, _words(record, tasks, tables), clash=_clash(record)))
            if total > LIMIT:
                findings.append(Finding("hazard", task.name, f"{total - LIMIT} more hazards; the first {LIMIT} are listed"))
        return findings


def _clash(record: np.void) -> Clash:
    """Return a hazard's record as a Clash."""
    early, late = (
        Access(int(record["program"][place]), int(record["row"][place]), bool(record["writes"][place])) for place in (0, 1)
    )
    low, high, start, retire = (int(record[name]) for name in ("low", "high", "start", "retire"))
    return Clash(early, late, SPACES[record["space"]], low, high, start, retire)


def _words(record: np.void, tasks: Sequence[Task], tables: Sequence[InstructionTable]) -> str:
    """Return a hazard's record in words: both accesses with core and instruction, the bytes and the cycles."""
    said = []
    for place in (0, 1):
        table, order, row = tables[record["table"][place]], int(record["program"][place]), int(record["row"][place])
        argument, dst, src0, src1, tile = record["values"][place].tolist()
        instruction = table.instructions[argument]
        pipe = instruction.pipe(table.chip)
        view = InstructionView(row, pipe, instruction, dst, src0, src1, tile)
        verb = "writes" if record["writes"][place] else "reads"
        said.append((f"{tasks[task_of(order)].where(order)}", f"{pipe} {view}", verb))
    (early, first, before), (late, second, verb) = said
    return (
        f"{late}: {second} {verb} {SPACES[record['space']]} bytes {record['low']} to {record['high']} from cycle "
        f"{record['start']}, while {early} {first} {before} them until cycle {record['retire']}"
    )

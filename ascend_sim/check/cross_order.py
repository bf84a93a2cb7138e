"""Flags between the cores of a task: which programs raise them, which wait, and which sets are left over."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np

from ascend_sim.check.sync_rows import Ints, Rows, SyncFaults, SyncRows, Unpaired
from ascend_sim.isa.base import CROSS_SET
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, CrossCounter, cross_counter, cross_members


class Walker(Protocol):
    """Interface of a walk over one program, as `CrossMatches` uses it: the program's number `index`, and `free_pass`.

    With `free_pass`, which ends a deadlock, its waits pass before their sets.
    """

    index: int
    free_pass: bool


class Meetings:
    """The programs of a task that raise, and those that wait for, each cross-core counter, as in `engine.cross.CrossFlags`."""

    def __init__(self, synced: Sequence[SyncRows]) -> None:
        self.synced = synced
        self.cores = [(one.program.block, one.program.core_kind, one.program.sub_block) for one in synced]
        self._of_block: dict[int, list[int]] = {-1: list(range(len(synced)))}
        for index, (block, _, _) in enumerate(self.cores):
            self._of_block.setdefault(block, []).append(index)
        self._members: dict[tuple[CrossCounter, bool], list[int]] = {}
        self._groups: dict[tuple[int, int], CrossCounter] = {}
        self._missing: dict[tuple[CrossCounter, int], tuple[str, ...]] = {}

    def group(self, index: int, code: int) -> CrossCounter:
        """Return the cross-core counter that instruction `code` of program `index` raises or waits for."""
        known = self._groups.get((index, code))
        if known is None:
            flag = self.synced[index].instructions[code]
            assert isinstance(flag, CrossCoreSetFlag | CrossCoreWaitFlag)
            known = self._groups[index, code] = cross_counter(flag, self.cores[index])
        return known

    def setters(self, group: CrossCounter) -> list[int]:
        """Return the programs that must all raise a counter before a wait for it ends."""
        return self._of(group, waiters=False)

    def waiters(self, group: CrossCounter) -> list[int]:
        """Return the programs that may wait for a counter."""
        return self._of(group, waiters=True)

    def _of(self, group: CrossCounter, waiters: bool) -> list[int]:
        known = self._members.get((group, waiters))
        if known is None:
            there = self._of_block.get(group[3], [])
            found = cross_members(group, [self.cores[index] for index in there], waiters)
            known = self._members[group, waiters] = [there[index] for index in found]
        return known

    @cached_property
    def total(self) -> dict[CrossCounter, dict[int, int]]:
        """Return {counter: {program: number of times that it raises its part}}."""
        found: dict[CrossCounter, dict[int, int]] = {}
        for index, one in enumerate(self.synced):
            codes, times = np.unique(one.code[one.kind == CROSS_SET], return_counts=True)
            for code, count in zip(codes.tolist(), times.tolist(), strict=True):
                counts = found.setdefault(self.group(index, code), {})
                counts[index] = counts.get(index, 0) + count
        return found

    @cached_property
    def turns(self) -> dict[CrossCounter, int]:
        """Return {counter: number of complete turns}: the times that every one of its setters raises it."""
        return {group: min((counts.get(i, 0) for i in self.setters(group)), default=0) for group, counts in self.total.items()}

    def missing(self, group: CrossCounter, turn: int) -> tuple[str, ...]:
        """Return the cores, in words, that never raise a counter's turn `turn` (from 0): () if all do, ("any core",) without
        setters.
        """
        if turn < self.turns.get(group, 0):
            return ()
        if (group, turn) not in self._missing:
            counts, setters = self.total.get(group, {}), self.setters(group)
            found = tuple(self.synced[i].program.where for i in setters if counts.get(i, 0) <= turn)
            self._missing[group, turn] = found if setters else ("any core",)
        return self._missing[group, turn]


class Counter:
    """State of one cross-core counter during the walk: sets that each program made (`parts`), waits passed, complete turns."""

    def __init__(self, setters: Sequence[int], waiters: Sequence[int]) -> None:
        self.setters, self.waiters = setters, waiters
        self.parts: dict[int, array[int]] = {index: array("i") for index in setters}
        self.taken: dict[int, array[int]] = {index: array("i") for index in waiters}
        self.arrived: list[int] = []
        self.released: list[int] = []
        self.asleep: dict[int, set[int]] = {}

    @property
    def rounds(self) -> int:
        """Return the number of times that all setters have raised the counter."""
        return min(map(len, self.parts.values()))


class CrossMatches:
    """Pairs of sets and waits between cores, filled during the walk; rows are numbers in `SyncItems`.

    `released` has for each complete turn of a counter its sets, one of each setter, and `of` the counter. `partner` has for
    each wait the place in `released` of the turn that ends it.
    """

    def __init__(self, meetings: Meetings, row: Rows, partner: Rows, faults: SyncFaults) -> None:
        self.meetings, self.row, self.partner, self.faults = meetings, row, partner, faults
        self.maximum = meetings.synced[0].program.table.chip.sync.cross_flag_max if meetings.synced else 0
        self.raised: list[Counter] = []
        self.released: list[list[int]] = []
        self.of: list[CrossCounter] = []
        self.woken: list[int] = []
        """Programs whose waits were released since this list was last emptied."""
        self._counters: dict[CrossCounter, Counter] = {}
        self._met: dict[tuple[int, int], tuple[CrossCounter, Counter]] = {}

    def _counter(self, index: int, code: int) -> tuple[CrossCounter, Counter]:
        """Return (key, state) of the counter that instruction `code` of program `index` raises or waits for."""
        known = self._met.get((index, code))
        if known is None:
            group = self.meetings.group(index, code)
            counter = self._counters.get(group)
            if counter is None:
                counter = self._counters[group] = Counter(self.meetings.setters(group), self.meetings.waiters(group))
            known = self._met[index, code] = group, counter
        return known

    def set(self, index: int, item: int, code: int) -> None:
        """Record that row `item` of program `index` raises a counter's part; a complete turn wakes the waiting programs."""
        group, counter = self._counter(index, code)
        raised, arrived = counter.parts[index], counter.arrived
        turn = len(raised)
        raised.append(item)
        if turn == len(arrived):
            if not turn:
                self.raised.append(counter)
            arrived.append(0)
        arrived[turn] += 1
        if arrived[turn] == len(counter.setters):
            counter.released.append(len(self.released))
            self.released.append([counter.parts[i][turn] for i in counter.setters])
            self.of.append(group)
            if counter.asleep:
                self.woken += counter.asleep.pop(turn, ())

    def wait(self, walk: Walker, item: int, code: int) -> bool:
        """Pass a program's wait for a cross-core flag and return True. Return False while the flag is not raised; the program
        is then noted, to be woken.

        Disarmed waits always pass, and in a `free_pass` also those whose flag is not raised. A wait for a turn that some setter
        never raises is recorded as a fault and passes.
        """
        group, counter = self._counter(walk.index, code)
        taken = counter.taken[walk.index]
        turn = len(taken)
        if self.meetings.synced[walk.index].instructions[code].armed:  # type: ignore[attr-defined]
            if turn < len(counter.released):
                self.partner[item] = counter.released[turn]
            elif missing := self.meetings.missing(group, turn):
                self.faults.waits.append(Unpaired(walk.index, int(self.row[item]), 1, missing))
            elif not walk.free_pass:
                counter.asleep.setdefault(turn, set()).add(walk.index)
                return False
        taken.append(item)
        return True

    def count(self) -> None:
        """Record as faults the counters with more sets than waits after the walk, and parts of turns that never come."""
        for counter in self.raised:
            rounds, parts = counter.rounds, counter.parts
            late = tuple(self.meetings.synced[i].program.where for i in counter.setters if len(parts[i]) == rounds)
            for i in counter.setters:
                if len(parts[i]) > rounds:  # its part of a turn that never comes
                    self.faults.sets.append(Unpaired(i, int(self.row[parts[i][rounds]]), len(parts[i]) - rounds, late))
            for waiter in counter.waiters:
                left = rounds - len(counter.taken[waiter])
                if left > 0:
                    first, where = counter.setters[0], (self.meetings.synced[waiter].program.where,)
                    self.faults.sets.append(Unpaired(first, int(self.row[parts[first][-1]]), left, where, True))

    @cached_property
    def counted(self) -> tuple[Ints, Ints, Ints]:
        """Return three arrays for the sets that could raise a counter beyond its maximum: the set, the wait that must pass
        before it, and a number.

        A wait is -1 if the waiter has none. Entries with equal numbers belong to the same counter and waiting program.
        """
        sets, waits, numbers = array("i"), array("i"), array("i")
        number = 0
        for counter in self.raised:
            late = counter.parts[counter.setters[0]][self.maximum : counter.rounds]
            for waiter in counter.waiters if late else ():
                taken = counter.taken[waiter][: len(late)]
                sets += late
                waits += taken + array("i", [-1]) * (len(late) - len(taken))
                numbers += array("i", [number]) * len(late)
                number += 1
        return np.asarray(sets, np.int64), np.asarray(waits, np.int64), np.asarray(numbers, np.int64)

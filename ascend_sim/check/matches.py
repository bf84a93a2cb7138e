"""Pairs of sets and waits in the programs of one task, by turns; no cost of an instruction matters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.cross_order import CrossMatches, Meetings
from ascend_sim.check.sync_rows import Ints, Rows, SyncFaults, SyncRows, Unpaired
from ascend_sim.check.walk import CrossWalk, ProgramWalk
from ascend_sim.isa.base import CROSS_SET, CROSS_WAIT, DISARMED, SET, WAIT
from ascend_sim.numerics.distinct import distinct

Walk = TypeVar("Walk", CrossWalk, ProgramWalk)


class SyncItems:
    """All rows of a task's programs that synchronise, as columns; flags inside cores have numbers over all programs."""

    def __init__(self, synced: Sequence[SyncRows]) -> None:
        lengths = [len(one.rows) for one in synced]
        self.first: list[int] = np.cumsum([0, *lengths]).tolist()
        self.program = np.repeat(np.arange(len(synced), dtype=np.int32), lengths)
        none = [np.empty(0, np.int32)]
        self.row: Rows = np.concatenate([*none, *(one.rows for one in synced)])
        self.kind: NDArray[np.int8] = np.concatenate([np.empty(0, np.int8), *(one.kind for one in synced)])
        self.pipe: NDArray[np.int8] = np.concatenate([np.empty(0, np.int8), *(one.pipe[one.rows] for one in synced)])
        self.place: Rows = np.concatenate([*none, *(one.place[one.rows] for one in synced)])
        self.code: Rows = np.concatenate([*none, *(one.code for one in synced)])
        self.flag = np.cumsum([0, *(len(one.names) for one in synced)])
        """The first number of each program's flags among those of all programs."""

    def __len__(self) -> int:
        return len(self.row)

    def flags(self, items: Ints) -> Ints:
        """Return for each of the rows `items` the number, over all programs, of the inner flag that it sets or waits for."""
        return self.flag[self.program[items]] + self.code[items]


class Matches:
    """Pairs of waits and the sets that end them in a task, by numbers in `SyncItems`, with the faults found on the way.

    `partner` has for each wait its set; for a wait between cores the place in `cross.released`; -1 where nothing ends it.
    """

    def __init__(self, synced: Sequence[SyncRows]) -> None:
        self.synced, self.items = synced, SyncItems(synced)
        items, self._meetings = self.items, Meetings(synced)
        self._sets, self._first_set = self._by_flag(np.flatnonzero(items.kind == SET))
        self._takes, self._first_take = self._by_flag(np.flatnonzero(np.isin(items.kind, (WAIT, DISARMED))))
        self._begin()
        self.in_rows = self._in_rows()
        """True if every wait inside a core has its set before it in the order of issue."""
        if not (self.in_rows and self._cross_in_rows()):
            self._begin()
            self._walk()
        self._count_flags()
        self.cross.count()

    def _begin(self) -> None:
        self.partner: Rows = np.full(len(self.items), -1, np.int32)
        self.faults = SyncFaults()
        self.cross = CrossMatches(self._meetings, self.items.row, self.partner, self.faults)

    def _by_flag(self, items: Ints) -> tuple[Ints, Ints]:
        """Return (the rows `items` sorted by flag and turn, the index at which each flag begins)."""
        flags = self.items.flags(items)
        counts = np.bincount(flags, minlength=self.items.flag[-1])
        return items[np.argsort(flags, kind="stable")], np.cumsum([0, *counts])

    def _in_rows(self) -> bool:
        """Match every wait inside a core with its set and return True, if each set comes before its wait in the order of issue.

        Otherwise it returns False, and the programs must be walked.
        """
        items = self.items
        turn, sets = self._turns(self._first_take), np.diff(self._first_set)
        waits = items.kind[self._takes] == WAIT
        flag = items.flags(self._takes[waits])
        if (turn[waits] >= sets[flag]).any():
            return False
        set_of = self._sets[self._first_set[flag] + turn[waits]]
        if (set_of > self._takes[waits]).any():
            return False
        self.partner[self._takes[waits]] = set_of
        return True

    @staticmethod
    def _turns(first: Ints) -> Ints:
        """Return for each row its place among the rows of its flag, from 0 on; `first` has the index where each flag begins."""
        return np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))

    def _cross_in_rows(self) -> bool:
        """Match waits between cores in the order of rows; return True if every wait has its set.

        It returns False too if a program meets one counter by several instructions, whose order may not be that of rows.
        """
        items, walks = self.items, []
        crossing = np.flatnonzero(np.isin(items.kind, (CROSS_SET, CROSS_WAIT)))
        bounds = np.searchsorted(crossing, self.items.first)
        for index in np.flatnonzero(np.diff(bounds)).tolist():
            mine = crossing[bounds[index] : bounds[index + 1]]
            used = distinct(np.stack((items.kind[mine], items.code[mine])), axis=1).T.tolist()
            if len({(kind, self._meetings.group(index, code)) for kind, code in used}) < len(used):
                return False  # the order of rows need not be that in which pipes come to them
            walks.append(CrossWalk(index, mine, items.code[mine], items.kind[mine].tolist(), self.cross))
        return not self._rounds(walks) and not self.faults.waits

    def _walk(self) -> None:
        """Match sets and waits by walks over all programs; in a deadlock record stuck pipes and let their waits pass."""
        waiting: Sequence[ProgramWalk] = [
            ProgramWalk(index, one, self.items.first[index], self.partner, self.cross, self.faults)
            for index, one in enumerate(self.synced)
        ]
        while waiting := self._rounds(waiting):
            self.faults.stuck += [(walk.index, row) for walk in waiting for row in walk.heads()]
            for walk in waiting:
                walk.force()
            self.cross.woken.clear()

    def _rounds(self, walks: Sequence[Walk]) -> list[Walk]:
        """Advance the walks in turns until none can go on; return those that have not come to their end.

        After its first turn a walk advances only when a counter that it waits for is released.
        """
        place = {walk.index: number for number, walk in enumerate(walks)}
        ready, queued = [(0, number) for number in range(len(walks))], [True] * len(walks)
        while ready:
            turn, number = heappop(ready)
            queued[number] = False
            walks[number].advance()
            for other in [place[index] for index in self.cross.woken if index in place]:
                if not queued[other] and not walks[other].done:
                    queued[other] = True
                    heappush(ready, (turn + (other <= number), other))
            self.cross.woken.clear()
        return [walk for walk in walks if not walk.done]

    def _count_flags(self) -> None:
        """Record as a fault each flag inside a core with more sets than waits, unless its kernel broke off."""
        left = np.diff(self._first_set) - np.diff(self._first_take)
        for flag in np.flatnonzero(left > 0).tolist():
            last = self._sets[self._first_set[flag + 1] - 1]
            program = int(self.items.program[last])
            if self.synced[program].whole:
                self.faults.sets.append(Unpaired(program, int(self.items.row[last]), int(left[flag])))

    @cached_property
    def counted(self) -> tuple[Ints, Ints]:
        """Return two arrays for the sets that could raise a flag beyond its maximum: the set, and the wait that must pass
        before it (-1: none).

        Both are empty where the builder has already held the order of issue to the maximum.
        """
        table = self.synced[0].program.table if self.synced else None
        if table is None or table.flags_count:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        maximum = table.chip.sync.flag_max
        before = self._turns(self._first_set) - maximum
        sets, before = self._sets[before >= 0], before[before >= 0]
        flag = self.items.flags(sets)
        there = before < np.diff(self._first_take)[flag]
        waits = np.full(len(sets), -1, np.int64)
        waits[there] = self._takes[(self._first_take[flag] + before)[there]]
        return sets, waits

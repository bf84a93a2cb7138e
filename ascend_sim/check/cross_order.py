"""The order that flags between the cores of a task make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ascend_sim.check.clocks import Known
from ascend_sim.check.sync_rows import WIDTH, SyncFaults, SyncRows, Unpaired
from ascend_sim.isa.base import CROSS_SET
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag

Group = tuple[int, int, str, int]
"""A counter between cores: flag, mode, kind of the cores that raise it, block (-1: all)."""


_Waits = tuple[Group, bool, list[tuple[int, int, int]], dict[int, int]]
"""Of a program's waits for one flag: the counter, whether they hold anything, those that came so far, and what was released."""


class Walker(Protocol):
    """The walk over a program (`walk.ProgramWalk`), as far as a flag between cores asks it."""

    index: int
    synced: SyncRows
    known: list[int]
    free_pass: bool

    def learn(self, row: int, pipe: int, place: int, clock: list[int], known: int) -> None: ...


class Meetings:
    """Who raises and who waits for the flags between the cores of a task: as in `engine.cross.CrossFlags`."""

    def __init__(self, synced: Sequence[SyncRows]) -> None:
        self.synced = synced
        self.cores = [(one.program.block, one.program.core_kind, one.program.sub_block) for one in synced]
        self._groups: dict[tuple[int, int], Group] = {}
        self._setters: dict[Group, list[int]] = {}

    def group(self, index: int, code: int) -> Group:
        """The counter that instruction `code` of program `index` raises, or waits for."""
        known = self._groups.get((index, code))
        if known is None:
            flag = self.synced[index].instructions[code]
            assert isinstance(flag, CrossCoreSetFlag | CrossCoreWaitFlag)
            block, kind, _ = self.cores[index]
            if isinstance(flag, CrossCoreWaitFlag) and flag.mode == 2:
                kind = "AIV" if kind == "AIC" else "AIC"
            known = self._groups[index, code] = (flag.flag, flag.mode, kind, -1 if flag.mode == 0 else block)
        return known

    def setters(self, group: Group) -> list[int]:
        """The programs that raise it together."""
        known = self._setters.get(group)
        if known is None:
            kind, block = group[2], group[3]
            known = [i for i, core in enumerate(self.cores) if core[1] == kind and block in (-1, core[0])]
            self._setters[group] = known
        return known

    def waiters(self, group: Group) -> list[int]:
        """The programs that wait for it."""
        _, mode, kind, block = group
        waits_kind = ("AIV" if kind == "AIC" else "AIC") if mode == 2 else kind
        return [i for i, core in enumerate(self.cores) if core[1] == waits_kind and block in (-1, core[0])]

    @cached_property
    def total(self) -> dict[Group, Counter[int]]:
        """How often each program raises each counter."""
        found: dict[Group, Counter[int]] = {}
        for index, one in enumerate(self.synced):
            for _, kind, _, _, code in one.items:
                if kind == CROSS_SET:
                    found.setdefault(self.group(index, code), Counter())[index] += 1
        return found

    @cached_property
    def turns(self) -> dict[Group, int]:
        """How often each counter is raised by all."""
        return {group: min((counts[i] for i in self.setters(group)), default=0) for group, counts in self.total.items()}

    def missing(self, group: Group, turn: int) -> tuple[str, ...]:
        """Who never raises his part for that turn."""
        if turn < self.turns.get(group, 0):
            return ()
        counts, setters = self.total.get(group, Counter()), self.setters(group)
        return tuple(self.synced[i].program.where for i in setters if counts[i] <= turn) if setters else ("nobody",)


class CrossOrder:
    """What flags between the cores of a task hand on."""

    def __init__(self, meetings: Meetings, others: Known, faults: SyncFaults) -> None:
        self.meetings, self.others, self.faults = meetings, others, faults
        self.synced, self.cores = meetings.synced, meetings.cores
        self.maximum = self.synced[0].program.table.chip.sync.cross_flag_max if self.synced else 0
        self.parts: dict[Group, dict[int, list[tuple[int, int, list[int], int]]]] = {}
        self._arrived: dict[Group, list[int]] = {}
        self.released: dict[Group, dict[int, int]] = {}
        self.taken: dict[tuple[Group, int], list[tuple[int, int, int]]] = {}
        self._waits: dict[tuple[int, int], _Waits] = {}

    def told_again(self) -> CrossOrder:
        """For another walk of a program that is told what it was told in this order."""
        other = CrossOrder(self.meetings, self.others, SyncFaults())
        other.released = self.released
        return other

    def set(self, walk: Walker, row: int, pipe: int, place: int, code: int, clock: list[int]) -> None:
        group = self.meetings.group(walk.index, code)
        raised = self.parts.setdefault(group, {}).setdefault(walk.index, [])
        arrived = self._arrived.setdefault(group, [])
        if len(raised) == len(arrived):
            arrived.append(0)
        arrived[len(raised)] += 1
        raised.append((row, pipe, clock, walk.known[pipe]))

    def wait(self, walk: Walker, row: int, pipe: int, place: int, code: int) -> bool:
        group, armed, taken, known = self._waits.get((walk.index, code)) or self._waiting(walk, code)
        turn = len(taken)
        released = known.get(turn)
        if released is None:
            released = self._released(group, turn)
        if released is None:
            missing = self.meetings.missing(group, turn)
            if not missing and not walk.free_pass:
                return False
            if missing:
                self.faults.waits.append(Unpaired(walk.index, row, 1, missing))
        elif armed:
            own = self.others.vectors[released][walk.index * WIDTH : (walk.index + 1) * WIDTH]
            walk.learn(row, pipe, place, own.tolist(), released)
        taken.append((row, pipe, place))
        return True

    def _waiting(self, walk: Walker, code: int) -> _Waits:
        flag, group = walk.synced.instructions[code], self.meetings.group(walk.index, code)
        assert isinstance(flag, CrossCoreWaitFlag)
        taken, known = self.taken.setdefault((group, walk.index), []), self.released.setdefault(group, {})
        waits = self._waits[walk.index, code] = group, flag.armed, taken, known
        return waits

    def _released(self, group: Group, turn: int) -> int | None:
        arrived, setters = self._arrived.get(group, ()), self.meetings.setters(group)
        if turn >= len(arrived) or arrived[turn] < len(setters):
            return None
        told = [self.parts[group][i][turn] for i in setters]
        knows = list({part[3] for part in told})
        together = np.maximum.reduce([self.others.vectors[one] for one in knows])
        own = together.reshape(-1, WIDTH)
        own[setters] = np.maximum(own[setters], [part[2] for part in told])
        released = self.others.add(together, max(self.others.level[one] for one in knows) + 1)
        self.released[group][turn] = released
        return released

    def count(self) -> None:
        """After the walk: flags left raised."""
        for group, parts in self.parts.items():
            setters = self.meetings.setters(group)
            rounds = min(len(parts.get(i, ())) for i in setters)
            first = setters[0]
            for i in setters:
                if len(parts.get(i, ())) > rounds:  # his part of a turn that never comes
                    missing = tuple(self.synced[j].program.where for j in setters if len(parts.get(j, ())) == rounds)
                    self.faults.sets.append(Unpaired(i, parts[i][rounds][0], len(parts[i]) - rounds, missing))
            for waiter in self.meetings.waiters(group):
                left = rounds - len(self.taken.get((group, waiter), ()))
                if left > 0:
                    row = parts[first][-1][0]
                    self.faults.sets.append(Unpaired(first, row, left, (self.synced[waiter].program.where,)))

    def count_overflows(self) -> None:
        """After the walk: flags that may be raised further than they count."""
        for group, parts in self.parts.items():
            if max(map(len, parts.values())) <= self.maximum:
                continue
            setters = self.meetings.setters(group)
            first, rounds = setters[0], min(len(parts.get(i, ())) for i in setters)
            for waiter in self.meetings.waiters(group):
                taken = self.taken.get((group, waiter), [])
                for turn in range(self.maximum, rounds):
                    before = turn - self.maximum
                    if before >= len(taken) or not self._after(parts[first][turn], first, waiter, taken[before]):
                        self.faults.overflows.append(Unpaired(first, parts[first][turn][0], self.maximum))
                        break

    def _after(self, part: Any, setter: int, waiter: int, wait: tuple[int, int, int]) -> bool:
        """Whether a set comes after a wait, in every order of events."""
        _, _, clock, knows = part
        _, pipe, place = wait
        if waiter == setter and clock[pipe] > place:
            return True
        return bool(self.others.vectors[knows][waiter * WIDTH + pipe] > place)

"""The order that flags between the cores of a task make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ascend_sim.check.clocks import Known
from ascend_sim.check.sync_rows import WIDTH, SyncFaults, SyncRows, Unpaired
from ascend_sim.isa.base import CROSS_SET
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag

Group = tuple[int, int, str, int]
"""A counter between cores: flag, mode, kind of the cores that raise it, block (-1: all)."""


class Walker(Protocol):
    """The walk over a program (`walk.ProgramWalk`), as far as a flag between cores asks it."""

    index: int
    synced: SyncRows
    left_out: frozenset[int]
    known: list[int]
    free_pass: bool

    def learn(self, pipe: int, place: int, clock: list[int], known: int) -> None: ...


class CrossOrder:
    """Flags between the cores of a task; who raises and who waits is as in `engine.cross.CrossFlags`."""

    def __init__(self, synced: Sequence[SyncRows], others: Known, faults: SyncFaults) -> None:
        self.synced, self.others, self.faults = synced, others, faults
        programs = [one.program for one in synced]
        self.maximum = programs[0].table.chip.sync.cross_flag_max if programs else 0
        self.cores = [(p.block, p.core_kind, p.sub_block) for p in programs]
        self.parts: dict[Group, dict[int, list[tuple[int, int, list[int], int]]]] = {}
        self.released: dict[Group, dict[int, int]] = {}
        self.taken: dict[tuple[Group, int], list[tuple[int, int, int]]] = {}
        self.total: dict[Group, dict[int, int]] = {}
        self._setters: dict[Group, list[int]] = {}
        for index, one in enumerate(synced):
            for _, kind, _, _, code in one.items:
                if kind == CROSS_SET:
                    group = self.group(index, one.instructions[code])
                    counts = self.total.setdefault(group, {})
                    counts[index] = counts.get(index, 0) + 1

    def group(self, index: int, flag: Any) -> Group:
        """The counter that program `index` raises, or waits for."""
        block, kind, _ = self.cores[index]
        assert isinstance(flag, CrossCoreSetFlag | CrossCoreWaitFlag)
        if isinstance(flag, CrossCoreWaitFlag) and flag.mode == 2:
            kind = "AIV" if kind == "AIC" else "AIC"
        return (flag.flag, flag.mode, kind, -1 if flag.mode == 0 else block)

    def setters(self, group: Group) -> list[int]:
        """The programs that raise it together."""
        known = self._setters.get(group)
        if known is None:
            kind, block = group[2], group[3]
            known = [i for i, core in enumerate(self.cores) if core[1] == kind and block in (-1, core[0])]
            self._setters[group] = known
        return known

    def set(self, walk: Walker, row: int, pipe: int, place: int, code: int, clock: list[int]) -> None:
        group = self.group(walk.index, walk.synced.instructions[code])
        self.parts.setdefault(group, {}).setdefault(walk.index, []).append((row, pipe, clock, walk.known[pipe]))

    def wait(self, walk: Walker, row: int, pipe: int, place: int, code: int) -> bool:
        flag = walk.synced.instructions[code]
        group = self.group(walk.index, flag)
        taken = self.taken.setdefault((group, walk.index), [])
        turn = len(taken)
        released = self._released(group, turn)
        if released is None:
            missing = self._missing(group, turn)
            if not missing and not walk.free_pass:
                return False
            if missing:
                self.faults.waits.append(Unpaired(walk.index, row, 1, missing))
        elif flag.armed and row not in walk.left_out:  # type: ignore[attr-defined]
            own = self.others.vectors[released][walk.index * WIDTH : (walk.index + 1) * WIDTH]
            walk.learn(pipe, place, own.tolist(), released)
        taken.append((row, pipe, place))
        return True

    def _missing(self, group: Group, turn: int) -> tuple[str, ...]:
        """Who never raises his part for that turn."""
        total = self.total.get(group, {})
        setters = self.setters(group)
        names = [self.synced[i].program.where for i in setters if total.get(i, 0) <= turn]
        return tuple(names) if setters else ("nobody",)

    def _released(self, group: Group, turn: int) -> int | None:
        known = self.released.setdefault(group, {})
        if turn in known:
            return known[turn]
        parts, setters = self.parts.get(group, {}), self.setters(group)
        if not setters or any(len(parts.get(i, ())) <= turn for i in setters):
            return None
        together = np.zeros(len(self.cores) * WIDTH, np.int32)
        level = 0
        for i in setters:
            _, _, clock, knows = parts[i][turn]
            np.maximum(together, self.others.vectors[knows], out=together)
            own = together[i * WIDTH : (i + 1) * WIDTH]
            np.maximum(own, np.asarray(clock, np.int32), out=own)
            level = max(level, self.others.level[knows])
        known[turn] = self.others.add(together, level + 1)
        return known[turn]

    def count(self) -> None:
        """After the walk: flags left raised, and those raised further than they count."""
        for group, parts in self.parts.items():
            _, mode, kind, block = group
            waits_kind = ("AIV" if kind == "AIC" else "AIC") if mode == 2 else kind
            waiters = [i for i, core in enumerate(self.cores) if core[1] == waits_kind and block in (-1, core[0])]
            setters = self.setters(group)
            rounds = min(len(parts.get(i, ())) for i in setters)
            first = setters[0]
            for i in setters:
                if len(parts.get(i, ())) > rounds:  # his part of a turn that never comes
                    missing = tuple(self.synced[j].program.where for j in setters if len(parts.get(j, ())) == rounds)
                    self.faults.sets.append(Unpaired(i, parts[i][rounds][0], len(parts[i]) - rounds, missing))
            for waiter in waiters:
                taken = self.taken.get((group, waiter), [])
                left = rounds - len(taken)
                if left > 0:
                    row = parts[first][-1][0]
                    self.faults.sets.append(Unpaired(first, row, left, (self.synced[waiter].program.where,)))
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

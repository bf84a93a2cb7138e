"""What happens before what in the programs of one task, whatever anything costs: vector clocks over pipes and cores.

A row starts after the rows that its clock counts have retired. Clocks grow at waits, barriers and cross-core waits only, and
what one pipe knows another learns through a flag; so order is transitive. Nothing here asks for cycles: two accesses that are
ordered here are ordered on every chip, and two that are not may meet on some.

The unit flag hands over a tile of L0C and nothing else: what a pipe learns by it counts in L0C, and the other spaces are walked
as if nobody had waited (`TaskOrder.clocks_in`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.isa.base import (
    BARRIER,
    BARRIER_ALL,
    CROSS_SET,
    CROSS_WAIT,
    DISARMED,
    LOCAL,
    PIPES,
    SET,
    TRANSFER,
    WAIT,
)
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag, ScalarWait, SetFlag, WaitFlag, WaitUnitFlag
from ascend_sim.kernel.program import Program

WIDTH = len(PIPES)
_JOIN = -1
"""A pipe learns what the scalar unit waited for."""

FlagKey = tuple[str, str, int]
Group = tuple[int, int, str, int]
"""A counter between cores: flag, mode, kind of the cores that raise it, block (-1: all)."""


@dataclass(frozen=True)
class Unpaired:
    """A set that nobody waits for, or a wait that nobody ends: `row` of `program`."""

    program: int
    row: int
    count: int
    missing: tuple[str, ...] = ()
    """For cross-core flags: who has not raised his part."""


@dataclass
class SyncFaults:
    """What is wrong with flags and barriers themselves."""

    sets: list[Unpaired] = field(default_factory=list)
    waits: list[Unpaired] = field(default_factory=list)
    overflows: list[Unpaired] = field(default_factory=list)
    uneven: list[Unpaired] = field(default_factory=list)
    stuck: list[tuple[int, int]] = field(default_factory=list)
    """Program and row of every pipe that waits in a deadlock."""


class SyncRows:
    """The rows of a program that synchronise, and where its rows stand in their pipes; made once, walked many times."""

    def __init__(self, program: Program) -> None:
        self.program = program
        table = program.table
        kind, self.pipe = program.per_row("kind"), program.per_row("pipe")
        self.place = np.zeros(len(program), np.int64)
        self.counts = [0] * WIDTH
        for p in range(WIDTH):
            rows = np.flatnonzero(self.pipe == p)
            self.place[rows] = np.arange(len(rows))
            self.counts[p] = len(rows)
        self.tile_waits, self.loose_waits = self._unit_waits(kind)
        wanted = np.isin(kind, (SET, WAIT, DISARMED, BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT))
        rows = np.flatnonzero(wanted)
        self.flags: dict[FlagKey, int] = {}
        self.instructions = table.instructions
        codes = np.zeros(len(table.instructions), np.int64)
        for argument in np.unique(program.rows[rows, 0]).tolist():
            one = table.instructions[argument]
            if isinstance(one, SetFlag | WaitFlag):
                codes[argument] = self.flags.setdefault((one.source, one.destination, one.flag), len(self.flags))
            else:
                codes[argument] = argument
        arguments = program.rows[rows, 0]
        self.rows = rows
        self.items: list[tuple[int, int, int, int, int]] = list(
            zip(
                rows.tolist(),
                kind[rows].tolist(),
                self.pipe[rows].tolist(),
                self.place[rows].tolist(),
                codes[arguments].tolist(),
                strict=True,
            )
        )
        self.sets = [0] * len(self.flags)
        for _, what, _, _, code in self.items:
            if what == SET:
                self.sets[code] += 1
        self.names = list(self.flags)

    def _unit_waits(self, kind: NDArray[np.int64]) -> tuple[frozenset[int], frozenset[int]]:
        """Rows that wait for a unit flag, and those of them behind which no product or drain with the unit flag comes."""
        program, table = self.program, self.program.table
        found = [isinstance(one, WaitUnitFlag) for one in table.instructions]
        if not any(found):
            return frozenset(), frozenset()
        paced = np.asarray([one.pace(table.chip) is not None for one in table.instructions], np.bool_)
        waits, loose = np.asarray(found, np.bool_)[program.rows[:, 0]], []
        for p in np.unique(self.pipe[waits]).tolist():
            rows = np.flatnonzero(self.pipe == p)
            works = rows[np.isin(kind[rows], (LOCAL, TRANSFER))]
            mine = rows[waits[rows]]
            behind = np.searchsorted(works, mine)
            follows = np.append(paced[program.rows[works, 0]], False)[behind]
            loose += mine[~follows].tolist()
        return frozenset(np.flatnonzero(waits).tolist()), frozenset(loose)

    def before(self, row: int) -> list[int]:
        """Rows of every pipe that stand before a row."""
        return np.bincount(self.pipe[:row], minlength=WIDTH).tolist()


@dataclass(frozen=True)
class Clocks:
    """What every row knows when it starts. Rows of all programs stand in one table, those of program p from `offset[p]`.

    `retired[row, q]`: so many rows of pipe q of its own program have retired. `vectors[outer[row]]` has the same for every
    (program, pipe) of the task; `level` orders what is known of others.
    """

    offset: NDArray[np.int64]
    retired: NDArray[np.int32]
    outer: NDArray[np.int32]
    vectors: NDArray[np.int32]
    level: NDArray[np.int32]

    def known(self, program: NDArray[np.int64], row: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows of pipe `owner` (program * WIDTH + pipe) have retired when a row starts."""
        place = self.offset[program] + row
        of, pipe = owner // WIDTH, owner % WIDTH
        if len(self.vectors) == 1:  # nobody knows of others
            return np.where(program == of, self.retired[place, pipe], 0)
        return np.where(program == of, self.retired[place, pipe], self.vectors[self.outer[place], owner])


class TaskOrder:
    """The order of the programs of a task (`synced`), without the waits and barriers in `left_out` (program -> rows)."""

    def __init__(
        self, task: Task, synced: Sequence[SyncRows], left_out: Mapping[int, frozenset[int]] | None = None
    ) -> None:
        self.task = task
        self.synced = synced
        self.left_out = left_out or {}
        self.faults = SyncFaults()
        self.vectors: list[NDArray[np.int32]] = [np.zeros(len(synced) * WIDTH, np.int32)]
        self.level = [0]
        self._joined: dict[tuple[int, int], int] = {}
        self.cross = _CrossOrder(self)
        self.walks = [
            _Walk(self, index, one, self.left_out.get(index, frozenset()) | one.loose_waits)
            for index, one in enumerate(synced)
        ]
        self._run()
        columns = [walk.columns() for walk in self.walks]
        offset = np.cumsum([0, *(len(retired) for retired, _ in columns)])
        self.clocks = Clocks(
            offset,
            np.concatenate([np.zeros((0, WIDTH), np.int32), *(retired for retired, _ in columns)]),
            np.concatenate([np.zeros(0, np.int32), *(outer for _, outer in columns)]),
            np.stack(self.vectors),
            np.asarray(self.level, np.int32),
        )

    def clocks_in(self, space: str) -> Clocks:
        """What rows know when they touch a space: of a tile of L0C also what the unit flag says."""
        return self.clocks if space == "L0C" else self._beside_tiles

    @cached_property
    def _beside_tiles(self) -> Clocks:
        """Without what unit flags tell."""
        if all(one.tile_waits <= self.left_out.get(index, frozenset()) for index, one in enumerate(self.synced)):
            return self.clocks
        out = {index: self.left_out.get(index, frozenset()) | one.tile_waits for index, one in enumerate(self.synced)}
        return TaskOrder(self.task, self.synced, out).clocks

    def join(self, first: int, second: int) -> int:
        """What two know together, as a number of `vectors`."""
        if first == second or not second:
            return first
        if not first:
            return second
        key = (first, second) if first < second else (second, first)
        known = self._joined.get(key)
        if known is None:
            both = np.maximum(self.vectors[first], self.vectors[second])
            if (both == self.vectors[first]).all():
                known = first
            elif (both == self.vectors[second]).all():
                known = second
            else:
                known = self.add(both, max(self.level[first], self.level[second]))
            self._joined[key] = known
        return known

    def add(self, vector: NDArray[np.int32], level: int) -> int:
        """A new vector's number."""
        self.vectors.append(vector)
        self.level.append(level)
        return len(self.vectors) - 1

    def _run(self) -> None:
        waiting = list(self.walks)
        while waiting:
            progressed = False
            for walk in waiting:
                progressed = walk.advance() or progressed
            waiting = [walk for walk in waiting if not walk.done]
            if waiting and not progressed:
                for walk in waiting:
                    self.faults.stuck += [(walk.index, row) for row in walk.heads()]
                for walk in waiting:
                    walk.force()
        for walk in self.walks:
            walk.count_flags()
        self.cross.count()


class _Walk:
    """One program, walked in issue order; a pipe that must wait keeps its later rows until what it waits for is known."""

    def __init__(self, order: TaskOrder, index: int, synced: SyncRows, left_out: frozenset[int]) -> None:
        self.order, self.index, self.synced = order, index, synced
        self.left_out = left_out
        self.clocks = [[0] * WIDTH for _ in range(WIDTH)]
        self.known = [0] * WIDTH
        self.events: list[list[tuple[int, list[int], int]]] = [[] for _ in range(WIDTH)]
        self.raised: list[list[tuple[list[int], int]]] = [[] for _ in synced.flags]
        self.taken: list[list[int]] = [[] for _ in synced.flags]
        self.blocked: dict[int, deque[Any]] = {}
        self.at = 0
        self.done = False
        self.free_pass = False
        self.maximum = synced.program.table.chip.sync.flag_max
        self.extra: dict[int, int] = {}

    def advance(self) -> bool:
        """Go on as far as possible; returns whether anything happened."""
        progressed = False
        items = self.synced.items
        while True:
            moved = self._blocked_on()
            while self.at < len(items):
                item = items[self.at]
                row, kind, pipe = item[0], item[1], item[2]
                if kind == BARRIER_ALL:
                    if self.blocked and any(p in self.blocked for p in self._waited(item[4])):
                        break
                    if row not in self.left_out:
                        self._all(item)
                elif pipe in self.blocked:
                    self.blocked[pipe].append(item)
                elif not self._step(item):
                    self.blocked[pipe] = deque([item])
                self.at += 1
                moved = True
            progressed = progressed or moved
            if not moved or (self.at == len(items) and not self.blocked):
                break
        self.done = self.at == len(items) and not self.blocked
        return progressed

    def _blocked_on(self) -> bool:
        moved, again = False, bool(self.blocked)
        while again:
            again = False
            for pipe in list(self.blocked):
                queue = self.blocked[pipe]
                while queue and self._step(queue[0]):
                    queue.popleft()
                    again = moved = True
                if not queue:
                    del self.blocked[pipe]
        return moved

    def heads(self) -> list[int]:
        """The rows at which pipes stand."""
        return [queue[0][0] for queue in self.blocked.values()]

    def force(self) -> None:
        """Let every head of a deadlock pass, so that the rest can be looked at."""
        self.free_pass = True
        for pipe in list(self.blocked):
            queue = self.blocked[pipe]
            self._step(queue.popleft())
            if not queue:
                del self.blocked[pipe]
        self.free_pass = False

    def _waited(self, code: int) -> Sequence[int]:
        one = self.synced.instructions[code]
        return (PIPES.index(one.on),) if isinstance(one, ScalarWait) else range(1, WIDTH)

    def _all(self, item: tuple[int, int, int, int, int]) -> None:
        """The scalar unit waits for pipes; what is issued later comes after it on every pipe."""
        row, code = item[0], item[4]
        counts = self.synced.before(row)
        clock, known = [0] * WIDTH, 0
        for p in self._waited(code):
            own = list(self.clocks[p])
            own[p] = max(own[p], counts[p])
            clock = list(map(max, clock, own))
            known = self.order.join(known, self.known[p])
        for p in range(1, WIDTH):
            if p in self.blocked:
                self.blocked[p].append((row, _JOIN, p, counts[p], (clock, known)))
            else:
                self._learn(p, counts[p], clock, known)

    def _learn(self, pipe: int, place: int, clock: list[int], known: int) -> None:
        self.clocks[pipe] = list(map(max, self.clocks[pipe], clock))
        if known != self.known[pipe]:
            self.known[pipe] = self.order.join(self.known[pipe], known)
        self.events[pipe].append((place, self.clocks[pipe], self.known[pipe]))

    def _step(self, item: Any) -> bool:
        """One row that synchronises; False where it must wait."""
        row, kind, pipe, place, code = item
        if kind == SET:
            clock = list(self.clocks[pipe])
            clock[pipe] = place
            raised = self.raised[code]
            count = len(raised) - self.maximum
            if count >= 0:
                taken = self.taken[code]
                destination = PIPES.index(self.synced.names[code][1])
                if count >= len(taken) or clock[destination] <= taken[count]:
                    self.extra.setdefault(code, row)
            raised.append((clock, self.known[pipe]))
        elif kind == WAIT:
            turn = len(self.taken[code])
            raised = self.raised[code]
            if turn >= len(raised):
                if turn < self.synced.sets[code] and not self.free_pass:
                    return False
                if turn >= self.synced.sets[code]:
                    self.order.faults.waits.append(Unpaired(self.index, row, 1))
            elif row not in self.left_out:
                self._learn(pipe, place, *raised[turn])
            self.taken[code].append(place)
        elif kind == DISARMED:
            self.taken[code].append(place)
        elif kind == BARRIER:
            if row not in self.left_out:
                clock = list(self.clocks[pipe])
                clock[pipe] = place
                self._learn(pipe, place, clock, self.known[pipe])
        elif kind == _JOIN:
            self._learn(pipe, place, *code)
        elif kind == CROSS_SET:
            clock = list(self.clocks[pipe])
            clock[pipe] = place
            self.order.cross.set(self, row, pipe, place, code, clock)
        elif kind == CROSS_WAIT:
            return self.order.cross.wait(self, row, pipe, place, code)
        return True

    def count_flags(self) -> None:
        """After the walk: flags that are left raised, that run over, or that fall behind from turn to turn."""
        faults, program = self.order.faults, self.synced.program
        whole = program.notes is None or program.notes.whole
        for code in range(len(self.synced.flags)):
            left = len(self.raised[code]) - len(self.taken[code])
            if left > 0 and whole:
                rows = [item[0] for item in self.synced.items if item[1] == SET and item[4] == code]
                faults.sets.append(Unpaired(self.index, rows[-1], left))
            if code in self.extra:
                faults.overflows.append(Unpaired(self.index, self.extra[code], self.maximum))

    def columns(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """What every row knows of the own pipes, and of other programs."""
        pipe, place = self.synced.pipe, self.synced.place
        retired = np.zeros((len(pipe), WIDTH), np.int32)
        outer = np.zeros(len(pipe), np.int32)
        for p in range(1, WIDTH):
            events = self.events[p]
            rows = np.flatnonzero(pipe == p)
            if not events or not len(rows):
                continue
            starts = np.asarray([event[0] for event in events], np.int64)
            clocks = np.asarray([event[1] for event in events], np.int32)
            knows = np.asarray([event[2] for event in events], np.int32)
            last = np.searchsorted(starts, place[rows], side="right") - 1
            seen = last >= 0
            retired[rows[seen]] = clocks[last[seen]]
            outer[rows[seen]] = knows[last[seen]]
        return retired, outer


class _CrossOrder:
    """Flags between the cores of a task; who raises and who waits is as in `engine.cross.CrossFlags`."""

    def __init__(self, order: TaskOrder) -> None:
        self.order = order
        programs = [one.program for one in order.synced]
        self.maximum = programs[0].table.chip.sync.cross_flag_max if programs else 0
        self.cores = [(p.block, p.core_kind, p.sub_block) for p in programs]
        self.parts: dict[Group, dict[int, list[tuple[int, int, list[int], int]]]] = {}
        self.released: dict[Group, dict[int, int]] = {}
        self.taken: dict[tuple[Group, int], list[tuple[int, int, int]]] = {}
        self.total: dict[Group, dict[int, int]] = {}
        self._setters: dict[Group, list[int]] = {}
        for index, one in enumerate(order.synced):
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

    def set(self, walk: _Walk, row: int, pipe: int, place: int, code: int, clock: list[int]) -> None:
        group = self.group(walk.index, walk.synced.instructions[code])
        self.parts.setdefault(group, {}).setdefault(walk.index, []).append((row, pipe, clock, walk.known[pipe]))

    def wait(self, walk: _Walk, row: int, pipe: int, place: int, code: int) -> bool:
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
                self.order.faults.waits.append(Unpaired(walk.index, row, 1, missing))
        elif flag.armed and row not in walk.left_out:  # type: ignore[attr-defined]
            own = self.order.vectors[released][walk.index * WIDTH : (walk.index + 1) * WIDTH]
            walk._learn(pipe, place, own.tolist(), released)
        taken.append((row, pipe, place))
        return True

    def _missing(self, group: Group, turn: int) -> tuple[str, ...]:
        """Who never raises his part for that turn."""
        total = self.total.get(group, {})
        setters = self.setters(group)
        names = [self.order.synced[i].program.where for i in setters if total.get(i, 0) <= turn]
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
            np.maximum(together, self.order.vectors[knows], out=together)
            own = together[i * WIDTH : (i + 1) * WIDTH]
            np.maximum(own, np.asarray(clock, np.int32), out=own)
            level = max(level, self.order.level[knows])
        known[turn] = self.order.add(together, level + 1)
        return known[turn]

    def count(self) -> None:
        """After the walk: flags left raised, and those raised further than they count."""
        faults = self.order.faults
        for group, parts in self.parts.items():
            _, mode, kind, block = group
            waits_kind = ("AIV" if kind == "AIC" else "AIC") if mode == 2 else kind
            waiters = [i for i, core in enumerate(self.cores) if core[1] == waits_kind and block in (-1, core[0])]
            setters = self.setters(group)
            rounds = min(len(parts.get(i, ())) for i in setters)
            first = setters[0]
            for i in setters:
                if len(parts.get(i, ())) > rounds:  # his part of a turn that never comes
                    missing = tuple(
                        self.order.synced[j].program.where for j in setters if len(parts.get(j, ())) == rounds
                    )
                    faults.sets.append(Unpaired(i, parts[i][rounds][0], len(parts[i]) - rounds, missing))
            for waiter in waiters:
                taken = self.taken.get((group, waiter), [])
                left = rounds - len(taken)
                if left > 0:
                    row = parts[first][-1][0]
                    faults.sets.append(Unpaired(first, row, left, (self.order.synced[waiter].program.where,)))
                for turn in range(self.maximum, rounds):
                    before = turn - self.maximum
                    if before >= len(taken) or not self._after(parts[first][turn], first, waiter, taken[before]):
                        faults.overflows.append(Unpaired(first, parts[first][turn][0], self.maximum))
                        break

    def _after(self, part: Any, setter: int, waiter: int, wait: tuple[int, int, int]) -> bool:
        """Whether a set comes after a wait, in every order of events."""
        _, _, clock, knows = part
        _, pipe, place = wait
        if waiter == setter and clock[pipe] > place:
            return True
        return bool(self.order.vectors[knows][waiter * WIDTH + pipe] > place)

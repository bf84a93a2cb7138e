"""One program, walked row by row in the order of issue: what its pipes learn at waits and barriers.

Which set a wait belongs to does not depend on what pipes know. So a walk that has come to its end can be repeated without
some of its waits, step by step in the same order (`again`), and a pipe learns at the same places, if only less.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.cross_order import CrossOrder
from ascend_sim.check.sync_rows import WIDTH, SyncRows, Unpaired
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, PIPES, SET, WAIT
from ascend_sim.isa.sync import ScalarWait

_JOIN = -1
"""A pipe learns what the scalar unit waited for."""
Step = tuple[int, Any, bool]
"""The program of a row that has synchronised, the row, and whether a deadlock was broken there."""


class ProgramWalk:
    """One program, walked in issue order; a pipe that must wait keeps its later rows until what it waits for is known."""

    def __init__(
        self, index: int, synced: SyncRows, left_out: frozenset[int], cross: CrossOrder, steps: list[Step]
    ) -> None:
        self.index, self.synced, self.steps = index, synced, steps
        self.cross, self.others, self.faults = cross, cross.others, cross.faults
        self.left_out = left_out
        self.clocks = [[0] * WIDTH for _ in range(WIDTH)]
        self.known = [0] * WIDTH
        self.events: list[list[tuple[int, list[int], int]]] = [[] for _ in range(WIDTH)]
        self.raised: list[list[tuple[list[int], int]]] = [[] for _ in synced.flags]
        self.taken: list[list[int]] = [[] for _ in synced.flags]
        self.joined: dict[int, tuple[list[int], int]] = {}
        self.blocked: dict[int, deque[Any]] = {}
        self.at = 0
        self.held: Any = None
        self.done = False
        self.free_pass = False
        sync = synced.program.table.chip.sync
        self.maximum = sync.flag_max
        self._depth: Mapping[Any, int] = sync.queue_depth
        self._rows_of: dict[int, NDArray[np.int64]] = {}
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
                if self.blocked and row >= self._issued_until():
                    break
                if kind == BARRIER_ALL:
                    if self.blocked and any(p in self.blocked for p in self._waited(item[4])):
                        break
                    self._do(item)
                    self._tell_all(row)
                elif kind in (WAIT, CROSS_WAIT) and not pipe:  # the scalar unit waits, and with it all that comes later
                    self.held = None if self._do(item) else item
                    if self.held:
                        break
                    self._tell_all(row)
                else:
                    self._arrive(pipe, item)
                self.at += 1
                moved = True
            progressed = progressed or moved
            if not moved or (self.at == len(items) and not self.blocked):
                break
        self.done = self.at == len(items) and not self.blocked
        return progressed

    def _tell_all(self, row: int) -> None:
        """What is issued behind a row of the scalar unit comes after what that waited for, on every pipe."""
        counts = self.synced.before(row)
        for p in range(1, WIDTH):
            self._arrive(p, (row, _JOIN, p, counts[p], row))

    def again(self, item: Any, forced: bool) -> None:
        """One step of an earlier walk."""
        self.free_pass = forced
        self._step(item)

    def _arrive(self, pipe: int, item: Any) -> None:
        """A row comes to its pipe, which may stand at an earlier one."""
        if pipe in self.blocked:
            self.blocked[pipe].append(item)
        elif not self._do(item):
            self.blocked[pipe] = deque([item])

    def _do(self, item: Any) -> bool:
        """`_step`, to be repeated by other walks if it is made."""
        done = self._step(item)
        if done:
            self.steps.append((self.index, item, self.free_pass))
        return done

    def _blocked_on(self) -> bool:
        moved, again = False, bool(self.blocked)
        while again:
            again = False
            for pipe in list(self.blocked):
                queue = self.blocked[pipe]
                while queue and self._do(queue[0]):
                    queue.popleft()
                    again = moved = True
                if not queue:
                    del self.blocked[pipe]
        return moved

    def _issued_until(self) -> int:
        """The first row that the scalar unit cannot issue, for the queue of a pipe that stands is full."""
        found = [len(self.synced.pipe)]
        for pipe, queue in self.blocked.items():
            if pipe not in self._rows_of:
                self._rows_of[pipe] = np.flatnonzero(self.synced.pipe == pipe)
            rows, behind = self._rows_of[pipe], queue[0][3] + self._depth[PIPES[pipe]]
            if behind < len(rows):
                found.append(int(rows[behind]))
        return min(found)

    def heads(self) -> list[int]:
        """The rows at which pipes stand."""
        return [queue[0][0] for queue in self.blocked.values()] + ([self.held[0]] if self.held else [])

    def force(self) -> None:
        """Let every head of a deadlock pass, so that the rest can be looked at."""
        self.free_pass = True
        for pipe in list(self.blocked):
            queue = self.blocked[pipe]
            self._do(queue.popleft())
            if not queue:
                del self.blocked[pipe]
        if self.held:
            self._do(self.held)
            self._tell_all(self.held[0])
            self.held = None
            self.at += 1
        self.free_pass = False

    def _waited(self, code: int) -> Sequence[int]:
        one = self.synced.instructions[code]
        return (PIPES.index(one.on),) if isinstance(one, ScalarWait) else range(1, WIDTH)

    def _join(self, row: int, code: int) -> tuple[list[int], int]:
        """The scalar unit waits for pipes; what is issued later comes after it on every pipe."""
        counts = self.synced.before(row)
        clock, known = [0] * WIDTH, 0
        for p in self._waited(code):
            own = list(self.clocks[p])
            own[p] = max(own[p], counts[p])
            clock = list(map(max, clock, own))
            known = self.others.join(known, self.known[p])
        return clock, known

    def learn(self, row: int, pipe: int, place: int, clock: list[int], known: int) -> None:
        """From its row number `place` on, a pipe knows `clock` of its own program and `known` of others, if `row` is there."""
        if row not in self.left_out:
            self.clocks[pipe] = list(map(max, self.clocks[pipe], clock))
            if known != self.known[pipe]:
                self.known[pipe] = self.others.join(self.known[pipe], known)
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
                    self.faults.waits.append(Unpaired(self.index, row, 1))
            else:
                self.learn(row, pipe, place, *raised[turn])
            self.taken[code].append(place)
            self._note_scalar(row, pipe, place)
        elif kind == DISARMED:
            self.taken[code].append(place)
        elif kind == BARRIER:
            clock = list(self.clocks[pipe])
            clock[pipe] = place
            self.learn(row, pipe, place, clock, self.known[pipe])
        elif kind == BARRIER_ALL:
            self.joined[row] = self._join(row, code)
            self.learn(row, pipe, place, *self.joined[row])
        elif kind == _JOIN:
            self.learn(row, pipe, place, *self.joined[row])
        elif kind == CROSS_SET:
            clock = list(self.clocks[pipe])
            clock[pipe] = place
            self.cross.set(self, row, pipe, place, code, clock)
        elif kind == CROSS_WAIT:
            if not self.cross.wait(self, row, pipe, place, code):
                return False
            self._note_scalar(row, pipe, place)
        return True

    def _note_scalar(self, row: int, pipe: int, place: int) -> None:
        """A wait of the scalar unit is over: what is issued behind it knows what it heard, and that it is over."""
        if not pipe:
            clock = list(self.clocks[0])
            clock[0] = place + 1
            self.joined[row] = clock, self.known[0]

    def count_overflows(self) -> None:
        """After the walk: flags that may run over."""
        self.faults.overflows += [Unpaired(self.index, row, self.maximum) for _, row in sorted(self.extra.items())]

    def count_flags(self) -> None:
        """After the walk: flags that are left raised."""
        program = self.synced.program
        whole = program.notes is None or program.notes.whole
        for code in range(len(self.synced.flags)):
            left = len(self.raised[code]) - len(self.taken[code])
            if left > 0 and whole:
                rows = [item[0] for item in self.synced.items if item[1] == SET and item[4] == code]
                self.faults.sets.append(Unpaired(self.index, rows[-1], left))

    def last_learned(self, first: int) -> NDArray[np.int32]:
        """For every row when its pipe learned last, or 0; what the pipes of this walk learn is numbered from `first` on."""
        pipe, place = self.synced.pipe, self.synced.place
        last = np.zeros(len(pipe), np.int32)
        for p, events in enumerate(self.events):
            rows = np.flatnonzero(pipe == p) if events else ()
            if len(rows):
                starts = np.asarray([event[0] for event in events], np.int64)
                passed = np.searchsorted(starts, place[rows], side="right")
                last[rows] = np.where(passed > 0, first - 1 + passed, 0)
            first += len(events)
        return last

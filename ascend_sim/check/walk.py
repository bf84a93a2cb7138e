"""A walk over one program in the order of issue: it pairs sets with waits and finds pipes that stand for ever."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence

import numpy as np

from ascend_sim.check.cross_order import CrossMatches
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows, SyncFaults, SyncRows, Unpaired
from ascend_sim.isa.base import BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, PIPES, SET, WAIT
from ascend_sim.isa.sync import ScalarWait

_S = PIPES.index("S")
"""The scalar unit: where it stands nothing more is issued."""


def waited_pipes(synced: SyncRows, code: int) -> Sequence[int]:
    """Return the numbers of the pipes for which the scalar unit waits at this code: one at a ScalarWait, else all but S."""
    one = synced.instructions[code]
    return (PIPES.index(one.on),) if isinstance(one, ScalarWait) else range(1, WIDTH)


class CrossWalk:
    """Walk over a program's sets of cross-core flags and waits for them; `advance` stops at a wait that cannot pass yet."""

    free_pass = False

    def __init__(self, index: int, items: Ints, codes: Rows, kinds: Sequence[int], cross: CrossMatches) -> None:
        self.index, self.cross, self.done = index, cross, False
        self.items, self.codes, self.kinds = items.tolist(), codes.tolist(), kinds
        self.at = 0

    def advance(self) -> None:
        """Process rows until a wait cannot pass yet, or all are done."""
        for place in range(self.at, len(self.items)):
            if self.kinds[place] == CROSS_SET:
                self.cross.set(self.index, self.items[place], self.codes[place])
            elif not self.cross.wait(self, self.items[place], self.codes[place]):
                return
            self.at = place + 1
        self.done = True


class ProgramWalk:
    """Walk over one program in the order of issue; a pipe at a wait that cannot pass yet keeps its later rows.

    Rows that synchronise have numbers over all programs, those of this one from `first` on. `partner` gets for each wait inside
    the core the set that ends it, for one between cores the turn that does (see `CrossMatches`).
    """

    def __init__(
        self, index: int, synced: SyncRows, first: int, partner: Rows, cross: CrossMatches, faults: SyncFaults
    ) -> None:
        self.index, self.synced, self.first = index, synced, first
        self.partner, self.cross, self.faults = partner, cross, faults
        self.kinds, self.codes = bytes(synced.kind), array("i", synced.code.tobytes())
        self.pipes = bytes(synced.pipe[synced.rows])
        self.raised = [array("i") for _ in synced.flags]
        self.taken = [0] * len(synced.flags)
        self.sets = [0] * len(synced.flags)
        for kind, code in zip(self.kinds, self.codes, strict=True):
            if kind == SET:
                self.sets[code] += 1
        self.blocked: dict[int, deque[int]] = {}
        self._rows: list[int] = synced.rows.tolist()
        self._rows_of: dict[int, Ints] = {}
        self.at = 0
        self.done = False
        self.free_pass = False

    def advance(self) -> None:
        """Process rows until every pipe stands at a wait that cannot pass or has come to its end."""
        kinds, pipes, codes, blocked, count = self.kinds, self.pipes, self.codes, self.blocked, len(self.kinds)
        moved = True
        while moved and not self.done:
            moved = self._blocked_on()
            for item in range(self.at, count):
                kind, pipe = kinds[item], pipes[item]
                if blocked and (_S in blocked or self._rows[item] >= self._issued_until()):
                    break
                if kind == BARRIER_ALL:
                    if blocked and any(p in blocked for p in waited_pipes(self.synced, codes[item])):
                        break
                elif pipe in blocked:
                    blocked[pipe].append(item)
                elif not self._step(item):
                    blocked[pipe] = deque([item])
                self.at, moved = item + 1, True
            self.done = self.at == count and not blocked

    def _blocked_on(self) -> bool:
        """Process the rows behind blocked waits as far as they can pass now; return True if any row was processed."""
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

    def _issued_until(self) -> int:
        """Return the first row that the scalar unit cannot issue because the queue of a standing pipe is full.

        Without one it is the number of rows.
        """
        synced, found = self.synced, [len(self.synced.pipe)]
        for pipe, queue in self.blocked.items():
            if pipe not in self._rows_of:
                self._rows_of[pipe] = np.flatnonzero(synced.pipe == pipe)
            rows, depth = self._rows_of[pipe], synced.program.table.chip.sync.queue_depth[PIPES[pipe]]  # type: ignore[index]
            found += rows[synced.place[self._rows[queue[0]]] + depth :][:1].tolist()
        return min(found)

    def heads(self) -> list[int]:
        """Return the row at which each blocked pipe stands."""
        return [self._rows[queue[0]] for queue in self.blocked.values()]

    def force(self) -> None:
        """Let the waits at which pipes stand in a deadlock pass, so that the rows after them can be checked."""
        self.free_pass = True
        for pipe in list(self.blocked):
            queue = self.blocked[pipe]
            self._step(queue.popleft())
            if not queue:
                del self.blocked[pipe]
        self.free_pass = False

    def _step(self, item: int) -> bool:
        """Process one row that synchronises and return True; return False if it is a wait that cannot pass yet.

        A wait that no set can ever end is recorded as a fault and passes.
        """
        kind, code = self.kinds[item], self.codes[item]
        if kind == SET:
            self.raised[code].append(item)
        elif kind == WAIT:
            turn = self.taken[code]
            if turn < len(self.raised[code]):
                self.partner[self.first + item] = self.first + self.raised[code][turn]
            elif turn >= self.sets[code]:
                self.faults.waits.append(Unpaired(self.index, int(self.synced.rows[item]), 1))
            elif not self.free_pass:
                return False
            self.taken[code] = turn + 1
        elif kind == DISARMED:
            self.taken[code] += 1
        elif kind == CROSS_SET:
            self.cross.set(self.index, self.first + item, code)
        elif kind == CROSS_WAIT:
            return self.cross.wait(self, self.first + item, code)
        return True

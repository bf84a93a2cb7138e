"""An order in which a core can execute a program: pipes have queues of their own, so a wait may be issued before its set."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.isa.base import BARRIER_ALL, CROSS_WAIT, DISARMED, PIPES, SET, WAIT
from ascend_sim.isa.sync import ScalarWait
from ascend_sim.kernel.program import Program


def rows_in_order(program: Program) -> tuple[NDArray[np.int64], list[int]] | None:
    """Return (rows in an order that the core's flags allow, rows at which pipes deadlock); None if the order of issue will do.

    Rows behind a deadlock come last, as issued. Cross-core waits hold nothing here.
    """
    if not _waits_ahead(program.per_row("kind"), program.per_row("flag")):
        return None
    queues = Queues(program)
    order, stuck = queues.go_on(), queues.stuck
    left = np.ones(len(program), np.bool_)
    left[order] = False
    return np.concatenate((np.asarray(order, np.int64), np.flatnonzero(left))), stuck


def lost_set(program: Program) -> int:
    """Return the row of the first set that is lost whatever anything costs, since its flag is still set; -1 if there is none.

    Its pipe has nothing to do since the set before, and the wait between them is issued later. Other sets may be lost or not,
    which time decides. -1 also with a disarmed wait, and on a chip whose flags count beyond 1 or arrive at once (chip file,
    sync).
    """
    kinds, codes, sync = program.per_row("kind"), program.per_row("flag"), program.table.chip.sync
    if sync.flag_max != 1 or not sync.flag_latency or (kinds == DISARMED).any():
        return -1
    rows = np.flatnonzero(codes >= 0)
    rows = rows[np.argsort(codes[rows], kind="stable")]
    code, sets = codes[rows], kinds[rows] == SET
    again = np.flatnonzero(sets[1:] & sets[:-1] & (code[1:] == code[:-1])) + 1
    if not len(again):
        return -1
    pipes, balance = program.per_row("pipe"), np.cumsum(np.where(sets, 1, -1))
    begin = np.searchsorted(code, code[again])
    standing = balance[again - 1] - np.where(begin > 0, balance[begin - 1], 0)
    pairs = zip(rows[again - 1].tolist(), rows[again].tolist(), (standing > 0).tolist(), strict=True)
    return min((row for one, row, stands in pairs if stands and not (pipes[one + 1 : row] == pipes[row]).any()), default=-1)


def _waits_ahead(kinds: NDArray[np.int64], codes: NDArray[np.int64]) -> bool:
    """Return True if some flag has more waits than sets at some row: a wait is issued before its set."""
    rows = np.flatnonzero(codes >= 0)
    raised = [0] * (int(codes.max(initial=-1)) + 1)
    for code, kind in zip(codes[rows].tolist(), kinds[rows].tolist(), strict=True):
        raised[code] += 1 if kind == SET else -1
        if raised[code] < 0:
            return True
    return False


class Queues:
    """Execution of a program's rows by the queues of a core's pipes, in order but without times.

    `done` are rows that were executed before, whose flags count. `passes(row)` is asked at waits for cross-core flags: True
    lets the row pass. Disarmed waits hold nothing.
    """

    def __init__(
        self, program: Program, done: NDArray[np.int64] | None = None, passes: Callable[[int], bool] = lambda row: True
    ) -> None:
        self._program = program
        self._passes = passes
        self._depth: Mapping[Any, int] = program.table.chip.sync.queue_depth
        self._kinds = program.per_row("kind").tolist()
        self._pipes = program.per_row("pipe").tolist()
        self._codes = program.per_row("flag").tolist()
        self._balance: Counter[int] = Counter()
        self._blocked: dict[int, deque[int]] = {}
        self._order: list[int] = []
        left = np.ones(len(program), np.bool_)
        if done is not None:
            left[done] = False
            for row in done.tolist():
                self._count(row)
        self._left = deque(np.flatnonzero(left).tolist())

    def go_on(self) -> list[int]:
        """Execute every row that can execute now, and return those of this call in their order."""
        self._order = []
        self._retry()
        while self._left and self._issue(self._left[0]):
            self._left.popleft()
        return self._order

    @property
    def stuck(self) -> list[int]:
        """Return the rows at which pipes stand: waits for what has not come."""
        return [queue[0] for queue in self._blocked.values()]

    @property
    def ended(self) -> bool:
        """Return True if every row was executed."""
        return not self._left and not self._blocked

    def _issue(self, row: int) -> bool:
        """Execute a row or put it into the queue of its pipe; return False if the scalar unit cannot issue it yet."""
        pipe = self._pipes[row]
        if 0 in self._blocked or (self._kinds[row] == BARRIER_ALL and self._holds(row)):
            return False
        if pipe in self._blocked:
            if len(self._blocked[pipe]) == self._depth[PIPES[pipe]]:
                return False
            self._blocked[pipe].append(row)
        elif not self._work(row):
            self._blocked[pipe] = deque([row])
        elif self._kinds[row] == SET:
            self._retry()
        return True

    def _work(self, row: int) -> bool:
        """Execute a row and return True; return False if it is a wait whose set has not been executed, or a cross-core wait
        that `passes` refuses.
        """
        kind = self._kinds[row]
        if (kind == WAIT and self._balance[self._codes[row]] <= 0) or (kind == CROSS_WAIT and not self._passes(row)):
            return False
        self._count(row)
        self._order.append(row)
        return True

    def _count(self, row: int) -> None:
        """Count the flag that a row sets or takes."""
        kind, code = self._kinds[row], self._codes[row]
        if kind == SET:
            self._balance[code] += 1
        elif kind in (WAIT, DISARMED):
            self._balance[code] -= 1

    def _retry(self) -> None:
        """Execute the rows of blocked pipes as far as their waits allow."""
        moved = True
        while moved:
            moved = False
            for pipe, queue in list(self._blocked.items()):
                while queue and self._work(queue[0]):
                    queue.popleft()
                    moved = True
                if not queue:
                    del self._blocked[pipe]

    def _holds(self, row: int) -> bool:
        """Return True if the scalar unit waits at this row for a blocked pipe: that of a ScalarWait, any at a barrier."""
        one = self._program.table.instructions[int(self._program.rows[row, 0])]
        waited = (PIPES.index(one.on),) if isinstance(one, ScalarWait) else range(1, len(PIPES))
        return any(pipe in self._blocked for pipe in waited)

"""The knowledge that keeps all accesses in order: collected once, compared with other orders of the same task."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ascend_sim.check.clocks import Clocks
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.sync_rows import WIDTH, Ints
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
        """Return (programs, events, owners, rows) of all requirements on pipes of other programs, without repetitions."""
        return distinct(np.concatenate([np.empty((4, 0), np.int64), *self._others], axis=1), axis=1)

    def enough(self, clocks: Clocks, part: Ints | None = None) -> bool:
        """Return True if by the clocks all required rows have retired, at all events or only at those of `part`."""
        here = slice(None) if part is None else part + 1
        if (clocks.retired[here] < self.own[here]).any():
            return False
        program, event, owner, rows = self.others
        if part is not None:
            mine = np.searchsorted(part + 1, event)
            mine = np.flatnonzero(np.append(part + 1, 0)[mine] == event)
            program, event, owner, rows = program[mine], event[mine], owner[mine], rows[mine]
        return bool((clocks.at(program, event, owner) >= rows).all())

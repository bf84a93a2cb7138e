"""Vector clocks: how many rows of every pipe of every program have retired when a row starts."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.frozen import frozen


@frozen
class Clocks:
    """What every row knows when it starts. Rows of all programs stand in one table, those of program p from `offset[p]`.

    Row `row` knows what its pipe learned last, at `event[row]`; nothing at event 0. Then so many rows of pipe q of its own
    program have retired: `retired[event, q]`. `vectors[outer[event]]` has the same for every (program, pipe) of the task;
    `level` orders what is known of others.
    """

    offset: NDArray[np.int64]
    event: NDArray[np.int32]
    retired: NDArray[np.int32]
    outer: NDArray[np.int32]
    vectors: NDArray[np.int32]
    level: NDArray[np.int32]

    def known(self, program: NDArray[np.int64], row: NDArray[np.int64], owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many rows of pipe `owner` (program * WIDTH + pipe) have retired when a row starts."""
        event = self.event[self.offset[program] + row]
        of, pipe = owner // WIDTH, owner % WIDTH
        if len(self.vectors) == 1:  # nobody knows of others
            return np.where(program == of, self.retired[event, pipe], 0)
        return np.where(program == of, self.retired[event, pipe], self.vectors[self.outer[event], owner])


class Known:
    """What is known of other programs: `vectors[number]` counts, for every (program, pipe) of the task, rows that have retired.

    `level` orders the numbers; number 0 is nothing. What two numbers know together is worked out once.
    """

    def __init__(self, programs: int) -> None:
        self.vectors: list[NDArray[np.int32]] = [np.zeros(programs * WIDTH, np.int32)]
        self.level = [0]
        self._joined: dict[tuple[int, int], int] = {}

    def join(self, first: int, second: int) -> int:
        """What two know together."""
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

"""What happens before what in the programs of one task, whatever anything costs: vector clocks over pipes and cores.

A row starts after the rows that its clock counts have retired. Clocks grow at waits, barriers and cross-core waits only, and
what one pipe knows another learns through a flag; so order is transitive. Nothing here asks for cycles: two accesses that are
ordered here are ordered on every chip, and two that are not may meet on some.

The unit flag hands over a tile of L0C and nothing else: what a pipe learns by it counts in L0C, and the other spaces are walked
as if nobody had waited (`TaskOrder.clocks_in`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.clocks import Clocks, Known
from ascend_sim.check.cross_order import CrossOrder, Meetings
from ascend_sim.check.sync_rows import WIDTH, SyncFaults, SyncRows
from ascend_sim.check.walk import ProgramWalk, Step
from ascend_sim.engine.task import Task


class TaskOrder:
    """The order of the programs of a task (`synced`).

    `like` is the order with all waits and barriers: without those in `left_out` (program -> rows) it is worked out from the
    same steps.
    """

    def __init__(
        self,
        task: Task,
        synced: Sequence[SyncRows],
        left_out: Mapping[int, frozenset[int]] | None = None,
        like: TaskOrder | None = None,
    ) -> None:
        self.task = task
        self.synced = synced
        self.left_out = left_out or {}
        self.faults = SyncFaults()
        self._whole = self if like is None else like
        known = Known(len(synced))
        self.cross: CrossOrder = CrossOrder(
            Meetings(synced) if like is None else like.cross.meetings, known, self.faults
        )
        self.steps: list[Step] = []
        self.walks = [
            ProgramWalk(index, one, self.left_out.get(index, frozenset()) | one.loose_waits, self.cross, self.steps)
            for index, one in enumerate(synced)
        ]
        if like is None:
            self._run()
        else:
            self._repeat(like)
        for walk in self.walks:
            walk.count_overflows()
        self.cross.count_overflows()
        learned = [event for walk in self.walks for events in walk.events for event in events]
        offset, event = self._rows() if like is None else (like.clocks.offset, like.clocks.event)
        self.clocks: Clocks = Clocks(
            offset,
            event,
            np.asarray([[0] * WIDTH, *(event[1] for event in learned)], np.int32),
            np.asarray([0, *(event[2] for event in learned)], np.int32),
            np.stack(known.vectors),
            np.asarray(known.level, np.int32),
        )

    def without(self, left_out: Mapping[int, frozenset[int]]) -> TaskOrder:
        """The order without more waits and barriers than this one lacks."""
        both = {i: self.left_out.get(i, frozenset()) | left_out.get(i, frozenset()) for i in range(len(self.synced))}
        return TaskOrder(self.task, self.synced, both, self._whole)

    def part(self, program: int, rows: int) -> PartOrder:
        """The order of the first `rows` of a program alone."""
        return PartOrder(self, program, [step for step in self.steps if step[0].index == program and step[1][0] < rows])

    def clocks_in(self, space: str) -> Clocks:
        """What rows know when they touch a space: of a tile of L0C also what the unit flag says."""
        return self.clocks if space == "L0C" else self.beside_tiles.clocks

    @cached_property
    def beside_tiles(self) -> TaskOrder:
        """Without what unit flags tell."""
        if all(one.tile_waits <= self.left_out.get(index, frozenset()) for index, one in enumerate(self.synced)):
            return self
        return self.without({index: one.tile_waits for index, one in enumerate(self.synced)})

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

    def _repeat(self, like: TaskOrder) -> None:
        for walk, item, forced in like.steps:
            self.walks[walk.index].again(item, forced)
        self.faults.stuck += like.faults.stuck

    def _rows(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Where the rows of every program begin, and when the pipe of every row learned last."""
        counts = [sum(map(len, walk.events)) for walk in self.walks]
        first = np.cumsum([1, *counts])
        last = [walk.last_learned(start) for walk, start in zip(self.walks, first.tolist(), strict=False)]
        return np.cumsum([0, *map(len, last)]), np.concatenate([np.zeros(0, np.int32), *last])


class PartOrder:
    """The order of the first rows of one program, when others tell it as much as they tell it in the whole order."""

    def __init__(self, whole: TaskOrder, program: int, steps: Sequence[Step]) -> None:
        self._whole, self._program, self._steps = whole, program, steps
        counts = [len(events) for walk in whole.walks for events in walk.events]
        first = np.cumsum([1, *counts])[program * WIDTH : (program + 1) * WIDTH]
        self._first: list[int] = first.tolist()

    def without(self, left_out: frozenset[int]) -> Callable[[str], Clocks]:
        """What rows know at most in a space, without the waits and barriers in `left_out`."""
        tiles = self._learned(self._whole, left_out)
        beside = self._whole.beside_tiles
        rest = tiles if beside is self._whole else self._learned(beside, left_out)
        return lambda space: tiles if space == "L0C" else rest

    def _learned(self, order: TaskOrder, left_out: frozenset[int]) -> Clocks:
        walk = order.walks[self._program]
        walk = ProgramWalk(self._program, walk.synced, left_out | walk.left_out, order.cross.told_again(), [])
        for _, item, forced in self._steps:
            walk.again(item, forced)
        before, others = order.clocks, order.cross.others
        retired, outer = before.retired.copy(), before.outer.copy()
        for first, events in zip(self._first, walk.events, strict=True):
            if events:
                retired[first : first + len(events)] = [event[1] for event in events]
                outer[first : first + len(events)] = [event[2] for event in events]
        new = others.vectors[len(before.vectors) :]
        vectors = np.concatenate((before.vectors, new)) if new else before.vectors
        return replace(before, retired=retired, outer=outer, vectors=vectors)

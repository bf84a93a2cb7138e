"""What happens before what in the programs of one task, whatever anything costs: vector clocks over pipes and cores.

A row starts after the rows that its clock counts have retired. Clocks grow at waits, barriers and cross-core waits only, and
what one pipe knows another learns through a flag; so order is transitive. Nothing here asks for cycles: two accesses that are
ordered here are ordered on every chip, and two that are not may meet on some.

The unit flag hands over a tile of L0C and nothing else: what a pipe learns by it counts in L0C, and the other spaces are walked
as if nobody had waited (`TaskOrder.clocks_in`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.clocks import Clocks, Known
from ascend_sim.check.cross_order import CrossOrder, Meetings
from ascend_sim.check.sync_rows import WIDTH, SyncFaults, SyncRows
from ascend_sim.check.walk import ProgramWalk, Step
from ascend_sim.engine.task import Task
from ascend_sim.frozen import frozen


class TaskOrder:
    """The order of the programs of a task (`synced`).

    `first` is the walk with all waits and barriers: without those in `left_out` (program -> rows) the order is worked out from
    its steps.
    """

    def __init__(
        self,
        task: Task,
        synced: Sequence[SyncRows],
        left_out: Mapping[int, frozenset[int]] | None = None,
        first: FirstWalk | None = None,
    ) -> None:
        self.task = task
        self.synced = synced
        self.left_out = left_out or {}
        self.faults = SyncFaults()
        known = Known(len(synced))
        meetings = Meetings(synced) if first is None else first.meetings
        self.cross: CrossOrder = CrossOrder(meetings, known, self.faults)
        steps: list[Step] = []
        self.walks = [
            ProgramWalk(index, one, self.left_out.get(index, frozenset()) | one.loose_waits, self.cross, steps)
            for index, one in enumerate(synced)
        ]
        if first is None:
            self._run()
            first = FirstWalk.of(self.walks, steps, meetings, self.faults.stuck)
        else:
            for program, item, forced in first.steps:
                self.walks[program].again(item, forced)
            self.faults.stuck += first.stuck
        self._first = first
        for walk in self.walks:
            walk.count_overflows()
        self.cross.count_overflows()
        learned = [event for walk in self.walks for events in walk.events for event in events]
        self.clocks: Clocks = Clocks(
            first.offset,
            first.event,
            np.asarray([[0] * WIDTH, *(event[1] for event in learned)], np.int32),
            np.asarray([0, *(event[2] for event in learned)], np.int32),
            np.stack(known.vectors),
            np.asarray(known.level, np.int32),
        )

    def without(self, left_out: Mapping[int, frozenset[int]]) -> TaskOrder:
        """The order without more waits and barriers than this one lacks."""
        both = {i: self.left_out.get(i, frozenset()) | left_out.get(i, frozenset()) for i in range(len(self.synced))}
        return TaskOrder(self.task, self.synced, both, self._first)

    def part(self, left_out: Mapping[int, frozenset[int]], rows: int | None = None) -> PartOrder:
        """The first `rows` (else all) of these programs without the waits and barriers in `left_out`, whatever others do."""
        tiles = self._learned(left_out, rows)
        return PartOrder(tiles, tiles if self.beside_tiles is self else self.beside_tiles._learned(left_out, rows))

    def clocks_in(self, space: str) -> Clocks:
        """What rows know when they touch a space: of a tile of L0C also what the unit flag says."""
        return self.clocks if space == "L0C" else self.beside_tiles.clocks

    @property
    def beside_tiles(self) -> TaskOrder:
        """Without what unit flags tell."""
        return self._beside_tiles or self

    @cached_property
    def _beside_tiles(self) -> TaskOrder | None:
        """That order, where it is another one."""
        if all(one.tile_waits <= self.left_out.get(index, frozenset()) for index, one in enumerate(self.synced)):
            return None
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

    def _learned(self, left_out: Mapping[int, frozenset[int]], rows: int | None) -> Learned:
        before, cross = self.clocks, self.cross.told_again()
        retired, outer = before.retired.copy(), before.outer.copy()
        walks = {}
        for program, out in left_out.items():
            own = self.walks[program]
            walk = walks[program] = ProgramWalk(program, own.synced, out | own.left_out, cross, [])
            for _, item, forced in self._first.steps_of[program]:
                if rows is None or item[0] < rows:
                    walk.again(item, forced)
            for first, events in zip(self._first.first_event[program], walk.events, strict=True):
                if events:
                    retired[first : first + len(events)] = [event[1] for event in events]
                    outer[first : first + len(events)] = [event[2] for event in events]
        new = cross.others.vectors[len(before.vectors) :]
        vectors = np.concatenate((before.vectors, new)) if new else before.vectors
        return Learned(replace(before, retired=retired, outer=outer, vectors=vectors), walks, cross)


@frozen
class FirstWalk:
    """The steps of a walk that others repeat, and what is the same in those: who meets, pipes in a deadlock, and where a row of
    `Clocks` finds what it knows. `first_event` is where what a pipe learned begins there, by program and pipe.
    """

    steps: list[Step]
    meetings: Meetings
    stuck: list[tuple[int, int]]
    offset: NDArray[np.int64]
    event: NDArray[np.int32]
    first_event: list[list[int]]

    @classmethod
    def of(
        cls, walks: Sequence[ProgramWalk], steps: list[Step], meetings: Meetings, stuck: Sequence[tuple[int, int]]
    ) -> FirstWalk:
        """From walks that have come to their end."""
        counts = [[len(events) for events in walk.events] for walk in walks]
        first = np.cumsum([1, *(count for each in counts for count in each)])[:-1].reshape(-1, WIDTH)
        last = [walk.last_learned(start) for walk, start in zip(walks, first[:, 0].tolist(), strict=True)]
        offset, event = np.cumsum([0, *map(len, last)]), np.concatenate([np.zeros(0, np.int32), *last])
        return cls(steps, meetings, list(stuck), offset, event, first.tolist())

    @cached_property
    def steps_of(self) -> list[list[Step]]:
        """The steps by program."""
        found: list[list[Step]] = [[] for _ in self.first_event]
        for step in self.steps:
            found[step[0]].append(step)
        return found


@frozen
class Learned:
    """Some programs of an order walked again: what all rows know then, the walks, and what these tell other programs."""

    clocks: Clocks
    walks: dict[int, ProgramWalk]
    cross: CrossOrder


@frozen
class PartOrder:
    """An order in which some programs were walked again, and other programs told them as much as before.

    `tiles` counts what unit flags say, `rest` does not.
    """

    tiles: Learned
    rest: Learned

    def clocks_in(self, space: str) -> Clocks:
        """What rows know when they touch a space."""
        return self.tiles.clocks if space == "L0C" else self.rest.clocks

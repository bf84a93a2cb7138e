"""What happens before what in the programs of one task, whatever anything costs: vector clocks over pipes and cores.

A row starts after the rows that its clock counts have retired. Clocks grow at waits, barriers and cross-core waits only, and
what one pipe knows another learns through a flag; so order is transitive. Nothing here asks for cycles: two accesses that are
ordered here are ordered on every chip, and two that are not may meet on some.

The unit flag hands over a tile of L0C and nothing else: what a pipe learns by it counts in L0C, and the other spaces are walked
as if nobody had waited (`TaskOrder.clocks_in`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from ascend_sim.check.clocks import Clocks, Known
from ascend_sim.check.cross_order import CrossOrder
from ascend_sim.check.sync_rows import WIDTH, SyncFaults, SyncRows
from ascend_sim.check.walk import ProgramWalk
from ascend_sim.engine.task import Task


class TaskOrder:
    """The order of the programs of a task (`synced`), without the waits and barriers in `left_out` (program -> rows)."""

    def __init__(
        self, task: Task, synced: Sequence[SyncRows], left_out: Mapping[int, frozenset[int]] | None = None
    ) -> None:
        self.task = task
        self.synced = synced
        self.left_out = left_out or {}
        self.faults = SyncFaults()
        known = Known(len(synced))
        self.cross = CrossOrder(synced, known, self.faults)
        self.walks = [
            ProgramWalk(index, one, self.left_out.get(index, frozenset()) | one.loose_waits, self.cross)
            for index, one in enumerate(synced)
        ]
        self._run()
        columns = [walk.columns() for walk in self.walks]
        offset = np.cumsum([0, *(len(retired) for retired, _ in columns)])
        self.clocks = Clocks(
            offset,
            np.concatenate([np.zeros((0, WIDTH), np.int32), *(retired for retired, _ in columns)]),
            np.concatenate([np.zeros(0, np.int32), *(outer for _, outer in columns)]),
            np.stack(known.vectors),
            np.asarray(known.level, np.int32),
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

"""Order of the programs of one task, independent of costs: vector clocks over pipes and cores.

A row starts after the rows that its clock counts have retired. Clocks grow at waits, barriers and cross-core waits only, and
what one pipe knows another learns through a flag; so order is transitive. Nothing here asks for cycles: two accesses that are
ordered here are ordered on every chip, and two that are not may meet on some.

The unit flag hands over only a tile of L0C. Order that a pipe learns by it counts in L0C; the other spaces are ordered without
these waits (`TaskOrder.clocks_in`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from ascend_sim.check.clocks import Bits, Clocks, Events
from ascend_sim.check.matches import Matches
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows, SyncRows, Unpaired
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import CROSS_SET
from ascend_sim.numerics.distinct import distinct


class TaskOrder:
    """Order of the rows of a task's programs as clocks, as if the synchronising rows `out` were not there.

    `out` None leaves out waits for unit flags that the pipe's next work does not use (`SyncRows.loose_waits`).

    `matches` and `events` do not depend on `out`: which set ends a wait does not depend on what pipes know. They are taken from
    `base` if it is given.
    """

    def __init__(self, task: Task, synced: Sequence[SyncRows], base: TaskOrder | None = None, out: Bits | None = None) -> None:
        self.task, self.synced = task, synced
        self.matches: Matches = Matches(synced) if base is None else base.matches
        if base is None:
            self._handed_over = _HandedOver(synced, self.matches)
            self.events = Events(synced, self.matches, self._handed_over.counter)
            self._handed_over.meet(self.events)
        else:
            self._handed_over, self.events = base._handed_over, base.events
        self.out = self._rows({i: one.loose_waits for i, one in enumerate(synced)}) if out is None else out
        self.known: Rows = self.events.spread(self.out)
        """The result of `Events.spread`."""
        self.clocks: Clocks = self._handed_over.clocks(self.known)
        self.faults = replace(self.matches.faults, overflows=self._overflows())

    def without(self, left_out: Mapping[int, Sequence[int]] | Bits) -> TaskOrder:
        """Return a new order with more rows left out: {program: rows}, or a mask over all rows that synchronise."""
        more = self._rows(left_out) if isinstance(left_out, Mapping) else left_out
        return TaskOrder(self.task, self.synced, self, self.out | more)

    def clocks_in(self, space: str) -> Clocks:
        """Return the clocks that order accesses to a space; those of L0C include waits for the unit flag."""
        return self.clocks if space == "L0C" else self.beside_tiles.clocks

    @property
    def beside_tiles(self) -> TaskOrder:
        """Return the order without waits for unit flags, which counts in all spaces but L0C; itself if there are none."""
        return self._beside_tiles or self

    @cached_property
    def _beside_tiles(self) -> TaskOrder | None:
        """Return the order without the unit flag's waits; None if it is this order."""
        return None if (self.out | self._tiles == self.out).all() else self.without(self._tiles)

    @cached_property
    def _tiles(self) -> Bits:
        """Return a mask over all rows that synchronise: True for waits for unit flags."""
        return self._rows({i: one.tile_waits for i, one in enumerate(self.synced)})

    def _rows(self, chosen: Mapping[int, Sequence[int] | Ints]) -> Bits:
        """Return a mask over all rows that synchronise: True for those of `chosen`, {program: rows}."""
        found = np.zeros(len(self.matches.items), np.bool_)
        for program, rows in chosen.items():
            if len(rows):
                first = self.matches.items.first[program]
                own = self.synced[program].rows
                found[first : first + len(own)] |= np.isin(own, rows if isinstance(rows, np.ndarray) else list(rows))
        return found

    def part(self, part: Ints, out: Bits) -> Clocks:
        """Return the clocks at the events `part`, the first ones of some tracks, in an order without the rows `out` as well.

        Clocks that sets hand from core to core stay those of this order. The next call overwrites the result.
        """
        known, retired = self._scratch
        if len(self._changed):
            known[self._changed], retired[self._changed] = self.known[self._changed], self.clocks.retired[self._changed]
        self.events.spread(self.out | out, part, known)
        self._changed = part + 1
        if self.events.inputs:
            retired[part + 1] = self._handed_over.retired(known, self.clocks.vectors, part)
        return replace(self.clocks, retired=retired, outer=known[:, self.events.columns + 1 :])

    _changed: Ints = np.empty(0, np.int64)

    @cached_property
    def _scratch(self) -> tuple[Rows, Rows]:
        """Return copies of the known and retired rows, which `part` overwrites."""
        known = self.known.copy()
        return known, self.clocks.retired.copy() if self.events.inputs else known

    # -- counters ------------------------------------------------------------------------------------------------------

    def _overflows(self) -> list[Unpaired]:
        """Return for each flag that may be raised beyond its maximum the first that does so, with the maximum as its count."""
        items, found = self.matches.items, []
        sync = self.synced[0].program.table.chip.sync if self.synced else None
        for sets, waits, alike in self.counters():
            late = ~self.after(sets, waits)
            for one in sets[late][np.unique(alike[late], return_index=True)[1]].tolist():
                assert sync is not None
                most = sync.cross_flag_max if items.kind[one] == CROSS_SET else sync.flag_max
                found.append(Unpaired(int(items.program[one]), int(items.row[one]), most))
        return found

    def counters(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield (sets, waits, numbers) first for flags inside cores, then for counters between cores.

        Set i would raise its flag beyond its maximum unless wait i passes before it (-1: there is none). Entries with equal
        numbers belong to the same flag, or to the same counter and waiting program.
        """
        sets, waits = self.matches.counted
        yield sets, waits, self.matches.items.flags(sets)
        yield self.matches.cross.counted

    def after(self, sets: Ints, waits: Ints) -> Bits:
        """Return True for each set before which its wait is surely over; False for one whose wait is -1 (none)."""
        items = self.matches.items
        owner = items.program[waits].astype(np.int64) * WIDTH + items.pipe[waits]
        known = self.clocks.at(items.program[sets], self.events.before(sets), owner)
        own = (items.program[sets] == items.program[waits]) & (items.pipe[sets] == items.pipe[waits])
        return (waits >= 0) & (np.where(own, items.place[sets], known) > items.place[waits])


class _HandedOver:
    """Knowledge of retired rows that flags between cores hand from program to program.

    Cores with common flags are a group: all cores of a task, or those of a block.
    """

    def __init__(self, synced: Sequence[SyncRows], matches: Matches) -> None:
        self.matches, items, cross = matches, matches.items, matches.cross
        self.sets = np.asarray([item for sets in cross.released for item in sets], np.int64)
        self.release = np.repeat(np.arange(len(cross.released)), list(map(len, cross.released)))
        counters: dict[object, int] = {}
        told = zip(cross.of, cross.released, strict=True)
        self.counter = np.asarray(
            [counters.setdefault((group, items.pipe[sets].tobytes()), len(counters)) for group, sets in told], np.int64
        )
        """The counter of each set that came together. Where the same pipes make them, the later ones know all that earlier ones
        did.
        """
        blocks: dict[int, int] = {}
        alone = not any(group[1] == 0 for group in cross.of)
        self.group = np.asarray([blocks.setdefault(one.program.block if alone else 0, len(blocks)) for one in synced], np.int64)
        self.offset = np.cumsum([0, *(len(one.pipe) for one in synced)])

    def meet(self, events: Events) -> None:
        """Assign the columns of the vectors for `events`: one for each pipe of each program in a group of cores."""
        self.events, columns = events, events.columns
        order = np.argsort(self.group, kind="stable")
        first = np.searchsorted(self.group[order], self.group[order])
        place = np.empty(len(order), np.int64)
        place[order] = (np.arange(len(order)) - first) * columns
        self.place = np.full((len(order), WIDTH), -1)
        self.place[:, events.pipes] = place[:, None] + np.arange(columns)
        self.width = int(place.max(initial=0)) + columns
        self.before = events.before(self.sets)

    def clocks(self, known: Rows) -> Clocks:
        """Return the clocks of an order from `known`, the result of `Events.spread`."""
        events = self.events
        vectors, level = self._vectors(known)
        retired = known
        if events.inputs:
            retired = np.zeros((len(known), events.columns + 1), np.int32)
            retired[1:] = self.retired(known, vectors, np.arange(len(events)))
        return Clocks(
            self.offset, events.of_row, events.column, retired, known[:, events.columns + 1 :], vectors, level,
            self.place.ravel(), self.group,
        )  # fmt: skip

    def retired(self, known: Rows, vectors: Rows, part: Ints) -> Rows:
        """Return an array [event of `part`, pipe of its own program] of the numbers of rows known to have retired.

        It joins `known`, from `Events.spread`, with what sets of other cores hand on (`vectors`).
        """
        found = known[part + 1, : self.events.columns + 1]
        own = self.place[self.matches.items.program[self.events.item[part]]][:, self.events.pipes]
        for release in known[part + 1, self.events.columns + 1 :].T:
            np.maximum(found[:, :-1], vectors[release[:, None], own], out=found[:, :-1])
        return found

    def _vectors(self, known: Rows) -> tuple[Rows, Rows]:
        """Return (vectors, levels) for the sets that completed a turn of a cross-core counter: the rows known to have retired
        there, by pipe of the group's programs, and the length of the chain of such sets behind that knowledge.

        Entry 0 knows nothing.
        """
        events, items, columns = self.events, self.matches.items, self.events.columns
        vectors = np.zeros((len(self.counter) + 1, self.width), np.int32)
        level = np.zeros(len(vectors), np.int32)
        if not events.inputs:
            return vectors[:1], level[:1]
        mine = known[self.before, :columns]
        mine[np.arange(len(mine)), events.column[items.pipe[self.sets]]] = items.place[self.sets]
        vectors[self.release[:, None] + 1, self.place[items.program[self.sets]][:, events.pipes]] = mine
        heard = known[self.before, columns + 1 :].astype(np.int64)
        pairs = distinct(self.release[:, None] * len(vectors) + heard) if len(self.sets) else heard.ravel()
        later, earlier = pairs // len(vectors) + 1, pairs % len(vectors)
        first = np.flatnonzero(np.diff(later, prepend=0))
        at = later[first]
        for one, other in zip(later.tolist(), earlier.tolist(), strict=True):  # earlier ones have their level by then
            level[one] = max(level[one], level[other] + 1)
        grows = len(at) > 0
        while grows:
            more = np.maximum.reduceat(vectors[earlier], first)
            grows = bool((more > vectors[at]).any())
            vectors[at] = np.maximum(vectors[at], more)
        return vectors, level

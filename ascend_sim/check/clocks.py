"""Clocks: how many rows of every pipe of every program have retired when a row starts.

A pipe learns at waits and barriers: the rows before a set have retired, and so have all rows that the pipe of the set knew
there. It never forgets, so only the latest set of each pipe counts. Knowledge through third pipes follows in as many rounds as
there are pipes: a path that meets a pipe twice is no better than one that stays on it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.check.matches import Matches
from ascend_sim.check.sync_rows import WIDTH, Ints, Rows, SyncRows
from ascend_sim.check.walk import waited_pipes
from ascend_sim.frozen import frozen
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, CROSS_SET, CROSS_WAIT, DISARMED, SET, WAIT
from ascend_sim.numerics.distinct import distinct

Bits = NDArray[np.bool_]


@frozen(eq=False)
class Clocks:
    """For every row of all programs, the number of rows of each pipe that have retired when it starts.

    Row `row` of program p knows what its last event, `event[offset[p] + row]`, knew (0: nothing): `retired[event, column[q]]`
    rows of pipe q of its own program have retired. Of another program in its `group`, it knows the maximum of `vectors[v,
    place]` over v in `outer[event]`, where `place` stands for (program, pipe), -1 for none. `level` is the depth of each
    vector.
    """

    offset: Ints
    event: Rows
    column: Ints
    retired: Rows
    outer: Rows
    vectors: Rows
    level: Rows
    place: Ints
    group: Ints

    def known(self, program: Ints, row: Ints, owner: Ints) -> Rows:
        """Return for each (program, row) the rows of pipe `owner` (program * WIDTH + pipe) that have retired when it starts."""
        return self.at(program, self.event[self.offset[program] + row], owner)

    def at(self, program: Ints, event: Rows, owner: Ints) -> Rows:
        """Return for each event of a program the number of rows of pipe `owner` retired by then; 0 in another group."""
        of, pipe = owner // WIDTH, owner % WIDTH
        own = self.retired[event, self.column[pipe]]
        if len(self.vectors) == 1:  # no program knows of others
            return np.where(program == of, own, 0)
        there = (self.group[program] == self.group[of]) & (self.place[owner] >= 0)
        place = np.where(there, self.place[owner], 0)
        others = np.zeros(len(event), np.int32)
        for column in range(self.outer.shape[1]):
            np.maximum(others, self.vectors[self.outer[event, column], place], out=others)
        return np.where(program == of, own, np.where(there, others, 0))

    def levels(self, event: Rows) -> Rows:
        """Return for each event the number of sets between cores in the longest chain behind its knowledge; 0 for none."""
        found: Rows = self.level[self.outer[event]].max(axis=1, initial=0)
        return found


class Events:
    """Events: points at which a pipe learns that rows have retired, sorted by track (pipe of a program) and row.

    Events are numbered from 1; 0 stands for the time before all. Arrays have event number i + 1 at index i. There the pipe
    learns that `heard[i, q]` rows of pipe q have retired, and all that pipe q knew at its event number `through[i, q]`. A wait
    for other cores also learns what their set number `released[i]` - 1 hands on (0: none), in column `meets[i]` of `inputs`. A
    wait of the scalar unit is an event of every pipe, as later rows are issued after it.
    """

    def __init__(self, synced: Sequence[SyncRows], matches: Matches, counter: Ints) -> None:
        """Collect the events of `matches`; `counter` has the number of the counter that each set between cores raises.

        A barrier of the scalar unit waits for its own stores too.
        """
        self.matches, items = matches, matches.items
        counts = np.stack([np.bincount(one.pipe, minlength=WIDTH) for one in synced])
        flags = np.isin(items.kind[items.pipe == 0], (SET, WAIT, DISARMED, CROSS_SET, CROSS_WAIT)).any()
        if not flags and not any(one.scalar_access for one in synced):
            counts[:, 0] = 0  # the scalar unit starts nothing that has to be in order
        self.pipes = np.flatnonzero(counts.any(axis=0))
        self.columns = len(self.pipes)
        self.column = np.full(WIDTH, self.columns)
        self.column[self.pipes] = np.arange(self.columns)
        self._far = int(max((len(one.pipe) for one in synced), default=0)) + 1
        kind, ends = items.kind, matches.partner >= 0
        waits = (kind == CROSS_WAIT) & ends
        learns = np.flatnonzero((kind == BARRIER) | ((kind == WAIT) & ends) | waits)
        joins = np.flatnonzero((kind == BARRIER_ALL) | ((items.pipe == 0) & np.isin(kind, (WAIT, CROSS_WAIT))))
        before = self._before(synced, joins)
        joined = counts[items.program[joins]][:, self.pipes] > 0
        joined &= (self.pipes != 0) | (kind[joins] == BARRIER_ALL)[:, None]  # for S itself it is in `learns`
        join, column = np.nonzero(joined)
        item = np.concatenate((learns, joins[join]))
        column = np.concatenate((self.column[items.pipe[learns]], column))
        place = np.concatenate((items.place[learns], before[join, column[len(learns) :]]))
        track = items.program[item] * self.columns + column
        key = track.astype(np.int64) * self._far + items.row[item]
        order = np.argsort(key, kind="stable")
        self.item: Rows = item[order].astype(np.int32)
        self._key, self._track, self._place = key[order], track[order], place[order]
        tracks = len(synced) * self.columns
        self._first = np.searchsorted(self._track, np.arange(tracks + 1))
        self.heard = np.zeros((len(order), self.columns), np.int32)
        self.through = np.zeros((len(order), self.columns), np.int32)
        self._hear(joins, before, learns, np.argsort(order, kind="stable"), join)
        own = self.pipes[self._track % self.columns] == items.pipe[self.item]
        self.released: Rows = np.where(waits[self.item] & own, matches.partner[self.item] + 1, 0).astype(np.int32)
        self.meets, self.inputs = self._meet(counter)
        self.of_row = self._of_rows(synced)

    def __len__(self) -> int:
        return len(self.item)

    def _before(self, synced: Sequence[SyncRows], joins: Ints) -> Rows:
        """Return [join, pipe]: for each of the scalar unit's waits and barriers `joins`, the rows of each pipe before it."""
        items, found = self.matches.items, np.zeros((len(joins), self.columns), np.int32)
        for program in distinct(items.program[joins]).tolist():
            mine = items.program[joins] == program
            for column, pipe in enumerate(self.pipes.tolist()):
                rows = np.flatnonzero(synced[program].pipe == pipe)
                found[mine, column] = np.searchsorted(rows, items.row[joins[mine]])
        return found

    def _hear(self, joins: Ints, before: Rows, learns: Ints, number: Ints, join: Ints) -> None:
        """Set `heard` and `through` of all events.

        The first entries of `number` are the events of the rows `learns`, the rest those of the scalar waits and barriers
        `joins[join]`. `before` is the result of `_before`.
        """
        items = self.matches.items
        barriers = items.kind[learns] == BARRIER
        waits = items.kind[learns] == WAIT
        own = learns[barriers]
        self.heard[number[: len(learns)][barriers], self.column[items.pipe[own]]] = items.place[own]
        sets = self.matches.partner[learns[waits]]
        at, column = number[: len(learns)][waits], self.column[items.pipe[sets]]
        self.heard[at, column], self.through[at, column] = items.place[sets], self.before(sets)
        if len(joins):
            heard, through = before.copy(), np.zeros_like(before)
            program = items.program[joins]
            for column in range(self.columns):
                through[:, column] = self._last(program * self.columns + column, items.row[joins])
            barrier = items.kind[joins] == BARRIER_ALL
            codes, which = np.unique(np.stack((program, items.code[joins]))[:, barrier], axis=1, return_inverse=True)
            held = np.zeros((codes.shape[1], self.columns), np.bool_)
            for place, (one, code) in enumerate(codes.T.tolist()):
                held[place] = np.isin(self.pipes, (0, *waited_pipes(self.matches.synced[one], code)))
            waited = np.broadcast_to(self.pipes == 0, heard.shape).copy()
            waited[barrier] = held[which.ravel()]
            heard[~waited] = through[~waited] = 0
            if not barrier.all():
                passed, column = joins[~barrier], self.column[0]
                heard[~barrier, column] = items.place[passed] + 1
                through[~barrier, column] = self._last(program[~barrier] * self.columns + column, items.row[passed] + 1)
            at = number[len(learns) :]
            self.heard[at], self.through[at] = heard[join], through[join]

    def before(self, items: Ints | Rows) -> Ints:
        """Return for each row that synchronises the number of its pipe's last event before it; 0 if there is none."""
        of = self.matches.items
        return self._last(of.program[items] * self.columns + self.column[of.pipe[items]], of.row[items])

    def _last(self, track: Ints, row: Rows) -> Ints:
        """Return for each (track, row) the number of the track's last event before the row; 0 if there is none."""
        number = np.searchsorted(self._key, track.astype(np.int64) * self._far + row)
        return np.where(number > self._first[track], number, 0)

    def _meet(self, counter: Ints) -> tuple[NDArray[np.int16], int]:
        """Return (column of each event's counter, number of columns); counters between cores are numbered within each program.

        `counter` has the counter that each completing set raises. Events that wait for no counter have column 0.
        """
        meets = np.zeros(len(self), np.int16)
        waits = np.flatnonzero(self.released)
        program = self.matches.items.program[self.item[waits]].astype(np.int64)
        keys, which = np.unique(
            program * (int(counter.max(initial=0)) + 1) + counter[self.released[waits] - 1], return_inverse=True
        )
        owners = keys // (int(counter.max(initial=0)) + 1)
        column = np.arange(len(keys)) - np.searchsorted(owners, owners)
        meets[waits] = column[which]
        return meets, int(column.max(initial=-1)) + 1

    def _of_rows(self, synced: Sequence[SyncRows]) -> Rows:
        """Return, for every row of all programs in order, the last event at which its pipe learned before it; 0 for none."""
        found = []
        for program, one in enumerate(synced):
            event = np.zeros(len(one.pipe), np.int32)
            for column, pipe in enumerate(self.pipes.tolist()):
                track = program * self.columns + column
                first, end = self._first[track], self._first[track + 1]
                if first < end:
                    rows = np.flatnonzero(one.pipe == pipe)
                    learned = np.bincount(self._place[first:end], minlength=len(rows) + 1)[: len(rows)]
                    passed = np.cumsum(learned)
                    event[rows] = np.where(passed > 0, first + passed, 0)
            found.append(event)
        return np.concatenate([np.empty(0, np.int32), *found])

    def spread(self, out: Bits, part: Ints | None = None, known: Rows | None = None) -> Rows:
        """Return an array [event, pipe] of the numbers of rows known to have retired, as if the rows `out` did not synchronise.

        Row 0 is the time before all events. After the columns of `pipes` come a column of zeros and, for each counter between
        cores, the last set heard of. With `part` (indices of the first events of some tracks) only these are computed, into
        `known`, which already has the other events.
        """
        here: Ints | slice = slice(None) if part is None else part
        gone, track = out[self.item[here]], self._track[here]
        first = track.astype(np.int64) << 32
        heard, through, ends = self.heard[here].copy(), self.through[here].copy(), self.released[here].copy()
        heard[gone] = through[gone] = ends[gone] = 0
        for column in range(self.columns):
            for one in (heard, through):
                if one[:, column].any():
                    one[:, column] = np.maximum.accumulate(one[:, column] + first) - first
        if known is None:
            known = np.zeros((len(self) + 1, self.columns + 1 + self.inputs), np.int32)
        at = np.arange(1, len(self) + 1) if part is None else part + 1
        now = np.zeros((len(at), known.shape[1]), np.int32)
        now[:, : self.columns] = heard
        for column in range(self.inputs):
            mine = np.where(self.meets[here] == column, ends, 0)
            now[:, self.columns + 1 + column] = np.maximum.accumulate(mine + first) - first
        known[at] = now
        heard_of = [column for column in range(self.columns) if through[:, column].any()]
        grows = True
        while grows:
            grows = False
            for column in heard_of:
                more = known[through[:, column]]
                if (more > now).any():
                    np.maximum(now, more, out=now)
                    known[at] = now
                    grows = True
        return known

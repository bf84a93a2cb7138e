"""The order of value events (starts and retirements) of a run.

It follows time: at one instant first the retirements, then the starts, each by (task, block, pipe, row). But programs meet in
GM only. So each runs alone up to the next bytes that one of them writes and another one touches; at such bytes they take turns
in the order of time. Every instruction finds the same bytes as in the order of time, and a program's buffers stay in the
processor's cache for longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.frozen import frozen
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT
from ascend_sim.numerics.distinct import distinct

Numbers = NDArray[np.int64]
_NONE = np.empty(0, np.int64)
_PHASES = 3


@frozen
class ValueEvents:
    """A start and a retirement of each instruction that has values, in the order of this module, not of time alone.

    Per event: `owner`, the index of its program; `row` in that program; `pair`, the number of its
    instruction among those of all programs; `starts`, 1 for a start and 0 for a retirement.
    """

    owner: Numbers
    row: Numbers
    pair: Numbers
    starts: NDArray[np.int8]

    @classmethod
    def of(cls, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> ValueEvents:
        """Return the events of `programs` of `tasks` in the order that this module explains; none for no programs.

        An instruction that `publishes` ends its program's turn like bytes in GM that programs share.
        """
        if not programs:  # a call whose outputs are empty launches nothing
            return cls(_NONE, _NONE, _NONE, np.empty(0, np.int8))
        rows, retires, starts = zip(*(_instructions(run) for run in programs), strict=True)
        row, retire, start = (np.concatenate(parts) for parts in (rows, retires, starts))
        owner = np.repeat(np.arange(len(programs)), [len(some) for some in rows])
        # An instruction that starts and retires at one instant still reads before it commits, hence the third phase.
        instant = _PHASES * np.concatenate((retire, start))
        instant += np.concatenate((np.where(retire == start, 2, 0), np.ones(len(start), np.int64)))
        in_time = np.argsort(instant, kind="stable")
        place = np.empty(len(in_time), np.int64)  # of all retirements, then of all starts
        place[in_time] = np.arange(len(in_time))
        whose = np.concatenate((owner, owner))
        narrow = np.uint16 if len(programs) <= 1 << 16 else np.uint32  # numpy sorts 16-bit numbers by radix
        mine = in_time[np.argsort(whose[in_time].astype(narrow), kind="stable")]
        meetings = _Gm.of(tasks, programs, rows).meetings(_stretches(len(programs), whose, place))
        if any(run.program.table.column("publishes").any() for run in programs):
            shown = [run.program.per_row("publishes")[some] > 0 for run, some in zip(programs, rows, strict=True)]
            meetings = np.concatenate((meetings, np.flatnonzero(np.concatenate(shown))))
        order = _in_turns(whose, place, mine, meetings)
        pair = order % max(len(row), 1)
        return cls(owner[pair], row[pair], pair, (order >= len(row)).astype(np.int8))


def _instructions(run: ProgramRun) -> tuple[Numbers, Numbers, Numbers]:
    """Return (rows that have values, their retirements, the cycles at which they have read), pipe by pipe.

    Pipe by pipe is the order of a program's events at one instant.
    """
    table, instruction = run.program.table, run.program.rows[:, 0]
    rows = np.flatnonzero(table.column("has_values")[instruction])
    rows = rows[np.argsort(table.column("pipe")[instruction[rows]], kind="stable")]
    return rows, run.retire[rows], run.read_at()[rows]


def _stretches(programs: int, owner: Numbers, place: Numbers) -> Numbers:
    """Return for each program the number of its stretch of time: programs that overlap in time, directly or through others,
    share one.

    `owner` and `place` have the program and the rank in time of each event.
    """
    first, last = np.full(programs, len(place)), np.full(programs, -1)
    np.minimum.at(first, owner, place)
    np.maximum.at(last, owner, place)
    order = np.argsort(first, kind="stable")
    until = np.maximum.accumulate(last[order])
    found = np.zeros(programs, np.int64)
    found[order[1:]] = np.cumsum(first[order[1:]] > until[:-1])
    return found


def _in_turns(owner: Numbers, place: Numbers, mine: Numbers, meetings: Numbers) -> Numbers:
    """Return the indices of the events in the order in which programs take turns.

    `place` is each event's rank in time, `mine` the events sorted by program. A turn of a program ends with one of the events
    `meetings` or with its last event; turns are sorted by their last event.
    """
    ends = np.zeros(len(place), np.bool_)
    ends[meetings] = True
    ends = ends[mine]
    ends[:-1] |= np.diff(owner[mine]) != 0
    ends[-1:] = True
    at = np.flatnonzero(ends)
    turn = np.repeat(place[mine[at]], np.diff(at, prepend=-1))
    return mine[np.argsort(turn, kind="stable")]


@frozen
class _Gm:
    """Accesses to GM as columns: program, slot of the tensor, first byte and end, True for a write, and the event."""

    owner: Numbers
    slot: Numbers
    low: Numbers
    high: Numbers
    writes: NDArray[np.bool_]
    event: Numbers

    @classmethod
    def of(cls, tasks: Sequence[Task], programs: Sequence[ProgramRun], rows: Sequence[Numbers]) -> _Gm:
        """Return the accesses to GM of `rows` of each program as columns; reads belong to an instruction's start, writes to its
        retirement.
        """
        known, count = 0, sum(len(some) for some in rows)
        columns: list[tuple[NDArray[Any], ...]] = [(_NONE, _NONE, _NONE, _NONE, np.empty(0, np.bool_), _NONE)]
        for owner, (run, some) in enumerate(zip(programs, rows, strict=True)):
            number = np.full(len(run.program), -1)
            number[some] = np.arange(known, known + len(some))
            known += len(some)
            row, place = run.program.accesses("GM")
            row, place = row[number[row] >= 0], place[number[row] >= 0]
            touch = run.program.table.touches.columns[place]
            writes = touch["writes"] > 0
            operand = run.program.rows[row, touch["column"]]
            bases = np.asarray([*(tensor.base for tensor in tasks[run.task].tensors), 0], np.int64)
            slot = np.minimum(operand >> SLOT_SHIFT, len(bases) - 1)
            low = bases[slot] + (operand & OFFSET_MASK) + touch["offset"]
            event = number[row] + np.where(writes, 0, count)
            columns.append((np.full(len(row), owner), slot, low, low + touch["extent"] - touch["offset"], writes, event))
        return cls(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def meetings(self, stretches: Numbers) -> Numbers:
        """Return the events at bytes that one program writes and another one of the same stretch touches.

        All bytes from the first to the last that a program touches of a tensor count.
        """
        apart = stretches[self.owner] * (int(self.high.max(initial=0)) + 1)  # as if each stretch had a GM of its own
        low, high = self.low + apart, self.high + apart
        touched, written = self._pieces(low, high, self.writes | True), self._pieces(low, high, self.writes)
        edges = distinct(np.concatenate(touched + written))
        met = (_cover(edges, *touched) > 1) & (_cover(edges, *written) > 0)
        before = np.concatenate(([0], np.cumsum(met)))
        first, past = np.searchsorted(edges, low, "right") - 1, np.searchsorted(edges, high)
        return self.event[before[past] > before[first]]

    def _pieces(self, low: Numbers, high: Numbers, chosen: NDArray[np.bool_]) -> tuple[Numbers, Numbers]:
        """Return (first bytes, ends) of the hulls of the `chosen` accesses, one for each pair of program and tensor, sorted by
        program, then tensor; pairs without a chosen access are left out.
        """
        which = (self.owner * (int(self.slot.max(initial=0)) + 1) + self.slot)[chosen]
        order = np.argsort(which, kind="stable")
        if not len(order):
            return _NONE, _NONE
        begin = np.flatnonzero(np.diff(which[order], prepend=-1))
        return np.minimum.reduceat(low[chosen][order], begin), np.maximum.reduceat(high[chosen][order], begin)


def _cover(edges: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """Return for each edge the number of ranges (`low` to `high`) that cover the bytes from it to the next edge."""
    ends = (np.bincount(np.searchsorted(edges, some), minlength=len(edges)) for some in (low, high))
    return np.cumsum(np.subtract(*ends))

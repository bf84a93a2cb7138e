"""Loops of a user's kernel whose turns are repeated: `k.range` and `k.each`.

    for row in k.range(k.block, len(x), k.blocks):      # the rows of range(k.block, len(x), k.blocks)
        k.gm_to_ub(tiles, x[row])

The body runs with a `Tracked` in the place of `row`, and what it writes is a stamp. The stamp is repeated wherever three things
are the same: the answers that the body got (`tracked`), the phase of the kernel (`stamp`), and what the body takes from
outside (`loop_body`, `snapshot`). Elsewhere the body runs again.

The rows are those of the plain loop. Where turns hang together, or the source is not understood, the loop is a plain one. A
counter in a module is state that the loop cannot see. So the body runs for the first repetition of each stamp in a launch, and
the rows are compared; later repetitions are compared ever more rarely.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import field
from itertools import chain, repeat
from operator import index, sub
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.kernel.loop_body import names_from_outside
from ascend_sim.kernel.loops import StampedLoops
from ascend_sim.kernel.snapshot import Snapshots, Unknown
from ascend_sim.kernel.stamp import FAR, Place, Stamp, like, placed
from ascend_sim.kernel.tracked import Trace

Item = TypeVar("Item")
_FEWEST = 8
"""Turns of all blocks together from which on a loop is traced; to trace a turn takes as long as to write several."""
_TRIALS = 32
"""Turns whose body may run before the loop has to repeat as many."""
_MOST_STAMPS = 1 << 14
"""Stamps of a task from which on loops go on as plain ones; a task holds its stamps until it ends."""
_COMPARED = frozenset([8**power for power in range(20)])
"""Repetitions of a stamp in a launch whose body runs all the same, to compare its rows."""


@mutable(eq=False)
class TracedLoop:
    """Stamps of one loop, by (number of the phase, fixed part of an item); for runs with equal state of the builder and equal
    outer values.

    `moved` caches numbers of moved phases, by (phase, distance).
    """

    stamps: dict[tuple[int, Hashable], list[Stamp]] = field(default_factory=dict)
    moved: dict[tuple[int, Place], int] = field(default_factory=dict)
    hangs_together: bool = False
    """True if a turn was seen to depend on earlier turns, so that no stamp is right."""

    def stamp_at(self, phase: int, what: Hashable, place: Place, block: int) -> Stamp | None:
        """Return the first stamp of a phase and part `what` whose guards hold at `place` and that fits `block`; None if there
        is none.
        """
        for stamp in self.stamps.get((phase, what), ()):
            if stamp.holds(place) and stamp.block in (None, block):
                return stamp
        return None


@mutable
class TurnCount:
    """Counts of the loops of one source line: all turns, and the turns in which the body ran and was not just repeated."""

    turns: int = 0
    runs: int = 0

    @property
    def is_in_vain(self) -> bool:
        """Return True once the body ran more than 32 times and in more than half of the turns: tracing should stop."""
        return self.runs > _TRIALS and 2 * self.runs > self.turns


class TracedLoops(StampedLoops):
    """Methods `range` and `each` of a kernel, whose loops are traced as this module explains."""

    if TYPE_CHECKING:
        blocks: int
        _block: int
        _asked_block: bool

    repeats: dict[int, int] | None = None
    """Number of repetitions of each stamp in a launch, by the stamp's number; its builders share it. None for the project's own
    kernels: all their loops are traced, and no turn is compared.
    """
    _items: Sequence[Any] | None = None
    _pieces: Sequence[tuple[Hashable, Place]] = ()
    """Items that were split before their loop began."""

    def range(self, start: int, stop: int | None = None, step: int = 1) -> Iterator[int]:
        """Return an iterator over `range(start, stop, step)`, for a loop whose turns are written once and repeated.

        The program is that of a plain loop. It is run as a plain one, among others, if a variable carries a value from one turn
        to the next, its source is not understood, or it has too few turns to gain.
        """
        if stop is None:
            start, stop = 0, start
        if self._trace is not None:
            return _range_in_turn(start, stop, step)
        return self._traced(range(index(start), index(stop), index(step)), sys._getframe(1))

    def each(self, items: Sequence[Item]) -> Iterator[Item]:
        """Return an iterator over a prepared list, for a loop whose turns are written once and repeated, as for `range`.

        Whole numbers, alone or in tuples, and the starts of slices may move from turn to turn; all else decides which rows a
        turn has.
        """
        return self._traced(items, sys._getframe(1))

    def split(self, items: Sequence[Any]) -> Sequence[tuple[Hashable, Place]]:
        """Return (fixed part, place) of each item for a loop of `each`; the place has the item's numbers that can move.

        Returns [] for no items, if no number can move, and if the items cannot be split (`_split_all`). The builder keeps the
        result for the loop over the same `items` object that follows.
        """
        try:
            self._items, self._pieces = items, list(_split_all(items, Snapshots({}, self))) if items else []
        except Unknown:
            self._items, self._pieces = None, []
        return self._pieces if self._pieces and self._pieces[0][1] else []

    def _traced(self, items: Sequence[Any], frame: FrameType) -> Iterator[Any]:
        few = len(items) * self.blocks < (1 if self.repeats is None else _FEWEST)
        if not self.stamping or self._outer is not None or few:
            return iter(items)
        names = names_from_outside(frame.f_code, frame.f_lineno)
        return iter(items) if names is None else self._turns(items, frame, names)

    def _turns(self, items: Sequence[Any], frame: FrameType, names: frozenset[str]) -> Iterator[Any]:
        """Yield the items of a traced loop; a turn whose stamp is known is appended without running the body, unless its rows
        are to be compared (`_is_compared`).

        `frame` runs the loop, `names` are the outer names that its body reads. The loop is a plain one if an outer value or an
        item cannot be compared. So is its rest once turns depend on each other or tracing does not pay. Raises SimError for a
        compared turn that writes other rows than an earlier repetition (`_differs`).
        """
        stamps, line = self.table.stamps, (frame.f_code, frame.f_lineno)
        snapshots = Snapshots(frame.f_globals, self)
        try:
            around = snapshots.of_names(names, frame.f_locals)
            pieces = self._pieces if items is self._items else _split_all(items, snapshots)
        except Unknown:
            yield from items
            return
        if self._inspection is not None:
            self._inspection.stamped = True
        loop = stamps.of_traced.setdefault((line, around, self.blocks, self._surroundings()), TracedLoop())
        count = stamps.turn_counts.setdefault(line, TurnCount())
        phase = -1
        last: Place = ()
        for number, (what, place) in enumerate(pieces):
            given_up = self.repeats is not None and (count.is_in_vain or len(stamps.known) > _MOST_STAMPS)
            if loop.hangs_together or given_up:
                if phase >= 0:
                    self._resume(phase, placed(last))
                yield from items[number:]
                return
            count.turns += 1
            phase, last = self._phase_at(loop, phase, place, last), place
            known = loop.stamp_at(phase, what, place, self._block)
            if known is not None and not self._is_compared(known):
                self._put(known, place)
                phase = known.after
                continue
            count.runs += 1
            turn = self._begin_turn(place, phase, traced=known is None)
            try:
                yield items[number] if turn is None else _at(items[number], iter(turn.numbers()))
            except GeneratorExit:  # the loop ends here, or its body raised
                if self._turn is place:
                    self._leave_turn()
                raise
            if self._turn is not place:  # the body did what no stamp repeats
                loop.hangs_together, phase = True, -1
                continue
            made = self._end_turn()
            if known is None:
                known = self._add(loop, (phase, what), made)
            elif not _repeats(known, made, place):
                known = self._differs(loop, (phase, what), known, made)
            self._put(known, place)
            phase = known.after
            if self.repeats is not None:
                loop.hangs_together |= around != self._around(snapshots, names, frame)
        if phase >= 0:
            self._resume(phase, placed(last))

    @staticmethod
    def _around(snapshots: Snapshots, names: frozenset[str], frame: FrameType) -> Hashable:
        """Return a snapshot of the outer values `names` that the body reads; None if the state of a value cannot be seen."""
        try:
            return snapshots.of_names(names, frame.f_locals)
        except Unknown:
            return None

    def _phase_at(self, loop: TracedLoop, phase: int, place: Place, last: Place) -> int:
        """Return the number of phase `phase`, left at place `last`, as seen from `place`; -1: of the kernel's present state."""
        stamps = self.table.stamps
        if phase < 0:
            return stamps.number(self._phase(place))
        by = phase, tuple(map(sub, place, last))
        found = loop.moved.get(by, -1)
        if found < 0:
            found = loop.moved[by] = stamps.moved(*by)
        return found

    def _begin_turn(self, place: Place, phase: int, traced: bool) -> Trace | None:
        """Set the builder's state to phase number `phase` and direct all further rows to a new stamp for the turn at `place`;
        return the turn's trace if `traced`, else None.
        """
        trace = Trace(place) if traced else None
        self._resume(phase, placed(place) if trace is None else trace.number)
        self._begin_stamp()
        self._turn, self._trace, self._asked_block = place, trace, False
        return trace

    def _is_compared(self, stamp: Stamp) -> bool:
        """Count a repetition of the stamp and return True if the body must run this time, to compare its rows: at 1, 8, 64
        and so on.

        Always False for the project's own kernels, which count no repetitions.
        """
        if self.repeats is None:
            return False
        times = self.repeats[stamp.number] = self.repeats.get(stamp.number, 0) + 1
        return times in _COMPARED

    def _add(self, loop: TracedLoop, key: tuple[int, Hashable], made: Stamp) -> Stamp:
        """Register a turn's stamp with the loop under `key` and with the task, and return it; it is tied to this block if
        the body asked for its number.
        """
        made.block = self._block if self._asked_block else None
        loop.stamps.setdefault(key, []).append(self.table.stamps.add(made))
        return made

    def _differs(self, loop: TracedLoop, key: tuple[int, Hashable], known: Stamp, made: Stamp) -> Stamp:
        """Remove the stamp `known` from the loop, since a compared turn wrote other rows; return their stamp `made`, numbered,
        which stands for this turn alone.

        Raises SimError if the old one was repeated before.
        """
        if self.repeats is not None and self.repeats[known.number] > 1:
            raise SimError(
                "k.range: this turn writes other rows than an earlier one that met the same conditions. The body keeps "
                "state that the loop does not see, for example a counter in a module. Write the loop with range"
            )
        loop.stamps[key].remove(known)
        return self.table.stamps.add(made)


def _range_in_turn(start: int, stop: int, step: int) -> Iterator[int]:
    """Return an iterator over the numbers of a `range` inside a traced turn; they move with its bounds.

    Raises ValueError for a step of 0.
    """
    range(0, 0, index(step))  # raises ValueError for a step of 0
    return iter([start + turn * step for turn in range(index(-((start - stop) // step)))])


def _split_all(items: Sequence[Any], snapshots: Snapshots) -> Iterable[tuple[Hashable, Place]]:
    """Return (fixed part, place) of each item of a loop, all places of one length.

    Raises Unknown for places of several lengths, an item that cannot be compared, and a number from 2 ** 62 on.
    """
    if isinstance(items, range):
        if max(map(abs, (items[0], items[-1]))) >= FAR:
            raise Unknown
        return zip(repeat(None), zip(items))
    pieces = _split_columns(items)
    if pieces is None:
        pieces = [_split(item, snapshots) for item in items]
    places = [place for _, place in pieces]
    if {*map(len, places)} != {len(places[0])} or max(map(abs, chain(*places)), default=0) >= FAR:
        raise Unknown
    return pieces


def _split_columns(items: Sequence[Any]) -> list[tuple[Hashable, Place]] | None:
    """Return (fixed part, place) of each item, column by column, for slices without a step, or tuples of one length whose
    columns are each of one type: int, bool, str, range or such slices. None for others, and if no number can move.
    """
    kinds = {*map(type, items)}
    if len(kinds) > 1 or not (kinds == {slice} or (isinstance(items[0], tuple) and len({*map(len, items)}) == 1)):
        return None
    heads: list[type] = [*kinds]
    columns: list[Iterable[Hashable]] = []
    places: list[Sequence[int]] = []
    for column in zip(*items, strict=True) if kinds != {slice} else [items]:
        kind = type(column[0])
        heads.append(kind)
        if kind is slice:
            starts, stops = [one.start for one in column], [one.stop for one in column]
            if {*map(type, starts), *map(type, stops)} != {int} or any(one.step for one in column):
                return None
            places.append(starts)
            columns.append(map(sub, stops, starts))
        elif {*map(type, column)} != {kind} or kind not in (int, bool, str, range):
            return None
        else:
            (places if kind is int else columns).append(column)
    if not places:
        return None
    return list(zip(zip(repeat(tuple(heads)), *columns), zip(*places, strict=True), strict=False))


def _split(item: Any, snapshots: Snapshots) -> tuple[Hashable, Place]:
    """Return (fixed part, place) of an item; the place has its whole numbers and the starts of its slices, which may move."""
    numbers: list[int] = []
    return _without_numbers(item, numbers, snapshots), tuple(numbers)


def _without_numbers(item: Any, numbers: list[int], snapshots: Snapshots) -> Hashable:
    """Return the fixed part of an item; append the numbers of its place to `numbers`."""
    kind = type(item)
    if kind is int:
        numbers.append(item)
        return int
    if isinstance(item, tuple):
        return kind, tuple([_without_numbers(one, numbers, snapshots) for one in item])
    if kind is slice and type(item.start) is type(item.stop) is int:
        numbers.append(item.start)
        return slice, item.stop - item.start, snapshots.of(item.step)
    return snapshots.of(item)


def _at(item: Any, numbers: Iterator[Any]) -> Any:
    """Return a copy of the item with the next `numbers` in place of its own, in the order of `_split`."""
    if type(item) is int:
        return next(numbers)
    if isinstance(item, tuple):
        return like(item, [_at(one, numbers) for one in item])
    if type(item) is slice and type(item.start) is type(item.stop) is int:
        start = next(numbers)
        return slice(start, start + (item.stop - item.start), item.step)
    return item


def _repeats(stamp: Stamp, written: Stamp, place: Place) -> bool:
    """Return True if `stamp` at `place` has the same rows, counts and phase afterwards as `written`, which ran there."""
    counts = [(one.axes, one.tiles, one.counted, one.after) for one in (stamp, written)]
    if counts[0] != counts[1] or stamp.rows.shape != written.rows.shape:
        return False
    rows = stamp.rows.copy()
    cells, axes, steps = stamp.moves.T
    np.add.at(rows.reshape(-1), cells, steps * np.array(place)[axes])
    return bool((rows == written.rows).all())

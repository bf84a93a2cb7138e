"""The rows of a program: stamps at their places, and between them rows of its own, written one by one.

Nobody holds them all but who asks for `Sheet.rows`: a run that keeps no columns reads them piece by piece where the stamps lie
(engine/compiled/rows.c), and what is asked of addresses is asked of the places.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.host import Lately
from ascend_sim.kernel.stamp import NO_MOVES, ROW, TILE, Place, Stamp, Stamps, address_of, laid
from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

Numbers = NDArray[np.int64]
_AT_ONCE = 4096
"""Stamps that are written out or looked at together."""
_SOME_ROWS = 64
"""Rows that are looked through at a time."""
_FAR = 1 << 62


class Sheet:
    """The rows of one program. `which` are its stamps in order: numbers of `stamps`, and -1 - i for `own[i]`; each of them has
    a first tile (`tiles`), and its place is the next of `where`, as many numbers as the stamp has axes.
    """

    def __init__(self, stamps: Stamps) -> None:
        self.stamps = stamps
        self.own: list[Stamp] = []
        self.which, self.tiles, self.where = array("i"), array("q"), array("q")
        self.written = array("q")
        self._count = 0
        self._rows: Numbers | None = None
        self._lately: Lately | None = None
        self._own = object()
        self._counts: Numbers | None = None
        self._laid_own: Numbers | None = None
        self._addresses: tuple[int, Numbers, dict[str, int]] | None = None
        self._ways: list[_Way] | None = None

    @classmethod
    def of(cls, rows: NDArray[Any]) -> Sheet:
        """Rows that are there already."""
        sheet = cls(Stamps())
        sheet._append_own(np.ascontiguousarray(rows, np.int64))
        return sheet

    def __reduce__(self) -> tuple[Callable[[Numbers], Sheet], tuple[Numbers]]:
        """Another process gets the rows, and not the stamps of their task."""
        return Sheet.of, (self.rows,)

    def __len__(self) -> int:
        """Rows so far."""
        return self._count + len(self.written) // ROW

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, stamp: Stamp, where: Place, tile: int) -> None:
        """Repeat a stamp, whose first tile is number `tile`."""
        if self.written:
            self.close()
        self.which.append(stamp.number)
        self.tiles.append(tile)
        self.where.extend(where)
        self._count += len(stamp.rows)

    def close(self) -> None:
        """What was written one by one is a piece of its own."""
        if self.written:
            self._append_own(np.frombuffer(self.written, np.int64).reshape(-1, ROW))
            self.written = array("q")

    def _append_own(self, rows: Numbers) -> None:
        self.own.append(Stamp(rows, NO_MOVES, -1 - len(self.own)))
        self._laid_own = None
        self.which.append(-len(self.own))
        self.tiles.append(0)
        self._count += len(rows)

    def moved(self, where: Numbers) -> Sheet:
        """The same stamps at other places."""
        sheet = Sheet(self.stamps)
        sheet.own, sheet.which, sheet.tiles, sheet._count = self.own, self.which, self.tiles, self._count
        sheet._counts, sheet._laid_own = self._counts, self._laid_own
        sheet.where.frombytes(np.ascontiguousarray(where, np.int64).tobytes())
        return sheet

    # -- the last rows -------------------------------------------------------------------------------------------------

    def last(self, kinds: Sequence[int]) -> list[tuple[int, int, int]]:
        """Where the last row of each of these instructions stands: (stamp in order, row of it, row of all)."""
        self.close()
        missing, found, first = set(kinds), [], self._count
        for place in range(len(self.which) - 1, -1, -1):
            if not missing:
                break
            stamp = self._stamp(self.which[place])
            first -= len(stamp.rows)
            if not missing.isdisjoint(stamp.kinds):
                for kind, row in _last_rows(stamp.rows, missing):
                    missing.remove(kind)
                    found.append((place, row, first + row))
        return found

    def without_last(self, kinds: Sequence[int]) -> list[int]:
        """Take out the last row of each of these instructions; which rows those were."""
        out: dict[int, list[int]] = {}
        places = self.last(kinds)
        for place, row, _ in places:
            out.setdefault(place, []).append(row)
        for place, rows in out.items():
            number = self.which[place]
            if number >= 0:
                self.which[place] = self.stamps.without(self._stamp(number), tuple(sorted(rows))).number
            else:
                self.own[-1 - number] = self.own[-1 - number].without(rows, number)
        self._count -= len(places)
        self._laid_own = self._addresses = None
        return [row for _, _, row in places]

    # -- reading -------------------------------------------------------------------------------------------------------

    def _stamp(self, number: int) -> Stamp:
        return self.stamps.known[number] if number >= 0 else self.own[-1 - number]

    def _pieces(self) -> Iterator[_Piece]:
        begin = 0
        for first in range(0, len(self.which), _AT_ONCE):
            stamps = [self._stamp(number) for number in self.which[first : first + _AT_ONCE]]
            axes = np.array([stamp.axes for stamp in stamps])
            end = begin + int(axes.sum())
            where = np.asarray(self.where[begin:end])
            yield _Piece(stamps, np.asarray(self.tiles[first : first + _AT_ONCE]), where, np.cumsum(axes) - axes)
            begin = end

    def addresses(self) -> dict[str, int]:
        """Where in memory C finds its stamps and their places (rows.c), as long as the sheet is there and not written on."""
        if self._addresses is None or self._addresses[0] != len(self.which):
            if self._laid_own is None:
                self._laid_own = laid(self.own)
            stamps = self.stamps.laid()
            numbers = {"which": self.which, "tiles": self.tiles, "where": self.where}
            found = {name: one.buffer_info()[0] for name, one in numbers.items()}
            found |= {"stamps": address_of(stamps), "own": address_of(self._laid_own)}
            self._addresses = len(self.which), stamps, found
        return self._addresses[2]

    @property
    def rows(self) -> Numbers:
        """All rows, written out when they are first asked for."""
        if self._lately is not None:
            return self._lately.get(self._own, self._written_out)
        if self._rows is None:
            self._rows = self._written_out()
        return self._rows

    def hold_lately(self, lately: Lately) -> None:
        """Rows are held only as long as `lately` holds them, and written out again when they are asked for then."""
        self._rows, self._lately = None, lately

    def _written_out(self) -> Numbers:
        self.close()
        if len(self.which) == 1 and self.own:
            return self.own[0].rows
        parts = [piece.rows() for piece in self._pieces()]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, ROW), np.int64), *parts])

    def counts(self) -> Numbers:
        """How often each instruction stands in it when it is written, as far as there are any."""
        if self._counts is None:
            self._counts = self._counted()
        return self._counts

    def _counted(self) -> Numbers:
        self.close()
        if not self.which:
            return np.zeros(0, np.int64)
        numbers, times = np.unique(np.asarray(self.which), return_counts=True)
        stamps = [self._stamp(number) for number in numbers.tolist()]
        kinds = np.concatenate([stamp.counts[0] for stamp in stamps])
        found = np.zeros(int(kinds.max(initial=-1)) + 1, np.int64)
        each = np.repeat(times, [len(stamp.counts[0]) for stamp in stamps])
        np.add.at(found, kinds, np.concatenate([stamp.counts[1] for stamp in stamps]) * each)
        return found

    def is_right(self, limits: Numbers, sizes: Sequence[int]) -> bool:
        """Whether every operand lies inside its buffer or tensor, at an aligned address.

        `limits` are those of its table (`InstructionTable.limits`), `sizes` the bytes of its task's tensors.
        """
        self.close()
        return all(piece.is_right(limits, sizes) for piece in self._pieces())

    def may_move(self, by: Place) -> bool:
        """Whether this sheet, which is right, is right `by` further on; each of its stamps moves by as many numbers."""
        if self._ways is None:
            self._ways = _narrowest([way for piece in self._pieces() for way in piece.ways()])
        for steps, unit, least, most in self._ways:
            way = sum([step * place for step, place in zip(steps, by, strict=True)])
            if not least <= way <= most or way % unit:
                return False
        return True


_Way = tuple[Place, int, int, int]
"""Of what moves by the same steps: those, what its way is a multiple of, the least and the most of that."""


def _narrowest(ways: Iterable[_Way]) -> list[_Way]:
    """One for each that moves alike."""
    found: dict[tuple[Place, int], tuple[int, int]] = {}
    for steps, unit, least, most in ways:
        low, high = found.get((steps, unit), (least, most))
        found[steps, unit] = max(low, least), min(high, most)
    return [(*key, *span) for key, span in found.items()]


class _Piece:
    """Stamps that follow each other; the place of the i-th begins at `first[i]` of `where`."""

    def __init__(self, stamps: list[Stamp], tiles: Numbers, where: Numbers, first: Numbers) -> None:
        self.stamps, self.tiles, self.where, self.first = stamps, tiles, where, first

    def _only(self, chosen: list[int]) -> _Piece:
        """Some of them."""
        return _Piece([self.stamps[i] for i in chosen], self.tiles[chosen], self.where, self.first[chosen])

    def rows(self) -> Numbers:
        """Their rows, one after the other."""
        lengths = np.array([len(stamp.rows) for stamp in self.stamps])
        rows = np.concatenate([stamp.rows for stamp in self.stamps])
        rows[:, TILE] += np.repeat(self.tiles, lengths)
        moves = [stamp.moves for stamp in self.stamps]
        cells, by = self._gone(moves)
        counts = [len(one) for one in moves]
        np.add.at(rows.reshape(-1), cells + np.repeat((np.cumsum(lengths) - lengths) * ROW, counts), by)
        return rows

    def _gone(self, moves: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
        """What moves by the `moves` of each stamp, counted from the stamp's first, and how far it has gone."""
        cells, axes, steps = np.concatenate(moves).T
        return cells, steps * self.where[axes + np.repeat(self.first, [len(one) for one in moves])]

    def is_right(self, limits: Numbers, sizes: Sequence[int]) -> bool:
        """As of the whole sheet. All rows of a new stamp are looked at in one place, elsewhere only what moves."""
        new = {id(stamp): i for i, stamp in enumerate(self.stamps) if stamp.bounds is None}
        looked = set(new.values())
        if new and not self._only(list(new.values()))._look(limits, sizes):
            return False
        moving = self._only([i for i, stamp in enumerate(self.stamps) if len(stamp.moves) and i not in looked])
        if not moving.stamps:
            return True
        (low, high, unit, rest), way = moving._bounds(), moving._way()
        return not ((way < low) | (way > high) | ((way - rest) % unit != 0)).any()

    def _moving(self) -> _Piece:
        """Those of which something moves."""
        return self._only([i for i, stamp in enumerate(self.stamps) if len(stamp.moves)])

    def _bounds(self) -> Numbers:
        """`Stamp.bounds` of all, one after the other."""
        return np.concatenate([stamp.bounds for stamp in self.stamps], axis=1)  # type: ignore[arg-type]

    def _way(self) -> Numbers:
        """How far each of the ways of all has gone."""
        ways = [stamp.ways for stamp in self.stamps]
        return np.add.reduceat(self._gone(ways)[1], _heads(ways))  # type: ignore[arg-type]

    def ways(self) -> list[_Way]:
        """How far all that moves may move on, of stamps that were looked at; what moves alike is one way."""
        moving = self._moving()
        if not moving.stamps:
            return []
        (low, high, unit, _), way = moving._bounds(), moving._way()
        kinds, (least, most) = _narrow(
            [*_steps([stamp.ways for stamp in moving.stamps], moving.axes), unit],  # type: ignore[misc]
            low - way,
            high - way,
        )
        return [
            (tuple(steps), unit, *span)
            for (*steps, unit), *span in zip(kinds.T.tolist(), least.tolist(), most.tolist(), strict=True)
        ]

    @property
    def axes(self) -> int:
        """The most numbers that a place of them has."""
        return max(stamp.axes for stamp in self.stamps)

    def _look(self, limits: Numbers, sizes: Sequence[int]) -> bool:
        """Look at every row, and note of what moves how far it may (`Stamp.ways`)."""
        moves = [stamp.moves for stamp in self.stamps]
        rows, (cells, by), heads = self.rows(), self._gone(moves), _heads(moves)
        every = np.arange(limits.shape[1])[:, None]
        if asked(limits, sizes, rows[:, 0], every, rows[:, 1 : 1 + len(every)].T).wrong().any():
            return False
        lengths = np.array([len(stamp.rows) for stamp in self.stamps])
        counts = [len(one) for one in moves]
        cells = (cells + np.repeat((np.cumsum(lengths) - lengths) * ROW, counts))[heads]
        kinds, operands, address = rows[cells // ROW, 0], cells % ROW - 1, rows.reshape(-1)[cells]
        offset, extent, limit, unit = asked(limits, sizes, kinds, operands, address)
        if len(heads):
            offset = offset - np.add.reduceat(by, heads)  # where the way is 0
        bounds = np.stack((-offset, limit - extent - offset, unit, -offset % unit))
        bounds[:, extent <= 0] = np.array([[-_FAR], [_FAR], [1], [0]])
        of_stamp = np.repeat(np.arange(len(self.stamps)), counts)[heads]
        kinds, span = _narrow([of_stamp, *_steps(moves, self.axes), *bounds[2:]], *bounds[:2])
        behind = np.searchsorted(kinds[0], np.arange(1, len(self.stamps) + 1))
        for stamp, first, end in zip(self.stamps, [0, *behind[:-1].tolist()], behind.tolist(), strict=True):
            way, axes = (steps := kinds[1:-2, first:end].T).nonzero()
            stamp.ways = np.stack((way, axes, steps[way, axes]), axis=1)
            stamp.bounds = np.concatenate((span[:, first:end], kinds[-2:, first:end]))
        return True


def _heads(moves: Sequence[Numbers]) -> Numbers:
    """Which of the moves of some stamps are the first of what moves."""
    of_stamp = np.repeat(np.arange(len(moves)), [len(one) for one in moves])
    cells = np.concatenate([one[:, 0] for one in moves])
    first = np.ones(len(cells), np.bool_)
    first[1:] = (cells[1:] != cells[:-1]) | (of_stamp[1:] != of_stamp[:-1])
    return np.flatnonzero(first)


def _steps(moves: Sequence[Numbers], axes: int) -> Numbers:
    """By how much all that moves does so along each of the `axes`."""
    heads = _heads(moves)
    _, axis, step = np.concatenate(moves).T
    steps = np.zeros((axes, len(heads)), np.int64)
    steps[axis, np.searchsorted(heads, np.arange(len(step)), side="right") - 1] = step
    return steps


def _narrow(kinds: Sequence[Numbers], low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """Each of the `kinds` that there are, in order, with the highest `low` and the lowest `high` of it."""
    order = np.lexsort(kinds[::-1])
    found = np.stack(kinds)[:, order]
    first = np.ones(len(order), np.bool_)
    first[1:] = (found[:, 1:] != found[:, :-1]).any(axis=0)
    begin = np.flatnonzero(first)
    if not len(begin):
        return found, np.empty((2, 0), np.int64)
    return found[:, begin], np.stack((np.maximum.reduceat(low[order], begin), np.minimum.reduceat(high[order], begin)))


class Asked(NamedTuple):
    """Of operands: the offset in the buffer or tensor, bytes from there (0: there is no such operand), bytes of that (-1: the
    task has no such tensor), and what the offset is a multiple of.
    """

    offset: Numbers
    extent: Numbers
    limit: Numbers
    unit: Numbers

    def wrong(self) -> NDArray[np.bool_]:
        """Which of them are outside, or not aligned."""
        outside = (self.offset < 0) | (self.offset + self.extent > self.limit)
        return (self.extent > 0) & (outside | (self.offset % self.unit != 0))


def asked(limits: Numbers, sizes: Sequence[int], kinds: Numbers, operand: Any, address: Numbers) -> Asked:
    """What is asked of operand number `operand` at `address` of instructions `kinds`; the others as of `Sheet.is_right`."""
    extent, limit, unit = limits[:, operand, kinds]
    in_gm, slot = limit < 0, address >> SLOT_SHIFT
    there = np.where((slot >= 0) & (slot < len(sizes)), slot, len(sizes))
    limit = np.where(in_gm, np.asarray((*sizes, -1), np.int64)[there], limit)
    return Asked(np.where(in_gm, address & OFFSET_MASK, address), extent, limit, unit)


def _last_rows(rows: Numbers, wanted: set[int]) -> list[tuple[int, int]]:
    """Those of the instructions that stand among `rows`, with the last row of each."""
    left, found = set(wanted), []
    for end in range(len(rows), 0, -_SOME_ROWS):
        start = max(end - _SOME_ROWS, 0)
        kinds = rows[start:end, 0].tolist()
        for place in range(len(kinds) - 1, -1, -1):
            if kinds[place] in left:
                left.remove(kinds[place])
                found.append((kinds[place], start + place))
                if not left:
                    return found
    return found

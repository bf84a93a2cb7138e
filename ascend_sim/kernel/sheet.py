"""The rows of a program: stamps at their places, and between them single rows.

The rows are materialised only by `Sheet.rows`. A run that keeps no columns reads them stamp by stamp (engine/compiled/rows.c),
and addresses are checked by the places of the stamps.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter, mul
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ascend_sim.host import Lately
from ascend_sim.kernel.asked import asked
from ascend_sim.kernel.stamp import FAR, ROW, TILE, Guard, Laid, Place, Stamp, Stamps

Numbers = NDArray[np.int64]
_AT_ONCE = 4096
"""Stamps that are written out or looked at together."""
_SOME_ROWS = 64
"""Rows that are looked through at a time."""
_PIECE = 4096
"""Rows that are checked at a time: their columns stay in the processor's cache."""


class FreeSpan(NamedTuple):
    """Range in which steps * place may change: from `low` to `high`, in multiples of `unit`, while all rows stay right."""

    steps: Place
    unit: int
    low: int
    high: int


Reached = tuple[Guard, int, int]
"""A guard, and the least and the most that steps * place comes to at the places of its stamp."""
Puts = list[tuple[Stamp, list[Sequence[int]]]]
"""Distinct stamps of a sheet, each with all its places."""


class Sheet:
    """The rows of one program, as a sequence of stamps, each at a place.

    `which` has their numbers in `stamps`, or -1 - i for `own[i]`, a run of rows written singly; `tiles` the number of each
    one's first tile. `where` has the numbers of all places one after the other, as many for a stamp as it has axes.
    """

    def __init__(self, stamps: Stamps, sizes: Sequence[int] = ()) -> None:
        self.stamps, self._sizes = stamps, sizes
        self.own: list[Stamp] = []
        self.which, self.tiles, self.where = array("i"), array("q"), array("q")
        self.written = array("q")
        self._own = object()
        self._counts: list[Numbers] = []  # one, once it was asked for; moved copies share it

    _count = 0
    _rows: Numbers | None = None
    _lately: Lately | None = None
    _laid_own: Laid | None = None
    _addresses: tuple[int, Laid, dict[str, int]] | None = None
    _reached: list[Reached] | None = None
    _room: list[FreeSpan] | None = None
    _guarded: list[FreeSpan] | None = None

    @classmethod
    def of(cls, rows: NDArray[Any]) -> Sheet:
        """Return a sheet of existing rows [row][5], as one piece of single rows; they are not copied if they are contiguous
        int64.
        """
        sheet = cls(Stamps())
        sheet._append_own(np.ascontiguousarray(rows, np.int64))
        return sheet

    def __reduce__(self) -> tuple[Callable[[Numbers], Sheet], tuple[Numbers]]:
        """Pickle the materialised rows without the task's stamps, for another process."""
        return Sheet.of, (self.rows,)

    def __len__(self) -> int:
        """Return the number of rows so far."""
        return self._count + len(self.written) // ROW

    # -- writing -------------------------------------------------------------------------------------------------------

    def put(self, stamp: Stamp, where: Place, tile: int) -> None:
        """Append a stamp, which has a number, at the place `where`; its first tile is number `tile`."""
        if self.written:
            self.close()
        self.which.append(stamp.number)
        self.tiles.append(tile)
        self.where.extend(where)
        self._count += len(stamp.rows)

    def close(self) -> None:
        """Turn the single rows written since the last stamp into a piece of their own; nothing without such rows."""
        if self.written:
            self._append_own(self.written_rows())
            self.written = array("q")

    def written_rows(self) -> Numbers:
        """Return the single rows since the last stamp; no row may be appended behind them."""
        return np.frombuffer(self.written, np.int64).reshape(-1, ROW) if self.written else np.empty((0, ROW), np.int64)

    def _append_own(self, rows: Numbers) -> None:
        self.own.append(self.stamps.single(rows, self._sizes))
        self._laid_own = None
        self.which.append(-len(self.own))
        self.tiles.append(0)
        self._count += len(rows)

    def moved(self, where: Numbers) -> Sheet:
        """Return a sheet of the same stamps at the places `where`, one number after the other; both share the rest."""
        sheet = Sheet(self.stamps, self._sizes)
        sheet.own, sheet.which, sheet.tiles, sheet._count = self.own, self.which, self.tiles, self._count
        sheet._counts, sheet._laid_own = self._counts, self._laid_own
        sheet.where.frombytes(where.tobytes())
        return sheet

    # -- the last rows -------------------------------------------------------------------------------------------------

    def last(self, kinds: Sequence[int]) -> list[tuple[int, int, int]]:
        """Return the last row of each instruction in `kinds` as (index in `which` of its stamp, row in that stamp, row in the
        program).

        The latest comes first; an instruction without a row is left out.
        """
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
        """Remove the last row of each instruction in `kinds`; return the numbers that the removed rows had in the program,
        latest first.
        """
        out: dict[int, list[int]] = {}
        places = self.last(kinds)
        for place, row, _ in places:
            out.setdefault(place, []).append(row)
        for place, rows in out.items():
            number = self.which[place]
            if number >= 0:
                self.which[place] = self.stamps.without(self._stamp(number), tuple(sorted(rows))).number
            else:
                self.own[-1 - number] = self.stamps.single(np.delete(self._stamp(number).rows, rows, axis=0), self._sizes)
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
        """Return {"which", "tiles", "where", "stamps", "own": memory address} for C (rows.c), while the sheet is unchanged."""
        if self._addresses is None or self._addresses[0] != len(self.which):
            if self._laid_own is None:
                self._laid_own = Laid.of(self.own)
            stamps = self.stamps.laid()
            numbers = {"which": self.which, "tiles": self.tiles, "where": self.where}
            found = {name: one.buffer_info()[0] for name, one in numbers.items()}
            found |= {"stamps": stamps.address, "own": self._laid_own.address}
            self._addresses = len(self.which), stamps, found
        return self._addresses[2]

    @property
    def rows(self) -> Numbers:
        """Return all rows, materialised at the first call and kept, unless `hold_lately` was called."""
        if self._lately is not None:
            return self._lately.get(self._own, self._written_out)
        if self._rows is None:
            self._rows = self._written_out()
        return self._rows

    def hold_lately(self, lately: Lately) -> None:
        """Keep materialised rows only in the cache `lately`; they are materialised again after it has dropped them."""
        self._rows, self._lately = None, lately

    def _written_out(self) -> Numbers:
        self.close()
        if len(self.which) == 1 and self.own:
            return self.own[0].rows
        parts = [piece.rows() for piece in self._pieces()]
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, ROW), np.int64), *parts])

    def new_stamps(self, seen: set[int]) -> Iterator[Stamp]:
        """Yield the stamps that are not in `seen`, each once, and all pieces of single rows; add the stamps to `seen`."""
        self.close()
        for number in dict.fromkeys(self.which):
            if number not in seen:
                yield self._stamp(number)
                if number >= 0:
                    seen.add(number)

    def counts(self) -> Numbers:
        """Return how often each instruction occurs, as an array by its number in the table up to the last that occurs; counted
        once, also for moved copies.
        """
        if not self._counts:
            self._counts.append(self._counted())
        return self._counts[0]

    def _counted(self) -> Numbers:
        self.close()
        if not self.which:
            return np.zeros(0, np.int64)
        times = Counter(self.which)
        stamps = [(self._stamp(number).counts, count) for number, count in times.items()]
        found = np.zeros(max([int(kinds[-1]) for (kinds, _), _ in stamps if len(kinds)], default=-1) + 1, np.int64)
        for (kinds, each), count in stamps:
            found[kinds] += each * count
        return found

    def is_right(self, limits: Numbers, sizes: Sequence[int]) -> bool:
        """Return True if every operand lies inside its buffer or tensor, at an aligned address, and no address `wraps`.

        `limits` are those of its table (`InstructionTable.limits`), `sizes` the bytes of its task's tensors. A new stamp is
        checked row by row at one place, and gets its `ways`; at other places only its distance from there is checked.
        """
        self.close()
        self._room = self._reached = None
        puts = self._puts()
        if not self.wraps() and self._look([put for put in puts if put[0].ways is None], limits, sizes):
            self._reached = _reached(puts, attrgetter("ways"))
        return self._reached is not None

    def _puts(self) -> Puts:
        """Return (stamp, all its places) of each distinct stamp."""
        known, first = self.stamps.known, 0
        found: dict[int, tuple[Stamp, list[Sequence[int]]]] = {}
        for number in self.which:
            stamp = known[number] if number >= 0 else self.own[-1 - number]
            found.setdefault(number, (stamp, []))[1].append(self.where[first : first + stamp.axes])
            first += stamp.axes
        return list(found.values())

    def _look(self, new: Puts, limits: Numbers, sizes: Sequence[int]) -> bool:
        """Return True if `new` stamps keep their limits at the first of their places; then also set `ways` of each, for its
        moving numbers.
        """
        if not new:
            return True
        rows = np.concatenate([stamp.rows for stamp, _ in new])
        of, cell, steps = moving([stamp for stamp, _ in new])
        places = np.zeros((len(new), steps.shape[1]), np.int64)
        for number, (stamp, anywhere) in enumerate(new):
            places[number, : stamp.axes] = anywhere[0]
        gone = (steps * places[of]).sum(1)
        rows.reshape(-1)[cell] += gone
        for at in range(0, len(rows), _PIECE):
            some = rows[at : at + _PIECE]
            held = limits.take(some[:, 0], axis=0)
            counts = held[..., 0] > 0
            if asked(held[counts], sizes, some[:, 1:TILE][counts]).wrong().any():
                return False
        row, column = np.divmod(cell, ROW)
        offset, extent, limit, unit = asked(limits[rows[row, 0], column - 1], sizes, rows.reshape(-1)[cell])
        low = gone - offset
        spans: list[dict[tuple[Place, int, int], list[int]]] = [{} for _ in new]
        columns = (one.tolist() for one in (of, steps, unit, low % unit, low, low + limit - extent, extent > 0))
        for number, where, one, rest, least, most, is_operand in zip(*columns, strict=True):
            if is_operand:
                span = spans[number].setdefault((tuple(where), one, rest), [least, most])
                span[:] = max(span[0], least), min(span[1], most)
        for (stamp, _), own in zip(new, spans, strict=True):
            stamp.ways = tuple([Guard(*one, *span) for one, span in own.items()])
        return True

    def wraps(self) -> bool:
        """Return True if some address of a stamp moves so far that it may not fit into 64 bits."""
        where = np.asarray(self.where)
        farthest = max(-int(where.min()), int(where.max())) if len(where) else 0
        if farthest * self.stamps.longest < FAR:
            return False
        return any(piece.wraps() for piece in self._pieces())

    def may_move(self, by: Place) -> bool:
        """Return True if every address stays right when all stamps move by `by`; False unless `is_right` has found the sheet
        right.
        """
        if self._room is None and self._reached is not None:
            self._room = _free(self._reached)
        return self._room is not None and _may_move(self._room, by)

    @property
    def is_of_any_block(self) -> bool:
        """Return True if no stamp is tied to one block, so that other blocks can use the sheet."""
        return all(self._stamp(number).block is None for number in set(self.which))

    def holds_at(self, by: Place) -> bool:
        """Return True if the guards of all stamps still hold when they move by `by`."""
        if self._guarded is None:
            has_guards = any(self._stamp(number).guards for number in set(self.which))
            self._guarded = _free(_reached(self._puts(), attrgetter("guards")) or ()) if has_guards else []
        return _may_move(self._guarded, by)


def _may_move(room: Sequence[FreeSpan], by: Place) -> bool:
    for steps, unit, least, most in room:
        way = sum([step * place for step, place in zip(steps, by, strict=False)])  # a guard's further steps are 0
        if not least <= way <= most or way % unit:
            return False
    return True


def moving(stamps: Sequence[Stamp]) -> tuple[Numbers, Numbers, Numbers]:
    """Return three arrays for the moving numbers of the stamps: the index of its stamp, its index in the rows of all stamps,
    one after the other, and its steps.
    """
    cell, axis, step = np.concatenate([stamp.moves for stamp in stamps]).T
    of = np.repeat(np.arange(len(stamps)), [len(stamp.moves) for stamp in stamps])
    sizes = np.array([stamp.rows.size for stamp in stamps])
    cell = cell + (sizes.cumsum() - sizes)[of]
    begins = np.append(True, cell[1:] != cell[:-1])[: len(cell)]  # a number may move along several axes
    steps = np.zeros((np.count_nonzero(begins), max([stamp.axes for stamp in stamps])), np.int64)
    steps[np.cumsum(begins) - 1, axis] = step
    return of[begins], cell[begins], steps


def _reached(puts: Puts, guards: Callable[[Stamp], Sequence[Guard]]) -> list[Reached] | None:
    """Return each guard of the stamps with its least and most value at their places, or None if one is not met."""
    found = []
    for stamp, places in puts:
        for guard in guards(stamp):
            steps, unit, rest, low, high = guard
            gone = [sum(map(mul, steps, place)) for place in places]
            least, most = min(gone), max(gone)
            if least < low or most > high or (unit > 1 and {one % unit for one in gone} != {rest}):
                return None
            found.append((guard, least, most))
    return found


def _free(reached: Sequence[Reached]) -> list[FreeSpan]:
    """Return the ranges by which all places together may move while they meet the guards."""
    room: dict[tuple[Place, int], tuple[int, int]] = {}
    for (steps, unit, _, low, high), least, most in reached:
        down, up = room.get((steps, unit), (-FAR, FAR))
        room[steps, unit] = max(down, low - least), min(up, high - most)
    return [FreeSpan(*direction, *span) for direction, span in room.items()]


class _Piece:
    """Consecutive stamps of a sheet, handled together; the place of stamp i begins at `first[i]` of `where`."""

    def __init__(self, stamps: list[Stamp], tiles: Numbers, where: Numbers, first: Numbers) -> None:
        self.stamps, self.tiles, self.where, self.first = stamps, tiles, where, first

    def rows(self) -> Numbers:
        """Return the materialised rows of all stamps, in order."""
        lengths = np.array([len(stamp.rows) for stamp in self.stamps])
        rows = np.concatenate([stamp.rows for stamp in self.stamps])
        rows[:, TILE] += np.repeat(self.tiles, lengths)
        cells, steps, where = self._moves()
        counts = [len(stamp.moves) for stamp in self.stamps]
        np.add.at(rows.reshape(-1), cells + np.repeat((np.cumsum(lengths) - lengths) * ROW, counts), steps * where)
        return rows

    def _moves(self) -> tuple[Numbers, Numbers, Numbers]:
        """Return (index in its stamp, step, value of the place that the step multiplies) of all moving numbers, as arrays."""
        moves = [stamp.moves for stamp in self.stamps]
        cells, axes, steps = np.concatenate(moves).T
        return cells, steps, self.where[axes + np.repeat(self.first, [len(one) for one in moves])]

    def wraps(self) -> bool:
        """Return True if a moving number of the piece may not fit into 64 bits."""
        _, steps, where = self._moves()
        most = max(stamp.axes for stamp in self.stamps)
        return bool((np.abs(steps.astype(np.float64) * where) >= FAR / max(most, 1)).any())


def _last_rows(rows: Numbers, wanted: set[int]) -> list[tuple[int, int]]:
    """Return (instruction, number of its last row) for each instruction in `wanted` that occurs in `rows`, the last first."""
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

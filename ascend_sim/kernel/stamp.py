"""Stamps: the rows of a piece of a kernel, written once and repeated with moved addresses.

    for what, where in k.stamped(items):        # a plain loop over pairs
        ...                                     # its body writes rows

`what` decides which rows the body writes and `where` is the integer by which their addresses move. The first time that a
`what` comes up in some phase of the kernel the body runs with a `Moving` in the place of `where`, and its rows become a
`Stamp`; every further time the stamp is repeated without running the body. The phase is all that one piece leaves to the next:
which buffer of a queue is next, what L1 holds, which flags are raised. Whoever keeps such a thing tells the builder
(`KernelBuilder.carry`).

Rows are those of the same loop without stamps. A `Moving` sees to that for addresses: it knows the arithmetic that is the
same wherever the piece stands, and whatever else it is asked (a comparison, a remainder, a length) raises. What the body reads
from outside and is not the same in all runs of the loop belongs into `what`.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NoReturn
from weakref import WeakValueDictionary, ref

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.kernel.pattern import ROW, Moves, Pattern
from ascend_sim.memory.gm import OFFSET_MASK

TILE = 4
"""The number of a row that counts tiles."""


Place = tuple[int, ...]
"""Where a piece stands: a number for each direction that it can move in."""


class Moving:
    """start + the sum of steps * where, for a `where` that is not known yet."""

    __slots__ = ("start", "steps")
    __hash__ = None  # type: ignore[assignment]  # what is looked up by its value cannot move

    def __init__(self, steps: Place, start: int) -> None:
        self.steps, self.start = steps, start

    @classmethod
    def along(cls, axis: int, axes: int) -> Moving:
        """Number `axis` of the `axes` numbers of `where`."""
        return cls(tuple([int(i == axis) for i in range(axes)]), 0)

    def __repr__(self) -> str:
        return f"({' + '.join(f'{step} * where[{i}]' for i, step in enumerate(self.steps))} + {self.start})"

    def _refuse(self, what: str) -> NoReturn:
        raise SimError(f"stamped loop: {what} is not the same for every `where`; it belongs in `what`")

    def __add__(self, other: Any) -> Any:
        if type(other) is Moving:
            steps = tuple([mine + its for mine, its in zip(self.steps, other.steps, strict=True)])
            return Moving(steps, self.start + other.start) if any(steps) else self.start + other.start
        return Moving(self.steps, self.start + other)

    __radd__ = __add__

    def __neg__(self) -> Moving:
        return Moving(tuple([-step for step in self.steps]), -self.start)

    def __sub__(self, other: Any) -> Any:
        return self + -other

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def __mul__(self, other: Any) -> Any:
        if type(other) is Moving:
            self._refuse(f"a step of {self} * {other}")
        return Moving(tuple([step * other for step in self.steps]), self.start * other) if other else 0

    __rmul__ = __mul__

    def __or__(self, other: int) -> Moving:
        """A slot and an offset in it (`gm_operand`)."""
        if other & OFFSET_MASK:
            self._refuse(f"{self} | {other}")
        return Moving(self.steps, self.start + other)

    __ror__ = __or__

    def __floordiv__(self, other: int) -> Moving:
        self._whole(other, "//")
        return Moving(tuple([step // other for step in self.steps]), self.start // other)

    def __mod__(self, other: int) -> int:
        self._whole(other, "%")
        return self.start % other

    def __divmod__(self, other: int) -> tuple[Moving, int]:
        return self // other, self % other

    def _whole(self, other: int, operation: str) -> None:
        if any(step % other for step in self.steps):
            self._refuse(f"a step of {self} {operation} {other}")

    def _minus(self, other: Any) -> int:
        if type(other) is not Moving or other.steps != self.steps:
            self._refuse(f"a comparison of {self} and {other}")
        return self.start - other.start

    def __eq__(self, other: object) -> bool:
        return self._minus(other) == 0

    def __lt__(self, other: Any) -> bool:
        return self._minus(other) < 0

    def __le__(self, other: Any) -> bool:
        return self._minus(other) <= 0

    def __gt__(self, other: Any) -> bool:
        return self._minus(other) > 0

    def __ge__(self, other: Any) -> bool:
        return self._minus(other) >= 0

    def __bool__(self) -> bool:
        self._refuse(f"whether {self} is zero")


class Placed(int):
    """A number that came out of a `Moving`: it counts as the integer, and knows its `steps` for the next stamped loop."""

    steps: Place

    @classmethod
    def of(cls, steps: Place, value: int) -> Placed:
        """`value`, which moves by `steps`."""
        placed = cls(value)
        placed.steps = steps
        return placed


@dataclass(frozen=True, slots=True)
class _Relative:
    """A `Moving` in a phase, where it is compared and hashed as what it is."""

    steps: Place
    start: int


def _way(steps: Place, where: Place) -> int:
    return sum([step * place for step, place in zip(steps, where, strict=True)])


def relative(value: Any, where: Place) -> Any:
    """What is carried as a part of a phase at `where`: the same wherever the same piece may follow."""
    if type(value) is Moving:
        return _Relative(value.steps, value.start)
    if type(value) is Placed and len(value.steps) == len(where):
        return _Relative(value.steps, value - _way(value.steps, where))
    if isinstance(value, tuple):
        return _like(value, [relative(item, where) for item in value])
    return value


def moved(phase: Any, by: Place) -> Any:
    """A phase seen from `by` further on."""
    if type(phase) is _Relative:
        return _Relative(phase.steps, phase.start - _way(phase.steps, by))
    if isinstance(phase, tuple):
        return _like(phase, [moved(item, by) for item in phase])
    return phase


def absolute(phase: Any, where: Place | None) -> Any:
    """What is carried, from a phase: at `where`, or with `Moving`s where a stamp is to be written."""
    if type(phase) is _Relative:
        if where is None:
            return Moving(phase.steps, phase.start)
        return Placed.of(phase.steps, _way(phase.steps, where) + phase.start)
    if isinstance(phase, tuple):
        return _like(phase, [absolute(item, where) for item in phase])
    return phase


def _like(value: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """`items` as a tuple of the kind of `value`."""
    make = getattr(type(value), "_make", tuple)
    return make(items)  # type: ignore[no-any-return]


@dataclass(eq=False, slots=True)
class Stamp:
    """Rows whose tiles count from the stamp's first one; `moves` are (number of them all, axis, step by which it moves).

    `number` is its own among the stamps of a task. It takes the kernel on by `tiles` tiles, of which it counts `counted`, and
    to the phase `after`. `checked`: a program with it has been found right.
    """

    rows: NDArray[np.int64]
    moves: NDArray[np.int64]
    number: int
    tiles: int = 0
    counted: int = 0
    after: int = 0
    checked: bool = False


Steps = dict[tuple[Hashable, int, Place], Stamp]
"""From a phase to the next stamp, which is a `what` further on by a place."""


class Stamps:
    """The stamps of a task's programs, which the builders of its blocks share; phases are numbered.

    `patterns` are those of its programs that are still there, by what says that a program is one of them; `repeated` has such
    patterns by the pieces of their only loop, with the flags and tiles of their programs (`KernelBuilder.repeated`).
    """

    def __init__(self) -> None:
        self.of_loops: dict[Hashable, tuple[dict[tuple[Hashable, int], Stamp], Steps]] = {}
        self.patterns: WeakValueDictionary[Hashable, Pattern] = WeakValueDictionary()
        self.repeated: dict[Hashable, tuple[ref[Pattern], Mapping[str, tuple[str, str, int]], int]] = {}
        self.phases: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._moved: dict[tuple[int, Place], int] = {}
        self._count = 0

    def __reduce__(self) -> tuple[type[Stamps], tuple[()]]:
        """Empty ones: another process runs the programs that are there, and writes none."""
        return Stamps, ()

    def new(self, rows: NDArray[np.int64], moves: NDArray[np.int64], tiles: int, counted: int, after: int) -> Stamp:
        """A stamp with a number of its own; the rest as in `Stamp`."""
        self._count += 1
        return Stamp(rows, moves, self._count, tiles, counted, after)

    def number(self, phase: Any) -> int:
        """Of a phase."""
        number = self._numbers.setdefault(phase, len(self.phases))
        if number == len(self.phases):
            self.phases.append(phase)
        return number

    def moved(self, number: int, by: Place) -> int:
        """The number of a phase seen from `by` further on."""
        if (number, by) not in self._moved:
            self._moved[number, by] = self.number(moved(self.phases[number], by))
        return self._moved[number, by]


def _settled(rows: NDArray[np.int64], in_gm: NDArray[np.bool_]) -> tuple[Stamp, NDArray[np.int64]]:
    """Rows that were written one by one, as a stamp that moves at each of its addresses in GM, and its place.

    `in_gm` says of every instruction which of its three operands are such. The stamp's number is the same for the same rows.
    """
    rows = rows.copy()
    moving = np.flatnonzero(in_gm[rows[:, 0]])
    cells = moving + moving // 3 * 2 + 1  # operands are numbers 1 to 3 of the 5 of a row
    place = rows.reshape(-1)[cells] & OFFSET_MASK
    rows.reshape(-1)[cells] -= place
    number = int.from_bytes(blake2b(rows.tobytes(), digest_size=8).digest(), signed=True)
    moves = np.stack((cells, np.arange(len(cells)), np.ones_like(cells)), axis=1)
    return Stamp(rows, moves, number), place


class Sheet:
    """The rows of one program: stamps at their places, and what is written row by row (a stamp that comes up once)."""

    def __init__(self) -> None:
        self.written = array("q")
        self._stamps: list[Stamp] = []
        self._numbers, self._tile, self._axes, self._where = array("q"), array("q"), array("q"), array("q")
        self._loose: list[int] = []
        self._count = 0

    def __len__(self) -> int:
        """Rows so far."""
        return self._count + len(self.written) // ROW

    def put(self, stamp: Stamp, where: Place, tile: int) -> None:
        """Repeat a stamp, whose first tile is number `tile`."""
        if self.written:
            self._append_written()
        self._append(stamp, tile)
        self._where.extend(where)

    def _append(self, stamp: Stamp, tile: int) -> None:
        self._stamps.append(stamp)
        self._numbers.append(stamp.number)
        self._tile.append(tile)
        self._axes.append(len(self._where))
        self._count += len(stamp.rows)

    def _append_written(self) -> None:
        self._loose.append(len(self._stamps))
        self._append(Stamp(_table(self.written), _NO_MOVES, 0), 0)
        self.written = array("q")

    def settle(self, in_gm: NDArray[np.bool_]) -> tuple[bytes, NDArray[np.int64]]:
        """No more rows: a key that is the same for programs of the same stamps, and the place of this one.

        `in_gm` as for `_settled`.
        """
        if self.written:
            self._append_written()
        for index in self._loose:
            stamp, place = _settled(self._stamps[index].rows, in_gm)
            self._stamps[index], self._numbers[index] = stamp, stamp.number
            self._axes[index] = len(self._where)
            self._where.frombytes(place.tobytes())
        self._loose.clear()
        key = blake2b(self._numbers, digest_size=16)
        key.update(self._tile)
        return key.digest(), np.asarray(self._where)

    def rows(self) -> tuple[NDArray[np.int64], NDArray[np.bool_], Moves]:
        """All rows, for each whether it is new (no stamp that was found right has it at this address), and what moves."""
        if self.written and self._stamps:
            self._append_written()
        if not self._stamps:
            return _table(self.written), np.ones(len(self), np.bool_), Moves(*_NO_MOVES.T)
        stamps = self._stamps
        rows = np.concatenate([stamp.rows for stamp in stamps])
        lengths = np.array([len(stamp.rows) for stamp in stamps])
        first = np.cumsum(lengths) - lengths
        rows[:, TILE] += np.repeat(np.asarray(self._tile), lengths)
        moving = np.array([len(stamp.moves) for stamp in stamps])
        cells, axes, steps = np.concatenate([stamp.moves for stamp in stamps]).T
        moves = Moves(cells + np.repeat(first * ROW, moving), steps, axes + np.repeat(np.asarray(self._axes), moving))
        new = np.zeros(len(rows), np.bool_)
        if len(cells):
            np.add.at(rows.reshape(-1), moves.cells, steps * np.asarray(self._where)[moves.axes])
            new[moves.cells // ROW] = True
        for stamp, start in zip(stamps, first.tolist(), strict=True):
            if not stamp.checked:
                new[start : start + len(stamp.rows)] = True
        return rows, new, moves

    def found_right(self) -> None:
        """The rows have been checked."""
        for stamp in self._stamps:
            stamp.checked = True


def _table(rows: array[int]) -> NDArray[np.int64]:
    return np.frombuffer(rows, np.int64).reshape(-1, ROW)


_NO_MOVES = np.empty((0, 3), np.int64)

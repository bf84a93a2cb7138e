"""Stamps: the rows of a piece of a kernel, written once and repeated with moved addresses.

    for what, where in k.stamped(items):        # a plain loop over pairs
        ...                                     # its body writes rows

`what` decides which rows the body writes and `where` is the integer (or several) by which their addresses move. The first time
that a `what` comes up in some phase of the kernel the body runs with a `Moving` in the place of `where`, and its rows become a
`Stamp`; every further time the stamp is repeated without running the body. The phase is the state that one piece leaves to the
next: the next buffer of a queue, the contents of L1, the raised flags. An object with such a state registers it
(`KernelBuilder.carry`).

Rows are those of the same loop without stamps. A `Moving` ensures that for addresses: it supports the operations whose result
is the same at every place, and any other (a comparison with a number, a remainder that differs, a length) raises. A value from
outside the loop that differs between runs of the loop belongs into `what`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from ctypes import addressof, c_char
from functools import cached_property
from operator import add, mul
from typing import Any, NamedTuple, NoReturn
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError
from ascend_sim.frozen import mutable
from ascend_sim.kernel.inspection import Notes
from ascend_sim.memory.gm import OFFSET_MASK

ROW, TILE = 5, 4
"""Numbers of a row, and which of them counts tiles."""
NO_MOVES = np.empty((0, 3), np.int64)
_FEW, _KEPT = 512, 256
"""Most single rows that are kept to be found again, and most such runs of rows."""
LAID = 5
"""Numbers of a stamp in memory, as C reads it (`Stamp` of engine/compiled/program.h)."""


Place = tuple[int, ...]
"""Place of a piece: a number for each direction that it can move in."""


class Moving:
    """Unknown integer start + the sum of steps * where, in place of an address; `where` is known only when a stamp is put.

    Sums, products with numbers, `|` with a GM slot and comparisons of equal steps work; `//` and `%` if all steps are multiples
    of the divisor. Other such operations, hashes and truth values raise SimError, further operations TypeError.
    """

    __slots__ = ("start", "steps")

    def __init__(self, steps: Place, start: int) -> None:
        self.steps, self.start = steps, start

    @classmethod
    def along(cls, axis: int, axes: int) -> Moving:
        """Return the `Moving` equal to number `axis` of the `axes` numbers of `where`."""
        return cls(tuple([int(i == axis) for i in range(axes)]), 0)

    def __repr__(self) -> str:
        return f"({' + '.join(f'{step} * where[{i}]' for i, step in enumerate(self.steps))} + {self.start})"

    def _refuse(self, what: str) -> NoReturn:
        raise SimError(f"stamped loop: {what} differs between places (`where`); pass it in `what`")

    def __add__(self, other: Any) -> Any:
        if type(other) is Moving:
            steps = tuple(map(add, self.steps, other.steps))
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
        """Return the GM operand of this offset in the slot `other` (`gm_operand`).

        Raises SimError if `other` has offset bits.
        """
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
        """Raise SimError for the division or remainder `operation` unless all steps are multiples of `other`."""
        if any(step % other for step in self.steps):
            self._refuse(f"a step of {self} {operation} {other}")

    def _minus(self, other: Any) -> int:
        """Return the difference to a `Moving` with equal steps, which no place changes. Raises SimError for anything else."""
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

    def __hash__(self) -> int:
        self._refuse(f"what is found under {self}")


class Placed(int):
    """Integer that was a `Moving` in an earlier stamped loop; its `steps` say how it moves in the next one."""

    steps: Place

    @classmethod
    def of(cls, steps: Place, value: int) -> Placed:
        """Return `value` as a Placed with these steps."""
        placed = cls(value)
        placed.steps = steps
        return placed


class _Relative(NamedTuple):
    """A `Moving` as it stands in a phase, where it is compared and hashed by its steps and its start relative to the place.

    `mark` sets it apart from tuples that a kernel carries.
    """

    steps: Place
    start: int
    mark: object = Moving


def distance(steps: Place, where: Sequence[int]) -> int:
    """Return the dot product of steps and place."""
    return sum(map(mul, steps, where))


def relative(value: Any, where: Place) -> Any:
    """Return a carried value with each moving number, also in tuples, relative to `where`, so that phases compare equal.

    A `Placed` of a loop with another number of axes counts as a plain integer.
    """
    if isinstance(value, Moving):
        return _Relative(value.steps, value.start)
    if type(value) is Placed and len(value.steps) == len(where):
        return _Relative(value.steps, value - distance(value.steps, where))
    if isinstance(value, tuple):
        return like(value, [item if type(item) is int else relative(item, where) for item in value])
    return value


def moved(phase: Any, by: Place) -> Any:
    """Return a phase with each relative number less its steps times `by`: the same state from a place `by` further on."""
    if type(phase) is _Relative:
        return _Relative(phase.steps, phase.start - distance(phase.steps, by))
    if isinstance(phase, tuple):
        return like(phase, [item if type(item) is int else moved(item, by) for item in phase])
    return phase


def absolute(phase: Any, number: Callable[[Place, int], Any]) -> Any:
    """Return a phase with each relative number replaced by `number(steps, start)`; other values stay."""
    if type(phase) is _Relative:
        return number(phase.steps, phase.start)
    if isinstance(phase, tuple):
        return like(phase, [item if type(item) is int else absolute(item, number) for item in phase])
    return phase


def placed(where: Place) -> Callable[[Place, int], Placed]:
    """Return the function (steps, start) -> Placed number at `where`, for `absolute`."""
    return lambda steps, start: Placed.of(steps, distance(steps, where) + start)


def like(value: tuple[Any, ...], items: list[Any]) -> tuple[Any, ...]:
    """Return `items` as a tuple of the class of `value`, such as a named tuple."""
    kind = type(value)
    return tuple(items) if kind is tuple else getattr(kind, "_make", tuple)(items)


class Guard(NamedTuple):
    """A condition on a place: steps * place lies between `low` and `high`, and leaves the remainder `rest` by `unit`."""

    steps: Place
    unit: int
    rest: int
    low: int
    high: int


FAR = 1 << 62
"""Limit of places and of offsets computed from them: sums of two fit into 64 bits."""


def meets(guards: Sequence[Guard], axes: int) -> Callable[[Place], bool]:
    """Return a function that is True for a place (`axes` numbers) that meets all guards; for one axis it is a fast one."""
    if axes != 1:
        return lambda place: all(_meets(one, distance(one.steps, place)) for one in guards)
    low, high = -FAR, FAR
    rests = []
    for guard in guards:  # each span is one of the only number
        (step,) = guard.steps
        if guard.unit > 1:
            rests.append(guard)
            continue
        ends = (guard.low, guard.high) if step > 0 else (guard.high, guard.low)
        low, high = max(low, -(-ends[0] // step)), min(high, ends[1] // step)
    if not rests:
        return lambda place: low <= place[0] <= high
    return lambda place: low <= place[0] <= high and all(_meets(one, one.steps[0] * place[0]) for one in rests)


def _meets(guard: Guard, gone: int) -> bool:
    """Return True if `gone`, steps * place, meets the guard."""
    return guard.low <= gone <= guard.high and gone % guard.unit == guard.rest


@mutable(eq=False)
class Stamp:
    """Rows of a piece of a kernel that are repeated at places of `axes` numbers; their tiles count from the stamp's first one.

    `moves` has (index of a number in the rows, axis, step by which it moves), in order. `number` is its own among the stamps of
    a task. After it the kernel is `tiles` tiles further, `counted` of them counted, in phase `after`. `notes` has the lines
    that wrote the rows, under inspection. `ways` are the guards, from the check of addresses, of the places where the rows keep
    their limits, None before it. A stamp of a traced loop stands only where its `guards` are met, and only
    in its `block` if it has one.
    """

    rows: NDArray[np.int64]
    moves: NDArray[np.int64]
    number: int
    axes: int = 0
    tiles: int = 0
    counted: int = 0
    after: int = 0
    notes: Notes | None = None
    ways: Sequence[Guard] | None = None
    guards: tuple[Guard, ...] = ()
    block: int | None = None

    @cached_property
    def holds(self) -> Callable[[Place], bool]:
        """Return a function that is True for a place that meets the stamp's guards."""
        return meets(self.guards, self.axes)

    @cached_property
    def counts(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return (distinct instructions of the stamp, how often each occurs), both in ascending order of the instructions."""
        found = np.bincount(self.rows[:, 0])
        (kinds,) = found.nonzero()
        return kinds, found[kinds]

    @cached_property
    def kinds(self) -> frozenset[int]:
        """Return the numbers of the distinct instructions of the stamp."""
        return frozenset(self.counts[0].tolist())

    def without(self, rows: Sequence[int], number: int) -> Stamp:
        """Return a new stamp, numbered `number`, without some rows, none of which moves; its tiles, phase and notes are not
        kept.
        """
        stays = np.ones(len(self.rows), np.bool_)
        stays[list(rows)] = False
        row = self.moves[:, 0] // ROW
        moves = self.moves.copy()
        moves[:, 0] -= (np.cumsum(~stays) * ROW)[row]
        return Stamp(self.rows[stays], moves, number, self.axes, ways=self.ways, guards=self.guards, block=self.block)


Steps = dict[tuple[Hashable, int, Place], Stamp]
"""{(`what`, phase, move from the last place): the stamp that follows}."""


class Stamps:
    """All stamps of a task's programs, which the builders of its blocks share, and the numbered phases between them.

    `known` has the stamps by number; `longest` bounds how far one of their numbers moves when every number of the place grows
    by one. `repeated` has a program and its place for each outline, while the program exists (`KernelBuilder.repeated_at`).
    `of_traced` has the traced loops, `turn_counts` the turns of each source line that ran (`kernel.traced`).
    """

    def __init__(self) -> None:
        self.known: list[Stamp] = []
        self.longest = 0
        self.of_loops: dict[Hashable, tuple[dict[tuple[Hashable, int], Stamp], Steps]] = {}
        self.of_traced: dict[Hashable, Any] = {}
        self.turn_counts: dict[Hashable, Any] = {}
        self.repeated: dict[Hashable, tuple[ref[Any], Place]] = {}
        self.phases: list[Any] = []
        self._numbers: dict[Hashable, int] = {}
        self._moved: dict[tuple[int, Place], int] = {}
        self._without: dict[tuple[int, tuple[int, ...]], Stamp] = {}
        self._single: dict[Hashable, Stamp] = {}
        self._laid = Laid.of(())

    def __reduce__(self) -> tuple[type[Stamps], tuple[()]]:
        """Pickle as empty: another process runs existing programs and writes none."""
        return Stamps, ()

    def add(self, stamp: Stamp) -> Stamp:
        """Number a stamp (its `number` is set), add it to `known` and return it."""
        stamp.number = len(self.known)
        self.known.append(stamp)
        if len(stamp.moves):
            self.longest = max(self.longest, stamp.axes * max(map(abs, stamp.moves[:, 2].tolist())))
        return stamp

    def without(self, stamp: Stamp, rows: tuple[int, ...]) -> Stamp:
        """Return the stamp that equals `stamp` without some rows; made and numbered at the first call, then kept."""
        key = stamp.number, rows
        if key not in self._without:
            self._without[key] = self.add(stamp.without(rows, 0))
        return self._without[key]

    def single(self, rows: NDArray[np.int64], sizes: Sequence[int]) -> Stamp:
        """Return the stamp of a run of rows that were written singly, whose number is -1.

        Equal runs of up to 512 rows are one object for tensors of equal `sizes`, so that they are checked once; some 256 are
        kept.
        """
        made = Stamp(rows, NO_MOVES, -1)
        if len(rows) > _FEW:
            return made
        if len(self._single) == _KEPT:
            self._single.clear()
        return self._single.setdefault((tuple(sizes), rows.tobytes()), made)

    def laid(self) -> Laid:
        """Return the table of all stamps for C, by number: addresses and sizes; valid while this object and the stamps live."""
        new = self.known[len(self._laid.numbers) :]
        if new:
            self._laid = Laid.at_once(np.concatenate((self._laid.numbers, Laid.of(new).numbers)))
        return self._laid

    def number(self, phase: Any) -> int:
        """Return the number of a phase, a hashable value; a new phase gets the next number."""
        number = self._numbers.setdefault(phase, len(self.phases))
        if number == len(self.phases):
            self.phases.append(phase)
        return number

    def moved(self, number: int, by: Place) -> int:
        """Return the number of the phase that equals phase `number` from a place `by` further on (function `moved`); cached."""
        if (number, by) not in self._moved:
            carried, balance = self.phases[number]
            self._moved[number, by] = self.number((moved(carried, by), balance))
        return self._moved[number, by]


class Laid(NamedTuple):
    """Table of stamps for C, a row each: addresses of rows and moves, their counts, axes; with the table's own address."""

    numbers: NDArray[np.int64]
    address: int

    @classmethod
    def of(cls, stamps: Sequence[Stamp]) -> Laid:
        """Return the table of the given stamps."""
        found = [(address_of(one.rows), address_of(one.moves), len(one.rows), len(one.moves), one.axes) for one in stamps]
        return cls.at_once(np.array(found, np.int64).reshape(-1, LAID))

    @classmethod
    def at_once(cls, numbers: NDArray[np.int64]) -> Laid:
        """Return the table with the rows `numbers`."""
        return cls(numbers, address_of(numbers))


_Begin = c_char * 0


def address_of(array: NDArray[Any]) -> int:
    """Return the memory address of the data of a contiguous array of plain numbers."""
    if array.flags.writeable:
        return addressof(_Begin.from_buffer(array.data))  # numpy's own attribute takes four times as long
    address: int = array.__array_interface__["data"][0]
    return address

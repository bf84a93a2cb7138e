"""Numbers of a traced loop: they stand for an integer and record what the body of the loop asks of them.

    trace = Trace((7,))                     # the body runs for number 7
    number = trace.numbers()[0]
    number * 4 + 1                          # affine in the number: nothing is noted
    number < 10                             # True here, and wherever the number is at most 9: that is noted
    trace.guards()                          # the conditions under which a run elsewhere gets the same answers

A `Tracked` is affine in the numbers of the loop. Any other question is answered for the number at which the body runs, and the
`Trace` notes under which condition the answer is the same elsewhere. A number that is taken for what it is (an index of a list,
a key of a dictionary, a text) fixes the place. A `Tracked` is not an `int`: Python's C code would read an `int` without asking.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ascend_sim.kernel.described import Key
from ascend_sim.kernel.stamp import FAR, Guard, Moving, Place, distance

_SMALL = 16
"""A remainder by at most this many is a condition on the remainder; one by more is a condition on the quotient."""


class Trace:
    """Record of one run of a body at a `place`: the conditions on which its rows depend.

    While the body runs, its numbers record every question; when the trace is `over` they are plain integers.
    """

    def __init__(self, place: Place) -> None:
        self.place = place
        self.over = False
        self._spans: dict[Place, tuple[int, int]] = {}
        self._rests: dict[tuple[Place, int], int] = {}

    def numbers(self) -> list[Tracked]:
        """Return the tracked numbers that stand for the place, one for each axis."""
        return [self.number(tuple([int(one == axis) for one in range(len(self.place))]), 0) for axis in range(len(self.place))]

    def number(self, steps: Place, start: int) -> Tracked:
        """Return the tracked number start + the sum of steps * place."""
        return Tracked(steps, start, self)

    def keep_within(self, steps: Place, low: int, high: int) -> None:
        """Narrow the guards so that steps * place lies between `low` and `high`, both included; nothing after the trace."""
        if not self.over:
            known = self._spans.get(steps, (-FAR, FAR))
            self._spans[steps] = max(known[0], low), min(known[1], high)

    def keep_rest(self, steps: Place, unit: int) -> None:
        """Add the guard that steps * place has the remainder by `unit` that it has at this place; nothing after the trace."""
        if not self.over:
            self._rests[steps, unit] = distance(steps, self.place) % unit

    def guards(self) -> tuple[Guard, ...]:
        """Return the recorded guards; at any place that meets them the body gets the same answers and writes the same rows."""
        spans = [Guard(steps, 1, 0, low, high) for steps, (low, high) in self._spans.items()]
        return (*spans, *[Guard(steps, unit, rest, -FAR, FAR) for (steps, unit), rest in self._rests.items()])


class Tracked(Moving):
    """Tracked integer start + the sum of steps * place; its trace records what the body asks of it."""

    __slots__ = ("trace",)
    __array_ufunc__ = None  # numpy leaves sums and products with it to this class
    __class__ = property(lambda self: int)  # type: ignore[assignment]  # a body that asks for the type of its number gets int

    def __init__(self, steps: Place, start: int, trace: Trace) -> None:
        super().__init__(steps, start)
        self.trace = trace

    @property
    def value(self) -> int:
        """Return the integer at the trace's place without adding a guard."""
        return self.start + distance(self.steps, self.trace.place)

    def __index__(self) -> int:
        gone = distance(self.steps, self.trace.place)
        self.trace.keep_within(self.steps, gone, gone)
        return self.start + gone

    def _affine(self, steps: Place, start: int) -> Any:
        """Return the tracked number start + steps * place of this trace, or the plain `start` if all steps are 0."""
        return Tracked(steps, start, self.trace) if any(steps) else start

    def _same_trace(self, other: Any) -> bool:
        return type(other) is Tracked and other.trace is self.trace

    # -- affine --------------------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        if type(other) is int:
            return Tracked(self.steps, self.start + other, self.trace)
        if self._same_trace(other):
            steps = tuple([mine + its for mine, its in zip(self.steps, other.steps, strict=True)])
            return self._affine(steps, self.start + other.start)
        if _is_whole(other):
            return Tracked(self.steps, self.start + index(other), self.trace)
        return index(self) + other

    __radd__ = __add__

    def __neg__(self) -> Any:
        return Tracked(tuple([-step for step in self.steps]), -self.start, self.trace)

    def __pos__(self) -> Any:
        return self

    def __sub__(self, other: Any) -> Any:
        return self + -(index(other) if _is_whole(other) and not self._same_trace(other) else other)

    def __mul__(self, other: Any) -> Any:
        if not _is_whole(other):
            return index(self) * other
        factor = index(other)
        return self._affine(tuple([step * factor for step in self.steps]), self.start * factor)

    __rmul__ = __mul__

    # -- answers that hold where a condition does ----------------------------------------------------------------------

    def __floordiv__(self, other: Any) -> Any:
        if not _is_whole(other) or not index(other):
            return index(self) // other
        unit = index(other)
        if not any(step % unit for step in self.steps):
            return self._affine(tuple([step // unit for step in self.steps]), self.start // unit)
        quotient = self.value // unit
        low, high = sorted((quotient * unit, quotient * unit + unit - (1 if unit > 0 else -1)))
        self.trace.keep_within(self.steps, low - self.start, high - self.start)
        return quotient

    def __mod__(self, other: Any) -> Any:
        if not _is_whole(other) or not index(other):
            return index(self) % other
        unit = index(other)
        if not any(step % unit for step in self.steps):
            return self.start % unit
        if 0 < unit <= _SMALL:
            self.trace.keep_rest(self.steps, unit)
            return self.value % unit
        return self - self // unit * unit

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << index(other)) if _is_whole(other) else index(self) >> other

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << index(other)) if _is_whole(other) else index(self) << other

    def __and__(self, other: Any) -> Any:
        if _is_whole(other) and index(other) >= 0 and not (index(other) + 1) & index(other):
            return self % (index(other) + 1)  # the last bits
        return index(self) & (index(other) if _is_whole(other) else other)

    __rand__ = __and__

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def _compare(self, other: Any, comparison: Callable[[Any, Any], Any]) -> Any:
        """Return the comparison with `other` at the trace's place, and add the guard that it has this result elsewhere."""
        if not _is_whole(other):
            return comparison(index(self), other)
        away = self - other  # compared with 0
        if type(away) is not Tracked:
            return comparison(away, 0)
        gone, zero = distance(away.steps, away.trace.place), -away.start
        if comparison in (operator.eq, operator.ne):
            low, high = (-FAR, zero - 1) if gone < zero else (zero + 1, FAR) if gone > zero else (zero, zero)
        else:
            below = zero if comparison in (operator.le, operator.gt) else zero - 1  # the last place on the lower side
            low, high = (-FAR, below) if gone <= below else (below + 1, FAR)
        away.trace.keep_within(away.steps, low, high)
        return comparison(gone, zero)

    def __eq__(self, other: object) -> Any:
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> Any:
        return self._compare(other, operator.ne)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __bool__(self) -> bool:
        return bool(self._compare(0, operator.ne))

    # -- answers that hold here alone ----------------------------------------------------------------------------------

    def __hash__(self) -> int:
        return hash(index(self))

    def __repr__(self) -> str:
        return repr(index(self))

    def __format__(self, form: str) -> str:
        return format(index(self), form)

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (index(self),)

    def __getattr__(self, name: str) -> Any:
        return getattr(index(self), name)


def _here_alone() -> None:
    """Set the operators of `Tracked` (division, powers, ...) that return a plain result and tie the rows to this place."""
    both = {"truediv": operator.truediv, "pow": pow, "or": operator.or_, "xor": operator.xor}
    right = {
        "floordiv": operator.floordiv,
        "mod": operator.mod,
        "divmod": divmod,
        "lshift": operator.lshift,
        "rshift": operator.rshift,
    }
    alone = {
        "int": int, "float": float, "complex": complex, "invert": operator.invert, "round": round, "trunc": math.trunc,
        "floor": math.floor, "ceil": math.ceil,
    }  # fmt: skip
    for name, operation in {**both, **alone}.items():
        setattr(Tracked, f"__{name}__", lambda self, *more, of=operation: of(index(self), *more))
    for name, operation in {**both, **right}.items():
        setattr(Tracked, f"__r{name}__", lambda self, other, of=operation: of(other, index(self)))


_here_alone()


def _is_whole(value: Any) -> bool:
    return type(value) is int or isinstance(value, int | np.int64)  # others of numpy's wrap


def settled(key: Key) -> Key:
    """Return an instruction's key with each tracked number, also in tuples, replaced by its integer; other fields stay."""
    for one in key:
        if type(one) is Tracked or type(one) is tuple:
            break
    else:
        return key
    return tuple([index(one) if type(one) is Tracked else settled(one) if type(one) is tuple else one for one in key])


class SlicePlaces(NamedTuple):
    """Elements that a slice takes of an axis: the index of the first, their number, and the step from one to the next."""

    first: int
    places: int
    step: int


def slice_of(part: slice, size: int) -> SlicePlaces:
    """Return the elements that a slice takes of an axis of `size`, cut off as in numpy.

    With tracked bounds and a step above 0 the first index moves with them, while the number of elements is fixed by a guard.
    Raises what `slice.indices` raises.
    """
    if type(part.start) is not Tracked and type(part.stop) is not Tracked:
        first, end, step = part.indices(size)
        return SlicePlaces(first, max(-((first - end) // step), 0), step)
    _, _, step = slice(None, None, part.step).indices(size)
    if step < 0:
        return slice_of(slice(*settled((part.start, part.stop, step))), size)
    first = _cut_off(0 if part.start is None else part.start, size)
    end = _cut_off(size if part.stop is None else part.stop, size)
    return SlicePlaces(first, max(index(-((first - end) // step)), 0), step)


def _cut_off(bound: Any, size: int) -> Any:
    """Return the bound of a slice cut off to 0 .. size; a negative one counts from the end. Tracked bounds get guards."""
    if bound < 0:
        bound += size
        return bound if bound > 0 else 0
    return bound if bound <= size else size

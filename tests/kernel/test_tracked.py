"""Numbers of traced loops: whatever is computed with one is right at every place that its trace says."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any

import numpy as np
import pytest

from ascend_sim.kernel.stamp import FAR, Guard, meets
from ascend_sim.kernel.tracked import Trace, Tracked, settled, slice_of

pytestmark = pytest.mark.fast

NAMES = "ij"
OF_ONE = (
    "({a} * {c})", "({a} // {c})", "({a} % {c})", "({a} & {p})", "({a} & 7)", "({a} >> 2)", "({a} << 3)", "(-{a})", "(+{a})",
    "abs({a})", "[1, 2, 3][{a} % 3]", "len(range(0, {a} % 9))", "divmod({a}, {p})[1]", "divmod({a}, {p})[0]", "({a} | 4)",
    "({a} ^ {p})", "(~{a})", "int({a} / {c})", "(100 // ({a} or 1))", "(100 % ({a} or 1))", "({c} << ({a} & 3))",
    "round({a})", "hash({a})", "int(str({a}))", "{{1: 2}}.get({a}, 3)",
    "({a} and {c})", "({a} or {c})", "(not {a})",
)  # fmt: skip
OF_TWO = (
    "({a} + {b})", "({a} - {b})", "({a} * {b})", "min({a}, {b})", "max({a}, {b})", "({a} if {b} < {n} else {b})",
    "({a} if {b} == {s} else {c})", "(0 if {a} else {b})", "(1 if {a} >= {b} else 2)", "(1 if {a} <= {b} else 2)",
    "(1 if {a} > {b} else 2)", "(1 if {a} != {b} else 2)", "(1 if {s} < {a} <= {b} else 2)", "({a} in (3, {b}))",
)  # fmt: skip


def expression(random: Random, depth: int, names: str) -> str:
    """Something that a body may compute from its numbers."""
    if depth == 0:
        return random.choice([*names, *names, str(random.randint(-9, 40))])
    parts = {
        "a": expression(random, depth - 1, names), "b": expression(random, random.randint(0, depth - 1), names),
        "c": random.choice([2, 3, 4, 7, 16, 20, -3]), "p": random.choice([2, 3, 4, 7, 16, 20]),
        "n": random.randint(-5, 60), "s": random.randint(0, 9),
    }  # fmt: skip
    return random.choice(OF_ONE + OF_TWO).format(**parts)


def at(value: Any, place: tuple[int, ...]) -> Any:
    """Return a computed value at another place."""
    if type(value) is not Tracked:
        return value
    return value.start + sum(step * one for step, one in zip(value.steps, place, strict=True))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("axes", [1, 2])
def test_an_expression_is_right_wherever_its_guards_hold(axes: int, seed: int) -> None:
    random, held = Random(f"{axes} {seed}"), 0
    for _ in range(250):
        text = expression(random, random.randint(1, 4), NAMES[:axes])
        plain = eval(f"lambda {', '.join(NAMES[:axes])}: {text}")
        place = tuple(random.randint(-20, 120) for _ in range(axes))
        trace = Trace(place)
        try:
            plain(*place)
        except (OverflowError, ValueError, MemoryError):
            continue
        found, holds = plain(*trace.numbers()), meets(trace.guards(), axes)
        assert holds(place), (text, place)
        for other in [place, *(tuple(random.randint(-20, 120) for _ in range(axes)) for _ in range(40))]:
            if holds(other):
                held += other != place
                assert at(found, other) == plain(*other), (text, place, other)
    assert held > 1000  # it is not that nothing holds anywhere


def one(place: int = 7) -> tuple[Tracked, Trace]:
    trace = Trace((place,))
    return trace.numbers()[0], trace


def test_what_is_affine_has_no_guard() -> None:
    number, trace = one()
    assert (3 * (number - 2) + number * 4 + (number << 1)).value == 57
    assert (number * 8 + 3) % 4 == 3 and ((number * 8 + 4) // 4).steps == (2,)
    assert number - number == 0 and number * 0 == 0
    assert trace.guards() == ()


@pytest.mark.parametrize(
    ("ask", "low", "high"),
    [
        (lambda n: n < 10, -FAR, 9), (lambda n: n <= 10, -FAR, 10), (lambda n: n > 10, -FAR, 10), (lambda n: n >= 10, -FAR, 9),
        (lambda n: n < 5, 5, FAR), (lambda n: n == 9, -FAR, 8), (lambda n: n != 5, 6, FAR), (lambda n: n == 7, 7, 7),
        (bool, 1, FAR), (lambda n: n // 4, 4, 7), (lambda n: [0] * 9 + [n], 0 - FAR, FAR), (lambda n: [*range(9)][n], 7, 7),
        (lambda n: 2 * n + 1 < 20, -FAR, 9), (lambda n: -3 * n < 20, -6, FAR), (lambda n: n % 20, 0, 19), (float, 7, 7),
    ],
)  # fmt: skip
def test_an_answer_holds_as_far_as_it_is_the_same(ask: Any, low: int, high: int) -> None:
    number, trace = one()
    ask(number)
    holds = meets(trace.guards(), 1)
    for place in range(-30, 40):
        assert holds((place,)) == (low <= place <= high), place


def test_a_small_remainder_holds_at_every_so_manieth_place() -> None:
    number, trace = one()
    assert (number + 2) % 4 == 1 and number & 1 == 1
    assert [place for place in range(20) if meets(trace.guards(), 1)((place,))] == [3, 7, 11, 15, 19]


def test_guards_of_two_numbers_are_about_what_was_asked() -> None:
    trace = Trace((2, 5))
    row, column = trace.numbers()
    assert row < column and (row + 2 * column) % 3 == 0
    assert trace.guards() == (Guard((1, -1), 1, 0, -FAR, -1), Guard((1, 2), 3, 0, -FAR, FAR))
    holds = meets(trace.guards(), 2)
    assert holds((2, 5)) and holds((1, 4)) and not holds((5, 5)) and not holds((2, 4))


def test_it_is_an_integer_to_whoever_asks() -> None:
    number, trace = one()
    assert isinstance(number, int) and not isinstance(number, str)
    assert number.bit_length() == 3 and number.real == 7 and f"{number:03} {number}" == "007 7"
    assert json.dumps(copy.deepcopy(number)) == "7" and type(copy.copy(number)) is int
    assert {7: "seven"}[number] == "seven" and np.arange(9)[number] == 7 and number == 7.0 and number != "7"
    assert trace.guards() == (Guard((1,), 1, 0, 7, 7),)


def test_behind_its_turn_it_is_the_integer_that_it_was() -> None:
    number, trace = one()
    trace.over = True
    assert number < 8 and number + 1 == 8 and [*range(9)][number] == 7 and number % 4 == 3
    assert trace.guards() == ()
    later, other = one(20)
    assert at(later + number, (20,)) == 27 and (later + number).steps == (1,)
    assert other.guards() == ()


def test_numbers_of_numpy_count_as_there() -> None:
    number, trace = one(2)
    assert (number * np.int64(4)).steps == (np.int64(4) * number).steps == (4,) and trace.guards() == ()
    with np.errstate(over="ignore"):
        assert number - np.uint8(3) == 255 and (number * np.array([1, 2])).tolist() == [2, 4]
    assert trace.guards() == (Guard((1,), 1, 0, 2, 2),)


def test_settled_has_integers() -> None:
    number, _ = one()
    key = ("copy", number * 2, (3, (number, "x")), None)
    assert settled(key) == ("copy", 14, (3, (7, "x")), None) and type(settled(key)[2][1][0]) is int


@pytest.mark.parametrize("step", [None, 1, 2, 3, -1])
def test_a_slice_is_cut_off_as_numpy_does(step: int | None) -> None:
    size, bounds = 10, [None, *range(-13, 14)]
    for place in (0, 3, 12, -4):
        for start in bounds:
            for stop in bounds:
                number, trace = one(place)
                moving = [None if bound is None else bound - place + number for bound in (start, stop)]
                if start == stop is None:
                    continue
                first, count, by = slice_of(slice(*moving, step), size)
                assert [int(first) + by * i for i in range(count)] == list(range(size))[slice(start, stop, step)]
                holds = meets(trace.guards(), 1)
                assert holds((place,))
                for other in range(-20, 20):
                    if holds((other,)):
                        moved = [None if bound is None else bound - place + other for bound in (start, stop)]
                        places = [at(first, (other,)) + by * i for i in range(count)]
                        assert places == list(range(size))[slice(*moved, step)]

"""A ladder of numbers: the first rung that applies and has an answer answers, and refusals are values."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from ascend_sim.errors import TilingError
from ascend_sim.ops.kernels.cube.ladder import (
    CLOSED,
    GUESSED,
    MARKS,
    OURS,
    STATED,
    LadderAnswer,
    Refusal,
    Rung,
    TilingQuestion,
    answered,
    attempt,
    climb,
    widest_that_fits,
)

pytestmark = pytest.mark.fast


def raising(question: int) -> int:
    raise TilingError(f"{question} is too much")


def never(question: int) -> bool:
    return False


def always(question: int) -> bool:
    return True


ONE: Rung[int, int] = Rung("one", STATED, always, lambda q: 1)
TWO: Rung[int, int] = Rung("two", lambda q: OURS if q > 5 else GUESSED, always, lambda q: 2)
RAISES: Rung[int, int] = Rung("raises", STATED, always, raising)
SMALL: Rung[int, int] = Rung("small", OURS, lambda q: q < 3, lambda q: 3)
REFUSES: Rung[int, int] = Rung("refuses", OURS, always, lambda q: Refusal("no"))
ASIDE: Rung[int, int] = Rung("aside", OURS, always, lambda q: Refusal("aside"), explains=False)


def names(found: LadderAnswer[int] | Refusal) -> list[str]:
    return [step.rung.name for step in answered(found).steps]


def test_the_first_rung_with_an_answer_answers() -> None:
    assert answered(climb((ONE, TWO), 9)).tiling == 1
    assert answered(climb((TWO, ONE), 9)).tiling == 2
    assert names(climb((RAISES, REFUSES, TWO, ONE), 9)) == ["raises", "refuses", "two"]


def test_a_rung_that_does_not_apply_is_not_climbed() -> None:
    assert names(climb((SMALL, ONE), 9)) == ["one"]
    assert names(climb((SMALL, ONE), 2)) == ["small"]


def test_rows_say_which_refused_and_why() -> None:
    assert answered(climb((RAISES, REFUSES, TWO), 9)).rows() == [
        {"rung": "raises", "mark": "stated", "refused": "9 is too much"},
        {"rung": "refuses", "mark": "ours", "refused": "no"},
        {"rung": "two", "mark": "ours", "refused": None},
    ]
    assert answered(climb((TWO,), 1)).rows()[0]["mark"] == "guessed"
    assert {"ours", "guessed", "stated", "inferred"} == set(MARKS)


@pytest.mark.parametrize(
    ("rungs", "reason"),
    [
        ((RAISES, REFUSES), "no"),
        ((REFUSES, RAISES), "9 is too much"),
        ((REFUSES, ASIDE), "no"),
        ((ASIDE, REFUSES), "no"),
        ((ASIDE, REFUSES, ASIDE), "no"),
        ((ASIDE,), "aside"),
    ],
)
def test_without_an_answer_the_last_refusal_that_explains_it_is_told(rungs: tuple[Rung[int, int], ...], reason: str) -> None:
    found = climb(rungs, 9)
    assert found == Refusal(reason)
    with pytest.raises(TilingError, match=reason):
        answered(found)


def test_an_attempt_hands_arguments_on_and_lets_other_errors_through() -> None:
    assert attempt(lambda a, b: a - b, 5, 3) == 2
    assert attempt(raising, 7) == Refusal("7 is too much")
    with pytest.raises(ZeroDivisionError):
        attempt(lambda: 1 // 0)


def test_closed_refusals_make_a_stand_in_and_warnings_are_told() -> None:
    closed: Rung[int, int] = Rung("closed", STATED, always, lambda q: Refusal("shut", closed=True))
    warning: Rung[int, int] = Rung("warning", STATED, always, lambda q: Refusal("mind", warns=True))
    assert not answered(climb((REFUSES, warning, ONE), 9)).stands_in
    assert answered(climb((closed, ONE), 9)).stands_in and not answered(climb((closed, ONE), 9)).warnings
    found = answered(climb((closed, warning, REFUSES, ONE), 9))
    assert found.stands_in and found.warnings == ["mind"]
    assert CLOSED.tiling(TilingQuestion(None, op_type="Name")) == Refusal(  # type: ignore[arg-type]
        "Name is of a closed library, whose tilings are not published", closed=True
    )


@dataclass(frozen=True)
class StripTiling:
    base_m: int
    strip: int


def test_strips_are_as_wide_as_the_tile_of_a_wide_one() -> None:
    asked: list[int] = []

    def cut(strip: int) -> StripTiling | Refusal:
        asked.append(strip)
        return Refusal("wide") if strip > 300 else StripTiling(96, strip)

    found = widest_that_fits(4000, lambda strip: True, cut, 4000)
    assert isinstance(found, StripTiling) and found.strip == 96
    assert asked[0] == 1008 and asked[-1] == 96
    assert isinstance(narrow := widest_that_fits(4000, lambda strip: True, cut, 4000, widest=64), StripTiling)
    assert narrow.strip == 64


def test_the_refusal_of_the_narrowest_strip_is_handed_on() -> None:
    def cut(strip: int) -> StripTiling | Refusal:
        raise TilingError(f"{strip} columns")

    assert widest_that_fits(4000, lambda strip: False, cut, 4000) == Refusal("16 columns")
    assert widest_that_fits(16, lambda strip: True, cut, 16) == Refusal("16 columns are not cut: a strip has at least 16")

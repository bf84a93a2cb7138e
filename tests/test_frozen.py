"""`@frozen` and `@mutable` answer as `dataclass` does on the same class, and write nothing before it is asked."""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, is_dataclass, replace
from functools import partial
from typing import Any

import pytest

from ascend_sim.frozen import frozen, mutable

KINDS: tuple[Callable[[Any], Any], ...] = (dataclass(frozen=True), frozen)
CHANGING: tuple[Callable[..., Any], ...] = (dataclass, mutable)


def classes(kind: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the classes of this test, made by `kind`."""

    @kind
    class Point:
        x: int
        y: int = 0
        note: str = field(default="", compare=False)
        parts: tuple[int, ...] = field(default_factory=tuple, repr=False)
        shown: int = field(default=1, hash=False)

    @kind
    class Deeper(Point):
        z: int = 5

        def __post_init__(self) -> None:
            object.__setattr__(self, "y", self.y + self.z)

    class Plain(Deeper):
        """Class without fields of its own and without a decorator."""

    @dataclass(frozen=True)
    class Mixed(Point):
        """A user's class: a dataclass on one of ours."""

        w: int = 7

    @kind
    class OwnEquality:
        x: int

        def __eq__(self, other: object) -> bool:
            return isinstance(other, OwnEquality) and abs(self.x) == abs(other.x)

        def __repr__(self) -> str:
            return f"<{self.x}>"

    @kind
    class Keyed:
        x: int

        def __eq__(self, other: object) -> bool:
            return True

        def __hash__(self) -> int:
            return 3

    @kind
    class Fieldless:
        pass

    return {kind.__name__: kind for kind in (Point, Deeper, Plain, Mixed, OwnEquality, Keyed, Fieldless)}


def answer(ask: Callable[[], Any]) -> Any:
    """Return the result or the error as text, because the classes of the two sides are not the same."""
    try:
        return repr(ask()).replace("object at 0x", "")
    except Exception as error:
        return type(error).__name__, str(error)


def put(one: Any, name: str) -> None:
    setattr(one, name, 1)


def drop(one: Any, name: str) -> None:
    delattr(one, name)


QUESTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "shown": lambda of: [of[name](1) for name in ("Point", "Deeper", "Plain", "Mixed", "OwnEquality")],
    "first seen through a class below": lambda of: [of["Plain"](1), hash(of["Plain"](1)), of["Plain"](1) == of["Plain"](1)],
    "hashed alike": lambda of: [hash(of[name](1, 2)) == hash(of[name](1, 2)) for name in ("Point", "Deeper", "Mixed")],
    "hashed": lambda of: [hash(of[name](1)) for name in ("Point", "Deeper", "Plain", "Mixed", "OwnEquality", "Keyed")],
    "hashed without": lambda of: hash(of["Point"](1, shown=1)) == hash(of["Point"](1, shown=2)),
    "nothing hashed": lambda of: hash(of["Fieldless"]()),
    "equal": lambda of: [
        of[a](1, 2) == of[b](1, 2) for a in ("Point", "Deeper", "Plain") for b in ("Point", "Deeper", "Plain")
    ],
    "unequal": lambda of: [
        of["Point"](1) != of["Point"](2),
        of["Point"](1) == of["Point"](1, note="other"),
        of["Point"](1) == 1,
    ],
    "equal in its own way": lambda of: [of["OwnEquality"](1) == of["OwnEquality"](-1), of["Keyed"](1) == 8],
    "set": lambda of: put(of["Point"](1), "x"),
    "set below": lambda of: put(of["Deeper"](1), "x"),
    "set what is not a field": lambda of: put(of["Point"](1), "more"),
    "deleted": lambda of: drop(of["Point"](1), "x"),
    "deleted below": lambda of: drop(of["Plain"](1), "z"),
    "set more below": lambda of: put(of["Plain"](1), "more"),
    "defaults of the class": lambda of: (of["Point"](1), of["Point"].note, of["Deeper"].shown, hasattr(of["Point"], "parts")),
    "missing": lambda of: of["Point"](),
    "too much": lambda of: of["Fieldless"](1),
    "fields": lambda of: [[(one.name, one.default, one.repr) for one in fields(of[name])] for name in of],
    "are dataclasses": lambda of: [is_dataclass(of[name]) for name in of],
    "frozen": lambda of: [of[name].__dataclass_params__.frozen for name in of],
    "replaced": lambda of: [replace(of[name](1, 2), x=3) for name in ("Point", "Deeper", "Plain", "Mixed")],
    "as a dict": lambda of: [asdict(of[name](1, 2)) for name in ("Point", "Deeper", "Plain", "Mixed")],
    "signatures": lambda of: [str(inspect.signature(of[name])) for name in of],
    "matched": lambda of: [of[name].__match_args__ for name in of],
    "copied": lambda of: [copy.copy(of[name](1, 2)) for name in ("Point", "Deeper")],
    "a default": lambda of: of["Point"](1).parts is not None and of["Point"].y,
    "made without __init__": lambda of: object.__new__(of["Fieldless"]),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_answers_as_a_dataclass_does(question: str) -> None:
    """Each question is the first that its classes hear."""
    expected, got = (answer(partial(QUESTIONS[question], classes(kind))) for kind in KINDS)

    assert got == expected


def test_the_order_of_questions_does_not_matter() -> None:
    sides = [classes(kind) for kind in KINDS]
    for _ in range(2):
        for question in reversed(QUESTIONS.values()):
            expected, got = (answer(partial(question, side)) for side in sides)
            assert got == expected


def changing_classes(kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the classes that change, made by `kind`."""

    @kind
    class ShortStep:
        x: int
        y: int = 0
        parts: list[int] = field(default_factory=list)
        count: int = field(default_factory=lambda: 3, init=False)
        fixed: int = field(default=5, init=False, repr=False)
        note: str = field(default="", compare=False, kw_only=True)

        def __post_init__(self) -> None:
            self.y += 1

    @kind(eq=False)
    class LongerStep(ShortStep):
        z: int = 5

    @kind
    class HashedStep:
        x: int

        def __hash__(self) -> int:
            return 3

    @kind
    class OwnedStep:
        self: int
        owner: str = ""

    @kind(repr=False)
    class UnshownStep:
        x: int

        def __str__(self) -> str:
            return "as it likes"

    return {kind.__name__: kind for kind in (ShortStep, LongerStep, HashedStep, OwnedStep, UnshownStep)}


def changed(one: Any) -> Any:
    one.x, one.more = 8, 9
    one.parts.append(one.x)
    return one, one.more


CHANGING_QUESTIONS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "shown": lambda of: [of[name](1) for name in ("ShortStep", "LongerStep", "HashedStep", "OwnedStep")],
    "not shown": lambda of: (of["UnshownStep"].__repr__ is object.__repr__, str(of["UnshownStep"](1))),
    "changed": lambda of: [changed(of[name](1)) for name in ("ShortStep", "LongerStep")],
    "made for each object": lambda of: (
        changed(of["ShortStep"](1)),
        of["ShortStep"](1),
        of["ShortStep"](1, parts=[7], note="n"),
    ),
    "equal": lambda of: [of[name](1) == of[name](1) for name in of],
    "equal without": lambda of: of["ShortStep"](1, note="a") == of["ShortStep"](1, note="b"),
    "hashed": lambda of: [of["HashedStep"].__hash__(of["HashedStep"](1)), of["ShortStep"].__hash__, hash(of["ShortStep"](1))],
    "hashed as itself": lambda of: isinstance(hash(of["UnshownStep"]), int) and hash(of["LongerStep"](1)) > 0,
    "not a parameter": lambda of: of["ShortStep"](1, count=2),
    "not by place": lambda of: of["ShortStep"](1, 2, [], "note"),
    "signatures": lambda of: [str(inspect.signature(of[name])) for name in of],
    "annotations": lambda of: [sorted(of[name].__init__.__annotations__.items(), key=str) for name in of],
    "missing": lambda of: of["LongerStep"](),
    "replaced": lambda of: [replace(of[name](1), x=3) for name in ("ShortStep", "LongerStep", "HashedStep")],
    "as a dict": lambda of: asdict(of["LongerStep"](1)),
    "frozen": lambda of: [of[name].__dataclass_params__.frozen for name in of],
    "matched": lambda of: [of[name].__match_args__ for name in of],
}


@pytest.mark.parametrize("question", CHANGING_QUESTIONS)
def test_a_class_that_changes_answers_as_a_dataclass_does(question: str) -> None:
    expected, got = (answer(partial(CHANGING_QUESTIONS[question], changing_classes(kind))) for kind in CHANGING)

    assert got == expected


@frozen
class Sent:
    x: int
    y: int = field(default=2)


def test_an_object_that_was_pickled_elsewhere_needs_no_init() -> None:
    """The first object of a class comes by pickle, as in a worker process."""
    told = pickle.dumps(Sent(1))
    made = frozen(type("Sent", (), {"__annotations__": {"x": int, "y": int}, "y": field(default=2), "__module__": __name__}))
    globals()["Sent"], first = made, Sent
    try:
        arrived = pickle.loads(told)
        assert repr(arrived) == "Sent(x=1, y=2)" and arrived == made(1) and hash(arrived) == hash(made(1))
        with pytest.raises(FrozenInstanceError):
            arrived.x = 3
    finally:
        globals()["Sent"] = first


def test_nothing_is_written_before_it_is_asked_for() -> None:
    @frozen
    class LatePoint:
        x: int

    def unwritten() -> set[str]:
        return {name for name, one in vars(LatePoint).items() if type(one).__name__ == "_Unwritten"}

    first = {"__init__", "__dataclass_fields__", "__dataclass_params__", "__match_args__"}
    assert unwritten() == {*first, "__repr__", "__eq__", "__hash__"}
    one = LatePoint(1)
    assert unwritten() == {"__repr__", "__eq__", "__hash__"}
    assert one == LatePoint(1)
    assert unwritten() == set()


def test_a_thread_that_waited_finds_what_another_has_written() -> None:
    given = {"__annotations__": {"x": int, "parts": tuple}, "x": 0, "parts": field(default_factory=tuple)}
    kind = frozen(type("Kind", (), given))
    waited = vars(kind)["__init__"]
    kind()
    assert waited.__get__(None, kind) is kind.__init__


def test_threads_may_use_a_class_first_at_the_same_time() -> None:
    """With switches as often as Python can: one finds what another is just writing, and answers the same."""

    def use(kind: type) -> str:
        start.wait()
        return repr((kind(1) == kind(1), hash(kind(1)), kind(1)))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(100):
                start = threading.Barrier(4)
                given = {"__annotations__": {"x": int, "parts": tuple}, "x": 0, "parts": field(default_factory=tuple)}
                kind = frozen(type("Kind", (), given))
                assert len(set(pool.map(use, [kind] * 4))) == 1
    finally:
        sys.setswitchinterval(before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_field_without_a_default_stands_first(kind: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="non-default argument 'y' follows default argument"):

        @kind
        class Wrong:
            x: int = 0
            y: int

        Wrong(1, 2)


def test_a_field_by_name_alone_is_given_by_name() -> None:
    step = changing_classes(mutable)["ShortStep"]
    assert step(1, note="n").note == "n"
    with pytest.raises(TypeError, match="positional argument"):
        step(1, 2, [], "n")

"""Answers on a loop from its source: right for plain bodies, and never wrong about programs that are run."""

from __future__ import annotations

import linecache
import re
import textwrap
from collections.abc import Iterator, MutableMapping
from dis import get_instructions
from itertools import count
from random import Random
from types import CodeType
from typing import Any

import pytest

from ascend_sim.kernel.loop_body import names_from_outside
from tests.support.sampling import part_of_cases

pytestmark = pytest.mark.fast

NUMBER = count()


def function_of(source: str) -> Any:
    """A function out of a file of its own, with its lines where Python looks for them."""
    name = f"<loop {next(NUMBER)}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    space: dict[str, Any] = {}
    exec(compile(source, name, "exec"), space)
    return space["f"]


def line_of(source: str, text: str = "k.range") -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if text in line)


def names(body: str, before: str = "", after: str = "", parameters: str = "k, x, n") -> set[str] | None:
    """The names that a loop takes from outside."""
    parts = [before, "for i in k.range(n):", textwrap.indent(textwrap.dedent(body), "    "), after]
    source = f"def f({parameters}):\n" + textwrap.indent("\n".join(filter(None, parts)), "    ") + "\n"
    found = names_from_outside(function_of(source).__code__, line_of(source))
    return None if found is None else set(found)


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("x[i]", "x"),
        ("t = x[i]; k.put(t)", "x k"),
        ("t, (u, *v) = x[i]; k.put(t, u, v)", "x k"),
        ("if i: t = 1\nelse: t = 2\nk.put(t)", "k"),
        ("if i:\n  continue\nelse:\n  t = 2\nk.put(t)", "k"),
        ("with x.write() as t, x.read() as u: k.put(t, u)\nk.put(u)", "x k"),
        ("k.put((t := x[i]), t)", "x k"),
        ("for j in range(n): k.put(i, j)", "range n k"),
        ("k.put([j for j in x if j > n])", "k x n"),
        ("k.put([j for j in x for y in j], y)", "k x y"),
        ("t = 0\nwhile t < 3: t += 1\nk.put(t)", "k"),
        ("def g(a, b=n): return a + x + i\nk.put(g(1))", "n x k"),
        ("k.put(lambda a: a + x)", "k x"),
        ("k.put(lambda x=x: x)", "k x"),
        ("k.put(lambda *, x=x: x)", "k x"),
        ("k.put(lambda: (x, lambda x: x))", "k x"),
        ("def g():\n  def h(x): return x\n  return x\nk.put(g())", "k x"),
        ("try:\n  t = x[i]\nfinally:\n  u = 1\nk.put(u)", "x k"),
        ("t: int = n\nu: int\nk.put(t)", "n k"),
        ("x[i] = n", "x n"),
        ("assert n, x", "n x"),
        ("import math\nk.put(math.pi)", "k"),
        ("k.put(f'{x}{i}')", "k x"),
        ("if (t := x[i]) and (u := n): k.put(t, u)", None),
        ("k.put(x if i else n)", "k x n"),
        ("break", ""),
        ("return x", "x"),
    ],
)
def test_names_that_a_body_takes(body: str, wanted: str | None) -> None:
    assert names(body) == (None if wanted is None else set(wanted.split()))


@pytest.mark.parametrize(
    "body",
    [
        "m += 1",
        "k.put(m); m = i",
        "if i: m = 1\nk.put(m)",
        "k.put(i and (m := 2)); k.put(m)",
        "k.put([m for j in x]); m = 2",
        "def g(): return m\nm = 1",
        "for j in range(3): m = j\nk.put(m)",
        "try: m = x[i]\nexcept KeyError: pass\nk.put(m)",
        "with x: pass\nk.put(lambda: m); m = 3",
        "while i: m = 1\nk.put(m)",
        "k.put(1 < i < (m := 3)); k.put(m)",
    ],
)
def test_a_variable_that_a_turn_leaves_to_the_next(body: str) -> None:
    assert names(body, before="m = 0") is None
    assert names(body) is None


def names_of_python(body: str) -> set[str]:
    """The names that the function `f(n)` around a body takes from its module, by Python's own compiler."""
    codes = [function_of("def f(n):\n" + textwrap.indent(body, "    ") + "\n").__code__]
    for code in codes:
        codes += [one for one in code.co_consts if isinstance(one, CodeType)]
    loads = [one for code in codes for one in get_instructions(code)]
    return {one.argval for one in loads if one.opname in ("LOAD_GLOBAL", "LOAD_NAME")} - {"__name__"}


@pytest.mark.parametrize("holder", ["k.put({})", "def g():\n  return {}\nk.put(g)", "k.put(lambda y: {})"])
@pytest.mark.parametrize(
    "inner",
    [
        "lambda: (x, lambda x: x)",
        "lambda x: (y, lambda y: x)",
        "lambda x: lambda y=x, *z, w=v: (x, y, z, w)",
        "lambda: (x, [x for x in y])",
        "lambda: [x for x in x]",
        "(x for x in x if y)",
        "lambda: ((y, (y := x)) for x in z)",
        "lambda: (z, {x: y for x in z for y in x}, x)",
        "lambda z=(lambda x=y: x): (x, z)",
    ],
)
def test_names_of_functions_inside_functions(holder: str, inner: str) -> None:
    """No name is missed that Python's compiler looks for outside."""
    body = holder.format(inner)
    found = names(body)
    assert found is not None and names_of_python(body) <= found


def test_names_of_classes_inside_functions() -> None:
    body = "def g():\n  class C:\n    x = x\n  return x, C\nk.put(g)"
    assert names_of_python(body) == {"k", "x"} <= (names(body) or set())


@pytest.mark.parametrize(
    ("before", "after", "carried"),
    [
        ("", "k.put(t)", True),
        ("", "k.put(i)", True),
        ("t = 0", "t = 1; k.put(t)", False),
        ("", "for i in range(3): k.put(i)", False),
        ("", "for t in k.range(n): k.put(t)", False),
        ("", "if n: t = 1\nk.put(t)", True),
        ("", "if n:\n    t = 1\nelse:\n    return\nk.put(t)", False),
        ("", "return", False),
        ("def g(): k.put(t)", "", True),
        ("g = lambda: i", "", True),
        ("g = lambda: (t, lambda t: t)", "", True),
        ("", "k.put(lambda t=t: t)", True),
        ("g = (t for j in x)", "", True),
        ("g = [t for t in x]", "", False),
        ("global t", "", True),
        ("t = 0\ndef g():\n    nonlocal t\n    t = 3", "", True),
        ("t = 0\ndef g():\n    t = 3\n    return t", "", False),
    ],
)
def test_a_variable_that_is_read_elsewhere(before: str, after: str, carried: bool) -> None:
    assert names("t = x[i]\nk.put(t)", before, after) == (None if carried else {"k", "x"})


@pytest.mark.parametrize(
    ("source", "carried"),
    [
        ("for r in x:\n    for i in k.range(n):\n        t = i\n    k.put(t)", True),
        ("for r in x:\n    k.put(t)\n    for i in k.range(n):\n        t = i", True),
        ("while x:\n    for i in k.range(n):\n        t = i\n        k.put(t)\nk.put(t)", True),
        ("for r in x:\n    t = 1\n    k.put(t)\n    for i in k.range(n):\n        t = i", False),
        ("try:\n    for i in k.range(n):\n        t = i\nexcept KeyError:\n    k.put(t)", True),
        ("try:\n    for i in k.range(n):\n        t = i\nfinally:\n    k.put(t)", True),
        ("if n:\n    for i in k.range(n):\n        t = i\nelse:\n    k.put(t)", False),
        ("if n:\n    for i in k.range(n):\n        t = i\nk.put(t)", True),
        ("with x:\n    for i in k.range(n):\n        t = i\n    t = 2\nk.put(t)", False),
        ("for i in k.range(n):\n    t = i\nelse:\n    k.put(t)", True),
        ("match x:\n  case 1:\n    for i in k.range(n):\n        t = i\n    k.put(t)", True),
        ("try:\n    for i in k.range(n):\n        t = i\nexcept KeyError:\n    pass\nelse:\n    k.put(t)", True),
        ("try:\n    for i in k.range(n):\n        t = i\nexcept* KeyError:\n    k.put(t)", True),
        ("try:\n    for i in k.range(n):\n        t = i\n    t = k.get()\nexcept KeyError:\n    pass\nk.put(t)", True),
        ("try:\n    for i in k.range(n):\n        t = i\nexcept KeyError:\n    pass\nt = 2\nk.put(t)", False),
        ("for i in k.range(n):\n    if x: t = i\n    if n: break\nelse:\n    t = 1\nk.put(t)", True),
        ("for r in x:\n    k.put(t)\n    for i in k.range(n):\n        t = i\n    if n: continue\n    t = 1", True),
        ("while x:\n    for i in k.range(n):\n        t = i\n    if n: break\n    t = 1\nk.put(t)", True),
        ("for r in x:\n    for i in k.range(n):\n        t = i\nt = 1\nk.put(t)", False),
        ("async def g(): return t\nfor i in k.range(n):\n    t = i\nk.put(g)", True),
    ],
)
def test_a_loop_inside_of_others(source: str, carried: bool) -> None:
    source = "def f(k, x, n):\n" + textwrap.indent(source, "    ")
    found = names_from_outside(function_of(source).__code__, line_of(source))
    assert (found is None) == carried


@pytest.mark.parametrize(
    "body",
    [
        "global m\nm = i", "k.count = i", "k.count += 1", "x.y[0].z = 2", "yield i", "match i:\n  case 1: pass",
        "class C: pass", "del x",
    ],
)  # fmt: skip
def test_what_is_not_followed(body: str) -> None:
    assert names(body) is None


@pytest.mark.parametrize(
    "line",
    [
        "for m, i in enumerate(k.range(n)): pass",
        "for i in list(k.range(n)): pass",
        "for i, j in zip(k.range(n), k.range(n)): pass",
        "for i in k.range(len(list(k.range(n)))): pass",
        "[i for i in k.range(n)]",
        "t = k.range(n)",
        "for i in x or k.range(n): pass",
    ],
)
def test_what_is_no_loop_over_the_call_itself(line: str) -> None:
    source = f"def f(k, x, n):\n    {line}\n"
    assert names_from_outside(function_of(source).__code__, 2) is None


def test_a_call_over_several_lines_and_decorators() -> None:
    head = "def same(g):\n    return g\n\n@same\n@same\n"
    source = head + "def f(k, x):\n    for i in k.range(\n        3,\n        9\n    ):\n        x[i]\n"
    assert names_from_outside(function_of(source).__code__, line_of(source)) == {"x"}


def test_a_file_that_says_something_else() -> None:
    source = "def f(k, x, y):\n    for i in k.range(9):\n        x[i]\n"
    code: CodeType = function_of(source).__code__
    linecache.cache[code.co_filename] = (1, None, source.replace("x[i]", "y[i]").splitlines(True), code.co_filename)
    assert names_from_outside(code, 2) is None
    assert names_from_outside(function_of(source.replace("9", "8")).__code__, 2) == {"x"}
    space: dict[str, Any] = {}
    exec(source, space)  # no file at all
    assert names_from_outside(space["f"].__code__, 2) is None


# -- programs that are run -----------------------------------------------------------------------------------------------

WRITTEN, VARIABLES = "tu", "abtu"
"""Variables that programs write, and all that they read."""


class LongEnough(Exception):
    """A program has gone on long enough."""


class WatchedNames(MutableMapping[str, Any]):
    """Variables of a program, which note what each turn of the loop reads before it writes it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {"i": 0, **{name: number for number, name in enumerate(VARIABLES)}}
        self.inside = False
        self.own: set[str] = set()
        self.of_turns: set[str] = set()
        self.read, self.carried = set[str](), False
        self.steps = 0

    def turn(self, inside: bool) -> None:
        self.inside, self.own = inside, {"i"} if inside else self.own

    def __getitem__(self, name: str) -> Any:
        value = self.values[name]
        self.steps += 1
        if self.steps > 3000:
            raise LongEnough
        if self.inside and name not in self.own:
            self.read.add(name)
            self.carried |= name in self.of_turns
        if not self.inside:
            self.carried |= name in self.of_turns
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        self.values[name] = value
        if self.inside:
            self.own.add(name)
            self.of_turns.add(name)
        else:
            self.of_turns.discard(name)

    def __delitem__(self, name: str) -> None:
        del self.values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def __len__(self) -> int:
        return len(self.values)


def value(random: Random) -> str:
    name, written = random.choice(VARIABLES), random.choice(WRITTEN)
    return random.choice(
        [
            name, "i", "1", f"{name} + i", f"({name} and {written})", f"({name} if i % 2 else {written})",
            f"({written} := {name})", f"(i % 3 and ({written} := 2))", f"[{name} for {name} in range(2)][0]",
            f"({name} > 1 > ({written} := i))",
        ]
    )  # fmt: skip


def statements(random: Random, depth: int, inside: int) -> list[str]:
    """A block of statements; `inside` is how many loops are around it."""
    lines: list[str] = []
    for _ in range(random.randint(1, 3)):
        kind = random.randint(0, 9 if depth else 3)
        name = random.choice(WRITTEN)
        if kind <= 1:
            lines.append(f"{name} = {value(random)}")
        elif kind == 2:
            lines.append(f"{name} += {value(random)}")
        elif kind == 3:
            lines.append(random.choice(["note({})", "note({}, 1)"]).format(value(random)))
        elif kind <= 5:
            lines += [f"if {value(random)}:", *block(random, depth, inside), "else:", *block(random, depth, inside)]
        elif kind == 6:
            lines += [f"for {name} in range(i % 3):", *block(random, depth, inside + 1)]
        elif kind == 7:
            lines += ["try:", *block(random, depth, inside), "    note(1 // (i % 2))"]
            lines += ["except ZeroDivisionError:", *block(random, depth, inside)]
            if random.random() < 0.5:
                lines += ["finally:", *block(random, depth, inside)]
        elif kind == 8:
            lines += [f"with here({value(random)}) as {name}:", *block(random, depth, inside)]
        elif inside:
            lines += [f"if {value(random)}:", f"    {random.choice(['break', 'continue'])}"]
    return lines or ["note(0)"]


def around(random: Random) -> list[str]:
    """Statements outside of the loop, which have its number no more than any other."""
    written = random.sample(WRITTEN, 1) if random.random() < 0.7 else []
    return [*[f"{name} = a" for name in written], *[re.sub(r"\bi\b", "b", line) for line in statements(random, 0, 0)]]


def block(random: Random, depth: int, inside: int) -> list[str]:
    return [f"    {line}" for line in statements(random, depth - 1, inside)]


class Builtins:
    """A kernel whose `range` is that of Python."""

    range = range


class Here:
    """A block that gives a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __enter__(self) -> Any:
        return self.value

    def __exit__(self, *given: object) -> None: ...


@part_of_cases(4)
@pytest.mark.parametrize("seed", range(40))
def test_no_name_is_missed_in_programs_that_are_run(seed: int) -> None:
    """The answer has every name that a turn reads and has not written; there is none where another turn wrote one."""
    random, followed = Random(seed), 0
    for _ in range(40):
        first = [f"{name} = {random.choice('abi')}" for name in WRITTEN if random.random() < 0.7]
        body, outer = [*first, *statements(random, 2, 1)], random.random() < 0.4
        loop = ["for i in k.range(5):", "    turn(True)", *[f"    {line}" for line in body], "turn(False)"]
        loop = [*around(random), *loop, *around(random)]
        if outer:
            loop = ["for e in range(2):", *[f"    {line}" for line in loop], *around(random)]
        source = "def f(k, turn, note, here, i, a, b, t, u):\n" + "\n".join(f"    {line}" for line in loop) + "\n"
        answer = names_from_outside(function_of(source).__code__, line_of(source))
        watched = WatchedNames()
        space = {"k": Builtins, "turn": watched.turn, "note": lambda *given: None, "here": Here, "range": range}
        try:
            exec(compile("\n".join(loop), "<program>", "exec"), space, watched)
        except (LongEnough, TypeError, RecursionError):
            continue
        if answer is None:
            continue
        followed += 1
        assert not watched.carried, source
        assert watched.read <= answer | {"turn", "note", "here", "k"}, source
    assert followed > 3

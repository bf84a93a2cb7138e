"""Changes that need no knowledge of the code: comparisons, sums, products, bounds, `and` and `or`, `min` and `max`."""

from __future__ import annotations

import ast
import random
from collections.abc import Iterator, Mapping
from pathlib import Path

from listed import Mutant

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
}
SUMS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "+"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "//"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
OTHER_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


class _Places:
    """Offsets into a text of what `ast` tells as lines and columns of UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def of(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def first(self, node: ast.expr) -> int:
        return self.of(node.lineno, node.col_offset)

    def past(self, node: ast.expr) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.of(node.end_lineno, node.end_col_offset)


def changes(text: str) -> Iterator[tuple[int, str, str]]:
    """(place, text there, text instead) of every change that is known here, in the order of `ast.walk`."""
    places, tree = _Places(text), ast.parse(text)
    silent = _not_run(tree)
    for node in ast.walk(tree):
        if node in silent:
            continue
        if isinstance(node, ast.Compare):
            for kind, left, right in zip(node.ops, (node.left, *node.comparators), node.comparators, strict=False):
                yield from _between(text, places.past(left), places.first(right), *COMPARISONS[type(kind)])
        elif isinstance(node, ast.BinOp) and type(node.op) in SUMS:
            old, new = SUMS[type(node.op)]
            if not any(isinstance(part, ast.JoinedStr) for part in (node.left, node.right)):
                yield from _between(text, places.past(node.left), places.first(node.right), old, new)
        elif isinstance(node, ast.BoolOp):
            old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:], strict=False):
                yield from _between(text, places.past(left), places.first(right), old, new)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield places.first(node), "not ", ""
        elif isinstance(node, ast.Constant) and type(node.value) is bool:
            yield places.first(node), str(node.value), str(not node.value)
        elif isinstance(node, ast.Constant) and type(node.value) is int and node.value < 1 << 31:
            yield places.first(node), text[places.first(node) : places.past(node)], str(node.value + 1)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in OTHER_NAMES:
            yield places.first(node.func), node.func.id, OTHER_NAMES[node.func.id]


def _between(text: str, start: int, end: int, old: str, new: str) -> Iterator[tuple[int, str, str]]:
    """The operator between two operands, without the brackets and line ends around it."""
    place = text.find(old, start, end)
    if place >= 0:
        yield place, old, new


def _not_run(tree: ast.Module) -> set[ast.AST]:
    """Annotations (no annotation is evaluated: all files import them from __future__), words of errors, decorators.

    Decorators are read, but what they say here (frozen, cached, registered under a name) changes no result or fails at once.
    """
    found: set[ast.AST] = set()
    for node in ast.walk(tree):
        quiet: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            quiet = [
                node.returns,
                *(argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg)),
            ]
        elif isinstance(node, ast.AnnAssign):
            quiet = [node.annotation]
        elif isinstance(node, ast.Raise | ast.JoinedStr):
            quiet = [node]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            quiet += node.decorator_list
        for one in quiet:
            found |= set(ast.walk(one)) if one is not None else set()
    return found


def places_not_run(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """(line, column) of the first letter and past the last of what no run reads; columns of letters, as in an editor."""
    places, tree = _Places(text), ast.parse(text)

    def letters(line: int, column: int) -> tuple[int, int]:
        return line, places.of(line, column) - places.starts[line - 1]

    return [
        (letters(node.lineno, node.col_offset), letters(node.end_lineno or 0, node.end_col_offset or 0))
        for node in _not_run(tree)
        if isinstance(node, ast.expr | ast.stmt)
    ]


def sample(root: Path, files: list[str], count: int, seed: int, tests: Mapping[str, tuple[str, ...]]) -> list[Mutant]:
    """`count` changes of the files, every change as likely as another; `tests` by file, or else those of the file's room."""
    every = []
    for file in files:
        text = (root / file).read_text(encoding="utf-8")
        for start, before, after in changes(text):
            line = text.count("\n", 0, start) + 1
            rule = f"{file}:{line}: {before.strip()} becomes {after.strip() or 'nothing'} in {_line(text, line)!r}"
            every.append(Mutant(rule, file, before, after, tests.get(file) or room_tests(root, file), "generic", start))
    chosen = random.Random(seed).sample(every, min(count, len(every)))
    return sorted(chosen, key=lambda mutant: (mutant.file, mutant.start))


def _line(text: str, number: int) -> str:
    return text.splitlines()[number - 1].strip()


def room_tests(root: Path, file: str) -> tuple[str, ...]:
    """The folder of tests that mirrors a source file's, or the next one above that has tests of its own."""
    parts = Path(file).parent.parts
    room = Path("tests", *(parts[1:] if parts[0] == "ascend_sim" else parts))
    while not any((root / room).glob("test_*.py")):
        room = room.parent
    return (str(room),)

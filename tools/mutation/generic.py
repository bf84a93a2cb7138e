"""Changes that need no knowledge of the code: comparisons, sums, products, bounds, `and` and `or`, `min` and `max`."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator
from pathlib import Path

from listed import Mutant
from syntax import TextChange, TextPlaces

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


def changes(text: str) -> Iterator[tuple[int, str, str]]:
    """(place, text there, text instead) of every change that is known here, in the order of `ast.walk`."""
    places, tree = TextPlaces(text), ast.parse(text)
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
            quiet = [node.returns, *(argument.annotation for argument in ast.walk(node.args) if isinstance(argument, ast.arg))]
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
    places, tree = TextPlaces(text), ast.parse(text)

    def letters(line: int, column: int) -> tuple[int, int]:
        return line, places.of(line, column) - places.starts[line - 1]

    return [
        (letters(node.lineno, node.col_offset), letters(node.end_lineno or 0, node.end_col_offset or 0))
        for node in _not_run(tree)
        if isinstance(node, ast.expr | ast.stmt)
    ]


def mutants(root: Path, file: str, tests: tuple[str, ...], lines: Container[int] | None = None) -> list[Mutant]:
    """Return the changes of a file, or of some of its lines; `tests` stand in for those of its place."""
    text = (root / file).read_text(encoding="utf-8")
    found = [TextChange(start, start + len(before), after) for start, before, after in changes(text)]
    asked = tests or tests_of(root, file)
    return [mutant(file, text, one, asked) for one in found if lines is None or _line(text, one) in lines]


def mutant(file: str, text: str, change: TextChange, tests: tuple[str, ...]) -> Mutant:
    """Return a change with its lines, before and after, as the rule."""
    number = _line(text, change)
    old, new = (of.splitlines()[number - 1].strip() for of in (text, change.of(text)))
    before = text[change.start : change.end]
    return Mutant(f"{file}:{number}: {old} -> {new}", file, before, change.after, tests, "generic", change.start)


def _line(text: str, change: TextChange) -> int:
    return text.count("\n", 0, change.start) + 1


def tests_of(root: Path, file: str) -> tuple[str, ...]:
    """Return the tests at a source file's place and name, or else their folder; nothing if that is the whole suite."""
    parts = Path(file).parent.parts
    room = Path("tests", *(parts[1:] if parts[0] == "ascend_sim" else parts))
    mirrored = room / f"test_{Path(file).name}"
    if (root / mirrored).is_file():
        return (str(mirrored),)
    while not any((root / room).glob("test_*.py")):
        room = room.parent
    return () if room == Path("tests") else (str(room),)

"""Patterns of Python: an expression, statements or the head of a statement in one function of a source file.

Line breaks, comments, quotes and the other functions of the file do not matter. A head is the first line of a compound
statement (`if rest:`, also where the file has `elif rest:`); it stands for the statement whatever its blocks hold.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from textwrap import dedent, indent
from typing import Any, NamedTuple

DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
BLOCKS = ("body", "orelse", "handlers", "finalbody")


class TextPlaces:
    """Offsets into a text of what `ast` gives as lines and columns of UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))

    def of(self, line: int, column: int) -> int:
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def first(self, node: Any) -> int:
        return self.of(node.lineno, node.col_offset)

    def past(self, node: Any) -> int:
        return self.of(node.end_lineno, node.end_col_offset)


class TextChange(NamedTuple):
    """The text from `start` to `end` becomes `after`."""

    start: int
    end: int
    after: str

    def of(self, text: str) -> str:
        return text[: self.start] + self.after + text[self.end :]


def change(text: str, scope: str, before: str, after: str) -> TextChange:
    """Return the change that puts one pattern in place of another in the function or class `scope` of a source file.

    LookupError unless `before` stands there once, SyntaxError for what is no pattern.
    """
    after = after or "pass"
    old, new = _statements(before), _statements(after)
    if _same(old, new):
        raise LookupError(f"the change changes nothing: {after!r}")
    places, nodes = _source(text)[0], _own(text, scope)
    if not nodes:
        raise LookupError(f"there is no {scope}")
    is_head = before.endswith(":")
    if is_head:
        found = [[node] for node in nodes if _same(old[0], node, (*BLOCKS, "decorator_list"))]
    elif elements := _elements(old):
        found = _runs(nodes, ("elts", "args"), elements)
    elif all(len(part) == 1 and isinstance(part[0], ast.Expr) for part in (old, new)):
        found = [[node] for node in nodes if _same(old[0].value, node)]
        after = f"({after})"
    else:
        found = _runs(nodes, BLOCKS, old)
    if len(found) != 1:
        raise LookupError(f"the pattern stands in {scope or 'the module'} {len(found)} times, not once: {before!r}")
    first, last = found[0][0], found[0][-1]
    start = places.first(first)
    if isinstance(first, ast.If) and text.startswith("elif", start):
        start += len("el")
        if not after.startswith("if "):
            raise LookupError(f"only another `if` may stand behind `el`: {after!r}")
    end = _colon(text, places, first) if is_head else places.past(last)
    return TextChange(start, end, indent(after, " " * first.col_offset).lstrip())


def _elements(pattern: list[Any]) -> list[Any]:
    """Return the elements of a pattern that lists them without brackets: arguments, or part of a tuple or list."""
    value = pattern[0].value if len(pattern) == 1 and isinstance(pattern[0], ast.Expr) else None
    is_bare = isinstance(value, ast.Tuple) and value.elts and value.col_offset == value.elts[0].col_offset
    return value.elts if is_bare else []


def _runs(nodes: list[Any], fields: tuple[str, ...], wanted: list[Any]) -> list[list[Any]]:
    """Return the nodes that follow each other as the wanted ones do."""
    lists = [getattr(node, name, None) for node in nodes for name in fields]
    runs = [part[n : n + len(wanted)] for part in lists if isinstance(part, list) for n in range(len(part))]
    return [run for run in runs if _same(wanted, run)]


def _statements(pattern: str) -> list[Any]:
    """Parse a pattern: a head has a block of its own, and an expression may go over several lines."""
    text = dedent(pattern).strip()
    try:
        return ast.parse(f"{text} ..." if text.endswith(":") else text).body
    except SyntaxError:
        return ast.parse(f"({text})").body


def _same(one: Any, other: Any, without: tuple[str, ...] = ()) -> bool:
    """Return True for equal syntax, wherever it stands; `without` are fields of the two that may differ."""
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if type(one) is not type(other) or not isinstance(one, ast.AST):
        return type(one) is type(other) and one == other
    return all(_same(getattr(one, name), getattr(other, name)) for name in one._fields if name not in without)


def _colon(text: str, places: TextPlaces, node: Any) -> int:
    """Return the offset past the colon that ends a head, behind its last expression, brackets and comments."""
    block = set(ast.walk(ast.Module([statement for name in BLOCKS for statement in getattr(node, name, [])], [])))
    parts = [places.past(part) for part in ast.walk(node) if hasattr(part, "end_lineno") and part not in block | {node}]
    begin = max(parts, default=places.first(node))
    return begin + re.match(r"(?:[^:#]|#.*)*:", text[begin:]).end()


@lru_cache(1)  # entries of a file follow each other, and many live trees slow the parser down
def _source(text: str) -> tuple[TextPlaces, ast.Module]:
    return TextPlaces(text), ast.parse(text)


@lru_cache(1)
def _own(text: str, scope: str) -> list[Any]:
    """Return the nodes of a function or class, or of the module, without those of the functions and classes in it."""
    holders: list[Any] = [_source(text)[1]]
    for name in filter(None, scope.split(".")):
        inner = [node for holder in holders for node in _within(holder) if node not in holders]
        holders = [node for node in inner if isinstance(node, DEFINITIONS) and node.name == name]
    nodes = [node for holder in holders for node in _within(holder)]
    return [node for node in nodes if node in holders or not isinstance(node, DEFINITIONS)]


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and those below it; definitions and formatted strings are leaves."""
    yield node
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (*DEFINITIONS, ast.JoinedStr)):
            yield child
        else:
            yield from _within(child)

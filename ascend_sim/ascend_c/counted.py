"""Counts in a kernel's own C++: turns of loops and calls of functions, which take no simulated time.

The compiler reads the user's files with a count behind the head of each loop and of each function; lines stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

TURN, CALL = " if (::asim::turn()) {} else ", " ::asim::called();"
UNCOUNTED = ("-include", "asim/uncounted.h")
"""Options of a compilation without counts."""
_TOKEN = re.compile(
    r"""(?P<noise>//(?:\\\n|[^\n])*|/\*.*?\*/|\bR"(?P<end>[^()\s"]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\d[\w'.]*|'(?:\\.|[^'\\\n])*')
    |^[ \t]*\#[ \t]*(?P<directive>\w*)(?P<rest>(?:\\\n|/\*.*?\*/|[^\n])*)
    |\w+|->|\S""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
_MACRO = re.compile(r"\s*\w+(?:\([^)]*\))?")
"""Name and parameters of a macro."""
_OPENERS = {")": "(", "]": "[", "}": "{"}
_BEHIND_PARAMETERS = re.compile(r"\s*(?:(?:const|volatile|noexcept|override|final|mutable|__\w+__)\b\s*)*(?:->[^;{}()=]*)?")
"""Text between the parameters of a function and its body."""
_NO_FUNCTION = {"if", "for", "while", "switch", "catch", "constexpr", "decltype", "alignas", "__attribute__"}
"""Words in front of parentheses with a brace behind them that begins no function."""
_LAMBDA = "]"


class _Bracket:
    """An open bracket, the token before it, and True if statements of a function stand in it."""

    def __init__(self, mark: str, before: str, in_function: bool) -> None:
        self.mark, self.before, self.in_function = mark, before, in_function


def with_counts(text: str, in_function: bool = False) -> str:
    """Return a C++ text with a count behind the head of each loop, and of each function that is no kernel.

    `in_function`: the text is one of statements. Loops and functions whose brackets do not match get no count.
    """
    return _Scan(text, in_function).counted()


class _Scan:
    """One reading of a text, token by token."""

    def __init__(self, text: str, in_function: bool) -> None:
        self._text, self._in_function = text, in_function
        self._brackets: list[_Bracket] = []
        self._loops: list[int] = []
        """Number of open brackets around each `do` whose `while` did not come yet."""
        self._branches: list[tuple[list[_Bracket], list[int]]] = []
        """Brackets and loops at each open `#if`."""
        self._pieces: list[str] = []
        self._done = 0
        """Length of the text that is in `_pieces`."""
        self._before_closed, self._behind = "", ";"
        """Token before the last bracket that closed, and the tokens behind it."""
        self._names_type = self._is_kernel = False
        """True where `struct`, or `__global__`, stands in the statement so far."""

    def counted(self) -> str:
        """Return the text with its counts."""
        before = ""
        for token in _TOKEN.finditer(self._text):
            if token["directive"] is not None:
                self._take_directive(token)
            elif not token["noise"]:
                before = self._take(token[0], token.start(), before)
        self._add(len(self._text), "")
        return "".join(self._pieces)

    def _add(self, at: int, count: str) -> None:
        self._pieces += [self._text[self._done : at], count]
        self._done = at

    def _take_directive(self, token: re.Match[str]) -> None:
        """Read a directive: each branch of an `#if` begins with the same brackets; a macro is a text of its own."""
        if token["directive"] in ("if", "ifdef", "ifndef"):
            self._branches.append(([*self._brackets], [*self._loops]))
        elif token["directive"] in ("else", "elif") and self._branches:
            self._brackets, self._loops = ([*kept] for kept in self._branches[-1])  # type: ignore[assignment]
        elif token["directive"] == "endif" and self._branches:
            self._branches.pop()
        elif token["directive"] == "define" and (name := _MACRO.match(token["rest"])):
            begin = token.start("rest") + name.end()
            self._add(begin, with_counts(self._text[begin : token.end()], in_function=True))
            self._done = token.end()

    def _take(self, token: str, at: int, before: str) -> str:
        """Read a token at index `at` and return what is `before` of the next: the token, "" for the `while` of a `do`."""
        end = at + len(token)
        if token in _OPENERS.values():
            in_function = self._brackets[-1].in_function if self._brackets else self._in_function
            if token == "{":
                in_function = self._begin_block(end, in_function)
            self._brackets.append(_Bracket(token, before, in_function))
        elif token in _OPENERS:
            self._close(token, end)
        elif token == "do":
            self._loops.append(len(self._brackets))
            self._add(end, TURN)
        elif token == "while" and self._loops[-1:] == [len(self._brackets)] and before in (";", "}"):
            self._loops.pop()
            return ""
        if token not in _OPENERS:
            self._behind = ";" if token in (";", "{") else f"{self._behind} {token}"
        self._names_type = (self._names_type or token in ("class", "struct", "union")) and token not in ("{", "}", ";", ")")
        self._is_kernel = (self._is_kernel or token == "__global__") and token not in ("{", "}", ";")
        return token

    def _begin_block(self, begin: int, in_function: bool) -> bool:
        """Return True if statements of a function stand in the block whose text begins at `begin`; count the calls of one that
        is a function's body.
        """
        kind = self._before_closed
        may_be = kind not in _NO_FUNCTION and (kind == _LAMBDA or not in_function)
        if may_be and _BEHIND_PARAMETERS.fullmatch(self._behind):
            self._add(begin, "" if self._is_kernel else CALL)
            return True
        return in_function and not self._names_type

    def _close(self, token: str, end: int) -> None:
        """Close a bracket; behind the head of a loop its turns are counted."""
        if not self._brackets or self._brackets[-1].mark != _OPENERS[token]:
            return
        before = self._brackets.pop().before
        while self._loops and self._loops[-1] > len(self._brackets):
            self._loops.pop()
        if token == ")" and before in ("for", "while"):
            self._add(end, TURN)
        if token == "]" and (before == "return" or not re.match(r"[\w\])]", before)):
            before = _LAMBDA
        self._before_closed, self._behind = before, ""


def overlay(files: Iterable[Path], folder: Path) -> list[str]:
    """Return the compiler's options that show it each of `files` with counts; copies are written to `folder`."""
    shown = []
    for number, path in enumerate(files):
        text, copy = path.read_text(encoding="utf-8", errors="surrogateescape"), folder / f"counted{number}"
        copy.write_text(with_counts(text), encoding="utf-8", errors="surrogateescape")
        shown.append({"type": "file", "name": str(path), "external-contents": str(copy)})
    listed = folder / "counted.yaml"
    listed.write_text(json.dumps({"version": 0, "use-external-names": False, "roots": shown}))
    return ["-ivfsoverlay", str(listed), "-include", "asim/counts.h"]

"""Counts in a kernel's own C++: turns of loops and calls of functions, which take no simulated time.

The compiler reads the user's files with a count behind the head of each loop and of each function; lines stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Set
from pathlib import Path

TURN, TURN_IN_BLOCK, CALL = " if (::asim::turn()) {} else ", " ::asim::turn();", " ::asim::called();"
"""Counts in front of a loop's body that is one statement, in a body that is a block, and in a function's body."""
UNCOUNTED = ("-include", "asim/uncounted.h")
"""Options of a compilation without counts."""
_TOKEN = re.compile(
    r"""(?P<noise>//(?:\\\n|[^\n])*|/\*.*?\*/|\\[ \t]*\n|\[\[(?:[^][]|\[[^][]*\])*\]\]
        |\b(?:u8|[uUL])?R"(?P<end>[^()\s"]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\d[\w'.]*|'(?:\\.|[^'\\\n])*')
    |^[ \t]*\#[ \t]*(?P<directive>\w*)(?P<rest>(?:\\[ \t]*\n|//(?:\\\n|[^\n])*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|[^\n])*)
    |\w+|->|<%|%>|<:(?!:[^:>])|:>|\S""",
    re.DOTALL | re.MULTILINE | re.VERBOSE,
)
"""Noise (comments, continued lines, attributes, literals), a directive, or a token."""
_DIGRAPHS = {"<%": "{", "%>": "}", "<:": "[", ":>": "]"}
_KERNEL_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t](?:\\\n|[^\n])*\b__global__\b", re.MULTILINE)
"""A macro without parameters that begins a kernel."""
_MACRO = re.compile(r"\s*\w+(?:\([^)]*\))?")
"""Name and parameters of a macro."""
_NEVER = re.compile(r"\s*0\s*(?:/|$)")
"""Condition of an `#if 0`."""
_OPENERS = {")": "(", "]": "[", "}": "{"}
_BEHIND_PARAMETERS = re.compile(
    r"\s*(?:(?:(?:const|volatile|constexpr|noexcept|throw|override|final|mutable|__\w+__)\b|&)\s*)*(?:->[^;{}()=]*)?"
)
"""Text between the parameters of a function and its body."""
_STATEMENTS = {"if", "for", "while", "switch", "catch", "constexpr"}
"""Words in front of parentheses with a brace behind them that begins no function."""
_SPECIFIER = re.compile(r"__\w+__|noexcept|throw|decltype|alignas")
"""Words whose parentheses are no parameters."""
_BEFORE_VALUE = {"return", "else", "do", "case", "throw", "and", "or", "not"}
"""Words that are no operand, so that a `[` behind them begins a lambda."""
_LAMBDA = "]"


class _Bracket:
    """An open bracket, the token before it, True if statements of a function stand in it, and what the scan knew before it
    (`_before_closed`, `_behind`).
    """

    def __init__(self, mark: str, before: str, in_function: bool, around: tuple[str, str]) -> None:
        self.mark, self.before, self.in_function, self.around = mark, before, in_function, around


def with_counts(text: str, in_function: bool = False, kernels: Set[str] = frozenset({"__global__"})) -> str:
    """Return a C++ text with a count in the body of each loop, and of each function that is no kernel.

    `in_function`: the text is one of statements. `kernels`: words that begin a kernel. Loops and functions whose brackets do
    not match get no count.
    """
    return _Scan(text, in_function, kernels).counted()


class _Scan:
    """One reading of a text, token by token."""

    def __init__(self, text: str, in_function: bool, kernels: Set[str]) -> None:
        self._text, self._in_function, self._kernels = text, in_function, kernels
        self._brackets: list[_Bracket] = []
        self._loops: list[int] = []
        """Number of open brackets around each `do` whose `while` did not come yet."""
        self._branches: list[tuple[list[_Bracket], list[int], bool]] = []
        """Brackets and loops at each open `#if`, and True in the text of an `#if 0`."""
        self._pieces: list[str] = []
        self._done = 0
        """Length of the text that is in `_pieces`."""
        self._head: int | None = None
        """End of the head of a loop whose body did not begin yet."""
        self._before_closed, self._behind = "", ";"
        """Token before the last bracket that closed, and the tokens behind it."""
        self._names_type = self._is_kernel = False
        """True where `struct`, or a word of `kernels`, stands in the statement so far."""

    def counted(self) -> str:
        """Return the text with its counts."""
        before = ""
        for token in _TOKEN.finditer(self._text):
            if token["directive"] is not None:
                self._begin_body("")
                self._take_directive(token)
            elif not token["noise"]:
                if self._begin_body(token[0]):
                    self._add(token.end(), TURN_IN_BLOCK)
                before = self._take(_DIGRAPHS.get(token[0], token[0]), token.end(), before)
        self._begin_body("")
        self._add(len(self._text), "")
        return "".join(self._pieces)

    def _begin_body(self, token: str) -> bool:
        """Return True if `token` opens the block of a loop; count the turns of a loop whose body begins otherwise."""
        if self._head is None:
            return False
        opens = _DIGRAPHS.get(token, token) == "{"
        if not opens:
            self._add(self._head, TURN)
        self._head = None
        return opens

    def _add(self, at: int, count: str) -> None:
        self._pieces += [self._text[self._done : at], count]
        self._done = at

    def _take_directive(self, token: re.Match[str]) -> None:
        """Read a directive: each branch of an `#if` begins with the same brackets; a macro is a text of its own."""
        word = token["directive"]
        if word in ("if", "ifdef", "ifndef"):
            self._branches.append(([*self._brackets], [*self._loops], _NEVER.match(token["rest"]) is not None))
        elif word in ("else", "elif", "endif") and self._branches:
            brackets, loops, is_left_out = self._branches.pop()
            if word != "endif" or is_left_out:
                self._brackets, self._loops = [*brackets], [*loops]
            if word != "endif":
                self._branches.append((brackets, loops, False))
        elif word == "define" and (name := _MACRO.match(token["rest"])):
            begin = token.start("rest") + name.end()
            self._add(begin, with_counts(self._text[begin : token.end()], in_function=True))
            self._done = token.end()

    def _take(self, token: str, end: int, before: str) -> str:
        """Read a token that ends at `end` and return what is `before` of the next: the token, "" for the `while` of a `do`."""
        if token in _OPENERS.values():
            in_function = self._brackets[-1].in_function if self._brackets else self._in_function
            if token == "{":
                in_function = self._begin_block(end, in_function)
            self._brackets.append(_Bracket(token, before, in_function, (self._before_closed, self._behind)))
        elif token in _OPENERS:
            self._close(token, end)
        elif token == "do":
            self._loops.append(len(self._brackets))
            self._head = end
        elif token == "while" and self._loops[-1:] == [len(self._brackets)] and before in (";", "}"):
            self._loops.pop()
            return ""
        if token not in _OPENERS:
            self._behind = ";" if token in (";", "{", "(", "[") else f"{self._behind} {token}"
        self._names_type = (self._names_type or token in ("class", "struct", "union")) and token not in ("{", "}", ";", ")")
        self._is_kernel = (self._is_kernel or token in self._kernels) and token not in ("{", "}", ";")
        return token

    def _begin_block(self, begin: int, in_function: bool) -> bool:
        """Return True if statements of a function stand in the block whose text begins at `begin`; count the calls of one that
        is the body of a function, but of no kernel.
        """
        kind = self._before_closed
        may_be = kind not in _STATEMENTS and (kind == _LAMBDA or not in_function)
        if may_be and _BEHIND_PARAMETERS.fullmatch(self._behind):
            self._add(begin, "" if self._is_kernel else CALL)
            return True
        return in_function and not self._names_type

    def _close(self, token: str, end: int) -> None:
        """Close a bracket; behind the head of a loop its turns are counted."""
        if not self._brackets or self._brackets[-1].mark != _OPENERS[token]:
            return
        closed = self._brackets.pop()
        before, (kind, behind) = closed.before, closed.around
        while self._loops and self._loops[-1] > len(self._brackets):
            self._loops.pop()
        if token == ")" and before in ("for", "while"):
            self._head = end
        is_lambda = before in _BEFORE_VALUE or (before == ")" and kind in _STATEMENTS) or not re.match(r"[\w\])]", before)
        if token == "]" and is_lambda:
            kind, behind = _LAMBDA, ""
        elif token != "]" and not (token == ")" and _SPECIFIER.fullmatch(before)):
            kind, behind = before, ""
        self._before_closed, self._behind = kind, behind


def overlay(files: Iterable[Path], folder: Path) -> list[str]:
    """Return the compiler's options that show it each of `files` with counts; copies are written to `folder`."""
    shown = []
    texts = {path: path.read_text(encoding="utf-8", errors="surrogateescape") for path in files}
    kernels = {"__global__"}.union(*[_KERNEL_MACRO.findall(text) for text in texts.values()])
    for number, (path, text) in enumerate(texts.items()):
        copy = folder / f"counted{number}"
        copy.write_text(with_counts(text, kernels=kernels), encoding="utf-8", errors="surrogateescape")
        shown.append({"type": "file", "name": str(path), "external-contents": str(copy)})
    listed = folder / "counted.yaml"
    described = json.dumps({"version": 0, "use-external-names": False, "roots": shown}, ensure_ascii=False)
    listed.write_text(described, encoding="utf-8", errors="surrogateescape")
    return ["-ivfsoverlay", str(listed), "-include", "asim/counts.h"]

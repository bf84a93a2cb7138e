"""Building programs in order to check them: the builder notes what it would refuse, and from which line each row came.

with inspect() as inspection:
    programs = task.build(0)
inspection.faults                    # what the builder would have refused
programs[0].notes.line(7)            # ("matmul.py", 31): who wrote row 7
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

Line = tuple[str, int]
"""File and line."""

_MACHINERY = "ascend_sim.kernel."
"""Modules whose frames are not shown: a kernel calls them, it is not written in them."""


@dataclass(frozen=True)
class Fault:
    """What a builder would have refused: the core in words, the line that asked for it, and the refusal."""

    where: str
    line: Line | None
    text: str


@dataclass(frozen=True)
class Allocated:
    """A piece of a core's buffer that a kernel took."""

    buffer: str
    start: int
    size: int
    name: str
    line: Line | None


@dataclass
class Notes:
    """Of one program: the lines of its rows, and the pieces of buffers that it took.

    `whole` is false where its kernel broke off.
    """

    rows: list[int] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    allocated: list[Allocated] = field(default_factory=list)
    whole: bool = True
    fixed: Line | None = None

    def add(self, row: int) -> None:
        """The rows from `row` on come from the line that is being executed, up to the next call."""
        self.rows.append(row)
        self.lines.append(self.fixed or calling_line())

    def line(self, row: int) -> Line | None:
        """Where a row comes from."""
        place = bisect_right(self.rows, row) - 1
        return self.lines[place] if place >= 0 else None

    def without(self, dropped: list[int]) -> None:
        """Rows that are taken out; those behind them move up."""
        gone = sorted(dropped)
        kept = [(row - bisect_right(gone, row), line) for row, line in zip(self.rows, self.lines, strict=True)
                if row not in set(gone)]  # fmt: skip
        self.rows, self.lines = [row for row, _ in kept], [line for _, line in kept]


@dataclass
class Inspection:
    """What the builders found while programs were built."""

    faults: list[Fault] = field(default_factory=list)

    def add(self, where: str, text: str, line: Line | None = None) -> None:
        """Note a refusal; the line is the one that is being executed unless given."""
        fault = Fault(where, line or calling_line(), text)
        if fault not in self.faults:
            self.faults.append(fault)


_CURRENT: ContextVar[Inspection | None] = ContextVar("inspection", default=None)


def current_inspection() -> Inspection | None:
    """The inspection that is going on, if any."""
    return _CURRENT.get()


@contextmanager
def inspect() -> Iterator[Inspection]:
    """Programs that are built meanwhile are inspected."""
    inspection = Inspection()
    token = _CURRENT.set(inspection)
    try:
        yield inspection
    finally:
        _CURRENT.reset(token)


def calling_line() -> Line:
    """The innermost line that belongs to a kernel and not to the machinery that builds it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_MACHINERY):
        frame = frame.f_back
    if frame.f_globals.get("__name__", "") == "contextlib" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno

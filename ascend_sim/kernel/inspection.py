"""Inspection: the builder notes faults instead of raising, and the line that wrote each row, for a check.

with inspect() as inspection:
    programs = task.build(0)
inspection.faults                    # what the builder would have refused
programs[0].notes.line(7)            # ("matmul.py", 31): the line that wrote row 7
"""

from __future__ import annotations

import contextlib
import linecache
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.frozen import frozen, mutable

Line = tuple[str, int]
"""File and line."""


def shown_file(file: str) -> str:
    """Return a file's path for messages: relative to the working folder if the file lies in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file


@frozen
class Fault:
    """Builder's refusal under inspection: core in words, source line, reason, and the check (`tool`) that reports it."""

    where: str
    line: Line | None
    text: str
    tool: str = "memcheck"


@frozen
class Allocated:
    """A range of bytes of a core's buffer that a kernel allocated, with its name and source line."""

    buffer: str
    start: int
    size: int
    name: str
    line: Line | None


class SourceLines:
    """Numbering of the source lines that wrote rows; the programs of a table and its stamps share one."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.told: dict[tuple[int, int], tuple[int, CodeType]] = {}
        """Numbers by code (held, so that its id stays its own) and place in it: Python counts through a function for each."""
        self._number: dict[Line, int] = {}

    def number(self, line: Line) -> int:
        """Return the number of a line; a new line gets the next number."""
        number = self._number.setdefault(line, len(self.lines))
        if number == len(self.lines):
            self.lines.append(line)
        return number

    def of_frame(self, frame: FrameType) -> tuple[int, CodeType]:
        """Return (number of the source line that `frame` executes, the frame's code), and keep it for this code."""
        told = self.told[id(frame.f_code), frame.f_lasti] = self.number(_line(frame)), frame.f_code
        return told


@mutable
class Notes:
    """Notes on one program under inspection: the source line of each row, and the ranges of buffers that it allocated.

    `rows` has for every row the number of its line in `source`, or -1. `whole` is False where its kernel broke off.
    """

    source: SourceLines
    rows: array[int] = field(default_factory=lambda: array("i"))
    allocated: list[Allocated] = field(default_factory=list)
    shared: list[Allocated] = field(default_factory=list)
    """Further ranges that the program may touch: those handed out several times, and, without a name, a library's own."""
    strays: dict[Line, str] = field(default_factory=dict)
    """Lines with an operand outside the buffer of its tensor, and the memory of that."""
    atomics: dict[Line, None] = field(default_factory=dict)
    """Lines that turn on an atomic mode of copies which is still on at the end."""
    queues: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Flags of queues (source, destination, number), and the side of the queue that each belongs to."""
    own_barriers: set[Line] = field(default_factory=set)
    """Lines whose barriers belong to the library that the kernel is written with."""
    own_flags: set[Line] = field(default_factory=set)
    """Lines whose flags between cores are a library's, several of one call."""
    texts: dict[Line, str] = field(default_factory=dict)
    """Texts of lines whose file no longer exists: those of a stored run."""
    whole: bool = True
    fixed: int = -1
    """The number of the line that all rows from now on get; -1: each gets that of the line that writes it."""

    def add(self) -> None:
        """Append the number of the source line of the next row: `fixed` if it is set, else of the innermost outside the
        builder's files.
        """
        if self.fixed >= 0:
            self.rows.append(self.fixed)
            return
        frame: Any = sys._getframe(2)
        while frame.f_code.co_filename in _MACHINERY:
            frame = frame.f_back
        told = self.source.told.get((id(frame.f_code), frame.f_lasti)) or self.source.of_frame(frame)
        self.rows.append(told[0])

    def line(self, row: int) -> Line | None:
        """Return (file, line) that wrote a row; None if none is known."""
        number = self.rows[row]
        return self.source.lines[number] if number >= 0 else None

    def text(self, line: Line) -> str:
        """Return the source text of a line, stripped: a stored run's own, else the file's; "" if that is gone."""
        return self.texts[line] if line in self.texts else linecache.getline(*line).strip()

    def numbers(self, rows: NDArray[np.integer]) -> NDArray[np.int32]:
        """Return the numbers of the source lines of these rows, -1 where none is known."""
        return np.frombuffer(self.rows, np.int32)[rows] if len(rows) else np.empty(0, np.int32)

    def without(self, dropped: Sequence[int]) -> None:
        """Remove the notes of the rows `dropped`; notes of later rows move up."""
        if dropped:
            self.rows = array("i", np.delete(np.frombuffer(self.rows, np.int32), dropped).tobytes())


@mutable
class Inspection:
    """Record of the faults that builders refuse; under inspection they do not raise.

    While `stamping`, builders repeat the pieces of loops and set `stamped`. A fault is then recorded for the first piece only;
    for all of them the programs must be built again without stamping.
    """

    stamping: bool = True
    stamped: bool = False
    _faults: dict[Fault, None] = field(default_factory=dict)

    @property
    def faults(self) -> list[Fault]:
        """Return the distinct faults in the order in which they were recorded."""
        return list(self._faults)

    def add(self, where: str, text: str, line: Line | None = None, tool: str = "memcheck") -> None:
        """Record a fault unless an equal one is there; its line is `line`, or the kernel's line that is being executed."""
        self._faults.setdefault(Fault(where, line or calling_line(), text, tool))


_CURRENT: ContextVar[Inspection | None] = ContextVar("inspection", default=None)


def current_inspection() -> Inspection | None:
    """Return the inspection inside whose block this code runs, or None."""
    return _CURRENT.get()


@contextlib.contextmanager
def inspect(stamping: bool = True) -> Iterator[Inspection]:
    """Context manager that yields an inspection, in which programs built inside its block record faults; see `Inspection`."""
    inspection = Inspection(stamping)
    token = _CURRENT.set(inspection)
    try:
        yield inspection
    finally:
        _CURRENT.reset(token)


def calling_line() -> Line:
    """Return (file, line) of the innermost frame on the stack outside the builder's files (this folder): a kernel's line."""
    frame: Any = sys._getframe(1)
    while frame.f_code.co_filename in _MACHINERY:
        frame = frame.f_back
    return _line(frame)


def _line(frame: FrameType) -> Line:
    return frame.f_code.co_filename, frame.f_lineno


_MACHINERY = {contextlib.__file__, *map(str, Path(__file__).parent.glob("*.py"))}
"""Files whose functions a kernel calls, and that no kernel is written in."""

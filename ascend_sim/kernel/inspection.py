"""Building programs in order to check them: the builder notes what it would refuse, and from which line each row came.

with inspect() as inspection:
    programs = task.build(0)
inspection.faults                    # what the builder would have refused
programs[0].notes.line(7)            # ("matmul.py", 31): who wrote row 7
"""

from __future__ import annotations

import contextlib
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import CodeType, FrameType

from ascend_sim.frozen import frozen

Line = tuple[str, int]
"""File and line."""

_HERE = Path(__file__).parent


@frozen
class Fault:
    """What a builder would have refused: the core in words, the line that asked for it, the refusal, the check it is for."""

    where: str
    line: Line | None
    text: str
    tool: str = "memcheck"


@frozen
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
    queues: dict[tuple[str, str, int], str] = field(default_factory=dict)
    """Flags of queues (source, destination, number), and the side of the queue that each belongs to."""
    texts: dict[Line, str] = field(default_factory=dict)
    """What stands in lines whose file is not there any more: those of a stored run."""
    whole: bool = True
    fixed: Line | None = None
    _told: dict[tuple[int, int], tuple[Line, CodeType]] = field(default_factory=dict, repr=False)
    """Lines by code (held, so that its number stays its own) and place in it: Python counts through a function for each."""

    def add(self, row: int) -> None:
        """The rows from `row` on come from the line that is being executed, up to the next call."""
        self.rows.append(row)
        self.lines.append(self.fixed or self._line_of(_calling_frame()))

    def _line_of(self, frame: FrameType) -> Line:
        code = frame.f_code
        told = self._told.get((id(code), frame.f_lasti))
        if told is None:
            told = self._told[id(code), frame.f_lasti] = (code.co_filename, frame.f_lineno), code
        return told[0]

    def of_stamp(self) -> Notes:
        """For the rows of a stamp, counted from its first one."""
        return Notes(_told=self._told)

    def repeat(self, stamp: Notes, first: int) -> None:
        """The rows of a stamp follow, from `first` on."""
        self.rows += [first + row for row in stamp.rows]
        self.lines += stamp.lines

    def line(self, row: int) -> Line | None:
        """Where a row comes from."""
        place = bisect_right(self.rows, row) - 1
        return self.lines[place] if place >= 0 else None

    def without(self, dropped: list[int]) -> None:
        """Rows that are taken out; those behind them move up."""
        for row in sorted(dropped, reverse=True):
            place = bisect_left(self.rows, row)
            if self.rows[place : place + 1] == [row]:
                del self.rows[place], self.lines[place]
            self.rows[place:] = [one - 1 for one in self.rows[place:]]


@dataclass
class Inspection:
    """What the builders found while programs were built. They repeat the pieces of loops (`stamping`), and say so (`stamped`):
    a fault is then noted for the first piece alone, and whoever wants them all has the programs built again without.
    """

    stamping: bool = True
    stamped: bool = False
    faults: list[Fault] = field(default_factory=list)

    def add(self, where: str, text: str, line: Line | None = None, tool: str = "memcheck") -> None:
        """Note a refusal; the line is the one that is being executed unless given."""
        fault = Fault(where, line or calling_line(), text, tool)
        if fault not in self.faults:
            self.faults.append(fault)


_CURRENT: ContextVar[Inspection | None] = ContextVar("inspection", default=None)


def current_inspection() -> Inspection | None:
    """The inspection that is going on, if any."""
    return _CURRENT.get()


@contextlib.contextmanager
def inspect(stamping: bool = True) -> Iterator[Inspection]:
    """Programs that are built meanwhile are inspected."""
    inspection = Inspection(stamping)
    token = _CURRENT.set(inspection)
    try:
        yield inspection
    finally:
        _CURRENT.reset(token)


def calling_line() -> Line:
    """The innermost line that belongs to a kernel and not to the machinery that builds it."""
    frame = _calling_frame()
    return frame.f_code.co_filename, frame.f_lineno


def _calling_frame() -> FrameType:
    frame = sys._getframe(1)
    while _is_machinery(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return frame


@cache
def _is_machinery(file: str) -> bool:
    """Whether a kernel calls what stands in a file, and is not written in it."""
    return Path(file).parent == _HERE or file == contextlib.__file__

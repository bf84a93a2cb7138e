"""Errors in a C++ kernel, with file and line."""

from __future__ import annotations

from ascend_sim.errors import SimError
from ascend_sim.kernel.inspection import Line


class SourceError(SimError):
    """Error at a line of the kernel's C++ while it is recorded or translated; `line` is (file, line), None if unknown."""

    def __init__(self, text: str, line: Line | None = None) -> None:
        super().__init__(text)
        self.line = line


class CompileError(SimError):
    """Error of the C++ compiler: one or two lines for each error, file and line first, then the line of code."""

    whole = True

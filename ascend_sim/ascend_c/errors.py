"""An error in a C++ kernel, with its file and line."""

from __future__ import annotations

from pathlib import Path

from ascend_sim.errors import SimError
from ascend_sim.kernel.inspection import Line


class SourceError(SimError):
    """A refusal that a line of the kernel's C++ caused; `line` is that line, None if it is unknown."""

    def __init__(self, text: str, line: Line | None = None) -> None:
        super().__init__(text)
        self.line = line


class CompileError(SimError):
    """The compiler's refusal of the kernel's C++: one to three lines for each error, file and line first."""

    whole = True


def shown(file: str) -> str:
    """Return a file as messages name it: relative to the working folder if it lies in it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file

"""Errors that a user of the simulator can meet; each is a single clear line, unless its class is `whole`.

`SimError` is the base. The command line turns each into exit code 2 and prints its message without a traceback.
"""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class SimError(Exception):
    """Base of all errors by bad input or an impossible request; it says what was given, what is allowed, and why."""

    whole = False
    """True if the message has several lines, all of which are printed."""
    verdict: Mapping[str, Any] | None = None
    """The verdict on the kernel that raised it, as JSON data, where one was asked for (docs/judge.md)."""


class ConfigError(SimError):
    """Error of a file, name or field that cannot be used, such as those of cases, networks, chips and sweeps."""


class TilingError(SimError):
    """Error of a tiling that cannot run; the message names the formula, the numbers and the limit."""


class RowError(SimError):
    """Error that is found when a program is finished, such as an operand out of its buffer or a flag left set; `row` is the
    instruction at fault, by its index in issue order.
    """

    def __init__(self, message: str, row: int) -> None:
        super().__init__(message, row)  # all of them in `args`, from which pickle and SimPy make the error again
        self.message = message
        self.row = row

    def __str__(self) -> str:
        return self.message


class CycleLimitError(SimError):
    """Error of a run that takes more cycles than `max_cycles` allows."""


class MemoryLimitError(BaseException):
    """Error raised, at any point of the work, when the process holds more memory than the limit.

    Like KeyboardInterrupt it is not an Exception: work that goes on after another error must not go on after this one.
    """


class DeadlockError(SimError):
    """Error of a run in which no event is left and a block is unfinished; the message lists every pipe that waits."""

    whole = True


class AclnnError(SimError):
    """Error of a call that the operator refuses.

    Attributes: `status`, the vendor's return code (161001 null pointer, 161002 invalid parameter, 561103 internal), and
    `message`, the reason without it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status, message)  # as in RowError; a worker process hands the error back so
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"status {self.status}: {self.message}"


def binary_size(size: float) -> str:
    """Return a number of bytes as text with a unit: "312 bytes", "4.5 KiB", "64 GiB"."""
    units = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    power = 0
    while abs(size) >= 1024 and power < len(units) - 1:
        size, power = size / 1024, power + 1
    shown = f"{size:,.0f}" if power == 0 or size >= 1000 else f"{size:.4g}"
    return f"{shown} {units[power]}"


def why_no_file(path: Path) -> str:
    """Return the reason why there is no file to read at `path`: a folder, a device or pipe, or nothing stands there, or the
    system does not look (a name that is too long, a folder that may not be searched).
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a null character
        return "no such file"
    except OSError as error:
        return f"cannot be looked for ({error.strerror or error})"
    return "is a folder" if stat.S_ISDIR(mode) else "is a device or a pipe, not a file"

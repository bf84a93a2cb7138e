"""The shared library that the C files of this folder become, and its functions, which the C files explain.

It has no Python in it: plain functions called with ctypes, which lets other threads run meanwhile.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, byref, c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np

from ascend_sim.built import built_file, older, opened
from ascend_sim.errors import SimError
from ascend_sim.isa.base import PIPES

FINISHED, RAISES, PASSES_BY, WAITS = range(4)
SETTLED, SPOKEN, AGAIN, UNFINISHED = range(4)
NO_MEMORY, CLOCK_OVERFLOW, BAD_ROW, BAD_SHAPE = -1, -2, -3, -4

_REGION = ("offset", "row_bytes", "row_stride", "rows", "plane_stride", "planes")
WAY = np.dtype([(name, np.int64) for name in ("direction", "port", "special", *_REGION)])
INSTRUCTION = np.dtype(
    [(name, np.int64) for name in ("kind", "pipe", "first", "stream", "latency", "other", "operand", "extent")]
)


def _numbers(*names: str) -> list[tuple[str, Any]]:
    return [(name, c_int64) for name in names]


class CoreNumbers(ctypes.Structure):
    """ctypes mirror of the C struct `CoreNumbers` (core.h)."""

    _fields_ = [
        *_numbers("line", "flag_latency", "barrier_latency", "bank_groups", "bank_bytes"),
        *((name, c_int64 * len(PIPES)) for name in ("depth", "outstanding")),
    ]  # fmt: skip


class GmNumbers(ctypes.Structure):
    """ctypes mirror of the C struct `GmNumbers` (traffic.h)."""

    _fields_ = _numbers("shared", "line", "l2_read", "l2_write", "hbm", "miss_latency", "same_line", "write_back")


class ProgramStruct(ctypes.Structure):
    """ctypes mirror of the C struct `Program` (program.h)."""

    _fields_ = [
        *((name, c_void_p) for name in ("stamps", "own", "which", "tiles", "where", "bases")),
        *_numbers(
            "count", "tensors", "begin", "issue", "order", "number", "flag_max", "packed", "file", "move_count",
        ),
        ("times", c_void_p), ("moves", c_void_p),
    ]  # fmt: skip


class EventStruct(ctypes.Structure):
    """ctypes mirror of the C struct `Event` (core.h)."""

    _fields_ = _numbers("what", "core", "pipe", "instruction", "time")


_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "machine_new": (c_void_p, [POINTER(GmNumbers), c_int64, c_int64]),
    "machine_free": (None, [c_void_p]),
    "machine_hear": (c_int64, [c_void_p, POINTER(EventStruct)]),
    "machine_lend_l2": (c_int64, [c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_int64]),
    "machine_l2_clock": (c_int64, [c_void_p]),
    "machine_hbm_bytes": (c_int64, [c_void_p]),
    "machine_next": (c_int64, [c_void_p]),
    "machine_instant": (c_int64, [c_void_p, c_int64]),
    "machine_run": (c_int64, [c_void_p, c_int64]),
    "machine_go_on": (c_int64, [c_void_p]),
    "table_new": (c_void_p, [c_void_p, POINTER(CoreNumbers)]),
    "table_extend": (c_int64, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_int64]),
    "program_survey": (c_int64, [c_void_p, c_void_p, POINTER(ProgramStruct), *[POINTER(c_int64)] * 3]),
    "core_begin": (c_int64, [c_void_p, c_void_p, POINTER(ProgramStruct), POINTER(c_void_p)]),
    "core_pass": (c_int64, [c_void_p, c_void_p, c_int64, c_int64]),
    "core_lost_set": (c_int64, [c_void_p, POINTER(c_int64)]),
    "core_watched": (c_int64, [c_void_p, c_void_p, c_void_p]),
    "core_kept": (c_void_p, [c_void_p, POINTER(c_int64), c_void_p]),
    "kept_drop": (None, [c_void_p]),
    "core_queue_full": (c_int64, [c_void_p]),
    "core_issued_until": (c_int64, [c_void_p]),
    "core_progress": (None, [c_void_p, c_int64, POINTER(c_int64), POINTER(c_int64)]),
    "core_scalar_wants": (c_int64, [c_void_p, POINTER(c_int64)]),
    "core_free": (None, [c_void_p, c_void_p]),
    "machine_watch": (c_int64, [c_void_p, c_int64, c_int64]),
    "machine_gm": (c_void_p, [c_void_p]),
    "gm_end": (c_int64, [c_void_p]),
    "gm_read": (c_int64, [c_void_p, c_int64, c_void_p, POINTER(c_int64)]),
    "values_run": (c_int64, [c_void_p]),
    "values_replay": (c_int64, [c_void_p]),
    "values_drop": (None, [c_void_p, c_int64]),
    "words_to_rows": (c_int64, [c_void_p, c_int64, c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p]),
    "words_set_twice": (c_int64, [c_void_p, c_int64, c_void_p, c_int64, c_void_p, c_void_p]),
}  # fmt: skip


@cache
def load() -> Any:
    """Return the compiled library, cached; None where it was not built. Raises SimError if it is broken or of older sources."""
    path = built_file()
    if path is None:
        return None
    library: Any = opened(path)
    missing = [name for name in _FUNCTIONS if not hasattr(library, name)]
    if missing:
        raise older(path, f"it lacks {missing[0]}")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


@cache
def beside() -> Any:
    """Return the library as `load` does, but None also if it cannot be used; numpy does the work then. Cached."""
    try:
        return load()
    except SimError:
        return None


def checked(result: int) -> int:
    """Return a C call's result of 0 or more.

    For a negative one raises MemoryError (no memory) or SimError (a clock beyond 2**61 cycles, or a row that points outside).
    """
    if result >= 0:
        return result
    if result == NO_MEMORY:
        raise MemoryError("the compiled engine found no memory")
    if result == CLOCK_OVERFLOW:
        raise SimError("the run is longer than 2**61 cycles, the most that the clock can count")
    raise SimError("a program has a row that points outside its instruction table, its tensors or its regions")


class Handle:
    """A machine in C: `lib` has the C functions, `pointer` is their first argument. Raises MemoryError."""

    def __init__(self, numbers: GmNumbers, now: int, last: int) -> None:
        self.lib = load()
        self.pointer = self.lib.machine_new(byref(numbers), now, last)
        if not self.pointer:
            raise MemoryError

    def free(self) -> None:
        """Free the C machine's memory; the handle is unusable afterwards."""
        self.lib.machine_free(self.pointer)
        self.pointer = None

    def advanced(self, result: int) -> int:
        """Continue a C call that advances cores until it has ended, and return its last result.

        C computes a slice of rows at a time and returns UNFINISHED, so that Python handles signals between two slices.
        """
        while checked(result) == UNFINISHED:
            result = self.lib.machine_go_on(self.pointer)
        return result

    checked = staticmethod(checked)

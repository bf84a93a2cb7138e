"""The machine that simulates: its memory, how much of it this process holds, and the threads of its BLAS."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from ascend_sim.errors import SimError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from threadpoolctl import ThreadpoolController

MEMORY_VARIABLE = "ASCEND_SIM_MAX_MEMORY"
"""Environment variable: GiB that a process may hold; without it, the machine's memory is the limit."""
MEMORY_OPTION = "--max-memory"
"""Command-line option with the same meaning as MEMORY_VARIABLE."""
GIB = 1 << 30


def memory_limit(given: str | None = None) -> int | None:
    """Return the bytes that a process may hold: `given` (GiB as text), for None the environment variable's, else all of the
    machine; an empty text means the machine's, None is returned if that is unknown.

    Raises SimError for anything but a number above 0.
    """
    text = os.environ.get(MEMORY_VARIABLE) if given is None else given
    if not text:
        return machine_memory()
    try:
        limit = float(text)
    except ValueError:
        limit = 0.0
    if not 0 < limit < 1 << 32:
        name = MEMORY_VARIABLE if given is None else MEMORY_OPTION
        raise SimError(f"{name} {text!r}: allowed is a number of GiB above 0, for example 4 or 0.5")
    return int(limit * GIB)


def machine_memory() -> int | None:
    """Return the bytes of memory of this machine or container; None where the system has no figure."""
    try:
        found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    with suppress(OSError, ValueError):  # no control group, or one without a limit ("max")
        found = min(found, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return found


def held_memory() -> int:
    """Return the resident bytes of this process, or their peak where the system knows only that; 0 if unknown."""
    with suppress(OSError, ValueError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def beyond(limit: int) -> str:
    """Return the message for a process that holds more than `limit` bytes."""
    return (
        f"stopped: more than {limit / GIB:.3g} GiB of memory, which is the limit ({MEMORY_VARIABLE}, or all that this "
        "machine has); --mode timing needs no tensor data, a smaller batch less of everything"
    )


_HELD = Lock()


class Lately:
    """Cache of arrays that can be computed again: the most recently used ones up to `most` bytes, and always the last one.

    Thread-safe. A key must stand for an object that does not change.
    """

    def __init__(self, most: int) -> None:
        self._most, self._bytes = most, 0
        self._held: dict[Hashable, NDArray[Any]] = {}

    def get(self, key: Hashable, make: Callable[[], NDArray[Any]]) -> NDArray[Any]:
        """Return the array of `key` itself, which the caller must not change; if it is not held, `make()` computes it and it is
        held from then on. Two threads may compute it at once.
        """
        with _HELD:
            found = self._held.pop(key, None)
        made = found is None
        if found is None:
            found = make()  # without the lock: it may ask for others, and other threads need not wait for it
        with _HELD:
            self._bytes += found.nbytes if made else 0
            also = self._held.pop(key, None)  # of a thread that made it meanwhile
            self._bytes -= 0 if also is None else also.nbytes
            self._held[key] = found  # behind all others
            while self._bytes > self._most and len(self._held) > 1:
                self._bytes -= self._held.pop(next(iter(self._held))).nbytes
        return found


@contextmanager
def collector_paused() -> Iterator[None]:
    """Return a context in which Python's cycle collector is off, for the whole process; with many small objects and no cycles
    that saves a tenth of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which numpy's matrix products, of all threads of the process, take one thread each."""
    return _blas().limit(limits=1, user_api="blas")


@cache
def _blas() -> ThreadpoolController:
    """Return the controller of the BLAS libraries loaded in this process; cached, because finding them takes milliseconds."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()

"""The L2 cache: which lines of GM are resident, which are dirty, and what a transfer misses.

Replacement is first in, first out, because that vectorises: lines get consecutive stamps when they are allocated, and a
line is resident exactly while fewer than `capacity` lines were allocated after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NO_LINES = np.empty(0, np.int64)

Lines = NDArray[np.int64] | slice
"""Distinct ascending line numbers; consecutive ones as a slice, which numpy takes several times as fast."""


def as_array(lines: Lines) -> NDArray[np.int64]:
    """Return lines, a slice or an array, as an array of line numbers."""
    return np.arange(lines.start, lines.stop, dtype=np.int64) if isinstance(lines, slice) else lines


class L2Cache:
    """State of the L2, a cache of `capacity` lines. It survives kernels; a new one is empty.

    Every allocation of a line gets the next number of `clock` as its stamp, and the oldest line leaves: a line is cached while
    its stamp is among the last `capacity`.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 1)
        self._stamp = np.zeros(1024, np.int64)
        self._dirty = np.zeros(self.capacity, np.bool_)
        self.clock = 2 * self.capacity  # stamp 0 is long gone: untouched memory knows lines that were never there

    def copy(self) -> L2Cache:
        """Return an independent cache in the same state."""
        other = L2Cache(self.capacity)
        other._stamp, other._dirty, other.clock = self._stamp.copy(), self._dirty.copy(), self.clock
        return other

    def _reach(self, line: int) -> None:
        """Extend the table of stamps (numbers of allocations) to include `line`, and to at least eight times its size."""
        self.know(max(line + 1, 8 * len(self._stamp)))

    def know(self, reach: int) -> None:
        """Extend the table of stamps (numbers of allocations) to all lines below `reach` in advance, to save a copy."""
        if reach > len(self._stamp):
            stamps = np.zeros(reach, np.int64)
            stamps[: len(self._stamp)] = self._stamp
            self._stamp = stamps

    def _allocate(self, lines: Lines, count: int, dirty: bool) -> int:
        """Allocate `count` absent lines, dirty or clean; return how many dirty lines are evicted."""
        capacity = self.capacity
        stamps = np.arange(self.clock, self.clock + count)
        first = self.clock % capacity
        self.clock += count
        places = slice(first, first + count) if first + count <= capacity else stamps[-capacity:] % capacity
        victims = int(np.count_nonzero(self._dirty[places]))
        if dirty:
            victims += max(count - capacity, 0)  # the first of them leave at once
        if dirty or victims:
            self._dirty[places] = dirty
        self._stamp[lines] = stamps
        return victims

    def arrays(self, reach: int) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the cache's own arrays, which C changes in place: the stamp of each line, for all below `reach` at least, and
        dirty marks as uint8.
        """
        if reach > len(self._stamp):
            self._reach(reach - 1)
        return self._stamp, self._dirty.view(np.uint8)

    def stamps(self, lines: Lines) -> NDArray[np.int64]:
        """Return for each of `lines` its stamp, the number of its last allocation, counted by `clock`.

        A line whose stamp is below `clock` - `capacity` is no longer cached.
        """
        last = lines.stop - 1 if isinstance(lines, slice) else int(lines[-1]) if len(lines) else 0
        if last >= len(self._stamp):
            self._reach(last)
        return self._stamp[lines]

    def resident(self, lines: Lines) -> NDArray[np.bool_]:
        """Return for each of `lines` True if it is in the cache."""
        return self.stamps(lines) >= self.clock - self.capacity

    def read(self, lines: Lines, bypass: NDArray[np.int64]) -> tuple[int, int, NDArray[np.int64]]:
        """Read `lines`; those at positions `bypass` are fetched from HBM in any case, and get no place if they are absent.

        Returns (lines from HBM, dirty lines evicted, stamps of the lines that were in the cache; none if nothing hit).
        """
        stamps = self.stamps(lines)
        present = stamps >= self.clock - self.capacity
        count, hits = len(present), int(np.count_nonzero(present))
        if not hits and not len(bypass):
            return count, self._allocate(lines, count, False), _NO_LINES
        if hits == count and not len(bypass):
            return 0, 0, stamps
        found = stamps[present]
        fetched = count - hits
        missing = ~present
        if len(bypass):
            fetched += int(np.count_nonzero(present[bypass]))
            missing[bypass] = False
        absent = as_array(lines)[missing]
        return fetched, (self._allocate(absent, len(absent), False) if len(absent) else 0), found

    def write(self, lines: Lines, partial: NDArray[np.int64]) -> tuple[int, int]:
        """Write `lines`, which become dirty; those at positions `partial` are not covered whole: an absent one is fetched.

        Returns (lines from HBM, dirty lines evicted).
        """
        present = self.resident(lines)
        fetched = int(np.count_nonzero(~present[partial])) if len(partial) else 0
        hits = int(np.count_nonzero(present))
        if not hits:
            return fetched, self._allocate(lines, len(present), True)
        victims = 0
        if hits < len(present):
            absent = as_array(lines)[~present]
            victims = self._allocate(absent, len(absent), True)
            present = self.resident(lines)  # to bring lines in may have driven some of the others out
        self._dirty[self._stamp[lines][present] % self.capacity] = True
        return fetched, victims

    def contents(self) -> list[tuple[slice, bool]]:
        """Return the lines in the cache, oldest first, as pairs (consecutive lines, True if they are dirty)."""
        lines = np.flatnonzero(self._stamp >= self.clock - self.capacity)
        lines = lines[np.argsort(self._stamp[lines])]
        if not len(lines):
            return []
        dirty = self._dirty[self._stamp[lines] % self.capacity]
        parts = np.flatnonzero((np.diff(lines) != 1) | (dirty[1:] != dirty[:-1])) + 1
        return [
            (slice(int(part[0]), int(part[-1]) + 1), bool(dirty[at]))
            for at, part in zip([0, *parts.tolist()], np.split(lines, parts), strict=True)
        ]

    def warm(self, first: int, end: int) -> None:
        """Allocate the absent ones of lines first .. end - 1, clean; older lines are evicted. Resident ones, dirty or not, stay
        as they are.
        """
        lines = np.arange(first, end, dtype=np.int64)
        absent = lines[~self.resident(lines)]
        if len(absent):
            self._allocate(absent, len(absent), False)

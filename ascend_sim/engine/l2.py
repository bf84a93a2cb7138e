"""The L2 cache: which 512-byte lines of GM are resident, which are dirty, and what a transfer misses.

Replacement is first in, first out, because that vectorises: lines get consecutive stamps when they are allocated, and a
line is resident exactly while fewer than `capacity` lines were allocated after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NO_LINES = np.empty(0, np.int64)

Lines = NDArray[np.int64] | slice
"""Distinct ascending lines; those that follow each other as a slice, which numpy takes several times as fast."""


def as_array(lines: Lines) -> NDArray[np.int64]:
    """Return the lines (a range or an array) as an array of line numbers."""
    return np.arange(lines.start, lines.stop, dtype=np.int64) if isinstance(lines, slice) else lines


class L2Cache:
    """State of the cache; `capacity` in lines. Survives kernels; a new one is cold."""

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 1)
        self._stamp = np.zeros(1024, np.int64)
        self._dirty = np.zeros(self.capacity, np.bool_)
        self.clock = 2 * self.capacity  # stamp 0 is long gone: untouched memory knows lines that were never there

    def copy(self) -> L2Cache:
        """Return a cache in the same state, which then goes its own way."""
        other = L2Cache(self.capacity)
        other._stamp, other._dirty, other.clock = self._stamp.copy(), self._dirty.copy(), self.clock
        return other

    def _reach(self, line: int) -> None:
        """Extend the stamps to `line` and far beyond; untouched memory costs nothing."""
        self.know(max(line + 1, 8 * len(self._stamp)))

    def know(self, reach: int) -> None:
        """Extend the stamps to lines below `reach`; calling it before the first access saves a copy."""
        if reach > len(self._stamp):
            stamps = np.zeros(reach, np.int64)
            stamps[: len(self._stamp)] = self._stamp
            self._stamp = stamps

    def _allocate(self, lines: Lines, count: int, dirty: bool) -> int:
        """Allocate places for `count` absent lines; return how many dirty lines had to leave."""
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
        """Return the cache's own stamps, of all lines below `reach` at least, and its dirty marks, for the C twin."""
        if reach > len(self._stamp):
            self._reach(reach - 1)
        return self._stamp, self._dirty.view(np.uint8)

    def stamps(self, lines: Lines) -> NDArray[np.int64]:
        """Return the stamp of the last allocation of each of `lines`; below `clock` - `capacity` the line is no longer
        cached.
        """
        last = lines.stop - 1 if isinstance(lines, slice) else int(lines[-1]) if len(lines) else 0
        if last >= len(self._stamp):
            self._reach(last)
        return self._stamp[lines]

    def resident(self, lines: Lines) -> NDArray[np.bool_]:
        """Return True for each of `lines` that is in the cache now."""
        return self.stamps(lines) >= self.clock - self.capacity

    def read(self, lines: Lines, bypass: NDArray[np.int64]) -> tuple[int, int, NDArray[np.int64]]:
        """Read `lines`, of which those at positions `bypass` are fetched without being kept.

        Returns (lines from HBM, dirty lines written back, the stamps of the lines that were there).
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
        """Write `lines`; those at positions `partial` are not covered whole: an absent one is fetched.

        Returns (lines from HBM, dirty lines written back).
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

    def warm(self, first: int, end: int) -> None:
        """Make lines first .. end - 1 resident and clean, as far as they fit."""
        lines = np.arange(first, end, dtype=np.int64)
        absent = lines[~self.resident(lines)]
        if len(absent):
            self._allocate(absent, len(absent), False)

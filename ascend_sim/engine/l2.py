"""The L2 cache: which 512-byte lines of GM are resident, which are dirty, and what a transfer misses.

Replacement is first in, first out, because that vectorises: lines get consecutive stamps when they are allocated, and a
line is resident exactly while fewer than `capacity` lines were allocated after it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NEVER = -(1 << 62)


def _index(lines: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Ascending lines as a slice where none is left out: numpy is faster with it."""
    if not len(lines):
        return lines
    first, last = int(lines[0]), int(lines[-1])
    return slice(first, last + 1) if last - first + 1 == len(lines) else lines


class L2Cache:
    """State of the cache; `capacity` in lines. Survives kernels; a new one is cold."""

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, 1)
        self._stamp = np.full(1024, _NEVER, np.int64)
        self._filler = np.full(1024, -1, np.int64)
        self._dirty = np.zeros(self.capacity, np.bool_)
        self._clock = 0
        self._transfers = 0

    def next_number(self) -> int:
        """A number for the next transfer; never used twice in the life of the cache."""
        self._transfers += 1
        return self._transfers

    def _reach(self, last: int) -> None:
        if last >= len(self._stamp):
            size = max(last + 1, 2 * len(self._stamp))
            for name, value in (("_stamp", _NEVER), ("_filler", -1)):
                old = getattr(self, name)
                new = np.full(size, value, np.int64)
                new[: len(old)] = old
                setattr(self, name, new)

    def _allocate(self, lines: NDArray[np.int64], transfer: int, dirty: bool) -> int:
        """Give distinct absent lines a place; returns how many dirty lines had to leave."""
        count, capacity = len(lines), self.capacity
        stamps = np.arange(self._clock, self._clock + count)
        first = self._clock % capacity
        self._clock += count
        places = slice(first, first + count) if first + count <= capacity else stamps[-capacity:] % capacity
        victims = int(np.count_nonzero(self._dirty[places]))
        if dirty:
            victims += max(count - capacity, 0)  # the first of them leave at once
        self._dirty[places] = dirty
        where = _index(lines)
        self._stamp[where] = stamps
        self._filler[where] = transfer
        return victims

    def resident(self, lines: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which of `lines` (ascending) are in the cache now."""
        if len(lines):
            self._reach(int(lines[-1]))
        return self._stamp[_index(lines)] >= self._clock - self.capacity

    def read(
        self, lines: NDArray[np.int64], bypass: NDArray[np.int64], transfer: int
    ) -> tuple[int, int, NDArray[np.int64]]:
        """Read distinct ascending `lines`, of which those at positions `bypass` are fetched without being kept.

        Returns (lines from HBM, dirty lines written back, for every hit line the transfer that it came with).
        """
        present = self.resident(lines)
        hits = int(np.count_nonzero(present))
        fetched = len(lines) - hits
        fillers = self._filler[lines if not fetched else lines[present]]
        if not len(bypass):
            if not fetched:
                return 0, 0, fillers
            return fetched, self._allocate(lines[~present] if hits else lines, transfer, False), fillers
        missing = ~present
        fetched += int(np.count_nonzero(present[bypass]))
        missing[bypass] = False
        absent = lines[missing]
        return fetched, (self._allocate(absent, transfer, False) if len(absent) else 0), fillers

    def write(self, lines: NDArray[np.int64], partial: NDArray[np.int64], transfer: int) -> tuple[int, int]:
        """Write distinct ascending `lines`; those at positions `partial` are not covered whole: an absent one is fetched.

        Returns (lines from HBM, dirty lines written back).
        """
        present = self.resident(lines)
        fetched = int(np.count_nonzero(~present[partial])) if len(partial) else 0
        if present.all():
            self._dirty[self._stamp[lines] % self.capacity] = True
            return fetched, 0
        victims = self._allocate(lines[~present], transfer, True)
        present = self._stamp[lines] >= self._clock - self.capacity
        self._dirty[self._stamp[lines[present]] % self.capacity] = True
        return fetched, victims

    def warm(self, first: int, last: int) -> None:
        """Make lines first .. last - 1 resident and clean, as far as they fit."""
        lines = np.arange(first, last, dtype=np.int64)
        absent = lines[~self.resident(lines)]
        if len(absent):
            self._allocate(absent, -1, False)

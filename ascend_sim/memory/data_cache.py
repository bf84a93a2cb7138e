"""The data cache of a core's scalar unit: lines of GM that it holds, and writes back whole.

Scalar code reads and writes GM through it; no other unit sees it, and nothing keeps the caches of two cores alike
(asc-devkit, GlobalTensor.SetValue and DataCacheCleanAndInvalid). Lines stay until they are written back: nobody published
how many the cache holds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

Line = tuple[int, int]
"""The tensor of a line by its slot, and the number of the line in it: tensors begin at whole lines."""


class DataCache:
    """The lines of GM that one core's cache holds; `tensors` are the bytes of GM by slot, `line_bytes` the size of a
    line.
    """

    def __init__(self, tensors: Sequence[NDArray[np.uint8]], line_bytes: int) -> None:
        self._tensors, self._size = tensors, line_bytes
        self._held: dict[Line, NDArray[np.uint8]] = {}
        self._dirty: set[Line] = set()

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return `size` bytes within one line, which the cache holds from then on."""
        line, offset = self._line(address)
        return self._fetched(line)[offset : offset + size].copy()

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Change bytes within one line, in the cache only."""
        line, offset = self._line(address)
        self._fetched(line)[offset : offset + len(data)] = data
        self._dirty.add(line)

    def clean(self, address: int | None = None) -> None:
        """Write back the changed lines of the cache and drop all lines; with an address only its line."""
        for line in [*self._held] if address is None else [self._line(address)[0]]:
            data = self._held.pop(line, None)
            if data is not None and line in self._dirty:
                slot, number = line
                self._tensors[slot][number * self._size :][: len(data)] = data
            self._dirty.discard(line)

    def _line(self, address: int) -> tuple[Line, int]:
        number, offset = divmod(address & OFFSET_MASK, self._size)
        return (address >> SLOT_SHIFT, number), offset

    def _fetched(self, line: Line) -> NDArray[np.uint8]:
        if line not in self._held:
            slot, number = line
            self._held[line] = self._tensors[slot][number * self._size :][: self._size].copy()
        return self._held[line]

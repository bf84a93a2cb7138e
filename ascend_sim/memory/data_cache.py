"""The data cache of a core's scalar unit: lines of GM that it holds until they are written back whole.

Scalar code reads and writes GM through it; no other unit sees it, and nothing keeps the caches of two cores coherent
(asc-devkit, GlobalTensor.SetValue and DataCacheCleanAndInvalid). Lines stay until they are written back: the cache's size is
not published.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascend_sim.memory.gm import OFFSET_MASK, SLOT_SHIFT

Line = tuple[int, int]
"""Key of a cached line: (slot of its tensor, number of the line in the tensor); tensors begin at whole lines."""


class DataCache:
    """The lines of GM held by one core's scalar data cache; `tensors` are GM's bytes by slot, `line_bytes` a line's size.

    Addresses are operands of instructions (`gm_operand`).
    """

    def __init__(self, tensors: Sequence[NDArray[np.uint8]], line_bytes: int) -> None:
        self._tensors, self._size = tensors, line_bytes
        self._held: dict[Line, NDArray[np.uint8]] = {}
        self._dirty: set[Line] = set()

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Return a copy of `size` bytes, which must lie in one line; the line is fetched from GM unless the cache holds it."""
        line, offset = self._line(address)
        return self._fetched(line)[offset : offset + size].copy()

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Change bytes within one line in the cache only, and mark the line changed; `clean` writes it to GM."""
        line, offset = self._line(address)
        self._fetched(line)[offset : offset + len(data)] = data
        self._dirty.add(line)

    def clean(self, address: int | None = None) -> None:
        """Write changed lines back to GM, whole, and drop all lines; with an address only the line there, if it is held.

        Bytes of a changed line that others wrote to GM meanwhile are overwritten.
        """
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

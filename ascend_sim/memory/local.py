"""The byte-addressed buffers of one core: L1, L0A, L0B, L0C, BT, FB of a cube core, UB of a vector core.

A buffer starts poisoned: every byte is 0xFF, a NaN in every float format but hifloat8, or that of `poisoned_with`. A flag for
each 32-byte block records if it was written, so that reads of unwritten bytes are found. Addresses are byte offsets inside one
buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import BLOCK_BYTES

POISON = 0xFF
_poison: ContextVar[int] = ContextVar("poison", default=POISON)


@contextmanager
def poisoned_with(byte: int) -> Iterator[None]:
    """Poison every `LocalMemory` that is made within the block with `byte`."""
    before = _poison.set(byte)
    try:
        yield
    finally:
        _poison.reset(before)


class LocalMemory:
    """Buffers of one core by name, with a flag for each 32-byte block that was written; `capacities` are bytes."""

    def __init__(self, capacities: Mapping[str, int]) -> None:
        self._poison = poison = _poison.get()
        self.buffers: dict[str, NDArray[np.uint8]] = {
            name: np.full(size, poison, np.uint8) for name, size in capacities.items()
        }
        self.written: dict[str, NDArray[np.bool_]] = {
            name: np.zeros(-(-size // BLOCK_BYTES), np.bool_) for name, size in capacities.items()
        }

    def poison(self) -> None:
        """Poison the buffers and clear all flags, for a new program; each buffer only up to its last block with a flag set."""
        for name, shadow in self.written.items():
            end = shadow.tobytes().rfind(1) + 1
            self.buffers[name][: end * BLOCK_BYTES] = self._poison
            shadow[:end] = False

"""Global memory (HBM): an address space with allocation; `timing` runs reserve addresses without bytes behind them."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascend_sim.errors import SimError, binary_size
from ascend_sim.memory.local import POISON
from ascend_sim.memory.sizes import whole_number

SLOT_SHIFT = 44
OFFSET_MASK = (1 << SLOT_SHIFT) - 1


def gm_operand(slot: int, offset: int) -> int:
    """The address operand of an instruction for byte `offset` of tensor `slot` of its task."""
    return (slot << SLOT_SHIFT) + offset  # not |: a negative offset is to be found out as one of this tensor


@dataclass(eq=False)
class Allocation:
    """A reserved range: `base` and `size` in bytes; `data` is None in timing mode."""

    base: int
    size: int
    name: str
    data: NDArray[np.uint8] | None
    live: bool = True

    def __repr__(self) -> str:
        held = "" if self.data is not None else ", no values"
        return f"<Allocation {self.name}: {self.size:,} bytes at {self.base:#x}{held}>"


class GlobalMemory:
    """First-fit allocation of `capacity` bytes in units of `alignment` (an L2 line)."""

    def __init__(self, capacity: int, alignment: int) -> None:
        self.capacity = capacity
        self.alignment = alignment
        self._free: list[tuple[int, int]] = [(0, capacity // alignment * alignment)]
        self.high_water = 0

    def allocate(self, size: int, name: str, *, with_data: bool = True) -> Allocation:
        """Reserve `size` bytes, 0 for a tensor without elements; a fresh range is poisoned.

        Raises SimError when nothing that large is free, and for a negative size.
        """
        size = whole_number(size, f"device memory: the size in bytes of {name}", 0)
        need = max(-(-size // self.alignment), 1) * self.alignment
        for index, (base, room) in enumerate(self._free):
            if room >= need:
                if room == need:
                    del self._free[index]
                else:
                    self._free[index] = (base + need, room - need)
                self.high_water = max(self.high_water, base + need)
                data = np.full(size, POISON, np.uint8) if with_data else None
                return Allocation(base, size, name, data)
        raise SimError(
            f"device memory: {name} needs {size:,} bytes, the largest free range is "
            f"{max((room for _, room in self._free), default=0):,} of {binary_size(self.capacity)} (chip file, "
            f"memory.hbm_bytes)"
        )

    def free(self, allocation: Allocation) -> None:
        """Release a range; freeing twice is an error."""
        if not allocation.live:
            raise SimError(f"device memory: {allocation.name} at {allocation.base:#x} is freed twice")
        allocation.live = False
        allocation.data = None
        size = max(-(-allocation.size // self.alignment), 1) * self.alignment
        insort(self._free, (allocation.base, size))
        merged: list[tuple[int, int]] = []
        for base, room in self._free:
            if merged and merged[-1][0] + merged[-1][1] == base:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((base, room))
        self._free = merged

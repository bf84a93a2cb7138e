"""Global memory (HBM): an address space with allocation; `timing` runs reserve addresses without bytes behind them."""

from __future__ import annotations

from bisect import insort

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError, binary_size
from ascend_sim.frozen import mutable
from ascend_sim.memory.local import POISON
from ascend_sim.memory.sizes import whole_number

SLOT_SHIFT = 44
OFFSET_MASK = (1 << SLOT_SHIFT) - 1


def gm_operand(slot: int, offset: int) -> int:
    """Return the address operand of an instruction for byte `offset` of tensor `slot` of its task; `offset` is not checked."""
    return (slot << SLOT_SHIFT) + offset  # not |: a negative offset is to be found out as one of this tensor


def room_of(size: int) -> int:
    """Return the bytes of an allocation of `size` with its slack: `size` rounded up to 32 bytes, and 32 bytes more; alignment
    comes on top (`GlobalMemory.taken`).

    So does aclrtMalloc; a program that divides memory itself must do so for each part (CANN 8.0, aclrtMalloc page: stated).
    Chips whose copies count whole blocks read, and end a tensor, in that slack.
    """
    return (-(-size // BLOCK_BYTES) + 1) * BLOCK_BYTES


@mutable(eq=False)
class Allocation:
    """One reserved range of GM: `base` and `size` in bytes; `memory` holds its bytes with the slack (`room_of`).

    It is None without values and after the range was freed, when `live` is False.
    """

    base: int
    size: int
    name: str
    memory: NDArray[np.uint8] | None
    live: bool = True

    @property
    def data(self) -> NDArray[np.uint8] | None:
        """Return a view of the bytes without the slack; None without values."""
        return None if self.memory is None else self.memory[: self.size]

    @property
    def room(self) -> int:
        """Return the number of bytes with the slack (`room_of`)."""
        return room_of(self.size)

    def __repr__(self) -> str:
        held = "" if self.memory is not None else ", no values"
        return f"<Allocation {self.name}: {self.size:,} bytes at {self.base:#x}{held}>"


class GlobalMemory:
    """First-fit allocator of `capacity` bytes in units of `alignment` (an L2 line).

    `high_water` is the end of the highest range that was ever reserved.
    """

    def __init__(self, capacity: int, alignment: int) -> None:
        self.capacity = capacity
        self.alignment = alignment
        self._free: list[tuple[int, int]] = [(0, capacity // alignment * alignment)]
        self.high_water = 0

    def allocate(self, size: int, name: str, *, with_data: bool = True) -> Allocation:
        """Reserve `size` bytes (0 for a tensor without elements) and their slack, and return the range; its bytes are poisoned.

        `with_data` False leaves out the bytes. Raises SimError if no free range is large enough, and for a size that is not a
        whole number from 0.
        """
        size = whole_number(size, f"device memory: the size in bytes of {name}", 0)
        need = self.taken(size)
        for index, (base, room) in enumerate(self._free):
            if room >= need:
                if room == need:
                    del self._free[index]
                else:
                    self._free[index] = (base + need, room - need)
                self.high_water = max(self.high_water, base + need)
                memory = np.full(room_of(size), POISON, np.uint8) if with_data else None
                return Allocation(base, size, name, memory)
        raise SimError(
            f"device memory: {name} needs {size:,} bytes, the largest free range is "
            f"{max((room for _, room in self._free), default=0):,} of {binary_size(self.capacity)} (chip file, "
            f"memory.hbm_bytes)"
        )

    def taken(self, size: int) -> int:
        """Return the bytes that an allocation of `size` reserves: with its slack, in whole units of `alignment`."""
        return -(-room_of(size) // self.alignment) * self.alignment

    def free(self, allocation: Allocation) -> None:
        """Release a range and its bytes; neighbouring free ranges are merged. Raises SimError if it was freed before."""
        if not allocation.live:
            raise SimError(f"device memory: {allocation.name} at {allocation.base:#x} is freed twice")
        allocation.live = False
        allocation.memory = None
        insort(self._free, (allocation.base, self.taken(allocation.size)))
        merged: list[tuple[int, int]] = []
        for base, room in self._free:
            if merged and merged[-1][0] + merged[-1][1] == base:
                merged[-1] = (merged[-1][0], merged[-1][1] + room)
            else:
                merged.append((base, room))
        self._free = merged

"""Simulated device memory as the host sees it: integer addresses that are never returned twice.

Addresses are virtual, as on the chip. A freed or foreign address is therefore always recognised, even when its place in HBM
belongs to a new block. Kernels and the L2 use that place.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections import deque
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.acl.codes import Refused
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.kernel.inspection import Line
from ascend_sim.memory.gm import Allocation, room_of
from ascend_sim.memory.local import POISON
from ascend_sim.runtime import Device

Bytes = NDArray[np.uint8]
_FIRST_ADDRESS = 0x12C0_0000_0000
_GUARD = 1 << 21
"""Bytes between two blocks, so that running past the end of one does not reach the next (ours)."""
_REMEMBERED = 1024
"""Freed blocks that a message can still name. Older ones are dropped, so that a long run does not fill the host's memory."""


@mutable(eq=False)
class DeviceBlock:
    """One block of device memory from one aclrtMalloc; `live` until it is freed, `line` is the program's line that allocated
    it.
    """

    address: int
    size: int
    allocation: Allocation
    live: bool = True
    line: Line | None = None
    """The line of the program that allocated it."""

    @property
    def data(self) -> Bytes:
        """Return a view of the block's `size` bytes; until something writes them they hold a poison pattern."""
        return self.memory[: self.size]

    @property
    def memory(self) -> Bytes:
        """Return the block's bytes with the slack behind them; the host array is allocated, and poisoned, at the first use."""
        if self.allocation.memory is None:
            self.allocation.memory = np.full(self.allocation.room, POISON, np.uint8)
        return self.allocation.memory


@frozen
class ByteRange:
    """A range of device memory: the `size` bytes of a block that begin at byte `offset` of it."""

    block: DeviceBlock
    offset: int
    size: int

    @property
    def data(self) -> Bytes:
        """Return a writable view of the range's bytes in the host's copy of the block."""
        return self.block.data[self.offset : self.offset + self.size]

    def part(self, offset: int, size: int, name: str) -> Allocation:
        """Return `size` bytes from `offset` in the range as an Allocation `name` for kernels.

        As in any Allocation slack follows the bytes; here it may be the first bytes of the block's next tensor.
        """
        start = self.offset + offset
        memory = self.block.memory[start : start + room_of(size)]
        return Allocation(self.block.allocation.base + start, size, name, memory)

    def meets(self, other: ByteRange) -> bool:
        """Return True if both ranges share a byte of the same block."""
        low, high = max(self.offset, other.offset), min(self.offset + self.size, other.offset + other.size)
        return self.block is other.block and low < high

    def __str__(self) -> str:
        return f"{self.size} bytes at {self.block.address + self.offset:#x}"


class DeviceMemory:
    """All blocks of a device by address: the live ones and the last 1024 that were freed."""

    _next_address = _FIRST_ADDRESS  # of the process: an address stays unique when the device is opened again

    def __init__(self, device: Device) -> None:
        self._device = device
        self._addresses: list[int] = []
        self._blocks: list[DeviceBlock] = []
        self._freed: deque[int] = deque()

    @property
    def capacity(self) -> int:
        """Return the total bytes of the chip's HBM."""
        return self._device.gm.capacity

    @property
    def used(self) -> int:
        """Return the bytes of HBM that live blocks occupy, each with its slack and rounded up to HBM's granularity."""
        return sum(self._device.gm.taken(block.size) for block in self._blocks if block.live)

    @property
    def live(self) -> list[DeviceBlock]:
        """Return the blocks that were allocated and not freed."""
        return [block for block in self._blocks if block.live]

    def give_up(self) -> list[DeviceBlock]:
        """Release the host arrays of a closing device's live blocks, so that their bytes are lost, and return these blocks.

        They stay live: a second call returns them again.
        """
        for block in self.live:
            block.allocation.memory = None
        return self.live

    def allocate(self, size: int) -> int:
        """Allocate `size` bytes of HBM and return a new virtual address. Refuses when no free range of HBM is large enough."""
        try:
            allocation = self._device.gm.allocate(size, "aclrtMalloc", with_data=False)
        except SimError as error:
            raise Refused("out of memory", str(error)) from error
        address = DeviceMemory._next_address
        DeviceMemory._next_address += -(-(size + _GUARD) // _GUARD) * _GUARD
        self._addresses.append(address)
        self._blocks.append(DeviceBlock(address, size, allocation, line=_calling_line()))
        return address

    def free(self, address: int) -> None:
        """Free the block that begins at `address`. Refuses freed, foreign and inner addresses."""
        block = self._block(address, "freed pointer", "foreign pointer")
        if address != block.address:
            inside = address - block.address
            raise Refused(
                "foreign pointer", f"{address:#x} lies {inside} bytes inside the block at {block.address:#x}; free that address"
            )
        self._device.gm.free(block.allocation)
        block.live = False
        self._freed.append(address)
        if len(self._freed) > _REMEMBERED:
            index = bisect_left(self._addresses, self._freed.popleft())
            del self._addresses[index], self._blocks[index]

    def range(
        self,
        name: str,
        address: Any,
        size: int,
        *,
        gone: str = "freed pointer",
        foreign: str = "foreign pointer",
        beyond: str = "beyond",
        wrong: str = "argument",
    ) -> ByteRange:
        """Return the range of `size` bytes at `address`, which may lie inside a block; `name` is the argument's name in
        messages.

        Raises Refused, with the reason that the keyword gives, for a freed block (`gone`), an address in no block (`foreign`),
        a range past its block's end (`beyond`), and a value that is not an integer (`wrong`).
        """
        if not isinstance(address, int | np.integer) or isinstance(address, bool):
            raise Refused(wrong, f"{name} must be a device address (an int), not {type(address).__name__}")
        address = int(address)
        block = self._block(address, gone, foreign, name)
        offset = address - block.address
        if offset + size > block.size:
            left = f"{name} {address:#x} has {block.size - offset} bytes left in its allocation of {block.size}"
            raise Refused(beyond, f"{left}; {size} are wanted")
        return ByteRange(block, offset, size)

    def _block(self, address: int, gone: str, foreign: str, name: str = "the pointer") -> DeviceBlock:
        index = bisect_right(self._addresses, address) - 1
        block = self._blocks[index] if index >= 0 else None
        if block is None or address >= block.address + block.size:
            raise Refused(
                foreign,
                f"{name} {address:#x} is not an address that aclrtMalloc returned on this device, or it was freed long ago",
            )
        if not block.live:
            raise Refused(gone, f"{name} {address:#x} lies in memory that was freed ({block.size} bytes at {block.address:#x})")
        return block


def is_device_address(address: int) -> bool:
    """Return True if `address` lies between the first address that aclrtMalloc ever gave out and the next one that it will;
    freed blocks and the gaps between blocks count.
    """
    return _FIRST_ADDRESS <= address < DeviceMemory._next_address


def _calling_line() -> Line | None:
    """Return (file, line) of the innermost stack frame outside this package, or None."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("ascend_sim."):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def host_bytes(name: str, buffer: Any, size: int, *, writable: bool = False) -> Bytes:
    """Return a writable or read-only view, not a copy, of the first `size` bytes of host memory: any C-contiguous buffer (numpy
    array, bytearray, bytes, memoryview).

    Refuses other objects, a buffer that is too short, and a read-only one if `writable`.
    """
    if isinstance(buffer, np.ndarray):
        if not buffer.flags.c_contiguous:
            raise Refused("argument", f"{name} is a numpy array with strides {buffer.strides}: host memory must be contiguous")
        if buffer.dtype.hasobject:
            raise Refused("argument", f"{name} is a numpy array of Python objects: host memory must hold plain numbers")
        data = buffer.reshape(-1).view(np.uint8)  # not memoryview: it does not know ml_dtypes
    else:
        try:
            data = np.frombuffer(buffer, np.uint8)
        except (TypeError, ValueError, BufferError, AttributeError) as error:
            kind = type(buffer).__name__
            raise Refused("argument", f"{name} must be host memory (a contiguous buffer), not {kind}: {error}") from error
    if writable and not data.flags.writeable:
        raise Refused("argument", f"{name} is a read-only buffer ({type(buffer).__name__})")
    if size > data.size:
        raise Refused("beyond", f"{name} is a host buffer of {data.size} bytes; {size} are wanted")
    return data[:size]


def integer(name: str, value: Any, low: int, high: int, reason: str = "argument") -> int:
    """Return `value` as an int. Refuses another type, and a value outside `low` to `high` (both allowed), with `reason`; a bool
    is 0 or 1.
    """
    if not isinstance(value, int | np.integer):
        raise Refused(reason, f"{name} must be an integer, not {type(value).__name__}")
    if not low <= value <= high:
        raise Refused(
            reason, f"{name} = {int(value) if abs(int(value)) < 1 << 128 else 'a huge integer'}: allowed is [{low}, {high}]"
        )
    return int(value)

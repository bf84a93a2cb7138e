"""Device memory: malloc, free, copies and memset, at once or on a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ascend_sim.acl.codes import Refused
from ascend_sim.acl.device import MemoryUse, Queued
from ascend_sim.acl.enums import aclrtMemcpyKind, aclrtMemMallocPolicy
from ascend_sim.acl.memory import ByteRange, Bytes, host_bytes, integer
from ascend_sim.acl.state import call, device
from ascend_sim.acl.streams import stream_of
from ascend_sim.runtime.streams import StreamStep, copy_cycles

__all__ = ["aclrtFree", "aclrtMalloc", "aclrtMemcpy", "aclrtMemcpyAsync", "aclrtMemset", "aclrtMemsetAsync"]

_SIZE = (0, (1 << 64) - 1)
SIDES = {
    aclrtMemcpyKind.ACL_MEMCPY_HOST_TO_HOST: ("host", "host"),
    aclrtMemcpyKind.ACL_MEMCPY_HOST_TO_DEVICE: ("host", "device"),
    aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_HOST: ("device", "host"),
    aclrtMemcpyKind.ACL_MEMCPY_DEVICE_TO_DEVICE: ("device", "device"),
}
"""Kind of a copy -> (side of the source, side of the destination), each "host" or "device"."""


@call(None)
def aclrtMalloc(size: int, policy: int = aclrtMemMallocPolicy.ACL_MEM_MALLOC_HUGE_FIRST) -> int:
    """Return ret and the address of `size` new bytes of HBM, aligned to 512, which hold a poison pattern.

    Refuses a size below 1, a `policy` that is none of the vendor's (it changes nothing), and a size for which no free range of
    HBM is large enough.
    """
    integer("policy", policy, 0, max(aclrtMemMallocPolicy))
    if isinstance(size, bool):  # C would take it for a size of 1
        raise Refused("argument", f"size must be an integer, not {type(size).__name__}")
    return device().memory.allocate(integer("size", size, 1, _SIZE[1]))


@call()
def aclrtFree(devPtr: Any) -> None:
    """Free a block at once, by the address that aclrtMalloc returned, and return ret; queued work that still uses it fails when
    it is run.

    Refuses None, and addresses that are foreign, freed or inside a block.
    """
    if devPtr is None:
        raise Refused("null pointer", "devPtr is a null pointer")
    if isinstance(devPtr, bool) or not isinstance(devPtr, int | np.integer):
        raise Refused("argument", f"devPtr must be a device address (an int), not {type(devPtr).__name__}")
    device().memory.free(int(devPtr))


@call()
def aclrtMemcpy(dst: Any, destMax: int, src: Any, count: int, kind: int) -> None:
    """Copy `count` bytes (at most `destMax`) from `src` to `dst` now and return ret; the copy itself takes no simulated time.
    If the default stream has queued work, the work of all streams runs before; if the default stream's fails, ret is an error
    and nothing is copied.

    `kind` is the direction, which the pointers must fit. Warns if other streams' work on these bytes was not waited for.
    """
    copy = _Copy(dst, destMax, src, count, kind)
    _before("aclrtMemcpy", copy.uses)
    copy.run(None)


@call()
def aclrtMemcpyAsync(dst: Any, destMax: int, src: Any, count: int, kind: int, stream: Any) -> None:
    """Queue a copy of `count` bytes (at most `destMax`) from `src` to `dst` on a stream and return ret; arguments are checked
    now, host memory is read and written when the copy runs.
    """
    copy = _Copy(dst, destMax, src, count, kind)
    _queue("aclrtMemcpyAsync", "Memcpy", copy.uses, copy.run, stream)


@call()
def aclrtMemset(devPtr: Any, maxCount: int, value: int, count: int) -> None:
    """Set `count` bytes of device memory to the low 8 bits of `value` now and return ret, an error if `count` is above
    `maxCount`. It takes no simulated time.

    Only if the default stream has queued work, the work of all streams runs before. Fails and warns as aclrtMemcpy does.
    """
    memset = _Memset(devPtr, maxCount, value, count)
    _before("aclrtMemset", memset.uses)
    memset.run(None)


@call()
def aclrtMemsetAsync(devPtr: Any, maxCount: int, value: int, count: int, stream: Any) -> None:
    """Queue a memset of `count` bytes (at most `maxCount`) to the low 8 bits of `value` on a stream and return ret."""
    memset = _Memset(devPtr, maxCount, value, count)
    _queue("aclrtMemsetAsync", "Memset", memset.uses, memset.run, stream)


class _Copy:
    """Copy of `count` bytes, whose arguments are checked when it is made (Refused) and which `run` executes.

    `source` and `target` are each a range of device memory or host bytes. `uses` has the device ranges among them, each with
    whether it is written.
    """

    def __init__(self, dst: Any, dest_max: Any, src: Any, count: Any, kind: Any) -> None:
        size = integer("count", count, *_SIZE)
        if size > integer("destMax", dest_max, *_SIZE):
            raise Refused("beyond", f"count = {size} is more than destMax = {dest_max}")
        for name, pointer in (("dst", dst), ("src", src)):
            if pointer is None:
                raise Refused("null pointer", f"{name} is a null pointer")
        sides = _sides(dst, src, kind)
        self.source = _place("src", src, size, sides[0], False)
        self.target = _place("dst", dst, size, sides[1], True)
        places = ((self.source, False), (self.target, True))
        self.uses = [MemoryUse(place, writes) for place, writes in places if isinstance(place, ByteRange)]

    def run(self, _finish: int | None) -> None:
        source, target = (p.data if isinstance(p, ByteRange) else p for p in (self.source, self.target))
        target[:] = source.copy()  # the two may overlap


class _Memset:
    """Checked arguments of a memset: the byte `value`, and the device range that it fills."""

    def __init__(self, pointer: Any, max_count: Any, value: Any, count: Any) -> None:
        size = integer("count", count, *_SIZE)
        if size > integer("maxCount", max_count, *_SIZE):
            raise Refused("beyond", f"count = {size} is more than maxCount = {max_count}")
        if pointer is None:
            raise Refused("null pointer", "devPtr is a null pointer")
        self.value = integer("value", value, -(1 << 31), (1 << 31) - 1) & 0xFF
        self.target = device().memory.range("devPtr", pointer, size)
        self.uses = [MemoryUse(self.target, True)]

    def run(self, _finish: int | None) -> None:
        self.target.data[:] = self.value


def _sides(dst: Any, src: Any, kind: Any) -> tuple[str, str]:
    number = integer("kind", kind, 0, max(aclrtMemcpyKind))
    actual = tuple("device" if isinstance(p, int | np.integer) else "host" for p in (src, dst))
    if number == aclrtMemcpyKind.ACL_MEMCPY_DEFAULT:
        return actual[0], actual[1]
    known = aclrtMemcpyKind(number)
    wanted = SIDES[known]
    if actual != wanted:
        raise Refused(
            "argument", f"{known.name} needs src on the {wanted[0]} and dst on the {wanted[1]}; given: {actual[0]}, {actual[1]}"
        )
    return wanted


def _place(name: str, pointer: Any, size: int, side: str, writable: bool) -> ByteRange | Bytes:
    if side == "device":
        return device().memory.range(name, pointer, size)
    return host_bytes(name, pointer, size, writable=writable)


def _before(what: str, uses: Sequence[MemoryUse]) -> None:
    """Prepare a synchronous call: run all queued work if the default stream has some, and note that the host has waited for
    that stream.

    Then warn of other work that uses the memory without a wait. Refuses if the default stream's work failed.
    """
    default = stream_of(None)
    if any(entry.task.stream == default.number for entry in device().queue):
        device().run_to_idle()
        device().failure(default.number)
    device().waited_for(default.number)
    for use in uses:
        device().warn_if_busy(what, use.range, use.writes)


def _queue(what: str, op_type: str, uses: Sequence[MemoryUse], action: Any, stream: Any) -> None:
    where = stream_of(stream)
    moved = sum(use.range.size for use in uses)
    step = StreamStep.of(what, op_type, where.number, copy_cycles(device().chip, moved), action)
    device().queue.append(Queued(step, what, uses))

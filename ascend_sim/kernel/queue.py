"""Double-buffer queues: buffers that one pipe fills and another empties, with the flags that order both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.sync import Flag

Place = TypeVar("Place")
"""Description of a buffer: its address, or a tensor that lies there."""


class _Turn(Generic[Place]):
    """Context manager of a queue's `write` or `read`: calls `begin` before its block and `end` after it, unless in error."""

    __slots__ = ("_begin", "_end")

    def __init__(self, begin: Callable[[], Place], end: Callable[[], None]) -> None:
        self._begin, self._end = begin, end

    def visible(self) -> tuple[Callable[[], Place], Callable[[], None]]:
        """Return both callables, by which a snapshot of a traced loop compares this object (`kernel.snapshot`)."""
        return self._begin, self._end

    def __enter__(self) -> Place:
        return self._begin()

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is None:
            self._end()


class BufferQueue(Generic[Place]):
    """Queue of `addresses`, buffers of equal size that pipe `producer` fills and pipe `consumer` empties in turn, with a
    full and a free flag each.

    Producer side: `acquire()` (waits until the buffer is free, returns its address) ... writes ... `publish()`. Consumer side:
    `take()` (waits until it is full, returns its address) ... reads ... `release()`. `with queue.write() as address:` and `with
    queue.read() as address:` are these pairs. A publish without an acquire and a release without a take are refused. `close()`
    at the end of the program takes back the releases without a wait, so that all flags end at zero; `settle()` waits for
    them. `opener` is the pipe that waits for a free buffer, if another pipe than the producer touches it first. Flags count the
    buffers from `first`.
    """

    def __init__(
        self,
        builder: KernelBuilder,
        name: str,
        producer: str,
        consumer: str,
        addresses: Sequence[Place],
        opener: str = "",
        first: int = 0,
    ) -> None:
        self._builder = builder
        self._name = name
        self._addresses = addresses
        count = len(addresses)
        numbers = range(first, first + count)
        self._full = [self._flag(producer, consumer, f"{name}[{i}] full") for i in numbers]
        self._free = [self._flag(consumer, opener or producer, f"{name}[{i}] free") for i in numbers]
        if builder.notes is not None:
            for side, flags in (("full", self._full), ("free", self._free)):
                builder.notes.queues |= {(f.source, f.destination, f.identity): f"{name} {side}" for f in flags}
        self._acquired = self._published = self._taken = self._released = 0
        builder.carry(self, "_acquired", "_published", "_taken", "_released")
        self._writing = _Turn(self.acquire, self.publish)
        self._reading = _Turn(self.take, self.release)

    def visible(self) -> tuple[str, tuple[Place, ...]]:
        """Return name and addresses, which never change, for snapshots of a traced loop; the phase has the position."""
        return self._name, tuple(self._addresses)

    def _flag(self, source: str, destination: str, name: str) -> Flag:
        return self._builder.flag(source, destination, name)

    def acquire(self) -> Place:
        """Append the producer's wait for the next buffer to be free, and return its address; the first round needs none."""
        count = len(self._addresses)
        index = self._acquired % count
        if self._acquired >= count:
            self._await_free(index)
        self._acquired += 1
        if self._acquired == 2 * count:  # all buffers were free again: a round less counts the same
            self._acquired -= count
            self._published -= count
            self._taken -= count
            self._released -= count
        return self._addresses[index]

    def _await_free(self, index: int) -> None:
        self._builder.wait_flag(self._free[index])

    def publish(self) -> None:
        """Append the producer's set of the full flag of the buffer acquired first and not yet published.

        Raises SimError if every acquired buffer was published.
        """
        if self._published == self._acquired:
            raise SimError(f"queue {self._name!r}: publish without an acquire before it")
        self._builder.set_flag(self._full[self._published % len(self._addresses)])
        self._published += 1

    def take(self) -> Place:
        """Append the consumer's wait for the next buffer to be full, and return its address; that it was published is not
        checked here.
        """
        index = self._taken % len(self._addresses)
        self._builder.wait_flag(self._full[index])
        self._taken += 1
        return self._addresses[index]

    def release(self) -> None:
        """Append the consumer's set of the free flag of the buffer taken first and not yet released.

        Raises SimError if every taken buffer was released.
        """
        if self._released == self._taken:
            raise SimError(f"queue {self._name!r}: release without a take before it")
        index = self._released % len(self._addresses)
        self._builder.set_flag(self._free[index])
        self._released += 1

    @property
    def filling(self) -> Place:
        """Return the address of the buffer that was acquired last; the last buffer before any was."""
        return self._addresses[(self._acquired - 1) % len(self._addresses)]

    @property
    def reading(self) -> Place:
        """Return the address of the buffer that was taken last; the last buffer before any was."""
        return self._addresses[(self._taken - 1) % len(self._addresses)]

    def write(self) -> _Turn[Place]:
        """Return a context manager for the producer: `acquire` at the beginning of the block, `publish` at its end unless it
        raises.
        """
        return self._writing

    def read(self) -> _Turn[Place]:
        """Return a context manager for the consumer: `take` at the beginning of the block, `release` at its end unless it
        raises.
        """
        return self._reading

    def close(self) -> None:
        """Mark the last set of each free flag that has more sets than waits; the finished program is without it."""
        for flag in self._free:
            self._builder.drop_set(flag)

    def settle(self) -> None:
        """Append, at the end of the program, for each buffer that was acquired a wait until it is free, in order of the
        buffers.
        """
        for index in range(min(self._acquired, len(self._addresses))):
            self._await_free(index)


class ZeroedQueue(BufferQueue[int]):
    """Queue of UB buffers that pipe V sets to zero, MTE2 then fills in part and MTE3 empties."""

    def __init__(self, builder: KernelBuilder, name: str, addresses: Sequence[int]) -> None:
        super().__init__(builder, name, "MTE2", "MTE3", addresses, opener="V")
        self._zeroed = [builder.flag("V", "MTE2", f"{name}[{i}] zeroed") for i in range(len(addresses))]
        self._turn = 0
        builder.carry(self, "_turn")

    def acquire_zeroed(self, size: int) -> int:
        """Append the wait for the next buffer and zeros in its first `size` bytes (whole words of 4), for which MTE2 waits;
        return its address.
        """
        address, zeroed = self.acquire(), self._zeroed[self._turn]
        self._turn = (self._turn + 1) % len(self._zeroed)
        self._builder.vector_duplicate(address, "float32", size // 4)
        self._builder.set_flag(zeroed)
        self._builder.wait_flag(zeroed)
        return address

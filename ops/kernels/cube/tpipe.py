"""Buffers of a cube kernel as the library's TPipe and TQue keep them, with every flag that they set and wait for.

The open kernels of ops-nn for dav-2201 have a queue for each buffer. A load waits for the last reader of its buffer, and a sum
for the way out of its tile of L0C. The kernel chooses a buffer of L1 by a number that it counts itself. A TPipe raises the
flags M -> MTE1 of ids 0 to 2 when it begins, and takes them when it ends, behind the flags that its queues have left; the last
row is a barrier of all pipes (rows of these kernels: stated).
"""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.ops.kernels.cube.pipeline import CubePipeline, HeldOperand

RAISED = 3
"""Number of flags M -> MTE1 that a TPipe sets when it begins."""
CLEARED = 11
"""Cross-core flag, mode 0, that says that all cubes have cleared their shares (stated; ids 11 to 15 are the library's own)."""


class RaisedQueue(BufferQueue[int]):
    """Queue of buffers whose free flags are set when the program begins, with spare flags up to `RAISED` buffers."""

    def __init__(self, builder: KernelBuilder, name: str, producer: str, consumer: str, addresses: Sequence[int]) -> None:
        super().__init__(builder, name, producer, consumer, addresses)
        self._spare = [self._flag(consumer, producer, f"{name}[{i}] spare") for i in range(len(addresses), RAISED)]
        for flag in self._free + self._spare:
            builder.set_flag(flag)
        self._acquired = self._published = self._taken = self._released = len(addresses)

    def settle(self) -> None:
        """Append, at the end of the program, the waits that take the free flag of each buffer, and all spare flags."""
        super().settle()
        for flag in self._spare:
            self._builder.wait_flag(flag)


class TPipePipeline(CubePipeline):
    """Cube pipeline with the flags of a TPipe for L0 and L0C: set when it begins, taken when it ends."""

    queue_type = RaisedQueue

    def close(self) -> None:
        """Append the end of the TPipe: take all flags, then a barrier of all pipes."""
        self.tiles.settle()
        for queue in self._queues:
            queue.settle()
        self._k.pipe_barrier("ALL")


class PingPong(HeldOperand):
    """L1 buffers of one operand, each a queue of its own; the number of a load decides to which buffer it goes (`turn`)."""

    def __init__(self, k: KernelBuilder, name: str, addresses: Sequence[int], size: int) -> None:
        self._k, self._size, self._addresses = k, size, list(addresses)
        self._buffers = [BufferQueue(k, name, "MTE2", "MTE1", [address], first=i) for i, address in enumerate(addresses)]
        self._held: object = None
        self._turn, self._unread = 0, False
        k.carry(self, "_held", "_turn")

    def turn(self, number: int) -> None:
        """Choose buffer `number` modulo the number of buffers, for all calls until the next `turn`."""
        self._turn = number % len(self._buffers)

    def renew(self) -> None:
        """Forget the held operand, so that the next `begin` loads even the same one."""
        self._held = None

    def begin(self, key: object) -> int | None:
        """Wait for the chosen buffer and return its address to load `key` to; None if `key` is the part that was begun last and
        no `renew` came since.
        """
        if key == self._held:
            return None
        self._held = key
        return self._buffers[self._turn].acquire()

    def loaded(self) -> int:
        """Hand the chosen buffer over to MTE1 behind the issued load; its first `read` waits. Return its address."""
        self._unread = True
        self._buffers[self._turn].publish()
        return self._buffers[self._turn].filling

    def read(self) -> int:
        """Return the address of the chosen buffer; the first call after a load also appends the wait for it."""
        if self._unread:
            self._unread = False
            self._buffers[self._turn].take()
        return self.address

    def done(self) -> None:
        """Free the chosen buffer behind its last reader, which has been issued; the next load into it waits for that."""
        self._buffers[self._turn].release()

    @property
    def address(self) -> int:
        """Return the address of the chosen buffer."""
        return self._addresses[self._turn]

    def close(self) -> None:
        """Append the waits that take all flags of the buffers, at the end of the TPipe."""
        for buffer in self._buffers:
            buffer.settle()


def ping_pong(k: KernelBuilder, a1: tuple[int, int], b1: tuple[int, int]) -> tuple[PingPong, PingPong]:
    """Return the L1 buffers (of A, of B); `a1` and `b1` are (number of buffers, bytes of each).

    In L1 the first buffers of both come before the second ones.
    """
    wanted = {"A1": a1, "B1": b1}
    places: dict[str, list[int]] = {name: [] for name in wanted}
    for i in range(max(a1[0], b1[0])):
        for name, (buffers, size) in wanted.items():
            if i < buffers:
                places[name].append(k.allocate("L1", size, f"{name}[{i}]"))
    first, second = (PingPong(k, name, places[name], size) for name, (_, size) in wanted.items())
    return first, second


class ClearingPipe:
    """TPipe, begun when it is made, in which a kernel clears its result before its products; at its end all cubes meet (ops-nn
    arch22: stated).
    """

    def __init__(self, k: KernelBuilder) -> None:
        self._k = k
        self._raised = [k.flag("M", "MTE1", f"clearing[{i}]") for i in range(RAISED)]
        for flag in self._raised:
            k.set_flag(flag)

    def meet(self, pipe: str) -> None:
        """Append the end of the TPipe after `pipe` has cleared this core's share: wait for all cores, take all flags."""
        k = self._k
        k.cross_core_set(CLEARED, 0, pipe)
        k.cross_core_wait(CLEARED, 0, "MTE2")
        k.pipe_barrier("ALL")
        for flag in self._raised:
            k.wait_flag(flag)
        k.pipe_barrier("ALL")

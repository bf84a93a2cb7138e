"""BufferQueue: the flags of a double buffer, in the order in which both sides must meet."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.isa.sync import SetFlag, WaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.kernel.queue import BufferQueue, ZeroedQueue
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import watched_run

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")


def queue(count: int = 2) -> tuple[KernelBuilder, BufferQueue]:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [4096])
    return k, BufferQueue(k, "q", "MTE2", "V", [1024 * i for i in range(count)])


def flags(k: KernelBuilder) -> list[str]:
    """The program as words: which flag of which pair is set or waited for."""
    words = []
    for view in k.finish():
        i = view.instruction
        assert isinstance(i, SetFlag | WaitFlag)
        state = "full" if i.source == "MTE2" else "free"
        words.append(f"{'set' if isinstance(i, SetFlag) else 'wait'} {state} {i.flag}")
    return words


def test_the_flags_of_three_rounds_through_two_buffers() -> None:
    k, q = queue()
    addresses = []
    for _ in range(3):
        addresses.append((q.acquire(), q.publish(), q.take(), q.release()))
    q.close()
    assert [(a, b) for a, _, b, _ in addresses] == [(0, 0), (1024, 1024), (0, 0)]
    assert flags(k) == [
        "set full 0",
        "wait full 0",
        "set free 0",
        "set full 1",
        "wait full 1",
        "wait free 0",
        "set full 0",
        "wait full 0",
    ]


def test_the_producer_may_be_ahead_by_all_buffers() -> None:
    k, q = queue(3)
    for _ in range(3):
        q.acquire()
        q.publish()
    assert [q.take() for _ in range(3)] == [0, 1024, 2048]
    for _ in range(3):
        q.release()
    q.close()
    assert flags(k) == [f"set full {i}" for i in range(3)] + [f"wait full {i}" for i in range(3)]


def test_what_the_protocol_refuses() -> None:
    _, q = queue()
    with pytest.raises(SimError, match="queue 'q': publish without an acquire"):
        q.publish()
    k, q = queue()
    q.take()  # the producer may come later in the program
    with pytest.raises(SimError, match=r"'q\[0\] full' \(MTE2->V\) is waited for more often than set; waits without a set: 1"):
        k.finish()
    _, q = queue()
    with pytest.raises(SimError, match="queue 'q': release without a take"):
        q.release()
    _, q = queue()
    q.acquire(), q.publish(), q.take(), q.release()
    with pytest.raises(SimError, match="release without a take"):
        q.release()
    k, q = queue()
    q.acquire(), q.acquire(), q.acquire()
    q.close()
    with pytest.raises(SimError, match=r"'q\[0\] free' \(V->MTE2\) is waited for more often than set; waits without a set: 1"):
        k.finish()


def test_a_full_buffer_that_nobody_takes_is_an_error() -> None:
    k, q = queue()
    q.acquire()
    q.publish()
    q.close()
    with pytest.raises(SimError, match=r"'q\[0\] full' .* is still raised at the end of the block; sets without a wait: 1"):
        k.finish()


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.lists(st.booleans(), max_size=40))
def test_any_interleaving_is_free_of_hazards(count: int, turns: list[bool]) -> None:
    """The producer copies into a buffer, the consumer adds it to itself; whoever's turn it is goes on if he may."""
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [4096])
    q = BufferQueue(k, "q", "MTE2", "V", [1024 * i for i in range(count)])
    filled = emptied = 0
    for producer in [*turns, *([False] * len(turns))]:
        if producer and filled - emptied < count:
            k.data_copy("GM", "UB", q.acquire(), gm_operand(0, 0), 1024)
            q.publish()
            filled += 1
        elif not producer and emptied < filled:
            place = q.take()
            k.vector_binary("add", 8192, place, place, "float16", 512)
            q.release()
            emptied += 1
    q.close()
    program = k.finish()
    assert set(program.flags) == {f"q[{i}] {state}" for i in range(count) for state in ("full", "free")}
    device = Device(CHIP, with_values=False)
    task = Task("t", "Test", "AIV", 1, [device.allocate(4096, "t")], lambda _: [program])
    timeline, found = watched_run(device, [task])
    runs = timeline.programs
    assert [f for f in found if "q" in f.text and "data_copy" in f.text] == []
    fills = [i for i, view in enumerate(program) if view.instruction.name == "data_copy"]
    uses = [i for i, view in enumerate(program) if view.instruction.name == "vector_binary"]
    for n, use in enumerate(uses):
        assert runs[0].start[use] >= runs[0].retire[fills[n]]
        if n + count < len(fills):
            assert runs[0].start[fills[n + count]] >= runs[0].retire[use]


def test_a_buffer_is_zeros_before_it_is_filled() -> None:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [4096])
    tiles = ZeroedQueue(k, "tile", [0, 1024])
    for place in (0, 1024):
        k.data_copy("GM", "UB", tiles.acquire_zeroed(1024), gm_operand(0, place), 32)
        tiles.publish()
        tiles.take()
        tiles.release()
    tiles.close()
    rows = list(k.finish())
    for first in (index for index, row in enumerate(rows) if row.pipe == "V" and row.instruction.has_values):
        done, waits, fills = rows[first + 1 : first + 4]
        assert isinstance(done.instruction, SetFlag) and isinstance(waits.instruction, WaitFlag)
        assert (done.pipe, waits.pipe, fills.pipe) == ("V", "MTE2", "MTE2")
        assert fills.instruction.has_values and fills.dst == rows[first].dst
    assert len(rows) > 10

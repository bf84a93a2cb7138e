"""Speed of the timing engines on the same programs, in turns in one process: CPU time and ratios to the SimPy engine.

Usage: python tools/bench/engine.py [repeats]

Instructions count flags. "alone" is without what a run prepares before a program's first cycle (tables, columns, lines of
GM), and without the packing of its columns behind the last one.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import simpy
from asked import arguments

from ascend_sim.chip import load_chip
from ascend_sim.engine.columns import ColumnStore
from ascend_sim.engine.compiled.machine import CompiledMachine
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.machine import SimpyMachine
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import TRANSFER
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

KIB = 1024
ENGINES = ("simpy", "compiled")
Case = tuple[Task, list[Program]]


def cube_loop(table: InstructionTable, block: int, sizes: list[int], steps: int, loads_per_fill: int) -> Program:
    """MTE2 fills L1, MTE1 fills L0A and L0B, M multiplies, FIX drains every eighth tile; everything double buffered."""
    k = KernelBuilder(table, block, "AIC", sizes)
    l1 = BufferQueue(k, "l1", "MTE2", "MTE1", [k.allocate("L1", 64 * KIB, f"l1[{i}]") for i in range(2)])
    l0a = [k.allocate("L0A", 32 * KIB, f"l0a[{i}]") for i in range(2)]
    l0b = [k.allocate("L0B", 32 * KIB, f"l0b[{i}]") for i in range(2)]
    l0 = BufferQueue(k, "l0", "MTE1", "M", [0, 1])
    l0c = BufferQueue(k, "l0c", "M", "FIX", [k.allocate("L0C", 64 * KIB, f"l0c[{i}]") for i in range(2)])
    for step in range(steps):
        if step % loads_per_fill == 0:
            if step:
                l1.release()
            k.data_copy("GM", "L1", l1.acquire(), gm_operand(0, 0), 64 * KIB)
            l1.publish()
            source = l1.take()
        half = l0.acquire()
        k.load_data_2d("L0A", l0a[half], source, 2, 32)
        k.load_data_2d("L0B", l0b[half], source, 2, 32)
        l0.publish()
        half = l0.take()
        if step % 8 == 0:
            tile = l0c.acquire()
        k.mmad(tile, l0a[half], l0b[half], 128, 64, 128, "float16", step % 8 != 0)
        l0.release()
        if step % 8 == 7:
            l0c.publish()
            k.fixpipe(gm_operand(1, 0), l0c.take(), 128, 128, 128, "float16", 16, 128 * 32)
            l0c.release()
    l1.release()
    for queue in (l1, l0, l0c):
        queue.close()
    return k.finish()


def loops(blocks: int, steps: int, loads_per_fill: int = 8) -> Case:
    """`cube_loop` on every core of a 910B3 or fewer."""
    device = Device(load_chip("ascend910b3"), with_values=False)
    tensors = [device.allocate(64 * KIB, "in"), device.allocate(128 * KIB, "out")]
    table = InstructionTable(device.chip)
    programs = [cube_loop(table, b, [t.size for t in tensors], steps, loads_per_fill) for b in range(blocks)]
    return Task("loop", "Loop", "AIC", blocks, tensors, lambda block: [programs[block]]), programs


def flows(count: int) -> Case:
    """48 vector cores of a 910B1 that stream without any synchronisation."""
    device = Device(load_chip("ascend910b1"), with_values=False)
    source = device.allocate(256 * 1024 * KIB, "in")
    table = InstructionTable(device.chip)
    programs = []
    for block in range(48):
        k = KernelBuilder(table, block, "AIV", [source.size])
        room = k.allocate("UB", 64 * KIB, "buffer")
        for i in range(count):
            size = (4 + (i * 7 + block * 3) % 12) * KIB
            k.data_copy("GM", "UB", room, gm_operand(0, ((block * count + i) * 16 * KIB) % (255 * 1024 * KIB)), size)
        programs.append(k.finish())
    return Task("flows", "Flows", "AIV", 48, [source], lambda block: [programs[block]]), programs


@contextmanager
def preparing() -> Iterator[list[float]]:
    """The CPU times of what prepares a run and its programs and packs their columns, in both engines."""
    found: list[float] = []

    def timed(prepare: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            begin = time.process_time()
            made = prepare(*given)
            found.append(time.process_time() - begin)
            return made

        return run

    with ExitStack() as stack:
        for machine in (SimpyMachine, CompiledMachine):
            stack.enter_context(patch.object(machine, "core", timed(machine.core)))
            stack.enter_context(patch.object(machine, "__init__", timed(machine.__init__)))
        stack.enter_context(patch.object(ColumnStore, "kept", timed(ColumnStore.kept)))
        yield found


def seconds(case: Case, engine: str, shared: bool) -> tuple[float, float]:
    """CPU time of one run on a cold device, and without preparing."""
    task, programs = case
    runner = Engine(Device(programs[0].table.chip, with_values=False), shared_gm=shared, engine=engine)
    gc.collect()
    with preparing() as prepared:
        begin = time.process_time()
        runner.run([task])
        whole = time.process_time() - begin
    return whole, whole - sum(prepared)


def timeout_seconds(count: int) -> float:
    """Plain SimPy for scale: CPU time of that many timeouts of four processes."""

    def process(env: simpy.Environment):  # type: ignore[no-untyped-def]
        for _ in range(count // 4):
            yield env.timeout(1)

    env = simpy.Environment()
    for _ in range(4):
        env.process(process(env))
    begin = time.process_time()
    env.run()
    return time.process_time() - begin


CASES: dict[str, tuple[Callable[[], Case], bool]] = {
    "one core, port speed": (lambda: loops(1, 40_000), False),
    "20 cores, port speed": (lambda: loops(20, 2_000), False),
    "one core, shared GM": (lambda: loops(1, 40_000), True),
    "20 cores, shared GM": (lambda: loops(20, 2_000), True),
    "20 cores, shared GM, a load for every second tile": (lambda: loops(20, 2_000, 2), True),
    "48 unsynchronised flows": (lambda: flows(300), True),
}


def main() -> None:
    """Print medians over the repeats."""
    repeats = int((arguments() or [5])[0])
    timeouts = 200_000
    print(f"plain SimPy: {timeouts / statistics.median(timeout_seconds(timeouts) for _ in range(repeats)):,.0f} timeouts/s")
    for name, (make, shared) in CASES.items():
        case = make()
        rows = sum(len(program) for program in case[1])
        transfers = sum(int((program.per_row("kind") == TRANSFER).sum()) for program in case[1])
        print(f"{name}: {rows:,} instructions, {transfers:,} transfers")
        times: dict[str, list[tuple[float, float]]] = {engine: [] for engine in ENGINES}
        for _ in range(repeats):
            for engine in ENGINES:
                times[engine].append(seconds(case, engine, shared))
        base, base_alone = medians(times["simpy"])
        for engine in ENGINES:
            median, alone = medians(times[engine])
            print(
                f"    {engine:9s} {median:8.4f} s  {rows / median / 1e6:7.2f} M instructions/s  "
                f"{transfers / median / 1e6:7.3f} M transfers/s  x{base / median:.1f}, alone x{base_alone / alone:.1f}",
                flush=True,
            )


def medians(times: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the medians of whole runs, and of their time without preparing."""
    whole, alone = (statistics.median(column) for column in zip(*times, strict=True))
    return whole, alone


if __name__ == "__main__":
    main()

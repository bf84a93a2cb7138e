"""Speed of the timing engine: instructions retired per second (flags counted), with plain SimPy timeouts for scale.

Usage: python tools/bench/engine.py [repeats]
"""

from __future__ import annotations

import statistics
import sys
import time

import simpy

from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand

KIB = 1024


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


def engine_rate(blocks: int, steps: int, shared: bool, loads_per_fill: int = 8) -> tuple[float, float]:
    """(instructions per second, GM transfers per second) of one run."""
    chip = load_chip("ascend910b3")
    device = Device(chip, with_values=False)
    tensors = [device.allocate(64 * KIB, "in"), device.allocate(128 * KIB, "out")]
    table = InstructionTable(chip)
    programs = [cube_loop(table, b, [t.size for t in tensors], steps, loads_per_fill) for b in range(blocks)]
    task = Task("loop", "Loop", "AIC", blocks, tensors, lambda block: [programs[block]])
    begin = time.perf_counter()
    timeline = Engine(device, shared_gm=shared).run([task])
    seconds = time.perf_counter() - begin
    instructions = sum(len(run.program) for run in timeline.programs)
    transfers = sum(int((run.program.per_row("kind") == 4).sum()) for run in timeline.programs)
    return instructions / seconds, transfers / seconds


def flow_rate(count: int) -> float:
    """GM transfers per second with 48 vector cores that stream without any synchronisation."""
    chip = load_chip("ascend910b1")
    device = Device(chip, with_values=False)
    source = device.allocate(256 * 1024 * KIB, "in")
    table = InstructionTable(chip)
    programs = []
    for block in range(48):
        k = KernelBuilder(table, block, "AIV", [source.size])
        room = k.allocate("UB", 64 * KIB, "buffer")
        for i in range(count):
            size = (4 + (i * 7 + block * 3) % 12) * KIB
            k.data_copy("GM", "UB", room, gm_operand(0, ((block * count + i) * 16 * KIB) % (255 * 1024 * KIB)), size)
        programs.append(k.finish())
    task = Task("flows", "Flows", "AIV", 48, [source], lambda block: [programs[block]])
    begin = time.perf_counter()
    Engine(device).run([task])
    return 48 * count / (time.perf_counter() - begin)


def timeout_rate(count: int = 200_000) -> float:
    """Plain SimPy: timeouts per second of four processes."""

    def process(env: simpy.Environment):  # type: ignore[no-untyped-def]
        for _ in range(count // 4):
            yield env.timeout(1)

    env = simpy.Environment()
    for _ in range(4):
        env.process(process(env))
    begin = time.perf_counter()
    env.run()
    return count / (time.perf_counter() - begin)


def main() -> None:
    """Print medians over the repeats, and ratios to plain SimPy timeouts of the same run."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    rows: dict[str, list[float]] = {}
    for _ in range(repeats):
        rows.setdefault("plain SimPy timeouts/s", []).append(timeout_rate())
        rows.setdefault("one core, shared GM: instructions/s", []).append(engine_rate(1, 40_000, True)[0])
        rows.setdefault("one core, port speed: instructions/s", []).append(engine_rate(1, 40_000, False)[0])
        rows.setdefault("20 cores, port speed: instructions/s", []).append(engine_rate(20, 2_000, False)[0])
        rows.setdefault("20 cores, shared GM: instructions/s", []).append(engine_rate(20, 2_000, True)[0])
        rows.setdefault("48 unsynchronised flows: transfers/s", []).append(flow_rate(300))
    base = statistics.median(rows["plain SimPy timeouts/s"])
    for name, values in rows.items():
        median = statistics.median(values)
        print(f"{name:42s} {median:12,.0f}   {median / base:5.2f} x plain SimPy")


if __name__ == "__main__":
    main()

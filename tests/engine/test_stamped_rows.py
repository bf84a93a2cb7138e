"""Programs of many stamps, which C writes out a piece at a time and gives back: against the SimPy engine."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.lines import LinesOf
from ascend_sim.engine.watch import from_columns, watched
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.queue import BufferQueue
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, changed, program, quiet, task_of
from tests.support.engine.random_runs import everything
from tests.support.sampling import part_of_cases, sample

pytestmark = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")

SIZES = [1 << 21, 1 << 21]
PIECE = 4096
"""Rows that C writes out together."""


def writer(seed: int, stamping: bool) -> Any:
    """Tiles of some kinds at places of their own, with more rows than three pieces; a kind of its own is longer than one."""
    random = Random(seed)
    kinds = [(random.randint(1, 40), random.randint(0, 3), random.choice([32, 100, 700])) for _ in range(3)]
    items = [(random.choice(kinds), (random.randrange(512), random.randrange(512))) for _ in range(200)]
    long = PIECE + random.randrange(PIECE)

    def write(k: KernelBuilder) -> None:
        k.stamping = stamping
        queue = BufferQueue(k, "x", "MTE2", "MTE3", [k.allocate("UB", 8 * KIB, f"x[{i}]") for i in range(3)])
        for (moves, sums, size), (src, dst) in k.stamped(items):
            k.next_tile()
            for i in range(moves):
                k.data_copy("GM", "UB", queue.acquire(), gm_operand(0, src * KIB + i * 32), size)
                queue.publish()
                for _ in range(sums):
                    k.vector_binary("add", 64 * KIB, 65 * KIB, 66 * KIB, "float32", 64)
                k.data_copy("UB", "GM", gm_operand(1, dst * KIB + i * 32), queue.take(), size)
                queue.release()
            k.scalar(moves)
        for _, _ in k.stamped([("long", (i, 0)) for i in range(2)]):
            k.next_tile()
            for i in range(long):
                k.vector_binary("add", 64 * KIB + 32 * (i % 9), 65 * KIB, 66 * KIB, "float32", 8 + i % 3)
                if i % 999 == 0:
                    k.data_copy("UB", "GM", gm_operand(1, 0), 64 * KIB, 64)  # hazards, with each other and the adds
        queue.close()

    return write


@part_of_cases(0, "[1]")
@pytest.mark.parametrize("seed", range(12))
def test_stamps_of_a_long_block(seed: int) -> None:
    chip = changed(quiet(CHIP), memory={"hbm_latency": 900 * (seed % 2)}, cores={"aic": 2, "aiv": 3})
    found = []
    for engine, stamping, keep in (("simpy", False, True), ("compiled", True, True), ("compiled", True, False)):
        device = Device(chip, with_values=False)
        tensors = [device.allocate(size, f"t{i}") for i, size in enumerate(SIZES)]
        made = [[program(chip, "AIV", writer(10 * seed + block, stamping), SIZES, block=block)] for block in range(2)]
        assert all(len(one) > 3 * PIECE for (one,) in made)
        task = task_of(made, tensors)
        timeline = Engine(device, engine=engine).run([task], keep=keep)
        totals = watched(timeline) if stamping else from_columns([task], timeline.programs)
        found.append(everything(device, timeline) | {"totals": totals})
    plain, kept, lean = found
    assert kept == plain and plain["totals"].findings
    assert lean == {name: value for name, value in plain.items() if name in lean}


@pytest.mark.parametrize("seed", range(sample(2, 12)))
def test_lines_of_stamps_where_they_stand(seed: int) -> None:
    made = program(CHIP, "AIV", writer(seed, stamping=True), SIZES)
    line = CHIP.memory.l2_line_bytes
    by_c, by_numpy = (LinesOf([3 * line, 3 * line + SIZES[0]], 3 * line + sum(SIZES), line) for _ in range(2))
    by_c.add_by_c(made)
    by_numpy.add_by_numpy(made)
    assert len(made.sheet.which) > 200 and by_numpy.read.sum() > 100
    assert np.array_equal(by_c.read, by_numpy.read) and np.array_equal(by_c.written, by_numpy.written)

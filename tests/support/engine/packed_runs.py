"""Runs whose columns are packed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ascend_sim.engine import engine
from ascend_sim.engine.columns import Packed
from ascend_sim.engine.device import Device
from ascend_sim.engine.timeline import TIMES, Timeline
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, program, task_of

COUNTS = (70, 10, 90, 80)
"""Rows of the blocks."""


def run(counts: tuple[int, ...] = COUNTS, **how: Any) -> Timeline:
    """Blocks of so many copies, some of which wait for each other."""

    def write(k: KernelBuilder) -> None:
        for i in range(counts[k.block]):
            if i % 7:
                k.data_copy("GM", "UB", 0, gm_operand(0, 64 * (i % 99) * (k.block + 1)), 64)
            else:
                k.scalar(i % 300)

    device = Device(CHIP, with_values=False)
    tensor = device.allocate(1 << 16, "t")
    made = [[program(CHIP, "AIV", write, [1 << 16], block=block)] for block in range(len(counts))]
    runner = engine.Engine(device, engine=how.pop("engine", None), shared_gm=how.pop("shared", True))
    return runner.run([task_of(made, [tensor])], **how)


def assert_equal(found: Timeline, expected: Timeline) -> None:
    for one, other in zip(found.programs, expected.programs, strict=True):
        assert (one.begin, one.finish, one.core) == (other.begin, other.finish, other.core)
        assert np.array_equal(one.program.rows, other.program.rows)
        for name in TIMES:
            assert np.array_equal(getattr(one, name), getattr(other, name)), name


def packed_of(timeline: Timeline) -> list[Packed]:
    return [one.columns for one in timeline.programs if isinstance(one.columns, Packed)]

"""What a pipe knows of the others, by the flags that it has waited for."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.check.clocks import Known
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program

CHIP = load_chip("ascend910b3")


SIZE = 4096


def subject_of(program: Program) -> Subject:
    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(SIZE, name) for name in ("a", "b")]
    task = Task("random", "Random", "AIV", 1, tensors, lambda block: [program])
    return Subject(CHIP, task, [program])


@pytest.mark.fast
def test_two_cores_know_together_the_later_of_what_each_knows() -> None:
    known = Known(2)
    rows = [np.arange(2 * WIDTH, dtype=np.int32), np.arange(2 * WIDTH, dtype=np.int32)[::-1]]
    first, second = (known.add(vector, level) for level, vector in enumerate(rows))
    both = known.join(first, second)
    assert (known.vectors[both] == np.maximum(*rows)).all() and known.join(second, first) == both
    assert known.join(first, both) == known.join(both, second) == known.join(both, 0) == known.join(0, both) == both


@pytest.mark.fast
def test_a_clock_learns_through_a_third_pipe() -> None:
    """MTE2 -> V -> MTE3: what MTE2 did before comes before what MTE3 does after, though no flag joins the two."""
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [SIZE, SIZE])
    k.data_copy("GM", "UB", 0, 0, 64)
    for source, destination in (("MTE2", "V"), ("V", "MTE3")):
        flag = k.flag(source, destination, source)
        k.set_flag(flag)
        k.wait_flag(flag)
    k.data_copy("UB", "GM", 0, 0, 64)
    subject = subject_of(k.finish())
    clocks = subject.order.clocks
    last = np.asarray([5])
    assert clocks.known(np.zeros(1, np.int64), last, np.asarray([PIPES.index("MTE2")])).tolist() == [1]
    assert clocks.known(np.zeros(1, np.int64), last, np.asarray([PIPES.index("V")])).tolist() == [1]
    assert clocks.event.tolist() == [0, 0, 2, 2, 1, 1] and clocks.retired.shape == (3, WIDTH)

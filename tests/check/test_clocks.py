"""Knowledge of a pipe about the others, by the flags that it has waited for."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.isa.base import PIPES
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from tests.support.check.random_programs import CHIP, SIZE, subject_of


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
    assert clocks.event.tolist() == [0, 0, 2, 2, 1, 1] and len(clocks.retired) == 3

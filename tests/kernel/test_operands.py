"""Operands: where they lie and how far they reach."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import gm_operand

pytestmark = pytest.mark.fast


CHIP = load_chip("ascend950pr_9589")


SIZES = (1 << 16, 1 << 15)


def refusal(write: Callable[[KernelBuilder], object]) -> str:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", SIZES)
    with pytest.raises(SimError) as refused:
        write(k)
        k.finish()
    return str(refused.value)


@pytest.mark.parametrize("loop", [CopyLoop(1, -32, 32), CopyLoop(1, 32, -32)])
def test_a_single_row_that_steps_backwards_is_refused(loop: CopyLoop) -> None:
    """Whatever merging regions makes of it; the 950 has loops around copies."""
    write = refusal(lambda k: k.data_copy_planes("GM", "UB", 0, gm_operand(0, 0), 32, loop, CopyLoop(2, 64, 64)))
    assert "moves no bytes, or steps backwards" in write

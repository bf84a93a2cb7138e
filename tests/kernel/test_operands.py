"""Operands: where they lie and how far they reach."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel import look
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK, gm_operand

pytestmark = pytest.mark.fast


CHIP = load_chip("ascend910b3")


SIZES = (1 << 16, 1 << 15)


@pytest.fixture(autouse=True, params=["C", "numpy"])
def looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "numpy":
        monkeypatch.setattr(look, "_library", lambda: None)


def refusal(write: Callable[[KernelBuilder], object]) -> str:
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", SIZES)
    with pytest.raises(SimError) as refused:
        write(k)
        k.finish()
    return str(refused.value)


@pytest.mark.parametrize(
    "loops", [((2, 32, 32), (2, 1 << 50, 64)), ((2, 32, 32), (1, 1 << 70, 64)), ((1, 1 << 70, 0),) * 2]
)
def test_so_does_a_stride_of_planes(loops: Sequence[tuple[int, int, int]]) -> None:
    """One that nobody steps by as well."""
    rows, planes = (CopyLoop(*loop) for loop in loops)
    said = refusal(lambda k: k.data_copy_planes("GM", "UB", 4096, gm_operand(0, 0), 32, rows, planes))
    assert said.startswith("data_copy_planes goes over ") and said.endswith(f" bytes of GM; at most {OFFSET_MASK}")


@pytest.mark.parametrize("loop", [CopyLoop(1, -32, 32), CopyLoop(1, 32, -32)])
def test_a_single_row_that_steps_backwards_is_refused(loop: CopyLoop) -> None:
    """Whatever merging regions makes of it."""
    write = refusal(lambda k: k.data_copy_planes("GM", "UB", 0, gm_operand(0, 0), 32, loop, CopyLoop(2, 64, 64)))
    assert "moves no bytes, or steps backwards" in write

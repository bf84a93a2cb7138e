"""Loads of a cube kernel, and what L1 holds already."""

from __future__ import annotations

from ascend_sim.chip import load_chip
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.ops.kernels.cube.pipeline import HeldOperand


def test_what_l1_holds_is_not_loaded_again() -> None:
    k = KernelBuilder(InstructionTable(load_chip("ascend910b3")), 0, "AIC", [])
    operand = HeldOperand(k, "A1", 2, 1024)
    first = operand.begin("rows 0 to 3")
    operand.loaded()
    assert operand.begin("rows 0 to 3") is None and operand.address == first
    second = operand.begin("rows 4 to 7")
    assert second not in (None, first) and operand.loaded() == second

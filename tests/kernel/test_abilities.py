"""Copies of more rows, or of rows further apart, than one instruction of the chip holds."""

from __future__ import annotations

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.operands import CopyLoop
from ascend_sim.kernel.program import InstructionTable
from ascend_sim.memory.gm import OFFSET_MASK, gm_operand

pytestmark = pytest.mark.fast

GM = 1 << 34


def builder(chip: str = "ascend910b3") -> KernelBuilder:
    spec = load_chip(chip)
    return KernelBuilder(InstructionTable(spec), 0, next(iter(spec.cores.kinds)), [GM])


@pytest.mark.parametrize(
    ("rows", "stride", "instructions"),
    [
        (1, 0, 1),
        (4095, 64, 1),
        (4096, 64, 2),
        (5000, 64, 2),
        (3, 32 + 32 * 65535, 1),  # the largest gap of 16 bits
        (3, 64 + 32 * 65535, 3),
    ],
)
def test_rows_are_copied_by_as_few_instructions_as_halving_gives(rows: int, stride: int, instructions: int) -> None:
    """Every row lies where one copy would have it, in order."""
    k = builder()
    k.copy_rows("GM->L1", 64, gm_operand(0, 96), 32, CopyLoop(rows, stride, 32))
    places = []
    for view in (made := k.finish()):
        copy = view.instruction
        places += [
            ((view.src0 & OFFSET_MASK) + row * copy.src_stride, view.dst + row * copy.dst_stride) for row in range(copy.rows)
        ]
    assert len(made) == instructions
    assert places == [(96 + row * stride, 64 + row * 32) for row in range(rows)]


def test_one_row_that_no_instruction_holds_is_refused() -> None:
    with pytest.raises(SimError, match="len_burst counts 32-byte blocks; 40 bytes"):
        builder().copy_rows("GM->L1", 0, gm_operand(0, 0), 40, CopyLoop(3, 64, 64))


@pytest.mark.parametrize(("chip", "able"), [("ascend910b3", True), ("ascend910a", False), ("ascend310p3", False)])
def test_whether_a_chip_copies_a_part_of_a_block(chip: str, able: bool) -> None:
    assert builder(chip).can_copy("GM", "UB", 20) is able
    assert builder(chip).can_copy("GM", "UB", 64)

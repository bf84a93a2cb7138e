"""Accesses as the checks compare them."""

from __future__ import annotations

from ascend_sim.check.accesses import Shapes
from ascend_sim.chip import load_chip
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.program import InstructionTable

CHIP = load_chip("ascend910b3")


def test_regions_of_the_same_bytes_are_of_one_form() -> None:
    """However far the next row would be that there is not, and whether rows that touch are told as rows."""
    table, shapes = InstructionTable(CHIP), Shapes(CHIP)
    for rows, row_bytes, stride in ((1, 128, 128), (1, 128, 4096), (2, 64, 64), (2, 64, 96)):
        table.add((DataCopy, "GM", "UB", row_bytes, rows, stride, 128))
    _, forms, _ = shapes.of(table, "GM")
    assert forms.tolist() == [0, 0, 0, 1]

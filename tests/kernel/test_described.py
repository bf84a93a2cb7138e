"""Descriptions of instructions: one for all tables of a chip, and never one of other fields or of another chip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.described import described
from ascend_sim.kernel.program import InstructionTable

CHIP = load_chip("ascend910b3")
COPY = DataCopy, "GM", "UB", 64


def test_tables_of_a_chip_share_a_description() -> None:
    first, second = InstructionTable(CHIP), InstructionTable(CHIP)
    before = described.cache_info().misses
    assert first.add(COPY) == second.add(COPY) == 0
    assert described.cache_info().misses <= before + 1
    assert first.instructions[0] is second.instructions[0]
    assert [one.columns.tolist() for one in (first.touches, second.touches)] == [first.touches.columns.tolist()] * 2


def test_a_field_of_another_type_is_refused_beside_an_equal_one() -> None:
    table = InstructionTable(CHIP)
    table.add(COPY)
    with pytest.raises(SimError, match="a whole number is allowed"):
        InstructionTable(CHIP).add((*COPY[:3], 64.0))


def test_a_chip_of_the_same_name_has_its_own_costs() -> None:
    path = CHIP.paths["GM->UB"]
    other = CHIP.model_copy({"paths": CHIP.paths | {"GM->UB": replace(path, head=path.head + 100)}})
    here, there = InstructionTable(CHIP), InstructionTable(other)
    here.add(COPY), there.add(COPY)
    assert there.costs[0].head_first == here.costs[0].head_first + 100

"""The headline figures of docs/accuracy.md, computed again: what a user gets, told nothing of the measured rows."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ascend_sim.studies.validate.pages import Errors
from ascend_sim.studies.validate.rows import of_chips, shipped_rows
from ascend_sim.studies.validate.run import compare

PAGE = Path(__file__).resolve().parents[3] / "docs" / "accuracy.md"
OPERATORS = ("Conv2DBackpropFilter", "Conv2DBackpropInput")


@pytest.mark.parametrize("op_type", OPERATORS)
@pytest.mark.parametrize("chip", ["ascend910b2", pytest.param("ascend910b", marks=pytest.mark.slow)])
def test_the_headline_is_what_a_prediction_told_nothing_gives(chip: str, op_type: str) -> None:
    pattern = rf"\| {chip} \| {op_type} \| (\d+) \| ([\d.]+) \| ([-+\d.]+) \| [\d.]+ \| (\d+) of "
    written = re.search(pattern, PAGE.read_text(encoding="utf-8"))
    assert written is not None
    rows = [row for row in of_chips(shipped_rows(), [chip]) if row.kernel.op_type == op_type and not row.series]
    assert not any(name == "block_dim" for row in rows for name, _ in row.kernel.sizes)
    found = [one for one in compare(rows) if not one.prediction.skipped]
    errors = Errors.of([(one.prediction.task_us, one.row.duration_us) for one in found])
    assert errors is not None
    right = sum(one.row.cells["block_dim"] == str(one.prediction.blocks) for one in found)
    assert (f"{errors.rows}", f"{errors.mean:.1f}", f"{errors.bias:+.1f}", f"{right}") == written.groups()

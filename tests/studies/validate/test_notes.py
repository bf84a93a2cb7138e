"""Figures of single layers of the 910B2 in the notes on weaknesses (tools/accuracy_notes.yaml), computed again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from statistics import fmean

import pytest
import yaml

from ascend_sim.studies.validate.rows import MeasuredRow, of_chips, shipped_rows
from ascend_sim.studies.validate.run import RowComparison, compare
from tests.support.places import TOOLS
from tests.support.sampling import part_of_cases

NOTES = {
    (note["op_type"], note["quantity"]): " ".join(note["why"].split())
    for note in yaml.safe_load((TOOLS / "accuracy_notes.yaml").read_text(encoding="utf-8"))
    if note["chip"] == "ascend910b2" and "series" not in note
}


@cache
def compared(op_type: str, *sizes: tuple[str, int]) -> Sequence[RowComparison]:
    """The rows of the 910B2 that have these sizes."""
    asked = dict(sizes)

    def wanted(row: MeasuredRow) -> bool:
        of = row.kernel
        return of.op_type == op_type and all(of.get(name, 0) == size for name, size in asked.items())

    found = compare([row for row in of_chips(shipped_rows(), ["ascend910b2"]) if wanted(row)])
    assert found
    return found


def task(one: RowComparison) -> float:
    return one.error


def core(one: RowComparison) -> float:
    assert one.row.core_us
    return one.prediction.core_us / one.row.core_us - 1


def pipe(name: str) -> Callable[[RowComparison], float]:
    return lambda one: one.prediction.pipes[name] / one.row.pipes[name] - 1


@part_of_cases(2)
@pytest.mark.parametrize(
    ("op_type", "quantity", "said", "sizes", "measure", "percent"),
    [
        ("Conv2DBackpropFilter", "task", "the 13x13 layer is 9 % too slow", {"Hi": 13}, core, 9),
        ("Conv2DBackpropFilter", "task", "its loads to L1 31 % too fast", {"Hi": 13}, pipe("mte2"), -31),
        ("TransData", "task", "The first image (51 MB of padded output) is 42 % too fast", {"Hi": 224}, task, -42),
        ("TransData", "task", "Filters of 5 x 5 are 16 % too fast", {"kh": 5}, task, -16),
        ("TransData", "task", "of 11 x 11 3 % too fast", {"kh": 11}, task, -3),
    ],
)
def test_figures_of_single_layers(
    op_type: str, quantity: str, said: str, sizes: dict[str, int], measure: Callable[[RowComparison], float], percent: int
) -> None:
    assert said in NOTES[op_type, quantity]
    found = compared(op_type, *sizes.items())
    assert round(100 * fmean(measure(one) for one in found)) == percent

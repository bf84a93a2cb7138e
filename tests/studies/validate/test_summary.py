"""The verdict above the tables of `validate`."""

from __future__ import annotations

from io import StringIO

import pytest
from rich.console import Console

from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.run import Prediction, RowComparison
from ascend_sim.studies.validate.summary import MOST_GROUPS, ValidationSummary, render_summary


def compared(op_type: str, predicted: float, *, skipped: str = "", chip: str = "ascend910b3") -> RowComparison:
    """A row that took 10 us, with a prediction whose interval is 2 us to either side."""
    row = MeasuredRow(MeasuredKernel(chip, op_type, "fp16", ()), 10.0, None, {}, "", "", {})
    return RowComparison(row, Prediction(predicted, skipped=skipped, low_us=predicted - 2, high_us=predicted + 2))


@pytest.mark.fast
def test_the_verdict_by_hand() -> None:
    rows = [compared("Cast", 11.0), compared("MemSet", 7.0), compared("Cast", 9.0, chip="ascend910b2")]
    apart = [compared("DataCopy", 90.0), compared("Softmax", 80.0, skipped="unknown")]
    summary = ValidationSummary.of([*rows, *apart])
    assert summary is not None
    assert summary.to_dict() == {
        "task": {
            "rows": 3,
            "mean_pct": pytest.approx(50 / 3),
            "median_pct": pytest.approx(10),
            "bias_pct": pytest.approx(-10),
            "worst_pct": pytest.approx(-30),
        },
        "kernels": 3,
        "chips": 2,
        "inside_interval_pct": pytest.approx(200 / 3),
    }
    assert ValidationSummary.of(apart) is None


@pytest.mark.fast
def test_of_many_groups_those_furthest_off_are_shown() -> None:
    """Twenty groups fit on the first screen: the verdict, the worst groups, and where the rest is."""
    rows = [compared(f"Op{number}", 10.0 + number) for number in range(20)]
    printed = StringIO()
    render_summary(rows, Console(file=printed, width=100))
    lines = printed.getvalue().splitlines()
    assert len(lines) <= 15 and max(map(len, lines)) <= 100
    shown = [line.split()[1] for line in lines if line.startswith("ascend910b3")]
    assert shown == sorted(f"Op{number}" for number in range(20 - MOST_GROUPS, 20))
    assert lines[0].startswith("task time off by 95.0 %") and lines[-1] == "more: --full"

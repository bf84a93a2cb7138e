"""Errors and order of predicted times, by groups of rows."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.studies.validate.launch import MeasuredKernel, MeasuredRow
from ascend_sim.studies.validate.pages import Errors, blind, csv_text, group_by, skipped_lines, spearman
from ascend_sim.studies.validate.rows import read_rows, unknown_operator
from ascend_sim.studies.validate.run import Prediction, RowComparison, compare


def test_errors_by_hand() -> None:
    errors = Errors.of([(11.0, 10.0), (6.0, 10.0), (10.0, 10.0), (1.0, 0.0)])
    assert errors is not None
    assert errors.rows == 3
    assert (errors.mean, errors.median, errors.bias) == pytest.approx((50 / 3, 10.0, -10.0))
    assert Errors.of([]) is None


def test_spearman_by_hand() -> None:
    assert spearman([1, 2, 3], [10, 20, 15]) == pytest.approx(0.5)
    # ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: 1 - sum of products
    assert spearman([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(4.5 / (4.5 * 5) ** 0.5)
    assert spearman([1, 1], [1, 2]) is None


@pytest.mark.fast
def test_only_programs_that_set_no_cost_are_blind() -> None:
    """Rows of a series set a cost, and kernels of operators are no small programs."""

    def compared(op_type: str, series: str, predicted: float, skipped: str = "") -> RowComparison:
        row = MeasuredRow(MeasuredKernel("ascend910b3", op_type, "fp16", ()), 10.0, None, {}, series, "", {})
        return RowComparison(row, Prediction(predicted, skipped=skipped))

    errors = blind(
        [
            compared("DataCopy", "", 11.0),
            compared("VectorAdd", "", 8.0),
            compared("DataCopy", "fitted", 50.0),
            compared("ReduceSum", "", 90.0),
            compared("DataCopy", "", 70.0, "not here"),
        ]
    )
    assert errors is not None
    assert (errors.rows, errors.bias, errors.worst) == (2, pytest.approx(-5.0), pytest.approx(-20.0))
    assert blind([compared("DataCopy", "fitted", 50.0)]) is None


@pytest.mark.fast
def test_operators_without_a_kernel_are_counted_over_all_series() -> None:
    reason = unknown_operator("Sort")
    rows = [
        MeasuredRow(MeasuredKernel("ascend910b3", "Sort", "fp16", ()), 10.0, None, {}, series, reason, {})
        for series in ("first", "second", "second")
    ]
    (line,) = skipped_lines(group_by([RowComparison(row, Prediction(skipped=reason)) for row in rows]))
    assert line == "3 rows of ascend910b3 skipped, operators without a kernel here: Sort 3"


@given(st.lists(st.floats(0, 1e6), min_size=2, max_size=20, unique=True))
def test_spearman_sees_only_the_order(values: list[float]) -> None:
    assert spearman(values, [sorted(values).index(value) for value in values]) == pytest.approx(1)
    assert spearman(values, [-sorted(values).index(value) for value in values]) == pytest.approx(-1)


@pytest.mark.fast
def test_fewer_than_three_kernels_have_no_order() -> None:
    def rank(kernels: int) -> float | None:
        rows = [
            MeasuredRow(MeasuredKernel("ascend910b3", "K", "fp16", (("n", n),)), 10.0 + n, None, {}, "", "", {})
            for n in range(kernels)
        ]
        (group,) = group_by([RowComparison(row, Prediction(row.duration_us)) for row in rows], lambda one: "all")
        return group.rank

    assert (rank(2), rank(3)) == (None, pytest.approx(1))


@pytest.mark.fast
def test_groups_and_csv(rows_file: Path) -> None:
    compared = compare(read_rows(rows_file))
    filters, inputs = group_by(compared)
    assert (filters.op_type, inputs.op_type) == ("Conv2DBackpropFilter", "Conv2DBackpropInput")
    assert inputs.task is not None and filters.core is None and inputs.core is not None
    predicted = compared[0].prediction
    assert inputs.task.bias == pytest.approx(100 * (predicted.task_us - 10) / 10)
    assert inputs.core.bias == pytest.approx(100 * (predicted.core_us - 8) / 8)
    assert inputs.pipes["mac"].bias == pytest.approx(100 * (predicted.pipes["mac"] - 4) / 4)
    assert inputs.rank is None  # one kernel has no order
    table = list(csv.DictReader(io.StringIO(csv_text(compared))))
    assert [line["op_type"] for line in table] == ["Conv2DBackpropInput", "Conv2DBackpropFilter"]
    assert float(table[0]["predicted_us"]) == predicted.task_us
    assert float(table[0]["error_pct"]) == pytest.approx(inputs.task.bias, abs=0.01)

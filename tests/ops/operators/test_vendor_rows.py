"""Calls that reach the kernels of the vendor's unit-test rows launch them, with the tilings of those rows."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ascend_sim.calls.checks import tasks_of_call
from ascend_sim.chip import load_chip
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.runtime import Task
from tests.support.places import DATA

OPERATOR = OPERATORS["convolution_backward"]
ROWS = json.loads((DATA / "ut_tilings_arch22.json").read_text())["rows"]
CHIPS = {24: "ascend910b2", 20: "ascend910b3"}
OP_TYPES = {"grad_input": "Conv3DBackpropInputV2", "grad_weight": "Conv3DBackpropFilterV2"}


def launched(row: dict[str, Any]) -> Task:
    """The cube kernel that a call with a row's problem launches; its operands are in 16 bits as bfloat16."""
    p = ConvProblem(**row["problem"])
    dtype = {2: "bfloat16", 4: "float32"}[row["itemsize"]]
    shapes = {
        "grad_output": (p.n, p.c_out, p.d_out, p.h_out, p.w_out),
        "input": (p.n, p.c_in, p.d_in, p.h_in, p.w_in),
        "weight": (p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w),
    }
    attributes = {
        "stride": [p.stride_d, p.stride_h, p.stride_w],
        "padding": [p.pad_front, p.pad_up, p.pad_left],
        "dilation": [p.dilation_d, p.dilation_h, p.dilation_w],
        "transposed": False,
        "output_padding": [0, 0, 0],
        "groups": p.groups,
        "output_mask": [row["kernel"] == "grad_input", row["kernel"] == "grad_weight", False],
    }
    tensors = {name: {"shape": shape, "dtype": dtype} for name, shape in shapes.items()}
    case = OPERATOR.case.model_validate({"operator": OPERATOR.name, **tensors, **attributes})
    chip = load_chip(CHIPS[row["cores"]])
    _, tasks = tasks_of_call(case, chip, conformance="library", deterministic=row["deterministic"])
    return next(task for task in tasks if "Backprop" in task.op_type)


def even(row: dict[str, Any]) -> bool:
    p = ConvProblem(**row["problem"])
    return (p.pad_front, p.pad_up, p.pad_left) == (p.pad_back, p.pad_down, p.pad_right)


RUN = [
    row for row in ROWS if even(row) and row["fits"] and row["name"] != "Conv3ddx_whitebox_3"
]  # that one is a matrix product


@pytest.mark.parametrize("row", RUN, ids=[f"{row['kernel']}-{row['name']}" for row in RUN])
def test_a_call_has_the_tiling_of_its_row(row: dict[str, Any]) -> None:
    task = launched(row)
    expected = row.get("fields") or row.get("base_template") or {}
    got = task.info["tiling"]
    known = {field: value for field, value in expected.items() if field in got}
    assert len(known) >= 6 or not row["open_procedure"]
    assert {field: got[field] for field in known} == known
    if row["kernel"] == "grad_weight":
        assert (task.op_type, task.info["tiling_source"]) == ("Conv3DBackpropFilterV2", "vendor procedure")


def test_rows_reach_both_operators_of_grad_input() -> None:
    assert {launched(row).op_type for row in RUN if row["kernel"] == "grad_input"} == {
        "Conv3DBackpropInput",
        "Conv3DBackpropInputV2",
    }

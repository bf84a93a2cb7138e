"""The vendor's system-test problems through the whole operator: functional mode, profile `library`, every element correct.

Operand values are ours (seeded, uniform): much of the vendor's data is so small that zeros would pass its tolerance.
"""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from ascend_sim import conv_tbc_backward, convolution_backward
from ascend_sim.numerics import numpy_dtype
from tests.support.sampling import part_of_cases

DATA = Path(__file__).parents[1] / "checks" / "data"
MOST_OUTPUTS = 10_000_000
QUICK_WORK = 3e7
"""Multiplications of a row that the default suite runs; the others are marked slow."""


def _rows(name: str, operands: tuple[str, ...]) -> list[Any]:
    rows = []
    for case in json.loads((DATA / name).read_text())["cases"]:
        shapes = [case[key][0] for key in operands]
        if prod(case["input"][0]) + prod(case["weight"][0]) > MOST_OUTPUTS:
            continue
        per_output = prod(shapes[2]) // (shapes[2][2] if len(operands) == 4 else shapes[2][0])
        slow = prod(shapes[0]) * per_output > QUICK_WORK
        rows.append(pytest.param(case, id=f"{name[9:-5]}-{case['id']}", marks=[pytest.mark.slow] if slow else []))
    return rows


def _tensors(case: dict[str, Any], operands: tuple[str, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(crc32(str(case["id"]).encode()))
    return [rng.uniform(-2, 2, case[key][0]).astype(numpy_dtype(case[key][1])) for key in operands]


def _assert_correct(report: dict[str, Any]) -> None:
    assert report["findings"] == []
    wrong = {name: g for name, g in report["outputs"].items() if not g["correct"]}
    assert wrong == {}


@part_of_cases(3)
@pytest.mark.parametrize("case", _rows("cases_st_conv_backward.json", ("gradOutput", "input", "weight")))
def test_convolution_backward_row_is_correct(case: dict[str, Any]) -> None:
    grad_output, input, weight = _tensors(case, ("gradOutput", "input", "weight"))
    result = convolution_backward(
        grad_output,
        input,
        weight,
        case["biasSizes"],
        case["stride"],
        case["padding"],
        case["dilation"],
        case["transposed"],
        case["outputPadding"],
        case["groups"],
        case["outputMask"],
        cube_math_type=case["cubeMathType"],
        mode="functional",
        conformance="library",
    )
    assert [name in result.outputs for name in ("grad_input", "grad_weight", "grad_bias")] == case["outputMask"]
    _assert_correct(result.report.to_dict(statements=False))


@part_of_cases(24)
@pytest.mark.parametrize("case", _rows("cases_st_tbc.json", ("self", "input", "weight", "bias")))
def test_conv_tbc_backward_row_is_correct(case: dict[str, Any]) -> None:
    tensors = _tensors(case, ("self", "input", "weight", "bias"))
    result = conv_tbc_backward(
        *tensors, case["pad"], cube_math_type=case["cubeMathType"], mode="functional", conformance="library"
    )
    _assert_correct(result.report.to_dict(statements=False))

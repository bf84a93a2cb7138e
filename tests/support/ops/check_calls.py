"""Calls for the tests of the checks: table rows, good calls to start from, and a shorthand to run them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.product import load_product
from ascend_sim.ops.checks.rules import CheckResult
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from tests.support.places import DATA, TESTS

TABLES = DATA
OWN_TABLES = TESTS / "ops" / "checks" / "data"
LABEL = {3: "NCL", 4: "NCHW", 5: "NCDHW"}


def rows(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text(encoding="utf-8"))["cases"]


def row_tensor(entry: list[Any] | None) -> TensorArg | None:
    return None if entry is None else TensorArg(*entry)


def conv_row(row: dict[str, Any]) -> ConvBackwardCall:
    tensors = ("gradOutput", "input", "weight", "gradInput", "gradWeight", "gradBias")
    grad_output, x, weight, grad_input, grad_weight, grad_bias = (row_tensor(row[name]) for name in tensors)
    return ConvBackwardCall(
        grad_output,
        x,
        weight,
        row["biasSizes"],
        row["stride"],
        row["padding"],
        row["dilation"],
        row["transposed"],
        row["outputPadding"],
        row["groups"],
        row["outputMask"],
        row["cubeMathType"],
        grad_input,
        grad_weight,
        grad_bias,
    )


def tbc_row(row: dict[str, Any]) -> ConvTbcCall:
    tensors = [row_tensor(row[name]) for name in ("self", "input", "weight", "bias")]
    outputs = [row_tensor(row[name]) for name in ("gradInput", "gradWeight", "gradBias")]
    return ConvTbcCall(*tensors, row["pad"], row["cubeMathType"], *outputs)


def conv_call(
    grad_output: tuple[int, ...],
    x: tuple[int, ...],
    weight: tuple[int, ...],
    *,
    dtype: str = "float16",
    transposed: bool = False,
    groups: int = 1,
    **changes: Any,
) -> ConvBackwardCall:
    """A contiguous call with stride 1, no padding and every output, formats by rank; `changes` replace fields."""
    axes = len(weight) - 2
    channels = weight[1] * groups if transposed else weight[0]

    def tensor(shape: tuple[int, ...]) -> TensorArg:
        return TensorArg(shape, dtype, LABEL.get(len(shape), "ND"))

    call = ConvBackwardCall(
        tensor(grad_output),
        tensor(x),
        tensor(weight),
        (channels,),
        (1,) * axes,
        (0,) * axes,
        (1,) * axes,
        transposed,
        (0,) * axes,
        groups,
        (True, True, True),
        0,
        tensor(x),
        tensor(weight),
        TensorArg((channels,), dtype, "ND"),
    )
    return replace(call, **changes)


def tbc_call(*, time: int = 5, batch: int = 2, kernel: int = 3, pad: int = 1, dtype: str = "float16", **changes: Any):
    """A TBC call with 4 input and 6 output channels; `changes` replace fields."""
    x, weight, bias = (time, batch, 4), (kernel, 4, 6), (6,)
    shapes = [(time + 2 * pad - kernel + 1, batch, 6), x, weight, bias]
    tensors = [TensorArg(shape, dtype, "ND") for shape in shapes]
    return replace(ConvTbcCall(*tensors, pad, 0, *tensors[1:]), **changes)


def check(call: ConvBackwardCall | ConvTbcCall, product: str, conformance: str, deterministic: bool = False) -> CheckResult:
    name = "conv_tbc_backward" if isinstance(call, ConvTbcCall) else "convolution_backward"
    return OPERATORS[name].check(call, load_product(name, product), conformance, deterministic)


def status(call: ConvBackwardCall | ConvTbcCall, product: str = "910B", conformance: str = "documented", **options) -> int:
    return check(call, product, conformance, **options).status


def failed_rule(result: CheckResult) -> str | None:
    return next((rule for rule, verdict in result.trace if verdict == "fail"), None)


def with_dtype(tensor: TensorArg | None, dtype: str) -> TensorArg:
    assert tensor is not None
    return replace(tensor, dtype=dtype)

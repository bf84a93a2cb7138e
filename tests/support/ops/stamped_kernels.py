"""Kernels whose rows are stamped."""

from __future__ import annotations

from typing import Any

from hypothesis import assume

from ascend_sim import SimError
from ascend_sim.calls.cases import accept_case
from ascend_sim.chip import load_chip
from ascend_sim.ops.arguments import EIGHT_BIT
from ascend_sim.ops.operators.convolution_backward.case import ConvolutionBackwardCase
from ascend_sim.studies.tiles.kernel import CubeKernel


def kernel(name: str, chip: str, problem: dict[str, Any]) -> CubeKernel:
    """The cube kernel of a problem; one that the chip's operator refuses, or sends to another kernel, is no example."""
    p, spec = problem, load_chip(chip)
    deep, size = [p["depth"]] if p["depth"] else [], [p["size"]] * 2
    if p.get("signal"):
        deep, size = [], [p["signal"] + p["size"]]
    axes = len(deep) + len(size)
    case = {
        "operator": "convolution_backward",
        "input": {"shape": [p["n"], p["c_in"], *deep, *size], "dtype": p["dtype"]},
        "weight": {
            "shape": [p["c_out"], p["c_in"] // p["groups"], *[2] * len(deep), *[p["k"]] * len(size)],
            "dtype": p["dtype"],
        },
        "stride": [p["stride"] if axis >= len(deep) else 1 for axis in range(axes)],
        "padding": [p["pad"] if axis >= len(deep) else 0 for axis in range(axes)],
        "dilation": [1] * axes,
        "groups": p["groups"],
        "deterministic": p["deterministic"],
        "cube_math_type": p.get("cube_math_type", 0),
    }
    if p["dtype"] in EIGHT_BIT:  # which the library takes, of one gradient at a time
        case |= {"conformance": "library", "output_mask": [name == "grad_input", name == "grad_weight", False]}
    try:
        return CubeKernel.of(accept_case(ConvolutionBackwardCase.model_validate(case), spec), spec, name, "warm")
    except SimError:
        assume(False)
        raise

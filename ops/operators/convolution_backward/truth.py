"""Reference values of each gradient: its sums in float64, its numbers of products, and the roundings of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.convolution.reference import (
    grad_bias_reference,
    grad_input_reference,
    grad_weight_reference,
    products_per_element,
)
from ascend_sim.ops.convolution.reference_forward import conv_forward_reference
from ascend_sim.ops.operators.convolution_backward import matmul_routes

Array = NDArray[Any]


def products(call: ConvolutionCall) -> dict[str, int]:
    """Return gradient -> number of products in its longest sum, for all three gradients, wanted or not; for the bias gradient
    the number of addends.
    """
    p = call.problem
    counts = products_per_element(p)
    _, _, *size = call.volume("grad_output")
    return {
        "grad_input": p.c_in // p.groups * p.k_d * p.k_h * p.k_w if call.forward else counts["grad_input"],
        "grad_weight": counts["grad_weight"],
        "grad_bias": p.n * math.prod(size),
    }


def sums(
    call: ConvolutionCall, gradient: str, operands: Mapping[str, Array], inputs: Mapping[str, Array], *, absolute: bool = False
) -> tuple[Array, ...]:
    """Return (sum ab, sum (ab)^2) of one gradient in float64 and, with `absolute`, sum |ab|; of the bias gradient those of the
    plain addends.

    For an empty call all are zeros, but the sum of the bias gradient is `bias_when_empty`. `operands` are in the order of the
    problem, as the cube sees them or unrounded; the bias gradient reads `inputs`.
    """
    p = call.problem
    if call.empty:
        value = call.bias_when_empty if gradient == "grad_bias" else 0.0
        zeros = np.zeros(call.outputs[gradient].shape)
        return (zeros + value, zeros, zeros)[: 2 + absolute]
    if gradient == "grad_bias":
        return grad_bias_reference(inputs["grad_output"].reshape(call.volume("grad_output")), absolute=absolute)
    volumes = {name: operands[name].reshape(call.volume(name)) for name in ("grad_output", "input")}
    if gradient == "grad_weight":
        return grad_weight_reference(p, volumes[call.y], volumes[call.x], absolute=absolute)
    weight = operands["weight"].reshape(call.weight_volume)
    reference = conv_forward_reference if call.forward else grad_input_reference
    return reference(p, volumes["grad_output"], weight, absolute=absolute)


def computed_in(call: ConvolutionCall, gradient: str) -> str:
    """Return the dtype in which a gradient's operands are multiplied; for the bias gradient gradOutput's."""
    return call.inputs["grad_output"].dtype if gradient == "grad_bias" else matmul_routes.computed_in(call, gradient)


def roundings(call: ConvolutionCall, gradient: str) -> list[str]:
    """Return the dtypes to which a gradient's float32 sum is rounded on its way to the caller, in order; no dtype follows
    itself.
    """
    wanted = call.outputs[gradient].dtype
    route = matmul_routes.matmul_routes(call).get(gradient)
    if gradient == "grad_bias":
        steps = [call.inputs["grad_output"].dtype, wanted]
    elif route is not None:
        steps = ([] if gradient == "grad_weight" and route.out_dtype == "float32" else [route.out_dtype]) + [wanted]
    elif gradient == "grad_input":
        steps = [call.storage_dtype, wanted]
    else:
        grouped = call.conformance == "library" and call.problem.groups > 1 and call.storage_dtype != "float32"
        grouped = grouped and not call.family.layout.plain  # the trap is a TransData's
        steps = (["float16"] if grouped and wanted == "float32" else []) + [wanted]
    steps.insert(len(steps) - 1, call.held_dtype(gradient))
    return [step for index, step in enumerate(steps) if index == 0 or step != steps[index - 1]]

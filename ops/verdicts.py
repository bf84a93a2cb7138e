"""How good the gradients of a run are: each against float64 of its operands rounded to the compute dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import cast, check_correct, compare, round_to
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.reference import (
    grad_bias_reference,
    grad_input_reference,
    grad_weight_reference,
    products_per_element,
)
from ascend_sim.ops.reference_forward import conv_forward_reference

Array = NDArray[Any]


def judge(
    call: AcceptedCall, chip: ChipSpec, inputs: Mapping[str, Array], gradients: Mapping[str, Array]
) -> dict[str, Any]:
    """Verdict and errors of every gradient; arrays are the caller's, plain and in their own dtypes.

    BLAS on one thread: the same bits on every machine, and no thread waits for a busy core.
    """
    with threadpool_limits(limits=1, user_api="blas"):
        return _judge(call, chip, inputs, gradients)


def _judge(
    call: AcceptedCall, chip: ChipSpec, inputs: Mapping[str, Array], gradients: Mapping[str, Array]
) -> dict[str, Any]:
    p = call.problem
    shapes = {name: gradient.shape for name, gradient in gradients.items()}
    if call.axes is not None:  # TBC: see the caller's arrays in the order of the problem
        inputs = {name: _reordered(name, array, call.axes) for name, array in inputs.items()}
        gradients = {name: _reordered(name, array, call.axes) for name, array in gradients.items()}
    rounded = {name: _rounded(array, call, chip) for name, array in inputs.items()}
    weight = rounded["weight"].reshape(p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w)
    volumes = {name: rounded[name].reshape(call.volume(name)) for name in ("grad_output", "input")}
    products = products_per_element(p)
    _, _, *size = call.volume("grad_output")
    counts = {
        "grad_input": p.c_in // p.groups * p.k_d * p.k_h * p.k_w if call.transposed else products["grad_input"],
        "grad_weight": products["grad_weight"],
        "grad_bias": p.n * math.prod(size),
    }
    result = {}
    for name, gradient in gradients.items():
        if call.empty:
            value = call.bias_when_empty if name == "grad_bias" else 0.0
            total, squares = np.full(gradient.shape, value), np.zeros(gradient.shape)
        elif name == "grad_input":
            reference = conv_forward_reference if call.transposed else grad_input_reference
            total, squares = reference(p, volumes["grad_output"], weight)
        elif name == "grad_weight":
            total, squares = grad_weight_reference(p, volumes[call.y], volumes[call.x])
        else:
            total, squares = grad_bias_reference(inputs["grad_output"].reshape(call.volume("grad_output")))
        verdict = check_correct(
            gradient,
            total.reshape(gradient.shape),
            squares.reshape(gradient.shape),
            counts[name],
            roundings(call, name),
        )
        compute = call.inputs["grad_output"].dtype if name == "grad_bias" else call.compute_dtype
        metrics = compare(
            gradient, total.reshape(gradient.shape), dtype=call.outputs[name].dtype, compute_dtype=compute
        )
        result[name] = {
            "shape": list(shapes[name]),
            "dtype": call.outputs[name].dtype,
            "compute_dtype": compute,
            "correct": verdict.correct,
            "worst_error_over_bound": _finite(verdict.worst_error_over_bound),
            "max_abs_error": _finite(verdict.max_abs_error),
            "vendor_matched_ratio": metrics.vendor_matched_ratio,
        }
        if not verdict.correct:
            result[name]["wrong"] = verdict.wrong
            result[name]["first_wrong"] = verdict.to_dict()["first_wrong"]
    return result


def roundings(call: AcceptedCall, gradient: str) -> list[str]:
    """The formats that a gradient's fp32 sum is rounded to on its way out, in order."""
    wanted = call.outputs[gradient].dtype
    if gradient == "grad_bias":
        steps = [call.inputs["grad_output"].dtype, wanted]
    elif gradient == "grad_input":
        steps = [call.storage_dtype, wanted]
    else:
        grouped = call.conformance == "library" and call.problem.groups > 1 and call.storage_dtype != "float32"
        steps = (["float16"] if grouped and wanted == "float32" else []) + [wanted]
    return [step for index, step in enumerate(steps) if index == 0 or step != steps[index - 1]]


def _rounded(array: Array, call: AcceptedCall, chip: ChipSpec) -> Array:
    """An operand as the cube sees it."""
    if call.compute_dtype == "hf32":
        wide = np.asarray(array, np.float32)
        return round_to(wide, "hf32", mantissa_bits=chip.cube.hf32_mantissa_bits or 0)
    if call.compute_dtype == "float32":
        return np.asarray(array, np.float32)
    return cast(np.asarray(array, np.float32), call.compute_dtype)


def _reordered(name: str, array: Array, axes: tuple[int, ...]) -> Array:
    """A feature map [T, B, C] as [B, C, T], a weight [K, C_in, C_out] as [C_out, C_in, K], a bias as it is."""
    if array.ndim == 1:
        return array
    return array.transpose() if name in ("weight", "grad_weight") else array.transpose(axes)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

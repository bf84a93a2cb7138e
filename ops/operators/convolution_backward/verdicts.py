"""How good the gradients of a run are: each against float64 of its operands rounded to the compute dtype."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import Verdict, cast, check_correct, compare, decode, numpy_dtype, round_to
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operators.convolution_backward import matmul_routes
from ascend_sim.ops.operators.convolution_backward.reference import (
    grad_bias_reference,
    grad_input_reference,
    grad_weight_reference,
    products_per_element,
)
from ascend_sim.ops.operators.convolution_backward.reference_forward import conv_forward_reference
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]


def judge(
    call: AcceptedCall,
    chip: ChipSpec,
    inputs: Mapping[str, Array],
    gradients: Mapping[str, Array],
    model: ValueModel | None = None,
) -> dict[str, Any]:
    """Verdict and errors of every gradient; arrays are the caller's, plain, in their own dtypes or as 8-bit codes.

    BLAS on one thread: the same bits on every machine, and no thread waits for a busy core.
    """
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        return _judge(call, inputs, gradients, model or ValueModel.of(chip))


def _judge(
    call: AcceptedCall, inputs: Mapping[str, Array], gradients: Mapping[str, Array], model: ValueModel
) -> dict[str, Any]:
    shapes = {name: gradient.shape for name, gradient in gradients.items()}
    inputs = {name: numbers(array, call.inputs[name].dtype) for name, array in inputs.items()}
    inputs, gradients = in_problem_order(call, inputs), in_problem_order(call, gradients)
    seen: dict[str, Mapping[str, Array]] = {}
    result = {}
    for name, codes in gradients.items():
        gradient = typed(codes, call.outputs[name].dtype)
        compute = computed_in(call, name)
        if name != "grad_bias" and compute not in seen:
            seen[compute] = {key: operand(array, compute, model) for key, array in inputs.items()}
        total, squares, *_ = sums(call, name, seen.get(compute, inputs), inputs["grad_output"])
        verdict = verdict_of(call, name, gradient, total, squares, model)
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


def typed(array: Array, dtype: str) -> Array:
    """uint8 codes of an ml_dtypes format as that format (hifloat8 has no numpy dtype and stays codes)."""
    return array.view(numpy_dtype(dtype)) if array.dtype == np.uint8 else array


def numbers(array: Array, dtype: str) -> Array:
    """The values of a tensor: codes of an 8-bit format in float32, any other array as it is."""
    return decode(array, dtype) if array.dtype == np.uint8 else array


def in_problem_order(call: AcceptedCall, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The caller's arrays with their axes in the order of the problem (TBC has another)."""
    if call.axes is None:
        return dict(arrays)
    return {name: _reordered(name, array, call.axes) for name, array in arrays.items()}


def products(call: AcceptedCall) -> dict[str, int]:
    """Products that the longest sum of each gradient has, by name."""
    p = call.problem
    counts = products_per_element(p)
    _, _, *size = call.volume("grad_output")
    return {
        "grad_input": p.c_in // p.groups * p.k_d * p.k_h * p.k_w if call.transposed else counts["grad_input"],
        "grad_weight": counts["grad_weight"],
        "grad_bias": p.n * math.prod(size),
    }


def sums(
    call: AcceptedCall, gradient: str, operands: Mapping[str, Array], grad_output: Array, *, absolute: bool = False
) -> tuple[Array, ...]:
    """float64 sum ab and sum (ab)^2 of one gradient, and sum |ab| with `absolute`.

    `operands` are in the order of the problem and as the cube sees them (or unrounded); the bias takes `grad_output`.
    """
    p = call.problem
    if call.empty:
        value = call.bias_when_empty if gradient == "grad_bias" else 0.0
        zeros = np.zeros(call.outputs[gradient].shape)
        return (zeros + value, zeros, zeros)[: 2 + absolute]
    if gradient == "grad_bias":
        return grad_bias_reference(grad_output.reshape(call.volume("grad_output")), absolute=absolute)
    volumes = {name: operands[name].reshape(call.volume(name)) for name in ("grad_output", "input")}
    if gradient == "grad_weight":
        return grad_weight_reference(p, volumes[call.y], volumes[call.x], absolute=absolute)
    weight = operands["weight"].reshape(p.c_out, p.c_in // p.groups, p.k_d, p.k_h, p.k_w)
    reference = conv_forward_reference if call.transposed else grad_input_reference
    return reference(p, volumes["grad_output"], weight, absolute=absolute)


def verdict_of(
    call: AcceptedCall, name: str, gradient: Array, total: Array, weights: Array, model: ValueModel, *,
    absolute: bool = False,
) -> Verdict:  # fmt: skip
    """Is one gradient right? `total` and `weights` (sum (ab)^2, or sum |ab| with `absolute`) belong to its operands."""
    shaped = weights.reshape(gradient.shape)
    itemsize = int(numpy_dtype(_stored_as(computed_in(call, name))).itemsize)
    return check_correct(
        gradient,
        total.reshape(gradient.shape),
        shaped,
        products(call)[name],
        roundings(call, name),
        sum_abs=shaped if absolute else None,
        saturate=model.saturate or (name == "grad_input" and model.fixpipe_saturates(itemsize)),
    )


def computed_in(call: AcceptedCall, gradient: str) -> str:
    """The dtype whose values are multiplied or, for the bias, added."""
    return call.inputs["grad_output"].dtype if gradient == "grad_bias" else matmul_routes.computed_in(call, gradient)


def roundings(call: AcceptedCall, gradient: str) -> list[str]:
    """The formats that a gradient's fp32 sum is rounded to on its way out, in order."""
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
        grouped = grouped and "ncdhw_direct" not in call.routes  # the trap is a TransData's
        steps = (["float16"] if grouped and wanted == "float32" else []) + [wanted]
    steps.insert(len(steps) - 1, call.held_dtype(gradient))
    return [step for index, step in enumerate(steps) if index == 0 or step != steps[index - 1]]


def operand(array: Array, compute_dtype: str, model: ValueModel) -> Array:
    """One of the caller's arrays as the cube sees it when it multiplies in `compute_dtype`."""
    storage = _stored_as(compute_dtype)
    if storage == "hifloat8":  # which numpy has no dtype for
        return round_to(array, storage, saturate=model.saturate)
    if array.dtype != numpy_dtype(storage):
        array = cast(array, storage, saturate=model.saturate)
    if compute_dtype == "hf32":
        return round_to(array, "hf32", mantissa_bits=model.chip.cube.hf32_mantissa_bits or 0)
    return array


def _stored_as(compute_dtype: str) -> str:
    return "float32" if compute_dtype == "hf32" else compute_dtype


def _reordered(name: str, array: Array, axes: tuple[int, ...]) -> Array:
    """A feature map [T, B, C] as [B, C, T], a weight [K, C_in, C_out] as [C_out, C_in, K], a bias as it is."""
    if array.ndim == 1:
        return array
    return array.transpose() if name in ("weight", "grad_weight") else array.transpose(axes)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

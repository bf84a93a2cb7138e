"""How good the outputs of a run are: each against float64 of its operands rounded to the compute dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import cast, compare, decode, numpy_dtype, round_to
from ascend_sim.ops.call import AcceptedCall, stored_as
from ascend_sim.ops.operator import Operator
from ascend_sim.ops.sums import sums_of
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]


def judge(
    operator: Operator[Any, Any],
    call: AcceptedCall,
    chip: ChipSpec,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    model: ValueModel | None = None,
) -> dict[str, Any]:
    """Verdict and errors of every output; arrays are the caller's, plain, in their own dtypes or as 8-bit codes.

    BLAS on one thread: the number of cores changes no bit, and no thread waits for a busy one. The truth is a float64 matrix
    product of the host's BLAS, so that the last digits of the error figures may differ from CPU to CPU; outputs do so only in
    the accumulation model `blas`.
    """
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        return _judge(operator, call, inputs, outputs, model or ValueModel.of(chip))


def _judge(
    operator: Operator[Any, Any],
    call: AcceptedCall,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    model: ValueModel,
) -> dict[str, Any]:
    shapes = {name: array.shape for name, array in outputs.items()}
    inputs = {name: numbers(array, call.inputs[name].dtype) for name, array in inputs.items()}
    inputs, outputs = operator.in_problem_order(call, inputs), operator.in_problem_order(call, outputs)
    seen: dict[str, Mapping[str, Array]] = {}
    verdicts = {}
    for name, codes in outputs.items():
        dtype = call.outputs[name].dtype
        result, compute = typed(codes, dtype), operator.computed_in(call, name)
        if operator.summed(name) is None and compute not in seen:
            factors = {key: array for key, array in inputs.items() if key not in operator.added}
            seen[compute] = {key: operand(array, compute, model) for key, array in factors.items()}
        sums = sums_of(operator, call, name, seen.get(compute, inputs), inputs)
        total = sums.total
        verdict = operator.verdict(
            call, name, result, total, sums.weights, model, inputs=inputs, doubtful=sums.doubtful
        )
        metrics = compare(result, total.reshape(result.shape), dtype=dtype, compute_dtype=compute)
        verdicts[name] = {
            "shape": list(shapes[name]),
            "dtype": dtype,
            "compute_dtype": compute,
            "correct": verdict.correct,
            "worst_error_over_bound": _finite(verdict.worst_error_over_bound),
            "max_abs_error": _finite(verdict.max_abs_error),
            "vendor_matched_ratio": metrics.vendor_matched_ratio,
        }
        if not verdict.correct:
            verdicts[name]["wrong"] = verdict.wrong
            verdicts[name]["first_wrong"] = verdict.to_dict()["first_wrong"]
    return verdicts


def typed(array: Array, dtype: str) -> Array:
    """uint8 codes of an ml_dtypes format as that format (hifloat8 has no numpy dtype and stays codes)."""
    return array.view(numpy_dtype(dtype)) if array.dtype == np.uint8 else array


def numbers(array: Array, dtype: str) -> Array:
    """The values of a tensor: codes of an 8-bit format in float32, any other array as it is."""
    return decode(array, dtype) if array.dtype == np.uint8 else array


def operand(array: Array, compute_dtype: str, model: ValueModel) -> Array:
    """One of the caller's arrays as the cube sees it when it multiplies in `compute_dtype`."""
    storage = stored_as(compute_dtype)
    if storage == "hifloat8":  # which numpy has no dtype for
        return round_to(array, storage, saturate=model.saturate)
    if array.dtype != numpy_dtype(storage):
        array = cast(array, storage, saturate=model.saturate)
    if compute_dtype == "hf32":
        return round_to(array, "hf32", mantissa_bits=model.chip.cube.hf32_mantissa_bits or 0)
    return array


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

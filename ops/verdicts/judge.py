"""Verdicts on the outputs of a run: each output against float64 sums of the operands rounded to the compute dtype."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from ascend_sim.chip import ChipSpec
from ascend_sim.numerics import accumulation_bound, compare, rounded_bound
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operator import Operator, Sums
from ascend_sim.ops.verdicts.probe import Probe
from ascend_sim.ops.verdicts.sums import sums_of
from ascend_sim.ops.verdicts.values import numbers, operand, typed
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]
_CHUNK = 1 << 14  # elements per step: the temporaries stay in the cache


def judge(
    operator: Operator[Any, Any],
    call: AcceptedCall,
    chip: ChipSpec,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    model: ValueModel | None = None,
    probe: Probe | None = None,
) -> dict[str, Any]:
    """Return output -> {"correct", "shape", "dtype", "compute_dtype", "may_lose", "decided_by", "probe", error figures}.

    Arrays are the caller's, in their own dtypes or as 8-bit codes. The error figures are "worst_error_over_bound",
    "max_abs_error" (None if not finite), "vendor_matched_ratio" and, if elements are wrong, `Verdict.wrong_figures`.
    "decided_by" names the test with the last word: "bound" (the caller's data against float64) or "probe" (the programs
    run again on data that show every lost product). "may_lose" is how many products of mean size the bound may hide in
    its worst element. `probe` is the call that can be run again, or None; it runs here unless it refuses. `model` None:
    the chip's.

    BLAS runs on one thread, so that results do not depend on the number of cores. The float64 reference is a product of
    the host's BLAS: the last digits of the error figures may differ between CPUs, those of outputs only in the
    accumulation model `blas`.
    """
    with threadpool_limits(limits=1, user_api="blas"), np.errstate(over="ignore", invalid="ignore"):
        verdicts = _judge(operator, call, inputs, outputs, model or ValueModel.of(chip))
    return _with_probe(verdicts, probe)


def _with_probe(verdicts: dict[str, Any], probe: Probe | None) -> dict[str, Any]:
    """Add "decided_by" and "probe" to each of `verdicts`, in place, and return them; runs the probe unless it refuses.

    A verdict that was correct becomes wrong if the probe of its output fails. A wrong one stays so, decided by "bound".
    """
    blind = max((figures["may_lose"] for figures in verdicts.values()), default=0.0)
    reason = "the outputs alone cannot be computed again" if probe is None else probe.refused(blind)
    found = probe.run() if probe is not None and reason is None else {}
    for name, figures in verdicts.items():
        if name not in found:
            figures |= {"decided_by": "bound", "probe": {"ran": False, "why": reason}}
            continue
        figures |= {"decided_by": "probe" if figures["correct"] else "bound", "probe": found[name].to_dict()}
        if figures["correct"] and not found[name].correct:
            figures |= {"correct": False, "wrong": found[name].wrong, "first_wrong": figures["probe"]["first_wrong"]}
    return verdicts


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
        verdict = operator.verdict(call, name, result, sums, model, inputs=inputs)
        metrics = compare(result, sums.total.reshape(result.shape), dtype=dtype, compute_dtype=compute)
        verdicts[name] = {
            "shape": list(shapes[name]),
            "dtype": dtype,
            "compute_dtype": compute,
            "correct": verdict.correct,
            "worst_error_over_bound": _finite(verdict.worst_error_over_bound),
            "max_abs_error": _finite(verdict.max_abs_error),
            "vendor_matched_ratio": metrics.vendor_matched_ratio,
            "may_lose": may_lose(operator, call, name, sums),
        }
        verdicts[name] |= verdict.wrong_figures()
    return verdicts


def may_lose(operator: Operator[Any, Any], call: AcceptedCall, output: str, sums: Sums) -> float:
    """Return how many products could be missing from an output's worst element while its error stays within the bound.

    A product counts as of mean size: the root of the mean square of that element's products. Rounded to hundredths; 0.0
    if no element is finite and has products other than 0.
    """
    count = operator.products(call)[output]
    exact_terms, roundings = operator.summed(output) is not None, operator.roundings(call, output)
    flat_total, flat_weights, most = sums.total.reshape(-1), sums.weights.reshape(-1), 0.0
    for start in range(0, flat_total.size, _CHUNK):
        total, weights = flat_total[start : start + _CHUNK], flat_weights[start : start + _CHUNK]
        seen = np.isfinite(total) & (weights > 0)
        total, weights = total[seen], weights[seen]
        bound = rounded_bound(total, accumulation_bound(total, weights, count, exact_terms=exact_terms), roundings)
        most = max(most, float((bound / np.sqrt(weights / count)).max(initial=0.0)))
    return round(most, 2)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None

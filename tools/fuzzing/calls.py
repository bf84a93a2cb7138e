"""Whole calls: each is refused for a reason or gives the right result, in every mode and in both engines."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import ascend_sim
from ascend_sim import AclnnError, Result, SimError
from ascend_sim.engine.timeline import Timeline
from fuzzing.drawing import EIGHT_BIT, IMPORTS, DrawnCall, draw
from fuzzing.oracle import DIGITS, numbers, rounded
from fuzzing.outcome import FuzzOutcome

Array = NDArray[Any]
LABELS = ("operator", "chip", "mode", "data", "ended in")
SECONDS = 20.0
STATUSES = (161001, 161002, 561103)
"""Statuses with which the operators refuse a call."""
NAMES = {"ascend_sim": ascend_sim, "ml_dtypes": ml_dtypes, "np": np}


def line(seed: int, index: int) -> str:
    """The call as one line for a shell, which prints its report."""
    return shell(draw(seed, index))


def shell(call: DrawnCall) -> str:
    """A call as one line for a shell."""
    text = f"{IMPORTS}; print(({call.python()}).report)"
    quoted = text.replace("'", "'\"'\"'")
    return f"python -c '{quoted}'"


def run(seed: int, index: int) -> FuzzOutcome:
    """Make call `index` of `seed` and judge what it gives."""
    return judge(draw(seed, index))


def judge(call: DrawnCall) -> FuzzOutcome:
    """Make a call and compare all that it gives with what it should."""
    labels = (call.operator, call.option("chip"), call.option("mode"), call.data)
    tensors: dict[str, Any] = {}
    try:
        tensors = {name: eval(text, NAMES) for name, text in call.tensors.items()}
        others = {name: eval(text, NAMES) for name, text in (call.attributes | call.options).items()}
    except Exception as error:  # the text itself is no Python: a mistake of the fuzzer
        return FuzzOutcome((*labels, "text"), f"not to be evaluated: {type(error).__name__}: {error}")
    function = getattr(ascend_sim, call.operator)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the host's arithmetic on infinities
            result = function(**tensors, **others)
            wrong = wrong_result(call, tensors, result)
            if wrong is None and call.both:
                other = "compiled" if others.get("engine") == "simpy" else "simpy"
                again = function(**tensors, **(others | {"mode": "timing", "engine": other, "timeline": True, "probe": False}))
                wrong = wrong_engine(result, again)
    except AclnnError as error:
        known = error.status in STATUSES and error.message
        return FuzzOutcome((*labels, str(error.status)), None if known else f"status {error.status}: {error.message}")
    except SimError as error:
        expected = call.data == "none" or {"tiling", "block_dim"} & call.options.keys()
        return FuzzOutcome(
            (*labels, type(error).__name__), None if expected and str(error) else f"{type(error).__name__}: {error}"
        )
    except Exception as error:
        return FuzzOutcome((*labels, "exception"), f"{type(error).__name__}: {error}")
    return FuzzOutcome((*labels, "0"), wrong)


def wrong_result(call: DrawnCall, tensors: dict[str, Any], result: Result) -> str | None:
    """Return the fault of a run, None without one."""
    if result.findings:
        return f"finding: {result.findings[0]}"
    if result.report.mode != "functional" and not (result.report.total_us or 0) >= 0:
        return f"takes {result.report.total_us} us"
    if call.data == "none" or result.report.mode == "timing":
        return None
    if call.data in ("normal", "special") and not result.report.passed:
        return f"verdict: {result.report.outputs}"
    if call.data == "special":
        return None
    for name, array in result.outputs.items():
        if wrong := wrong_output(call, tensors, name, array, result.dtypes[name]):
            return f"{name}: {wrong}"
    return None


def wrong_engine(first: Result, second: Result) -> str | None:
    """Return the difference between the times of two engines, None without one."""
    if first.report.total_us != second.report.total_us:
        return f"engines: {first.report.total_us} and {second.report.total_us} us"
    if first.timeline is None or second.timeline is None:
        return None
    for (name, one), (_, other) in zip(_columns(first.timeline), _columns(second.timeline), strict=True):
        if not np.array_equal(one, other):
            return f"engines: {name} differs"
    return None


def _columns(timeline: Timeline) -> list[tuple[str, Any]]:
    """All that a timeline says, by name."""
    columns: list[tuple[str, Any]] = [
        (f"launch, begin, finish of task {index}", (task.launch, task.begin, task.finish))
        for index, task in enumerate(timeline.tasks)
    ]
    for index, run in enumerate(timeline.programs):
        columns.append((f"core and span of program {index}", (run.core, run.begin, run.finish, run.queue_full)))
        for name in ("start", "end", "retire", "stall", "cause", "l2_wait", "hbm_wait", "l2_hits", "l2_misses", "hbm_bytes"):
            columns.append((f"{name} of program {index}", getattr(run, name)))
    return columns


def _sums(call: DrawnCall, tensors: dict[str, Any], output: str, absolute: bool) -> Array:
    """float64 sums of an output, or of the sizes of their products; the bias of a forward convolution included."""
    values = {}
    for name, tensor in tensors.items():
        if tensor is not None:
            wide = numbers(np.asarray(tensor), call.dtype)
            wide = np.abs(wide) if absolute else wide
            values[name] = wide.transpose(call.turn[name]) if name in call.turn else wide
    if output == "grad_bias":
        gradient: Array = values.get("grad_output", values.get("self"))
        return gradient.sum(axis=(0, *range(2, gradient.ndim)))
    by_role = {role: values[name] for name, role in call.roles.items()}
    missing = ({"x", "y", "w"} - by_role.keys()) or {call.roles[output.removeprefix("grad_")]}
    (by,) = missing
    shape = _output_shape(call, by, by_role) if by not in by_role else by_role[by].shape
    made = call.link.derivative(
        by, **({"x": by_role.get("x"), "y": by_role.get("y"), "w": by_role.get("w")} | {by: np.zeros(shape)})
    )
    if output == "output" and "bias" in values:
        made = made + values["bias"].reshape(1, -1, *(1,) * (made.ndim - 2))
    if call.operator == "conv_tbc_backward":
        made = made.transpose(np.argsort(call.turn[output.removeprefix("grad_")]))
    return made


def _output_shape(call: DrawnCall, by: str, given: dict[str, Array]) -> tuple[int, ...]:
    """Extents of what a forward convolution makes."""
    link, w = call.link, given["w"]
    reach = [d * (k - 1) + 1 for d, k in zip(link.dilation, w.shape[2:], strict=True)]
    padding = eval(call.attributes["padding"])
    uneven = len(padding) > len(link.low)
    highs = padding[1::2] if uneven else padding
    if by == "y":
        x = given["x"]
        axes = zip(x.shape[2:], link.low, highs, reach, link.stride, strict=True)
        return (len(x), len(w), *((size + low + high - r) // s + 1 for size, low, high, r, s in axes))
    y, rest = given["y"], eval(call.attributes["output_padding"])
    sizes = zip(y.shape[2:], link.low, highs, reach, link.stride, rest, strict=True)
    pixels = ((size - 1) * s - low - high + r + more for size, low, high, r, s, more in sizes)
    return (len(y), w.shape[1] * link.groups, *pixels)


def wrong_output(call: DrawnCall, tensors: dict[str, Any], name: str, array: Array, dtype: str) -> str | None:
    """Return the fault of an output, its shape, or elements that no way to add and round gives; None without one."""
    wanted, sizes = (_sums(call, tensors, name, absolute) for absolute in (False, True))
    if array.shape != wanted.shape:
        return f"shape {array.shape}, not {wanted.shape}"
    found = numbers(array, dtype)
    if dtype in EIGHT_BIT:
        slack = _slack(call, sizes)
        bad = ~((rounded(wanted - slack, dtype) <= found) & (found <= rounded(wanted + slack, dtype)))
    elif call.data == "integers":
        bad = ~_near_integers(call, found, wanted, sizes, dtype)
    else:
        bad = ~(np.abs(found - wanted) <= _bound(call, sizes, dtype))
    if not bad.any():
        return None
    at = tuple(int(place[0]) for place in np.nonzero(bad))
    return f"{bad.sum()} of {bad.size} elements wrong, the first {list(at)}: {found[at]} and not {wanted[at]}"


def _digits(call: DrawnCall, dtype: str) -> int:
    """Binary digits of the narrowest format that a number may pass on its way."""
    math_type = int(call.options["cube_math_type"])
    narrow = 24 if math_type == 0 else 11
    return min(DIGITS.get(call.dtype, 24), DIGITS[dtype], narrow)


def _near_integers(call: DrawnCall, found: Array, wanted: Array, sizes: Array, dtype: str) -> Array:
    """Whole numbers that the narrowest format holds in any order of sums are exact; larger ones within its roundings."""
    digits = _digits(call, dtype)
    return np.where(sizes <= 2.0**digits, found == wanted, np.abs(found - wanted) <= 2.0 ** (1 - digits) * sizes)


def _slack(call: DrawnCall, sizes: Array) -> Array:
    """Return the distance that a float32 sum may have from the exact one before its only rounding to 8 bits.

    Operands that were float32 may have been narrowed, and 2^9 products are summed; whole numbers are exact while they fit.
    """
    digits = _digits(call, "float32")
    operands = 2.0 ** (1 - digits) if call.dtype == "float32" and digits < 24 else 0.0
    exact = (call.data == "integers") & (sizes <= 2.0**digits)
    return np.where(exact, 0.0, (operands + 2.0**9 * 2.0**-24) * sizes)


def _bound(call: DrawnCall, sizes: Array, dtype: str) -> Array:
    """A bound that holds whatever the order: both operands and up to three results rounded, float32 sums of 2^9 products."""
    relative = 5 * 2.0 ** -_digits(call, dtype) + 2.0**9 * 2.0**-24
    return relative * sizes + 2.0**-22

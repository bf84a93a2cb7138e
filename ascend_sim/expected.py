"""Expected outputs of a kernel, and the verdict on them, by the same bounds as for gradients (`numerics.check_correct`)."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen
from ascend_sim.host import one_thread
from ascend_sim.numerics import Verdict, check_correct, decode, vendor_matched_ratio
from ascend_sim.numerics.integers import INTEGERS
from ascend_sim.runtime import ValueModel

Array = NDArray[Any]


@frozen(eq=False)
class Expected:
    """The right values of an output in float64, and the largest error that a working machine may make.

    An element may be off by half an ULP of the output's format plus 4 u sqrt(`products`) (|value| + `magnitude`) plus
    `products` q. u is half an ULP of 1 in `precision`, the format in which the kernel rounds on its way, q half its smallest
    positive value. `products` is how many terms an element sums up, `magnitude` the root of the sum of their squares (an array
    like `values`, or a number): the loss of a sum that cancels. The bound is that of the gradients
    (`numerics.accumulation_bound`): one wrong term fails. An output of integers must be equal instead.

    With `rtol` or `atol` an element may be off by atol + rtol |value| instead, as in numpy.allclose; one left out is 0. Raises
    SimError for a tolerance that is not a finite number from 0, or beside `magnitude`, `products` or `precision`.
    """

    values: ArrayLike
    magnitude: ArrayLike = 0.0
    products: float = 1
    precision: str = "float32"
    rtol: float | None = None
    atol: float | None = None

    def __post_init__(self) -> None:
        for name, given in (("rtol", self.rtol), ("atol", self.atol)):
            if given is None:
                continue
            if isinstance(given, bool) or not isinstance(given, Real) or not 0 <= given < math.inf:
                raise SimError(f"Expected: {name} is {given!r}; allowed is a finite number from 0")
            if np.any(np.asarray(self.magnitude)) or self.products != 1 or self.precision != "float32":
                raise SimError(f"Expected: {name} replaces the bound of magnitude, products and precision: give either")

    @classmethod
    def product(cls, left: ArrayLike, right: ArrayLike) -> Expected:
        """Return the expectation of the product of [..., m, k] and [..., k, n], summed in float32 by a cube."""
        a, b = (np.asarray(side).astype(np.float64) for side in (left, right))
        with one_thread():
            return cls(a @ b, np.sqrt(a**2 @ b**2), a.shape[-1])


_SMALL = 2.0**-8
"""Error, as a share of the largest value, below which an error may come from the roundings of a sum."""
Expectations = ArrayLike | Expected | Mapping[str, ArrayLike | Expected]
"""Expected outputs of a kernel: a value for its only output, or a mapping by the outputs' names."""


def read_expectations(
    expected: Expectations | Callable[..., Expectations], inputs: Mapping[str, Any], outputs: Mapping[str, Array]
) -> dict[str, Expected]:
    """Return {output: Expected} for the outputs that `expected` names; if it is a function, it is called with the `inputs`,
    arrays and numbers, that its parameters name. "x" names the list of "x[0]", "x[1]" among inputs and outputs; outputs behind
    the end of a shorter list of values have none.

    Raises SimError for names and shapes that the kernel does not have, for a bare value unless it has one output, and for
    anything but arrays of numbers.
    """
    if callable(expected):
        expected = expected(**arguments_of(expected, with_lists(inputs)))
    if not isinstance(expected, Mapping):
        if len(outputs) != 1:
            raise SimError(
                f"expected: {_kind(expected)} for {len(outputs)} outputs; give a dict by their names: "
                f"{', '.join(outputs) or 'none'}"
            )
        expected = {next(iter(outputs)): expected}
    wanted = {}
    for name, value in _by_output(expected, outputs).items():
        if name not in outputs:
            raise SimError(f"expected: no output {name!r}; the kernel has {', '.join(outputs) or 'none'}")
        one = value if isinstance(value, Expected) else Expected(value)
        if isinstance(value, tuple) or not _holds_numbers(one.values):  # a tuple: what a function for several outputs returns
            raise SimError(
                f"expected: {_kind(one.values)} for {name}; allowed are an array of numbers, an Expected, or a dict of them by "
                f"the outputs' names"
            )
        shape = np.shape(one.values)
        if shape != outputs[name].shape:
            raise SimError(f"expected: {name} has shape {list(shape)}; the output has {list(outputs[name].shape)}")
        wanted[name] = one
    return wanted


def _by_output(expected: Mapping[str, Any], outputs: Mapping[str, Array]) -> dict[str, Any]:
    """Return {output: its expected value}, with the values of a list of outputs each by its own name.

    Raises SimError for one value where a list of them belongs.
    """
    lists = {name for name in with_lists(outputs) if name not in outputs}
    found = {name: value for name, value in expected.items() if name not in lists}
    for name in sorted(lists & expected.keys()):
        if not np.iterable(expected[name]):
            raise SimError(f"expected: {_kind(expected[name])} for {name}, a list of outputs; give a list with one for each")
    return found | {f"{name}[{n}]": one for name in lists & expected.keys() for n, one in enumerate(expected[name])}


def with_lists(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors by name, and beside them {"x": [x[0], x[1], ...]} for each list of tensors."""
    found = dict(tensors)
    for name, value in tensors.items():
        if name.endswith("]"):
            found.setdefault(name.partition("[")[0], []).append(value)
    return found


def _holds_numbers(values: Any) -> bool:
    """Return True if numpy reads the values as real numbers; "V" is the kind of the formats that ml_dtypes adds."""
    try:
        return np.asarray(values).dtype.kind in "biufV"
    except (TypeError, ValueError):  # rows of several lengths, for example
        return False


def _kind(given: object) -> str:
    return "None" if given is None else f"a value of type {type(given).__name__}"


def arguments_of(function: Callable[..., Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return those inputs that the parameters of `function` name; all of them if it takes `**`.

    Raises SimError for a parameter without default that is not an input, and for a function that does not show its parameters.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some of those that are written in C
        raise SimError(f"expected: {function!r} does not show its parameters; give a Python function") from None
    rest = [one for one in parameters if one.kind is one.VAR_KEYWORD]
    needed = [one.name for one in parameters if one.default is one.empty and one not in rest]
    missing = [name for name in needed if name not in inputs]
    if missing:
        raise SimError(f"expected: it asks for {', '.join(missing)}; inputs of the kernel are {', '.join(inputs) or 'none'}")
    if rest:
        return dict(inputs)
    return {parameter.name: inputs[parameter.name] for parameter in parameters if parameter.name in inputs}


def judge_outputs(
    wanted: Mapping[str, Expected], outputs: Mapping[str, Array], dtypes: Mapping[str, str], model: ValueModel
) -> dict[str, dict[str, Any]]:
    """Return {output: its entry in `Report.outputs`, the verdict and the errors} for every output that `wanted` has.

    `dtypes` names the outputs' formats.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: _judge(one, outputs[name], dtypes[name], model) for name, one in wanted.items()}


def _judge(wanted: Expected, output: Array, dtype: str, model: ValueModel) -> dict[str, Any]:
    figures: dict[str, Any] = {"shape": list(output.shape), "dtype": dtype, "compute_dtype": wanted.precision}
    reference = np.asarray(wanted.values).astype(np.float64)
    if dtype in INTEGERS:
        off = np.abs(output.astype(np.float64) - reference)
        same = np.asarray(output == np.asarray(wanted.values))  # float64 does not hold all of 64 bits
        off[~same] = np.maximum(off[~same], np.finfo(np.float64).tiny)
        verdict = Verdict.of(output.astype(np.float64), reference, off, _tolerance(wanted, reference))
        return figures | {"compute_dtype": dtype} | _summary(verdict) | {"vendor_matched_ratio": None} | verdict.wrong_figures()
    values = decode(output, dtype) if output.dtype == np.uint8 else output
    matched = {"vendor_matched_ratio": vendor_matched_ratio(values, reference, dtype)}
    if wanted.rtol is not None or wanted.atol is not None:
        wide = values.astype(np.float64)
        equal = (wide == reference) | (np.isnan(wide) & np.isnan(reference))
        verdict = Verdict.of(wide, reference, np.where(equal, 0.0, np.abs(wide - reference)), _tolerance(wanted, reference))
        return figures | _summary(verdict) | matched | verdict.wrong_figures()
    squares = np.broadcast_to(np.square(np.asarray(wanted.magnitude, np.float64)), reference.shape)
    verdict = check_correct(
        output, reference, squares, wanted.products, [dtype], precision=wanted.precision, saturate=model.saturate
    )
    if wanted.products == 1 and not squares.any() and verdict.max_abs_error < _SMALL * np.abs(reference).max(initial=0.0):
        figures["bound"] = "rounding"
    return figures | _summary(verdict) | matched | verdict.wrong_figures()


def _tolerance(wanted: Expected, reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the largest allowed error of each element: atol + rtol |reference|; 0 for an infinite or NaN reference."""
    return np.where(np.isfinite(reference), (wanted.atol or 0.0) + (wanted.rtol or 0.0) * np.abs(reference), 0.0)


def _summary(verdict: Verdict) -> dict[str, Any]:
    plain = verdict.to_dict()
    return {name: plain[name] for name in ("correct", "worst_error_over_bound", "max_abs_error")}

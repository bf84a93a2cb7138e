"""Predicates that rules of several operators share; each gives None or a Failure that names argument, value and limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.product import ProductProfile, ProductSpec, ValueRange
from ascend_sim.ops.checks.rules import Failure, fail, show
from ascend_sim.ops.status import Status


class CallFacts:
    """Facts of one call and its product's limits in the profile `conformance`, for the rules; `warnings` gets the rules' own.

    Raises ConfigError for an unknown profile. A rule may read tensors after the rule on null pointers.
    """

    def __init__(self, call: Any, spec: ProductSpec, conformance: str, deterministic: bool = False) -> None:
        self.call, self.spec, self.conformance, self.deterministic = call, spec, conformance, deterministic
        self.profile = spec.profile(conformance)
        self.warnings: list[str] = []

    def has(self, trait: str) -> bool:
        """Return True if the product has the trait `trait` in the call's profile (configs/operators)."""
        return trait in self.profile.traits

    def supported(self) -> Failure | None:
        """Return a failure (161002) if the product does not support the operator in the call's profile, else None."""
        supported = self.profile.supported
        return None if supported.value else fail(f"product {self.spec.product}: {supported.source}")

    def computed(self, promoted: str | None) -> Failure | None:
        """Return a failure, with its status in the product's table, if cubeMathType does not fit inputs of dtype `promoted`;
        else None. A warning of the table goes to `warnings`.
        """
        choice = self.spec.compute_dtype(promoted, self.call.cube_math_type, self.conformance)
        if choice.warning:
            self.warnings.append(choice.warning)
        if choice.status == Status.SUCCESS:
            return None
        value = f"cubeMathType = {show(self.call.cube_math_type)}"
        return fail(f"{value} with {promoted} inputs on {self.spec.product}: not supported; {choice.source}", choice.status)


def known(tensor: TensorArg | None) -> TensorArg:
    """Return the tensor; AssertionError if it is null, which an earlier rule refuses: a defect of the rule list."""
    if tensor is None:
        raise AssertionError("a rule on tensors ran before the rule on null pointers")
    return tensor


def first_failure(failures: Iterable[Failure | None]) -> Failure | None:
    """Return the first failure among `failures`, an iterable that is read no further; None without one."""
    return next((failure for failure in failures if failure is not None), None)


def not_null(arguments: Iterable[tuple[str, Any]]) -> Failure | None:
    """Return a failure (161001) for the first of the (name, value) that is a null pointer; None without one."""
    return first_failure(
        fail(f"{name} is a null pointer", Status.PARAM_NULLPTR) if value is None else None for name, value in arguments
    )


def no_negative_dimension(tensors: Iterable[tuple[str, TensorArg]]) -> Failure | None:
    """Return a failure (161002) for the first tensor with a dimension below 0; None without one."""
    return first_failure(
        fail(f"{name} has shape {show(tensor.shape)}: every dimension must be at least 0")
        if min(tensor.shape, default=0) < 0
        else None
        for name, tensor in tensors
    )


def of_dtype(name: str, tensor: TensorArg, allowed: list[str]) -> Failure | None:
    """Return a failure (161002) if the tensor's dtype is not in `allowed`, else None."""
    if tensor.dtype in allowed:
        return None
    return fail(f"{name} has dtype {show(tensor.dtype)}: allowed are {', '.join(allowed)}")


def same_dtype(name: str, tensor: TensorArg | None, model_name: str, model: TensorArg) -> Failure | None:
    """Return a failure (161002) if the tensor's dtype is not that of `model`; None if it is, or for a null tensor."""
    if tensor is None or tensor.dtype == model.dtype:
        return None
    return fail(f"{name} has dtype {show(tensor.dtype)}: it must be that of {model_name}, {model.dtype}")


def same_shape(name: str, tensor: TensorArg | None, shape: tuple[int, ...], reason: str) -> Failure | None:
    """Return a failure (161002) if the tensor's shape is not `shape`; None if it is, or for a null tensor."""
    if tensor is None or tensor.shape == shape:
        return None
    return fail(f"{name} has shape {show(tensor.shape)}: it must be {show(shape)}, {reason}")


def at_least(name: str, value: int, limit: int) -> Failure | None:
    """Return a failure (161002) if `value` is below `limit`, else None."""
    return None if value >= limit else fail(f"{name} = {show(value)}: it must be at least {limit}")


def each_at_least(name: str, values: tuple[int, ...], limit: int) -> Failure | None:
    """Return a failure (161002) if one of `values` is below `limit`, else None; None for no values."""
    if min(values, default=limit) >= limit:
        return None
    return fail(f"{name} = {show(values)}: every value must be at least {limit}")


def in_range(
    profile: ProductProfile, rank: int, transposed: bool, values_of: Callable[[ValueRange], tuple[int, ...]]
) -> Failure | None:
    """Return a failure (161002) for the first value outside a range that the profile has for this rank and direction,
    else None.

    `values_of(range)` returns the call's values of the argument that the range limits.
    """
    for limit in profile.ranges:
        if rank not in limit.ranks or limit.transposed not in (None, transposed):
            continue
        values = values_of(limit)
        outside = [value for value in values if not limit.min <= value <= limit.max]
        if outside:
            what = f"{limit.argument} = {show(values[0])}"
            if len(values) > 1:
                what = f"{limit.argument} holds {show(outside[0])} (in {show(values)})"
            return fail(f"{what}: allowed is [{limit.min}, {limit.max}]; {limit.source}")
    return None


def convolution_in_range(c: CallFacts, rank: int, weight: tuple[int, ...]) -> Failure | None:
    """Return the failure of `in_range`, or None, for a convolution whose input has `rank` dimensions and whose weight has the
    shape `weight`.

    A range with `axes` "plane" leaves out the depth of 3-D and the first two dimensions of the weight.
    """

    def values_of(limit: ValueRange) -> tuple[int, ...]:
        if limit.argument == "groups":
            return (c.call.groups,)
        is_weight = limit.argument == "weight"
        values = weight if is_weight else getattr(c.call, limit.argument)
        # H and W of 2-D and 3-D, L of 1-D: what remains when depth (and the weight's channels) are left out
        return values[(rank == 5) + 2 * is_weight :] if limit.axes == "plane" else values

    return in_range(c.profile, rank, c.call.transposed, values_of)

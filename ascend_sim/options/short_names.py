"""The short names of gradients: dX, dW and db stand for grad_input, grad_weight and grad_bias wherever a user names one."""

from collections.abc import Mapping
from typing import Any, TypeVar

from ascend_sim.errors import SimError

Value = TypeVar("Value")

SHORT_NAMES = {"dX": "grad_input", "dW": "grad_weight", "db": "grad_bias"}
_BY_LOWER_CASE = {short.lower(): name for short, name in SHORT_NAMES.items()}


def full_name(name: Any) -> Any:
    """Return the full name of a gradient for a short one (dX, dW, db, in any case); any other value unchanged."""
    return _BY_LOWER_CASE.get(name.lower(), name) if isinstance(name, str) else name


def full_column(name: str) -> str:
    """Return the full name of a column of one gradient, such as grad_input_us for dX_us; any other name unchanged."""
    gradient, mark, rest = name.partition("_")
    return f"{full_name(gradient)}{mark}{rest}"


def with_full_names(what: str, values: Mapping[Any, Value]) -> dict[Any, Value]:
    """Return the mapping with full names of gradients as keys.

    Raises SimError if one is named twice; `what` begins the message.
    """
    found = {full_name(name): value for name, value in values.items()}
    if len(found) < len(values):
        raise SimError(f"{what}: {', '.join(map(str, values))} given; two of these names are one gradient")
    return found

"""Types of an instruction's fields, which a row must keep: a whole number, a switch, a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from numbers import Real
from typing import Any

import numpy as np

from ascend_sim.chip.fractal import BLOCK_BYTES
from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction


def is_whole(value: Any) -> bool:
    """Return True for a Python or numpy integer that is no bool."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def real_number(what: str, scalar: float) -> float:
    """Return the scalar operand of an instruction as it is. Raises SimError for anything but a real number or a bool."""
    if not isinstance(scalar, Real | np.bool_):
        raise SimError(f"{what}: the scalar is {scalar!r}; a number is allowed")
    return scalar


def _is_item_size(value: Any) -> bool:
    return is_whole(value) and 0 < value <= BLOCK_BYTES


_FIELD_TYPES: dict[str, tuple[type | None, Callable[[Any], bool], str]] = {
    "int": (int, is_whole, "a whole number is allowed (n // 2, not n / 2)"),
    "bool": (bool, lambda value: isinstance(value, bool | np.bool_ | int) and value in (0, 1), "True or False is allowed"),
    "itemsize": (None, _is_item_size, f"an element has 1 to {BLOCK_BYTES} bytes"),
    "str": (str, lambda value: isinstance(value, str), "a name in quotes is allowed"),
}
"""Type or name of an instruction's field -> (its usual Python type, test of a value of another one, the values that are
allowed); None is the type where every value is tested.
"""


@cache
def _typed_fields(kind: type[Instruction]) -> tuple[tuple[int, str, type | None, Callable[[Any], bool], str], ...]:
    """Return (place in the key, name, usual type, test, allowed values) of each field of an instruction with a plain type."""
    named = [(place, one.name, getattr(one.type, "__name__", one.type)) for place, one in enumerate(fields(kind), 1)]
    types = [(place, name, name if name in _FIELD_TYPES else type_) for place, name, type_ in named]
    return tuple((place, name, *_FIELD_TYPES[type_]) for place, name, type_ in types if type_ in _FIELD_TYPES)


def check_types(key: Sequence[Any]) -> None:
    """Raise SimError if a field of the instruction `key` (class and fields) has a value that its type does not allow.

    A whole number may be numpy's but no bool, a switch may be 0 or 1, an `itemsize` is 1 to 32. Fields of other types,
    such as float and tuple, are not looked at.
    """
    for place, name, usual, fits, allowed in _typed_fields(key[0]):
        if place < len(key) and type(key[place]) is not usual and not fits(key[place]):
            raise SimError(f"{key[0].name}: {name} is {key[place]!r}; {allowed}")

"""Types of an instruction's fields, which a row must keep: a whole number, a switch, a name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.isa.base import Instruction


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


_FIELD_TYPES: dict[str, tuple[type, Callable[[Any], bool], str]] = {
    "int": (int, _is_whole, "a whole number is allowed (n // 2, not n / 2)"),
    "bool": (bool, lambda value: isinstance(value, bool | np.bool_ | int) and value in (0, 1), "True or False is allowed"),
    "str": (str, lambda value: isinstance(value, str), "a name in quotes is allowed"),
}
"""Type of an instruction's field -> (its usual Python type, test of a value of another one, the values that are allowed)."""


@cache
def _typed_fields(kind: type[Instruction]) -> tuple[tuple[int, str, type, Callable[[Any], bool], str], ...]:
    """Return (place in the key, name, usual type, test, allowed values) of each field of an instruction with a plain type."""
    types = [(place, one.name, getattr(one.type, "__name__", one.type)) for place, one in enumerate(fields(kind), 1)]
    return tuple((place, name, *_FIELD_TYPES[type_]) for place, name, type_ in types if type_ in _FIELD_TYPES)


def check_types(key: Sequence[Any]) -> None:
    """Raise SimError if a field of the instruction `key` (class and fields) has a value of another type than its own."""
    for place, name, usual, fits, allowed in _typed_fields(key[0]):
        if place < len(key) and type(key[place]) is not usual and not fits(key[place]):
            raise SimError(f"{key[0].name}: {name} is {key[place]!r}; {allowed}")

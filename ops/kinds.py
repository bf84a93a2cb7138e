"""Kinds of arguments: the allowed values, in words and as a test, for one clear error message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ascend_sim.errors import SimError
from ascend_sim.ops.arguments import is_whole_number


class ArgumentKind(NamedTuple):
    """Kind of an argument: `words` name the allowed values in an error message, `fits(value)` is True for an allowed one."""

    words: str
    fits: Callable[[Any], bool]


def is_whole_numbers(value: Any) -> bool:
    """Return True if `value` is a sequence, but no text or bytes, or a 1-D array, and holds integers alone, no booleans; also
    if it is empty.
    """
    return _is_list(value) and all(is_whole_number(number) for number in value)


def is_flag(value: Any) -> bool:
    """Return True if `value` is a bool (numpy's too), or an integer 0 or 1."""
    return isinstance(value, bool | np.bool_) or (is_whole_number(value) and value in (0, 1))


def _is_mask(value: Any) -> bool:
    return _is_list(value) and all(is_flag(wanted) for wanted in value)


def _is_list(value: Any) -> bool:
    """Return True for a sequence or a 1-D array; False for a text and for bytes."""
    flat = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return flat and not isinstance(value, str | bytes)


def or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return a test that accepts None and everything that `fits` accepts."""
    return lambda value: value is None or fits(value)


NUMBER = ArgumentKind("an integer", is_whole_number)
FLAG = ArgumentKind("True or False", is_flag)
MASK = ArgumentKind("a list of True and False, or None", or_none(_is_mask))
SHAPE = ArgumentKind("a list of integers", is_whole_numbers)
SIZES = ArgumentKind("a list of integers or None", or_none(is_whole_numbers))
NUMBERS = ArgumentKind(
    "an integer, a list of integers or None", or_none(lambda value: is_whole_number(value) or is_whole_numbers(value))
)
"""An integer stands for the same one on every axis."""


def check_kinds(given: Mapping[str, Any], kinds: Mapping[str, ArgumentKind]) -> None:
    """Raise SimError for the first argument of a wrong kind; names without an entry in `kinds` pass."""
    for name, value in given.items():
        kind = kinds.get(name)
        if kind is not None and not kind.fits(value):
            from ascend_sim.ops.checks.rules import show  # an error alone needs it

            raise SimError(f"{name} {' '.join(show(value).split())} must be {kind.words}")

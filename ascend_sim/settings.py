"""What the Python functions take beside tensors: each argument's kind, so that a wrong one ends in one clear line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.ops.checks.rules import show

__all__ = ["check_kinds", "is_flag", "is_whole_numbers"]


def is_whole_numbers(value: Any) -> bool:
    """A list, tuple or 1-D array of integers."""
    flat = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return flat and not isinstance(value, str | bytes) and all(is_whole_number(number) for number in value)


def is_flag(value: Any) -> bool:
    """True, False, or a number that stands for one of them."""
    return isinstance(value, bool | np.bool_) or (is_whole_number(value) and value in (0, 1))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_mask(value: Any) -> bool:
    flat = isinstance(value, Sequence) or (isinstance(value, np.ndarray) and value.ndim == 1)
    return flat and all(is_flag(wanted) for wanted in value)


def _is_tiling(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(kernel, str) for kernel in value)
    return named and all(
        isinstance(fields, Mapping) and all(isinstance(field, str) for field in fields) for fields in value.values()
    )


def _is_names_by_kernel(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(kernel, str)
        and isinstance(names, Sequence | set | frozenset)
        and not isinstance(names, str)
        and all(isinstance(name, str) for name in names)
        for kernel, names in value.items()
    )


def _is_dtypes(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(part, str) for entry in value.items() for part in entry)
    return named or isinstance(value, str)


def _or_none(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or fits(value)


_NUMBERS = ("a list of integers", is_whole_numbers)
_NUMBER_OR_NUMBERS = ("a list of integers", lambda value: is_whole_number(value) or is_whole_numbers(value))
_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "shape": _NUMBERS,
    "bias_sizes": ("a list of integers or None", _or_none(_NUMBERS[1])),
    "stride": ("a list of integers or None", _or_none(_NUMBER_OR_NUMBERS[1])),
    "padding": ("a list of integers or None", _or_none(_NUMBER_OR_NUMBERS[1])),
    "dilation": ("a list of integers or None", _or_none(_NUMBER_OR_NUMBERS[1])),
    "output_padding": ("a list of integers or None", _or_none(_NUMBER_OR_NUMBERS[1])),
    "transposed": ("True or False", is_flag),
    "groups": ("an integer", is_whole_number),
    "output_mask": ("a list of True and False, or None", _or_none(_is_mask)),
    "pad": ("an integer", is_whole_number),
    "cube_math_type": ("an integer", is_whole_number),
    "grad_weight_dtype": ("a dtype's name or None", _or_none(lambda value: isinstance(value, str | type | np.dtype))),
    "dtypes": (
        'the format of uint8 codes, like "hifloat8", or one per tensor, like {"weight": "hifloat8"}, or None',
        _or_none(_is_dtypes),
    ),
    "chip": ("a chip's name, the path of a chip file or a ChipSpec", lambda value: isinstance(value, str | Path | ChipSpec)),
    "mode": ("a text", _is_text),
    "deterministic": ("True, False or None", _or_none(is_flag)),
    "conformance": ("a text", _is_text),
    "tiling": ('fields per kernel, like {"grad_input": {"baseM": 256}}, or None', _or_none(_is_tiling)),
    "block_dim": (
        'a whole number, or one per kernel, like {"grad_weight": 32}, or None',
        _or_none(lambda value: is_whole_number(value) or isinstance(value, Mapping)),
    ),
    "l2": ("a text", _is_text),
    "accumulate": ("a text", _is_text),
    "overflow": ("a text or None", _or_none(_is_text)),
    "progress": ("a function or None", _or_none(callable)),
    "engine": ("a text or None", _or_none(_is_text)),
    "max_cycles": ("a whole number from 1, or None", _or_none(lambda value: is_whole_number(value) and value >= 1)),
    "disarm": ('flags per kernel, like {"grad_input": ["L0"]}, or None', _or_none(_is_names_by_kernel)),
}  # fmt: skip


def check_kinds(given: Mapping[str, Any]) -> None:
    """SimError for the first argument of another kind than its name asks for; names without an entry pass."""
    for name, value in given.items():
        kind, fits = _KINDS.get(name, ("", lambda _: True))
        if not fits(value):
            raise SimError(f"{name} {' '.join(show(value).split())} must be {kind}")

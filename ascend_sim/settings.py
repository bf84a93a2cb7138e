"""Checks of options: a test for each kind of value, and for combinations; each error is one clear line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.ops.kinds import ArgumentKind, check_kinds, is_flag, or_none
from ascend_sim.options.description import check_choices, options_in


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_tiling(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(kernel, str) for kernel in value)
    return named and all(
        isinstance(fields, Mapping) and all(isinstance(field, str) for field in fields) for fields in value.values()
    )


def _is_names(value: Any) -> bool:
    listed = isinstance(value, Sequence | set | frozenset) and not isinstance(value, str)
    return listed and all(isinstance(name, str) for name in value)


def _is_names_by_kernel(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(kernel, str) for kernel in value)
    return named and all(_is_names(names) for names in value.values())


def _is_dtypes(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(part, str) for entry in value.items() for part in entry)
    return named or isinstance(value, str)


def _counts(value: Any) -> bool:
    return is_whole_number(value) and value >= 1


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_observer(value: Any) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("watch", "started", "retired"))


KINDS: dict[str, Callable[[Any], bool]] = {
    "a text": _is_text,
    "a text or None": or_none(_is_text),
    "an integer": is_whole_number,
    "a whole number from 1": _counts,
    "a whole number from 1, or None": or_none(_counts),
    "a whole number from 0, or None": or_none(lambda value: is_whole_number(value) and value >= 0),
    "a number": _is_number,
    "a number, or None": or_none(_is_number),
    "a list of texts": _is_names,
    "a text, or a list of texts": lambda value: _is_text(value) or _is_names(value),
    "True or False": is_flag,
    "True, False or None": or_none(is_flag),
    "a chip's name, the path of a chip file or a ChipSpec": lambda value: isinstance(value, str | Path | ChipSpec),
    "a function or None": or_none(callable),
    "an object with the methods watch, started and retired, or None": or_none(_is_observer),
    "True, False or a number of instructions, 2 or more": lambda value: is_flag(value) or (_counts(value) and value > 1),
    'the name of a flag, or a list of such, like ["L0"]': lambda value: _is_text(value) or _is_names(value),
    'flags per kernel, like {"grad_input": ["L0"]}, or None': or_none(_is_names_by_kernel),
    'fields per kernel, like {"grad_input": {"baseM": 256}}, or None': or_none(_is_tiling),
    'a whole number, or one per kernel, like {"grad_weight": 32}, or None': or_none(
        lambda value: is_whole_number(value) or isinstance(value, Mapping)
    ),
    'the format of uint8 codes, like "hifloat8", or one per tensor, like {"weight": "hifloat8"}, or None': or_none(
        _is_dtypes
    ),
}  # fmt: skip
"""Kind of an option (`Option.kind`, in words) -> test that a value passes."""


def check_options(options: type, given: Mapping[str, Any], own: Mapping[str, ArgumentKind] | None = None) -> None:
    """Raise SimError for the first argument of a wrong kind or, for texts with choices, of another value.

    `own` has the kinds of arguments that are not options.
    """
    kinds = {name: ArgumentKind(option.kind, KINDS[option.kind]) for name, _, option in options_in(options) if option.kind}
    check_kinds(given, kinds | dict(own or {}))
    check_choices(options, given)


def check_limit(cycles: int | None, mode: str, name: str = "max_cycles") -> None:
    """Raise SimError if the option `name`, a number of cycles, is given in functional mode, which counts none."""
    if cycles is not None and mode == "functional":
        raise SimError(f"{name}: {cycles} given; functional mode counts no cycles: use mode full, or timing")


def disarmed_warnings(names: Sequence[str], mode: str) -> tuple[str, ...]:
    """Return the report's warnings for disarmed flags; () without any.

    Raises SimError in functional mode, where disarming changes nothing.
    """
    if names and mode == "functional":
        raise SimError(
            f"disarm: {', '.join(names)} given; functional mode runs one instruction after the other and waits for no flag: "
            "use mode full, or timing"
        )
    return (f"an experiment, not the kernel: disarmed, so that its waits hold nothing: {', '.join(names)}",) if names else ()

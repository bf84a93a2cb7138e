"""What the Python functions take beside tensors: each argument's kind, so that a wrong one ends in one clear line."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.ops.arguments import is_whole_number
from ascend_sim.ops.kinds import NUMBER, Kind, check_kinds, is_flag, is_whole_numbers, or_none

__all__ = ["FLAGS", "OPTIONS", "check_disarmed", "check_settings", "disarmed_warnings", "may_keep"]


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


def _looks_on(value: Any) -> bool:
    return all(callable(getattr(value, told, None)) for told in ("watch", "started", "retired"))


OPTIONS: dict[str, Kind] = {
    "shape": Kind("a list of integers", is_whole_numbers),
    "strides": Kind("a list of integers or None", or_none(is_whole_numbers)),
    "cube_math_type": NUMBER,
    "dtypes": Kind(
        'the format of uint8 codes, like "hifloat8", or one per tensor, like {"weight": "hifloat8"}, or None',
        or_none(_is_dtypes),
    ),
    "chip": Kind(
        "a chip's name, the path of a chip file or a ChipSpec", lambda value: isinstance(value, str | Path | ChipSpec)
    ),
    "check": Kind("True or False", is_flag),
    "probe": Kind("True, False or None", or_none(is_flag)),
    "mode": Kind("a text", _is_text),
    "deterministic": Kind("True, False or None", or_none(is_flag)),
    "conformance": Kind("a text", _is_text),
    "tiling": Kind('fields per kernel, like {"grad_input": {"baseM": 256}}, or None', or_none(_is_tiling)),
    "block_dim": Kind(
        'a whole number, or one per kernel, like {"grad_weight": 32}, or None',
        or_none(lambda value: is_whole_number(value) or isinstance(value, Mapping)),
    ),
    "l2": Kind("a text", _is_text),
    "accumulate": Kind("a text", _is_text),
    "overflow": Kind("a text or None", or_none(_is_text)),
    "progress": Kind("a function or None", or_none(callable)),
    "observer": Kind("an object with the methods watch, started and retired, or None", or_none(_looks_on)),
    "engine": Kind("a text or None", or_none(_is_text)),
    "timeline": Kind(
        "True, False or a number of instructions, 2 or more",
        lambda value: is_flag(value) or (is_whole_number(value) and value > 1),
    ),
    "max_cycles": Kind("a whole number from 1, or None", or_none(lambda value: is_whole_number(value) and value >= 1)),
    "disarm": Kind('flags per kernel, like {"grad_input": ["L0"]}, or None', or_none(_is_names_by_kernel)),
    "library": Kind("a text or None", or_none(_is_text)),
}  # fmt: skip
FLAGS = Kind('the name of a flag, or a list of such, like ["L0"]', lambda value: _is_text(value) or _is_names(value))
"""What `launch` takes as `disarm`: it has one kernel."""


def check_settings(given: Mapping[str, Any], own: Mapping[str, Kind] | None = None) -> None:
    """SimError for the first argument that is not of its kind; `own` are the kinds of an operator's attributes."""
    check_kinds(given, OPTIONS | dict(own or {}))


def check_limit(max_cycles: int | None, mode: str) -> None:
    """SimError for a limit of cycles where none are counted."""
    if max_cycles is not None and mode == "functional":
        raise SimError(f"max_cycles: {max_cycles} given; functional mode counts no cycles: use mode full, or timing")


def disarmed_warnings(names: Sequence[str], mode: str) -> tuple[str, ...]:
    """What the report of a run with disarmed flags says of them, nothing without any; SimError where they change nothing."""
    if names and mode == "functional":
        raise SimError(
            f"disarm: {', '.join(names)} given; functional mode runs one instruction after the other and waits for no flag: "
            "use mode full, or timing"
        )
    return (
        (f"an experiment, not the kernel: disarmed, so that its waits hold nothing: {', '.join(names)}",)
        if names
        else ()
    )


def may_keep(timeline: bool | int) -> bool | int:
    """Of a checked `timeline`: whether the run keeps one, or of how many instructions at most."""
    return bool(timeline) if is_flag(timeline) else int(timeline)


def check_disarmed(kernel: str, wanted: Collection[str], flags: Collection[str]) -> None:
    """SimError for names of flags that a kernel does not have: an experiment without effect misleads."""
    for name in wanted:
        if name not in flags:
            known = sorted(flags)
            near = [flag for flag in known if flag.startswith(name)] or get_close_matches(name, known, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise SimError(f"disarm: no flag {name!r} in {kernel}{hint}; it has {', '.join(known) or 'none'}")

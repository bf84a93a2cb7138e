"""Fields that a sweep can vary: of the case file, words for the layer's sizes, tiling fields, the chip and its numbers.

draft = Draft.of(case)
field_of("baseM", case).put(draft, 64)
draft.made()                           # (Case, ChipSpec)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import cache, partial
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from ascend_sim.chip import ChipSpec, chip_of
from ascend_sim.errors import ConfigError
from ascend_sim.frozen import frozen, mutable
from ascend_sim.ops.case_entries import Case, explain_error
from ascend_sim.ops.kernels.tilings import TILINGS
from ascend_sim.ops.layer import OVER_TIME
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.short_names import full_name

_WORDS = (
    "batch", "in_channels", "out_channels", "size", "depth", "height", "width", "kernel_size", "groups",
)  # fmt: skip
_OVER_TIME_WORDS = ("batch", "length", "in_channels", "out_channels", "kernel_size")
_FIXED = ("operator", "chip", "tiling", "data.file")
"""Fields of a case file that are not varied as such: chip and tiling have words of their own."""


@mutable
class Draft:
    """Case that a sweep is changing: entries of its file, sizes of the layer (set together at the end), the chip and its
    changed numbers.
    """

    kind: type[Case]
    entries: dict[str, Any]
    chip: str | ChipSpec
    sizes: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, case: Case, chip: str | ChipSpec | None = None) -> Draft:
        """Return a draft with the entries that stand in the case's file, on `chip` or else the case's own."""
        entries = case.model_dump(mode="json", exclude_unset=True, by_alias=True)
        return cls(type(case), entries, chip if chip is not None else case.chip)

    def made(self) -> tuple[Case, ChipSpec]:
        """Return the changed case and its chip, with sizes and numbers put in; the sizes change `entries` too.

        Raises ConfigError for an unknown chip, and where entries, sizes or numbers are not allowed or do not fit together.
        """
        entries = self.entries
        if self.sizes:
            _put_sizes(entries, self.sizes, OPERATORS[entries["operator"]].layer_kind)
        spec = self.chip if isinstance(self.chip, ChipSpec) else _chip(self.chip)
        if self.numbers:
            spec = spec.with_numbers(self.numbers)
        try:
            return self.kind.model_validate(entries), spec
        except ValidationError as error:
            raise ConfigError(explain_error(self.kind, error)) from None


@frozen
class SweepField:
    """A varied field: its name as the user wrote it, and `put`, which sets a value in a draft; most values are checked by
    `Draft.made`.
    """

    name: str
    put: Callable[[Draft, Any], None]


def field_of(name: str, case: Case, chip: ChipSpec) -> SweepField:
    """Return the varied field `name`: "chip", "chip.SECTION.NUMBER", a size of the layer, "dtype", an entry of the case file,
    or a tiling field.

    A tiling field without its kernel is set in every cube kernel that has it. Raises ConfigError, with similar names, for an
    unknown one.
    """
    if name == "chip":
        return SweepField(name, _put_chip)
    if name.startswith("chip."):
        place = name.removeprefix("chip.")
        numbers = chip.numbers()
        if place not in numbers:
            raise _unknown(name, [f"chip.{one}" for one in numbers], f"{chip.name} has no such number", _words(case))
        return SweepField(name, partial(_put_number, place))
    words = _words(case)
    plain = ".".join(map(full_name, name.removeprefix("layer.").split(".")))
    if plain in words:
        return SweepField(name, partial(_put_size, plain))
    if plain == "dtype":
        return SweepField(name, _put_dtype)
    if plain in case_fields(type(case)):
        return SweepField(name, partial(_put_entry, tuple(plain.split("."))))
    kernels = _tiling_fields(case)
    kernel, _, own = plain.removeprefix("tiling.").rpartition(".")
    if kernel in kernels and own in kernels[kernel]:
        return SweepField(name, partial(_put_tiling, [kernel], own))
    having = [one for one, fields in kernels.items() if own in fields]
    if having and not kernel:
        return SweepField(name, partial(_put_tiling, having, own))
    raise _unknown(name, known_fields(case, chip), f"no such field of a {case.operator} case", words)


def known_fields(case: Case, chip: ChipSpec) -> list[str]:
    """Return every name that `field_of` takes, bare ones before those with a kernel, "layer." or "chip." in front; short forms
    (dX) and the prefix "tiling." are left out.
    """
    kernels = _tiling_fields(case)
    bare = dict.fromkeys(own for fields in kernels.values() for own in fields)
    return [
        "chip", "dtype", *_words(case), *case_fields(type(case)), *bare,
        *(f"{kernel}.{own}" for kernel, fields in kernels.items() for own in fields),
        *(f"layer.{word}" for word in _words(case)), *(f"chip.{place}" for place in chip.numbers()),
    ]  # fmt: skip


def is_of_a_call(name: str) -> bool:
    """Return True if `name` is a field of a call itself, of any operator: a size, a dtype or an entry of a case file."""
    return name in {"dtype", *_WORDS, *_OVER_TIME_WORDS} or any(name in case_fields(one.case) for one in OPERATORS.values())


def _unknown(name: str, known: list[str], why: str, words: Sequence[str]) -> ConfigError:
    last = {one.rpartition(".")[2]: one for one in reversed(known)}
    near = get_close_matches(name, known, n=3, cutoff=0.6) or [
        last[one] for one in get_close_matches(name.rpartition(".")[2], list(last), n=3, cutoff=0.5)
    ]
    hint = f"did you mean {', '.join(near)}? " if near else ""
    sizes = "".join(f"{word}, " for word in words)
    return ConfigError(
        f"--vary {name}: {why}; {hint}{'Fields' if hint else 'fields'} are those of a case file, {sizes}"
        "tiling fields (baseM, grad_input.baseM), chip, and chip.SECTION.NUMBER"
    )


@cache
def case_fields(kind: type[Case]) -> dict[str, Any]:
    """Return {dotted name: annotation} of the entries of a case file that can be varied; operator, chip, tiling and data
    file are not.
    """
    found: dict[str, Any] = {}
    for key, info in kind.model_fields.items():
        name = info.alias or key
        found[name] = info.annotation
        parts = [info.annotation, *get_args(info.annotation)]
        for model in parts:
            if isinstance(model, type) and issubclass(model, BaseModel):
                found |= {f"{name}.{own}": one.annotation for own, one in model.model_fields.items()}
        if key == "block_dim":
            operator = next(one for one in OPERATORS.values() if one.case is kind)
            found |= {f"{name}.{kernel}": int for kernel in operator.cube_kernels}
    return {name: annotation for name, annotation in found.items() if name not in _FIXED}


def _words(case: Case) -> tuple[str, ...]:
    """Return the names of a layer's sizes; () for an operator that is no pass of a layer."""
    operator = OPERATORS[case.operator]
    if operator.layer_direction is None:
        return ()
    return _OVER_TIME_WORDS if operator.layer_kind == OVER_TIME else _WORDS


def _tiling_fields(case: Case) -> Mapping[str, list[str]]:
    """Return {cube kernel: the vendor's names of its tiling fields that a user can set}."""
    kernels = [kernel for kernel in OPERATORS[case.operator].cube_kernels if kernel in TILINGS]
    return {
        kernel: [vendor for ours, vendor in TILINGS[kernel].VENDOR.items() if ours not in TILINGS[kernel].DERIVED]
        for kernel in kernels
    }


@cache
def _chip(name: str) -> ChipSpec:
    return chip_of(name)


def _put_chip(draft: Draft, value: Any) -> None:
    draft.chip = value if isinstance(value, ChipSpec) else str(value)


def _put_number(place: str, draft: Draft, value: Any) -> None:
    if not isinstance(value, int | float):
        raise ConfigError(f"chip.{place}: {value!r} given; allowed is a number, for a size also in KiB, MiB or GiB (512KiB)")
    draft.numbers[place] = value


def _put_size(word: str, draft: Draft, value: Any) -> None:
    if type(value) is not int or value < 1:
        raise ConfigError(f"{word}: {value!r} given; allowed is a whole number from 1")
    draft.sizes[word] = value


def _put_dtype(draft: Draft, value: Any) -> None:
    """Set the dtype of every tensor: the case's own, while entries of single tensors lose theirs."""
    draft.entries["dtype"] = value
    for entry in draft.entries.values():
        if isinstance(entry, dict):
            entry.pop("dtype", None)


def _put_entry(path: tuple[str, ...], draft: Draft, value: Any) -> None:
    *sections, key = path
    node = draft.entries
    for section in sections:
        inner = node.get(section)
        if not isinstance(inner, dict):
            inner = {} if inner is None or isinstance(inner, bool | int) else {"shape": inner}
        node[section] = inner = dict(inner)
        node = inner
    node[key] = value


def _put_tiling(kernels: list[str], own: str, draft: Draft, value: Any) -> None:
    tiling = dict(draft.entries.get("tiling") or {})
    for kernel in kernels:
        tiling[kernel] = dict(tiling.get(kernel) or {}) | {own: value}
    draft.entries["tiling"] = tiling


def _put_sizes(entries: dict[str, Any], sizes: Mapping[str, int], kind: str) -> None:
    """Set `sizes` (word: number) in the shapes of input and weight, the weight's channels following from groups and input.

    Shapes of other tensors are dropped, as they follow from these. Raises ConfigError for an axis that the problem lacks and
    for channels that the groups do not divide.
    """
    given = (entries[name] for name in ("input", "weight"))
    input, weight = (list(entry["shape"] if isinstance(entry, dict) else entry) for entry in given)
    spatial = len(input) - 2
    groups, transposed = sizes.get("groups", entries.get("groups", 1)), bool(entries.get("transposed"))
    for word, value in sizes.items():
        if kind == OVER_TIME:
            for tensor, axis in _AXES_OVER_TIME[word]:
                (input if tensor == "input" else weight)[axis] = value
        elif word == "batch":
            input[0] = value
        elif word == "in_channels":
            input[1] = value
        elif word == "out_channels":
            weight[1 if transposed else 0] = _shared(value, groups, word) if transposed else value
        elif word == "size":
            input[2:] = [value] * spatial
        elif word == "kernel_size":
            weight[2:] = [value] * spatial
        elif word != "groups":
            axis = {"depth": 3, "height": 2, "width": 1}[word]
            if axis > spatial:
                raise ConfigError(f"{word}: a problem of {spatial} spatial axes has none")
            input[-axis] = value
    if kind != OVER_TIME:
        entries["groups"] = groups
        weight[0 if transposed else 1] = input[1] if transposed else _shared(input[1], groups, "in_channels")
    for name, entry in entries.items():
        if name in ("input", "weight"):
            shape = input if name == "input" else weight
            entries[name] = {**(entry if isinstance(entry, dict) else {}), "shape": shape}
        elif isinstance(entry, dict) and "shape" in entry:
            entries[name] = {key: value for key, value in entry.items() if key != "shape"}
    entries.pop("bias_sizes", None)


_AXES_OVER_TIME = {
    "batch": (("input", 1),), "length": (("input", 0),), "in_channels": (("input", 2), ("weight", 1)),
    "out_channels": (("weight", 2),), "kernel_size": (("weight", 0),),
}  # fmt: skip


def _shared(channels: int, groups: int, word: str) -> int:
    if channels % groups:
        raise ConfigError(f"{word}: {channels} given; {groups} groups must divide it")
    return channels // groups

"""Forms: a `Form` is one instruction word of a chip: fields, each with its bits and unit, and rules across fields."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import cached_property
from typing import Any

from ascend_sim.frozen import frozen
from ascend_sim.isa.base import Instruction

_BYTES = re.compile(r"(\d+)-byte\b")


@frozen
class Field:
    """Instruction field of `bits` bits, whose values `low` to `high` (both allowed) count units of `unit`.

    `register` is the register or packed operand that holds it, from bit `first` on, "" for an argument.
    """

    name: str
    bits: int
    unit: str
    low: int
    high: int
    source: str
    register: str = ""
    first: int = 0

    @cached_property
    def unit_bytes(self) -> int:
        """Return the bytes of the field's unit; 1 if it counts bytes or anything else."""
        found = _BYTES.match(self.unit)
        return int(found[1]) if found else 1

    def fault(self, raw: int) -> tuple[str, str]:
        """Return (word, line) on why the field cannot hold `raw` (bytes for a unit of bytes, else a count); ("", "") if it can.

        The word is "part" (no whole unit), "below" or "above".
        """
        value, rest = divmod(raw, self.unit_bytes)
        if rest:
            return "part", f"{self.name} counts {self.unit}; {raw:,} bytes are not whole ones ({self.source})"
        if self.low <= value <= self.high:
            return "", ""
        line = f"{self.name} = {value:,}; {self.low:,} to {self.high:,} {self.unit} are possible ({self.source})"
        return "below" if value < self.low else "above", line


@frozen
class FormRule:
    """Rule across several fields: the name of the `Way` method that checks it, its text, and its source."""

    name: str
    words: str
    source: str


class Way:
    """Translation between an instruction's effect and the fields of a chip's instruction word, both ways.

    `kind` is the class of the effects, `names` are the fields in the order of `values`. A rule is a method that returns the
    fault of an instruction in words, "" without one; a form names the rules that it keeps.
    """

    kind: type[Instruction]
    names: tuple[str, ...] = ()

    def route(self, instruction: Any) -> str:
        """Return the data path of the instruction, such as "GM->L1"."""
        return str(instruction.path())

    def says(self, instruction: Any) -> bool:
        """Return True if the way can express effects of this shape; field limits are not checked here."""
        return True

    def values(self, instruction: Any) -> tuple[int, ...]:
        """Return the raw values of the fields `names` for an instruction: bytes for a unit of bytes, else counts."""
        return ()

    def effect(self, route: str, fields: Mapping[str, int], item: str) -> Instruction:
        """Return the instruction that raw field values express on a route, for items of format `item`; inverse of `values`."""
        raise NotImplementedError


@frozen
class Form:
    """The compiler's instruction `name` on `architectures`, for the effects that its `way` can express.

    `fixed` are fields that `way` does not set; `aligned` has the alignment of operands' addresses in bytes. Empty `dtypes` and
    `items` (bytes of an item) allow all. `disputed` is a text on sources that disagree. `call` is the entry of the compiler's
    call that writes the word (calls.py).
    """

    name: str
    way: Way
    routes: tuple[str, ...]
    architectures: tuple[str, ...]
    source: str
    fields: tuple[Field, ...]
    fixed: tuple[Field, ...] = ()
    rules: tuple[FormRule, ...] = ()
    aligned: Mapping[str, int] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    items: tuple[int, ...] = ()
    disputed: str = ""
    call: Mapping[str, Any] = field(default_factory=dict)

    @cached_property
    def _limits(self) -> tuple[tuple[int, int, int], ...]:
        """Return (unit, lowest, highest) of each field, in the order of the way's `values`: bytes for a unit of bytes, else 1
        and counts. Both ends are allowed.
        """
        by_name = {one.name: one for one in self.fields}
        found = [by_name[name] for name in self.way.names]
        return tuple((one.unit_bytes, one.low * one.unit_bytes, one.high * one.unit_bytes) for one in found)

    @cached_property
    def _asked(self) -> tuple[tuple[Any, FormRule], ...]:
        """Return (method of the way that checks it, rule) for each rule."""
        return tuple((getattr(self.way, rule.name), rule) for rule in self.rules)

    def can_say(self, instruction: Any) -> bool:
        """Return True if the form can express this effect: fields in range, item size and dtype allowed, all rules kept.

        The way (`Way.says`), the route and the architecture are not checked here.
        """
        for raw, (unit, low, high) in zip(self.way.values(instruction), self._limits, strict=True):
            if not low <= raw <= high or raw % unit:
                return False
        if self.items and instruction.itemsize not in self.items:
            return False
        if self.dtypes and instruction.dtype not in self.dtypes:
            return False
        return not any(broken(instruction) for broken, _ in self._asked)

    def faults(self, instruction: Any) -> dict[str, str]:
        """Return {fault: line} of everything that keeps the form from expressing the effect; {} if it can.

        Keys are a field with a word ("NAME above"), a rule, "items" or "dtype".
        """
        by_name, found = {one.name: one for one in self.fields}, {}
        for name, raw in zip(self.way.names, self.way.values(instruction), strict=True):
            word, text = by_name[name].fault(raw)
            found[f"{name} {word}"] = text
        if self.items and instruction.itemsize not in self.items:
            text = f"items of {instruction.itemsize} bytes; of {_listed(self.items)} are possible"
            found["items"] = f"{text} ({self.source})"
        if self.dtypes and instruction.dtype not in self.dtypes:
            found["dtype"] = f"dtype {instruction.dtype}; {_listed(self.dtypes)} are possible ({self.source})"
        found |= {rule.name: f"{text} ({rule.source})" for broken, rule in self._asked if (text := broken(instruction))}
        return {name: text for name, text in found.items() if text}


def _listed(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))

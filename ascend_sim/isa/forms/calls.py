"""Compiler's calls that write instruction words, from the `call` of a form and the `words` of configs/instructions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cache
from typing import Any

from ascend_sim.errors import ConfigError
from ascend_sim.frozen import frozen
from ascend_sim.isa.forms.file import GROUPS, entries_of, fields_of
from ascend_sim.isa.forms.form import Field
from ascend_sim.shipped import read_config

ADDRESSES = ("dst", "src0", "src1")
"""Operands that are addresses, in the order of a program's columns."""
_KEYS = {"words", "overload", "operands", "values", "state", "beside", "fields"}
_VARIANT = re.compile(r" \(.*\)$")
"""End of a form's name that names a variant of one word."""


@frozen
class WordCall:
    """The compiler's call that writes one word of an architecture.

    `spaces` are the address spaces of dst, src0 and src1, "" for one that the call lacks. `operands` are its arguments in
    order; `overload` names what chooses among calls of one name: number formats and modes. `state` are the registers on whose
    value the word depends, `beside` what a recorder notes of addresses elsewhere. `fields` are the limits of operands, and the
    parts of packed operands and of registers. A call without a `row` sets a register, or is a hint.
    """

    spaces: tuple[str, str, str]
    operands: tuple[str, ...]
    overload: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    fields: Mapping[str, Field] = field(default_factory=dict)
    row: bool = True

    @property
    def recorded(self) -> tuple[str, ...]:
        """Return the names of the numbers that describe a word, addresses apart: overload, operands, `beside` and registers."""
        given = (name for name in self.operands if name not in ADDRESSES)
        return (*self.overload, *given, *self.beside, *self.state)

    def parts(self, packed: str) -> tuple[Field, ...]:
        """Return the fields that a register or a packed operand holds."""
        return tuple(one for one in self.fields.values() if one.register == packed)


@cache
def registers() -> Mapping[str, int]:
    """Return {register: its value where a kernel begins} of the registers on which words depend."""
    found: Mapping[str, int] = read_config("instructions/scalar.yaml")["registers"]
    return found


@cache
def calls(arch: str) -> Mapping[str, WordCall]:
    """Return {name of a word: WordCall} of an architecture, in the order of the files. Cached.

    Forms of one word share its call; a field's limit is that of the form that allows the most. Raises ConfigError for a wrong
    entry, such as an operand without a width.
    """
    named: dict[str, list[dict[str, Any]]] = {}
    for group in (*GROUPS, "scalar"):
        for entry in (*entries_of(group), *entries_of(group, "words")):
            if arch in entry["architectures"]:
                named.setdefault(_VARIANT.sub("", entry["name"]), []).append(entry | {"group": group})
    return {name: call for entries in named.values() for name, call in _calls(entries)}


def _calls(entries: list[dict[str, Any]]) -> Iterator[tuple[str, WordCall]]:
    """Yield (word, WordCall) for the words of the entries of one name; nothing if none of them has a call."""
    entry = next((one for one in entries if one.get("call")), None)
    if entry is None:
        return
    call, where = entry["call"], f"configs/instructions/{entry['group']}.yaml: {entry['name']}"
    if wrong := {*call} - _KEYS:
        raise ConfigError(f"{where}: call has no {', '.join(sorted(wrong))}; it has {', '.join(sorted(_KEYS))}")
    fields: dict[str, Field] = {}
    for one in (call, *entries):
        source = one.get("source", entry["source"])
        for section in ("fields", "fixed"):
            for found in fields_of(where, source, one.get(section, {})):
                if found.name not in fields or fields[found.name].high < found.high:
                    fields[found.name] = found
    operands = _flat(call["operands"])
    unknown = {*operands} - {*ADDRESSES, *fields, *call.get("values", ()), *registers()}
    if unknown or {*call.get("state", ())} - {*registers()}:
        raise ConfigError(f"{where}: call: no width of {', '.join(sorted(unknown)) or 'a register of state'}")
    lists = {name: tuple(call.get(name, ())) for name in ("overload", "state", "beside")}
    names, routes = _VARIANT.sub("", entry["name"]).split(", "), entry["routes"]
    words = call.get("words") or {name: routes[number % len(routes)] for number, name in enumerate(names)}
    for name, route in words.items():
        yield name, WordCall(_spaces(route, operands), operands, **lists, fields=fields, row=entry.get("row", True))


def _flat(operands: list[Any]) -> tuple[str, ...]:
    return tuple(name for one in operands for name in (one if isinstance(one, list) else [one]))


def _spaces(route: str, operands: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the spaces of dst, src0 and src1 on a route, such as "L0A*L0B->L0C"; a route of one source is that of both."""
    left, _, dst = route.partition("->")
    sources = left.split("*")
    spaces = dict(zip(ADDRESSES, (dst, sources[0], sources[-1]), strict=True))
    dst, src0, src1 = (space if name in operands else "" for name, space in spaces.items())
    return dst, src0, src1

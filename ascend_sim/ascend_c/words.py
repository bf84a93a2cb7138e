"""The words below the Ascend C calls: instructions of dav-2201 with their operands, as configs/instructions declares them.

The C++ headers record a word by a typed call that `header` generates, and `translate.py` reads its fields by the declared
names. A word that only sets a register has no row: registers are among the fields of the words that depend on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.forms.calls import ADDRESSES, WordCall, calls, registers

CHIP = "ascend910b3"
"""A chip of the architecture, whose casts a kernel may ask for."""
ARCHITECTURE = "dav-2201"
FORMATS = ("", "float16", "bfloat16", "float32", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
"""Number formats; the position is the number that the headers record (asim/types.h, Format)."""
PIPE_NUMBERS = {0: "S", 1: "V", 2: "M", 3: "MTE1", 4: "MTE2", 5: "MTE3", 6: "ALL", 10: "FIX"}
"""Number of a pipe in the public API (pipe_t) -> its name."""
EXTREMES = ("", "max", "min")
"""Which of two numbers stays in GM, "" for their sum, by the number of the operation (asim/sync.h, set_atomic)."""


class Word(NamedTuple):
    """One distinct word of a program: its name and its fields by name."""

    name: str
    fields: dict[str, int]


def _plain(*fields: str, spaces: tuple[str, str, str] = ("", "", "")) -> WordCall:
    operands = (*(name for name, space in zip(ADDRESSES, spaces, strict=True) if space), *fields)
    return WordCall(spaces, operands)


NOTES = {
    "allocate_": _plain("size", "position", spaces=("bits", "", "")),
    "stray_": _plain("memory"),
    "queue_event_": _plain("source", "destination", "id"),
    "own_barrier_": _plain("with_flags"),
    "atomic_left_": _plain(),
    "any_message_": _plain("cores", "first", "flag", "step"),
}
"""Reports of the library on its own actions: no instructions, and no rows."""
_SCALAR = {
    "message_": _plain(),
    "raise_": _plain("pipe", "flag"),
    "load_ub_": _plain("size", spaces=("", "UB", "")),
    "load_gm_": _plain("size", spaces=("", "GM", "")),
    "store_ub_": _plain("size", spaces=("UB", "bits", "")),
    "store_gm_": _plain("size", spaces=("GM", "bits", "")),
    "copy_ub_": _plain("size", spaces=("UB", "UB", "")),
}
"""Accesses of the scalar unit for C++ code, and messages of the library: no call of the compiler stands for them.

A space "bits" is a number, not an address.
"""
WORDS: Mapping[str, WordCall] = {**calls(ARCHITECTURE), **_SCALAR, **NOTES}
"""Word -> its call, in the order of the numbers that the headers record."""
NAMES = tuple(WORDS)
_Shape = tuple[tuple[bool, ...], tuple[str, ...], tuple[str, ...]]
"""Key of a C++ structure (`_shape`)."""
_AIC_SPACES = {"L1", "L0A", "L0B", "L0C", "BT", "FB"}


def atomic_of(register: int) -> tuple[str, str]:
    """Return the format of the atomic register ("" if a copy overwrites), and which of two numbers stays ("" for the sum)."""
    return FORMATS[register & 0xFF], EXTREMES[register >> 8]


def core_of(name: str) -> str:
    """Return the only kind of core that has the word `name`, "AIC" or "AIV"; "" if both have it."""
    spaces = {*WORDS[name].spaces}
    return "AIV" if "UB" in spaces else "AIC" if spaces & _AIC_SPACES else ""


def items_of(name: str) -> int:
    """Return the bytes of the elements of a word whose name ends with their bits, such as 2 for NAME_b16."""
    return int(name.rpartition("_b")[2].rstrip("s")) // 8


def has_row(name: str) -> bool:
    """Return False for a word that sets a register, is a hint, or only reports an action of the library."""
    return WORDS[name].row and name not in NOTES


def is_word(record: Sequence[int] | NDArray[Any]) -> bool:
    """Return True if numbers are a recorded shape: the number of a word, and one for each of its fields."""
    return len(record) > 0 and 0 <= record[0] < len(NAMES) and len(record) == 1 + len(_fields()[record[0]])


def word_of(record: tuple[int, ...]) -> Word:
    """Return the Word of a recorded shape: a number followed by the field values."""
    return Word(NAMES[record[0]], dict(zip(_fields()[record[0]], record[1:], strict=True)))


@cache
def _fields() -> tuple[tuple[str, ...], ...]:
    """Return the names of the recorded fields of each word, by its number."""
    return tuple(call.recorded for call in WORDS.values())


def parts_of(name: str, packed: str, value: int) -> dict[str, int]:
    """Return {field: value} of a register or packed operand of the word `name`, by the bits that are declared for them."""
    return {field: value >> first & mask for field, first, mask in _parts(name, packed)}


@cache
def _parts(name: str, packed: str) -> tuple[tuple[str, int, int], ...]:
    """Return (field, its first bit, mask) of the parts of a register or packed operand, in the order of their bits.

    A field has all bits up to the next field's, so that a value that is too wide is seen as such.
    """
    parts = sorted(WORDS[name].parts(packed), key=lambda one: one.first)
    ends = [one.first for one in parts[1:]] + [64] * bool(parts)
    return tuple((one.name, one.first, (1 << end - one.first) - 1) for one, end in zip(parts, ends, strict=True))


_CUT = {"img2colv2_cbuf_to_ca", "img2colv2_cbuf_to_cb"}
"""Words whose call packs several operands of one argument and cuts them to their bits itself; forms check what is left."""


def check_widths(word: Word) -> None:
    """Raise SimError for the first operand of a word that is negative or more than its declared field holds; not for the words
    of `_CUT`.
    """
    if word.name in _CUT:
        return
    for name in _given(word.name):
        check_fields(word.name, parts_of(word.name, name, word.fields[name]) or {name: word.fields[name]})


@cache
def _given(name: str) -> tuple[str, ...]:
    """Return the operands of a word that are no addresses and have a width, or parts with a width."""
    call = WORDS[name]
    packed = {one.register for one in call.fields.values()}
    return tuple(one for one in call.operands if one in call.fields or one in packed)


def check_fields(name: str, values: Mapping[str, int]) -> None:
    """Raise SimError for the first of the `values` of fields of the word `name` that is negative or above what is declared."""
    fields = WORDS[name].fields
    for one, value in values.items():
        if one in fields and not 0 <= value <= fields[one].high:
            limit = f"0 to {fields[one].high:,} {fields[one].unit} are possible ({fields[one].source})"
            raise SimError(f"{name}: {one} = {value:,}; {limit}")


def header() -> str:
    """Return the text of the C++ header that has a typed call for each word, the registers on which words depend, and the
    conversions of the vector unit.
    """
    return _header(tuple(load_chip(CHIP).vector.casts))


@cache
def _header(casts: tuple[str, ...]) -> str:
    pairs = [pair.partition("->") for pair in casts]
    numbers = [(FORMATS.index(source), FORMATS.index(target)) for source, _, target in pairs]
    listed = " || ".join(f"(source == {source} && target == {target})" for source, target in numbers)
    types: dict[_Shape, str] = {}
    structures = [line for name in NAMES for line in _structure(name, types)]
    members = [
        f"    static constexpr WordOf<{types[_shape(WORDS[name])]}> {name}{{{number}, {int(has_row(name) or name in NOTES)}, "
        f"'{core_of(name)[2:] or ' '}'}};"
        for number, name in enumerate(NAMES)
    ]
    return "\n".join(
        (
            "#pragma once",
            "namespace asim {",
            f"struct Registers {{ int64_t {', '.join(f'{name} = {value}' for name, value in registers().items())}; }};",
            *structures,
            "struct Word {",
            *members,
            "};",
            f"constexpr bool converts(int64_t source, int64_t target) {{ return {listed}; }}",
            "}\n",
        )
    )


def _shape(call: WordCall) -> _Shape:
    """Return the key of the structure of a call: its addresses, its recorded names and the registers that it depends on."""
    return tuple(bool(space) for space in call.spaces), call.recorded, call.state


def _structure(name: str, types: dict[_Shape, str]) -> Iterator[str]:
    """Yield the lines of the C++ structure of a word's operands, noted in `types`; none if an earlier word has the same."""
    call = WORDS[name]
    if _shape(call) in types:
        return
    types[_shape(call)] = kind = f"{name}_operands"
    addresses = [one for one, space in zip(ADDRESSES, call.spaces, strict=True) if space]
    fields = call.recorded[: len(call.recorded) - len(call.state)]
    first = ADDRESSES.index(addresses[0]) if addresses else 0
    sets = [one for one in fields if one in registers() and not call.row]
    yield f"struct {kind} {{"
    if addresses or fields:
        yield f"    Operand {', '.join((*addresses, *fields))};"
    sizes = f"ADDRESSES = {len(addresses)}, FIELDS = {len(fields)}, STATE = {len(call.state)}"
    yield f"    static constexpr int FIRST = {first}, {sizes};"
    marks = "marked<VECTOR_CALLS>(); " if "counting" in call.state else ""
    yield f"    static void state(const Registers &now, int64_t *to) {{ {marks}{_statements('to[{}] = now.{}', call.state)}}}"
    yield f"    void set(Registers &now) const {{ {_statements('now.{1} = {1}.value', sets)}}}"
    yield "};"


def _statements(pattern: str, names: Sequence[str]) -> str:
    return "".join(pattern.format(number, name) + "; " for number, name in enumerate(names))

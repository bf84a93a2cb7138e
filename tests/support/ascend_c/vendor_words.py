"""Recorded words as the vendor's cases have them."""

from __future__ import annotations

import struct
from typing import Any

from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.ascend_c.stream import WordStream
from ascend_sim.ascend_c.words import FORMATS, NOTES, WORDS, Word, word_of
from ascend_sim.isa.forms.calls import ADDRESSES

_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"} | {f"int{n}": f"s{n}" for n in (8, 16, 32, 64)}
_SHORT |= {f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}
_MODES = ("", "r", "f", "c", "a", "z", "o")
_COMPARISONS = ("lt", "gt", "eq", "le", "ge", "ne")
_ALWAYS_0 = {"vmaxs": 2, "vmins": 2, "vaddreluconv": 1, "vsubreluconv": 1}
"""Word -> the number of its last operands, without a declared name, that every call leaves at 0."""
_HERE = ("load_gm_", "store_gm_", *NOTES)
"""Words that the cases leave out."""


def vendor_words(recording: WordStream) -> list[tuple[str, list[Any]]]:
    """Return the words as the cases have them: (where they come from, [name, operands ...])."""
    found = []
    for shape, line, *addresses in recording.rows.tolist():
        word, place = word_of(recording.shapes[shape]), recording.lines[line]
        if place[0] in ("RETURNS", "MARK"):
            found.append((place, [place[0], word.fields["with_flags"]]))
        elif word.name not in _HERE:
            found.append((place, _vendor_word(word, addresses)))
    return found


def _vendor_word(word: Word, addresses: list[int]) -> list[Any]:
    """Return the word with the operands of its declared call in their order."""
    call, fields, name = WORDS[word.name], word.fields, word.name
    if name in ("load_ub_", "store_ub_", "copy_ub_"):  # the cases tell that scalar code touched the buffer, and when
        return ["scalar_read_of_UB_"]
    if name == "set_va_reg_sb":
        number, *listed = fields.values()
        return [name, number, {"list": listed}]
    if name == "vsel":  # the mask or the operand that the call has is recorded beside one base
        place = "mask_offset" if fields["mode"] in (1, 3) else "other_offset"
        addresses = [*addresses[:2], addresses[2] + fields[place]]
    if name.startswith("scatter_vnchwconv"):  # its addresses are the numbers of registers
        addresses = [0, 2, 0]
    listed = [_operand(word, one, addresses) for one in call.operands] + [0] * _ALWAYS_0.get(name, 0)
    if name == "mad" and fields["bias"] >= 0:
        listed.insert(3, fields["bias"])
    if name == "vsel" and fields["mode"]:
        listed.append(1 if fields["mode"] in (1, 3) else 2)
    return [_name(word), *listed]


def _operand(word: Word, name: str, addresses: list[int]) -> Any:
    if name not in ADDRESSES:
        of_float = name == "value" and "float" in FORMATS[word.fields.get("format", word.fields.get("source", 0))]
        value = word.fields[name]
        return {"f": struct.unpack("<f", struct.pack("<I", value))[0]} if of_float else value
    at = ADDRESSES.index(name)
    in_gm = WORDS[word.name].spaces[at] == "GM"
    return f"GM0+{addresses[at] - (1 << GM_SHIFT):#x}" if in_gm else addresses[at]


def _name(word: Word) -> str:
    """Return the compiler's name: the word's, and what the overload adds to it."""
    name, fields = word.name, word.fields
    if name in ("load_cmpmask", "store_cmpmask"):  # the vendor's names are those of the register
        return "set_cmpmask" if name == "load_cmpmask" else "get_cmpmask"
    if name == "set_atomic_format":
        return f"set_atomic_{_SHORT[FORMATS[fields['format']]]}"
    if "conv" in name and "target" in fields:
        source, target = (_SHORT[FORMATS[fields[side]]] for side in ("source", "target"))
        scaled = name == "vconv" and (source, target) == ("s32", "f16")
        return "vconv_deq" if scaled else f"{name}_{source}2{target}{_MODES[fields.get('mode', 0)]}"
    return f"{name}_{_COMPARISONS[fields['mode']]}" if name in ("vcmp", "vcmpv", "vcmpvs") else name

"""Recorded words as the vendor's cases have them."""

from __future__ import annotations

import struct
from typing import Any

from ascend_sim.ascend_c.recorder import GM_SHIFT
from ascend_sim.ascend_c.stream import WordStream
from ascend_sim.ascend_c.words import CASTING, FORMATS, WORDS, Word, word_of

_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"} | {f"int{n}": f"s{n}" for n in (8, 16, 32, 64)}
_SHORT |= {f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)}
_MODES = ("", "r", "f", "c", "a", "z", "o")
_COMPARISONS = ("lt", "gt", "eq", "le", "ge", "ne")
_STATE = ("counting", "mask_high", "mask_low", "atomic", "format", "source", "target", "mode")
_OF_CUBE = (
    "deq_scale",
    "pads",
    "fmatrix",
    "padding",
    "boundary",
    "control",
    "nd_parameters",
    "scale",
    "configuration",
    "bias",
)
"""Fields of cube words that are registers, or stand elsewhere."""


def vendor_words(recording: WordStream) -> list[tuple[str, list[Any]]]:
    """Return the words as the cases have them: (where they come from, [name, operands ...])."""
    found = []
    for shape, line, *addresses in recording.rows.tolist():
        word, place = word_of(recording.shapes[shape]), recording.lines[line]
        if word.name in ("allocate_", "stray_", "queue_event_", "own_barrier_", "atomic_left_", "load_gm_", "store_gm_"):
            continue
        if place[0] in ("RETURNS", "MARK"):
            found.append((place, [place[0], word.fields["value"]]))
        else:
            found.append((place, _vendor_word(word, addresses)))
    return found


def _vendor_word(word: Word, addresses: list[int]) -> list[Any]:
    form, fields, name = WORDS[word.name], word.fields, word.name
    if name in ("load_ub_", "store_ub_", "copy_ub_"):  # the cases tell that scalar code touched the buffer, and when
        return ["scalar_read_of_UB_"]
    if name == "ffts_cross_core_sync":
        return [name, fields["pipe"], 1 | fields["mode"] << 4 | fields["flag"] << 8]
    if name == "wait_flag_dev":
        return [name, fields["flag"]]
    if name == "set_atomic_format":
        return [f"set_atomic_{_SHORT[FORMATS[fields['format']]]}"]
    if name == "set_va_reg_sb":
        number, *listed = fields.values()
        return [name, number, {"list": listed}]
    if name == "vgather":
        dst, source, offsets = addresses
        return [name, dst, offsets, source, fields["dst_repeat"], fields["repeat"]]
    if name == "vgatherb":
        dst, source, offsets = addresses
        return [name, dst, offsets, source, fields["dst_repeat"], fields["dst_block"], fields["repeat"]]
    if name.startswith("scatter_vnchwconv"):
        halves = [fields["dst_upper"], fields["src_upper"]] if name.endswith("b8") else []
        return [name, 0, 2, fields["repeat"], fields["dst_repeat"], fields["src_repeat"], *halves]
    if name in ("load_cmpmask", "store_cmpmask"):  # the vendor's names are those of the register
        return ["set_cmpmask" if name == "load_cmpmask" else "get_cmpmask", addresses[form.addresses.index("UB")]]
    if form.register and "GM" not in form.addresses:
        return [name, *(value for field, value in fields.items() if field != "unused")]
    listed: list[Any] = [
        f"GM0+{at - (1 << GM_SHIFT):#x}" if space == "GM" else at for space, at in zip(form.addresses, addresses, strict=False)
    ]
    flags = name in ("set_flag", "wait_flag")
    for field, value in fields.items():
        if field == "scalar" and "float" in FORMATS[fields["format"]]:
            listed.append({"f": struct.unpack("<f", struct.pack("<I", value))[0]})
        elif flags or field not in (*_STATE, *_OF_CUBE):
            listed.append(value)
    if name == "mad" and fields["bias"] >= 0:
        listed.insert(3, fields["bias"])
    if name == "vsel":
        dst, src0, base = addresses
        by_scalar = fields["mode"] in (1, 3)
        src1 = base + fields["mask_offset" if by_scalar else "other_offset"]
        sides = [f"{side}_{what}" for what in ("block", "repeat") for side in ("dst", "src0", "src1")]
        return [
            name,
            dst,
            src0,
            src1,
            fields["repeat"],
            *[fields[side] for side in sides],
            *([1 if by_scalar else 2] if fields["mode"] else []),
        ]
    if name in ("vmaxs", "vmins"):
        listed += [0, 0]  # operands that every call leaves at 0
    if name == "vconv":
        source, target = (_SHORT[FORMATS[fields[side]]] for side in ("source", "target"))
        scaled = (source, target) == ("s32", "f16")
        name = "vconv_deq" if scaled else f"vconv_{source}2{target}{_MODES[fields['mode']]}"
    elif name in CASTING:
        source, target = (_SHORT[FORMATS[fields[side]]] for side in ("source", "target"))
        listed += [0] * ("relu" in name)  # an operand that every call leaves at 0
        name = f"{name}_{source}2{target}"
    elif name in ("vcmp", "vcmpv", "vcmpvs"):
        listed = listed[form.addresses[0] == "bits" :]
        name = f"{name}_{_COMPARISONS[fields['mode']]}"
    return [name, *listed]

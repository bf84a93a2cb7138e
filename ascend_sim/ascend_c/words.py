"""The words below the Ascend C calls: the instructions of dav-2201 and their operands, each declared once.

The C++ headers record a word with its addresses and fields; `header` gives them the numbers, and `translate.py` reads the
fields by these names. A word that sets a register has no row: the registers stand among the fields of what depends on them.
"""

from __future__ import annotations

from typing import NamedTuple

from ascend_sim.frozen import frozen

FORMATS = (
    "",
    "float16",
    "bfloat16",
    "float32",
    "int8",
    "uint8",
    "int16",
    "uint16",
    "int32",
    "uint32",
    "int64",
    "uint64",
)
"""Number formats by the number that the headers record (asim/types.h, Format)."""
PIPE_NUMBERS = {0: "S", 1: "V", 2: "M", 3: "MTE1", 4: "MTE2", 5: "MTE3", 6: "ALL", 10: "FIX"}
"""Pipes by the number that the public API gives them (pipe_t)."""


@frozen
class WordForm:
    """The operands of a word: the space of each address ("bits": a number), and the names of its fields as they are recorded.

    A `register` word has no row; it is recorded on request alone. A `note` has no row either: it tells what the library does.
    """

    addresses: tuple[str, ...]
    fields: tuple[str, ...]
    register: bool = False
    note: bool = False


class Word(NamedTuple):
    """One distinct word of a program: its name and its fields by name."""

    name: str
    fields: dict[str, int]


_MASK = ("counting", "mask_high", "mask_low")
_UNARY_STRIDES = ("dst_block", "src_block", "dst_repeat", "src_repeat")
_BINARY = (
    "format",
    "repeat",
    "dst_block",
    "src0_block",
    "src1_block",
    "dst_repeat",
    "src0_repeat",
    "src1_repeat",
    *_MASK,
)
_UNARY = ("format", "repeat", *_UNARY_STRIDES, *_MASK)
_SCALAR = ("format", "scalar", "repeat", *_UNARY_STRIDES, *_MASK)
_REDUCE = ("format", "repeat", "dst_repeat", "src_block", "src_repeat")
_COPY = ("sid", "count", "length", "src_gap", "dst_gap", "atomic")
_ALIGNED = ("sid", "count", "length", "left", "right", "src_gap", "dst_gap", "atomic")


def _register(*fields: str) -> WordForm:
    return WordForm((), fields or ("unused",), register=True)


def _note(*fields: str) -> WordForm:
    return WordForm((), fields or ("unused",), note=True)


BINARY = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor", "vmla")
UNARY = ("vabs", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vrelu", "vnot")
SCALAR = ("vadds", "vmuls", "vmaxs", "vmins", "vlrelu", "vaxpy")
ALIGNED_IN = tuple(f"copy_gm_to_ubuf_align_b{bits}" for bits in (8, 16, 32))
ALIGNED_OUT = tuple(f"copy_ubuf_to_gm_align_b{bits}" for bits in (8, 16, 32))

WORDS: dict[str, WordForm] = {
    "set_atomic_none": _register(),
    "set_atomic_add": _register(),
    "set_atomic_format": _register("format"),
    "set_mask_norm": _register(),
    "set_mask_count": _register(),
    "set_vector_mask": _register("high", "low"),
    "set_mov_pad_val": _register("value"),
    "set_cmpmask": _register("address"),
    "allocate_": _note("size", "position"),
    "queue_event_": _note("source", "destination", "id"),
    "own_barrier_": _note(),
    "set_flag": WordForm((), ("source", "destination", "id")),
    "wait_flag": WordForm((), ("source", "destination", "id")),
    "pipe_barrier": WordForm((), ("pipe",)),
    "ffts_cross_core_sync": WordForm((), ("pipe", "mode", "flag")),
    "wait_flag_dev": WordForm((), ("flag", "mode")),
    "load_ub_": WordForm(("bits", "UB"), ("size",)),
    "load_gm_": WordForm(("bits", "GM"), ("size",)),
    "store_ub_": WordForm(("UB", "bits"), ("size",)),
    "store_gm_": WordForm(("GM", "bits"), ("size",)),
    "copy_ub_": WordForm(("UB", "UB"), ("size",)),
    "dcci": WordForm(("GM",), ("lines", "side")),
    "copy_gm_to_ubuf": WordForm(("UB", "GM"), _COPY),
    "copy_ubuf_to_gm": WordForm(("GM", "UB"), _COPY),
    "copy_ubuf_to_ubuf": WordForm(("UB", "UB"), _COPY),
    **dict.fromkeys(ALIGNED_IN, WordForm(("UB", "GM"), _ALIGNED)),
    **dict.fromkeys(ALIGNED_OUT, WordForm(("GM", "UB"), _ALIGNED)),
    **dict.fromkeys(BINARY, WordForm(("UB", "UB", "UB"), _BINARY)),
    **dict.fromkeys(UNARY, WordForm(("UB", "UB"), _UNARY)),
    **dict.fromkeys(SCALAR, WordForm(("UB", "UB"), _SCALAR)),
    "vector_dup": WordForm(
        ("UB",), ("format", "scalar", "repeat", "dst_block", "src_block", "dst_repeat", "src_repeat", *_MASK)
    ),
    "vconv": WordForm(("UB", "UB"), ("source", "target", "mode", "repeat", *_UNARY_STRIDES, *_MASK)),
    "vcopy": WordForm(("UB", "UB"), _UNARY),
    "vcmpv": WordForm(
        ("UB", "UB", "UB"),
        (
            "format",
            "mode",
            "repeat",
            "dst_block",
            "src0_block",
            "src1_block",
            "dst_repeat",
            "src0_repeat",
            "src1_repeat",
        ),
    ),
    "vcmpvs": WordForm(("UB", "UB"), ("format", "mode", "scalar", "repeat", *_UNARY_STRIDES)),
    "vsel": WordForm(
        ("UB", "UB", "UB"),
        (
            *("format", "mode", "scalar", "mask_offset", "other_offset", "repeat"),
            *("dst_repeat", "src0_repeat", "src1_repeat", "adjoining", *_MASK),
        ),
    ),
    "vbrcb": WordForm(("UB", "UB"), ("format", "dst_block", "dst_repeat", "repeat")),
    **dict.fromkeys(("vcadd", "vcmax", "vcmin"), WordForm(("UB", "UB"), (*_REDUCE, "order", *_MASK))),
    **dict.fromkeys(("vcgadd", "vcgmax", "vcgmin", "vcpadd"), WordForm(("UB", "UB"), (*_REDUCE, *_MASK))),
}
"""Every word, in the order of the numbers that the headers record."""
NAMES = tuple(WORDS)


def header() -> str:
    """Return the C++ file that numbers the words, and says which of them set registers."""
    listed = ", ".join(NAMES)
    registers = " || ".join(f"word == Word::{name}" for name, form in WORDS.items() if form.register)
    return (
        f"#pragma once\nnamespace asim {{ enum class Word : long long {{ {listed} }};\n"
        f"constexpr bool is_register(Word word) {{ return {registers}; }} }}\n"
    )


def word_of(record: tuple[int, ...]) -> Word:
    """Return the word of a recorded shape: its number and its fields."""
    name = NAMES[record[0]]
    return Word(name, dict(zip(WORDS[name].fields, record[1:], strict=True)))

"""The words below the Ascend C calls: the instructions of dav-2201 and their operands, each declared once.

The C++ headers record a word with its addresses and fields. `header` gives the words their numbers, and `translate.py` reads
the fields by these names. A word that sets a register has no row: register values are among the fields of the words that depend
on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from ascend_sim.chip import load_chip
from ascend_sim.frozen import frozen

CHIP = "ascend910b3"
"""A chip of the architecture, whose casts a kernel may ask for."""
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
"""Number formats; the position is the number that the headers record (asim/types.h, Format)."""
PIPE_NUMBERS = {0: "S", 1: "V", 2: "M", 3: "MTE1", 4: "MTE2", 5: "MTE3", 6: "ALL", 10: "FIX"}
"""Number of a pipe in the public API (pipe_t) -> its name."""


@frozen
class WordForm:
    """Form of a word: the space of each address ("bits": a number), and the names of its fields in recorded order.

    A `register` word has no row and is recorded on request only. A `note` has no row either: it reports an action of
    the library. `core` is the only kind of core that has the word, "" if both have it.
    """

    addresses: tuple[str, ...]
    fields: tuple[str, ...]
    register: bool = False
    note: bool = False
    core: str = ""


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
_CASTING = ("source", "target", *_BINARY[1:])
_SCALAR = ("format", "scalar", "repeat", *_UNARY_STRIDES, *_MASK)
_REDUCE = ("format", "repeat", "dst_repeat", "src_block", "src_repeat")
_COPY = ("sid", "count", "length", "src_gap", "dst_gap", "atomic")
_ALIGNED = ("sid", "count", "length", "left", "right", "src_gap", "dst_gap", "atomic", "padding", "pads")


def _register(*fields: str) -> WordForm:
    return WordForm((), fields or ("unused",), register=True)


def _note(*fields: str) -> WordForm:
    return WordForm((), fields or ("unused",), note=True)


def _cube(addresses: tuple[str, ...], *fields: str) -> WordForm:
    return WordForm(addresses, fields, core="AIC")


_FRACTALS = ("format", "first", "repeat", "src_stride", "dst_gap", "sid", "transpose", "address_mode")
_FRACTALS_OF_GM = ("first", "repeat", "src_stride", "dst_gap", "sid", "address_mode")
_SQUARES = ("format", "first", "repeat", "src_stride", "dst_gap", "address_mode", "fractal_gap")
_IMG2COL = (
    *("format", "k_extent", "m_extent", "k_start", "m_start", "stride_w", "stride_h", "filter_w", "filter_h"),
    *("dilation_w", "dilation_h", "filter_size_w", "filter_size_h", "transpose", "right_matrix", "channels"),
    *("fmatrix", "padding", "boundary"),
)
_ND2NZ = (*("sid", "matrices", "rows", "columns", "src_matrix", "src_row", "dst_column", "dst_row", "dst_matrix"),)
_DRAIN = (
    *(
        "format",
        "source",
        "sid",
        "n",
        "m",
        "dst_stride",
        "src_stride",
        "unit_flag",
        "quantisation",
        "relu",
        "split",
        "rows",
    ),
    *("nd_parameters", "scale", "configuration", "atomic"),
)
_CONSTANT = ("format", "times", "scalar")
ND2NZ = {
    "copy_gm_to_cbuf_multi_nd2nz_b8": 1,
    "copy_gm_to_cbuf_multi_nd2nz_b16": 2,
    "copy_gm_to_cbuf_multi_nd2nz_b32s": 4,
}
"""Word that converts rows to NZ -> bytes of an element."""

MULTIPLY_ADD = ("vmla", "vmadd", "vmaddrelu")
BINARY = ("vadd", "vsub", "vmul", "vdiv", "vmax", "vmin", "vand", "vor", "vaddrelu", "vsubrelu", *MULTIPLY_ADD)
UNARY = ("vabs", "vexp", "vln", "vsqrt", "vrsqrt", "vrec", "vrelu", "vnot")
SCALAR = ("vadds", "vmuls", "vmaxs", "vmins", "vlrelu", "vaxpy")
SHIFTS = ("vshl", "vshr")
CASTING = ("vaddreluconv", "vsubreluconv", "vmulconv")
ALIGNED_IN = tuple(f"copy_gm_to_ubuf_align_b{bits}" for bits in (8, 16, 32))
ALIGNED_OUT = tuple(f"copy_ubuf_to_gm_align_b{bits}" for bits in (8, 16, 32))

EXTREMES = ("", "max", "min")
"""Which of two numbers stays in GM, "" for their sum, by the number of the operation (asim/sync.h, set_atomic)."""


def atomic_of(register: int) -> tuple[str, str]:
    """Return the format of the atomic register ("" if a copy overwrites), and which of two numbers stays ("" for the sum)."""
    return FORMATS[register & 0xFF], EXTREMES[register >> 8]


WORDS: dict[str, WordForm] = {
    "set_atomic_none": _register(),
    **dict.fromkeys(("set_atomic_add", "set_atomic_max", "set_atomic_min"), _register()),
    "set_atomic_format": _register("format"),
    "set_mask_norm": _register(),
    "set_mask_count": _register(),
    "set_vector_mask": _register("high", "low"),
    "set_mov_pad_val": _register("value"),
    "set_cmpmask": _register("address"),
    "set_deqscale": _register("value"),
    "set_va_reg_sb": _register("number", *(f"address{number}" for number in range(8))),
    "dsb": _register("which"),
    "dc_preload": WordForm(("GM",), ("offset",), register=True),
    "allocate_": _note("size", "position"),
    "stray_": _note("memory"),
    "queue_event_": _note("source", "destination", "id"),
    "own_barrier_": _note("with_flags"),
    "atomic_left_": _note(),
    "any_message_": _note("cores", "first", "flag", "step"),
    "set_flag": WordForm((), ("source", "destination", "id")),
    "wait_flag": WordForm((), ("source", "destination", "id")),
    "pipe_barrier": WordForm((), ("pipe",)),
    "ffts_cross_core_sync": WordForm((), ("pipe", "mode", "flag")),
    "wait_flag_dev": WordForm((), ("flag", "mode")),
    "message_": WordForm((), ("unused",)),
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
    **dict.fromkeys(CASTING, WordForm(("UB", "UB", "UB"), _CASTING)),
    "vmla_wide_": WordForm(("UB", "UB", "UB"), _CASTING),
    "vaxpy_wide_": WordForm(("UB", "UB"), ("source", "target", "scalar", *_UNARY[1:])),
    "vshl": WordForm(("UB", "UB"), _SCALAR),
    "vshr": WordForm(("UB", "UB"), ("format", "scalar", "repeat", *_UNARY_STRIDES, "rounds", *_MASK)),
    "vector_dup": WordForm(
        ("UB",), ("format", "scalar", "repeat", "dst_block", "src_block", "dst_repeat", "src_repeat", *_MASK)
    ),
    "vconv": WordForm(("UB", "UB"), ("source", "target", "mode", "repeat", *_UNARY_STRIDES, "deq_scale", *_MASK)),
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
    "vcmp": WordForm(("bits", "UB", "UB"), ("format", "mode", *_BINARY[1:])),
    "load_cmpmask": WordForm(("bits", "UB"), ("unused",)),
    "store_cmpmask": WordForm(("UB",), ("unused",)),
    "vcmpvs": WordForm(("UB", "UB"), ("format", "mode", "scalar", "repeat", *_UNARY_STRIDES)),
    "vsel": WordForm(
        ("UB", "UB", "UB"),
        (
            *("format", "mode", "scalar", "mask_offset", "other_offset", "repeat"),
            *("dst_block", "src0_block", "src1_block", "dst_repeat", "src0_repeat", "src1_repeat", *_MASK),
        ),
    ),
    "vgather": WordForm(("UB", "UB", "UB"), ("format", "source_bytes", "dst_repeat", "repeat", *_MASK)),
    "vgatherb": WordForm(("UB", "UB", "UB"), ("format", "source_bytes", "dst_repeat", "dst_block", "repeat")),
    "vreducev2": WordForm(
        ("UB", "UB", "UB"), ("format", "repeat", "src_block", "pattern", "src_repeat", "bits_repeat", *_MASK)
    ),
    "vtranspose": WordForm(("UB", "UB"), ("format",)),
    **dict.fromkeys(
        ("scatter_vnchwconv_b16", "scatter_vnchwconv_b32"),
        WordForm(("UB", "UB"), ("format", "repeat", "dst_repeat", "src_repeat", "dst_step", "src_step")),
    ),
    "scatter_vnchwconv_b8": WordForm(
        ("UB", "UB"), ("format", "repeat", "dst_repeat", "src_repeat", "dst_step", "src_step", "dst_upper", "src_upper")
    ),
    "vbrcb": WordForm(("UB", "UB"), ("format", "dst_block", "dst_repeat", "repeat")),
    **dict.fromkeys(("vcadd", "vcmax", "vcmin"), WordForm(("UB", "UB"), (*_REDUCE, "order", *_MASK))),
    **dict.fromkeys(("vcgadd", "vcgmax", "vcgmin", "vcpadd"), WordForm(("UB", "UB"), (*_REDUCE, *_MASK))),
    "set_l1_3d_size": _register("value"),
    "set_padding": _register("value"),
    "set_fmatrix": _register("value"),
    "set_fmatrix_b": _register("value"),
    "set_ctrl_": _register("value"),
    "set_nd_para": _register("value"),
    "set_quant_pre": _register("value"),
    "set_fpc": _register("value"),
    "copy_gm_to_cbuf": _cube(("L1", "GM"), "sid", "count", "length", "src_gap", "dst_gap", "padding_mode"),
    "copy_cbuf_to_gm": _cube(("GM", "L1"), *_COPY),
    "copy_cbuf_to_bt": _cube(("BT", "L1"), "format", "widens", "count", "length", "src_gap", "dst_gap"),
    "copy_cbuf_to_fbuf": _cube(("FB", "L1"), "count", "length", "src_gap", "dst_gap"),
    **dict.fromkeys(ND2NZ, _cube(("L1", "GM"), *_ND2NZ)),
    "load_gm_to_cbuf": _cube(("L1", "GM"), *_FRACTALS_OF_GM),
    "load_gm_to_ca": _cube(("L0A", "GM"), *_FRACTALS_OF_GM),
    "load_gm_to_cb": _cube(("L0B", "GM"), *_FRACTALS_OF_GM),
    "load_cbuf_to_ca": _cube(("L0A", "L1"), *_FRACTALS),
    "load_cbuf_to_cb": _cube(("L0B", "L1"), *_FRACTALS),
    "load_cbuf_to_ca_transpose": _cube(("L0A", "L1"), *_SQUARES),
    "load_cbuf_to_cb_transpose": _cube(("L0B", "L1"), *_SQUARES),
    "img2colv2_cbuf_to_ca": _cube(("L0A", "L1"), *_IMG2COL),
    "img2colv2_cbuf_to_cb": _cube(("L0B", "L1"), *_IMG2COL),
    "create_ca_matrix": _cube(("L0A",), *_CONSTANT),
    "create_cb_matrix": _cube(("L0B",), *_CONSTANT),
    "create_cbuf_matrix": _cube(("L1",), *_CONSTANT),
    "create_cbuf_matrix_bf16": _cube(("L1",), *_CONSTANT),
    "mad": _cube(
        ("L0C", "L0A", "L0B"),
        *(
            "format",
            "source",
            "target",
            "bias",
            "m",
            "k",
            "n",
            "unit_flag",
            "k_aligned",
            "from_bias",
            "from_zero",
            "control",
        ),
    ),
    "copy_matrix_cc_to_gm": _cube(("GM", "L0C"), *_DRAIN),
    "copy_matrix_cc_to_cbuf": _cube(("L1", "L0C"), *_DRAIN),
}
"""Word -> its form, in the order of the numbers that the headers record. A word with an address in UB is a vector core's."""
NAMES = tuple(WORDS)


def core_of(name: str) -> str:
    """Return the only kind of core that has the word `name`, "AIC" or "AIV"; "" if both have it."""
    form = WORDS[name]
    return form.core or ("AIV" if "UB" in form.addresses else "")


def header() -> str:
    """Return the text of the C++ header that numbers the words, lists which set registers or belong to one kind of core, and
    between which formats the vector unit converts.
    """
    listed = ", ".join(NAMES)

    def is_one(names: list[str]) -> str:
        return " || ".join(f"word == Word::{name}" for name in names)

    casts = [pair.partition("->") for pair in load_chip(CHIP).vector.casts]
    numbers = [(FORMATS.index(source), FORMATS.index(target)) for source, _, target in casts]
    listed_casts = " || ".join(f"(source == {source} && target == {target})" for source, target in numbers)
    registers = is_one([name for name, form in WORDS.items() if form.register])
    cube, vector = (is_one([name for name in NAMES if core_of(name) == core]) for core in ("AIC", "AIV"))
    return (
        f"#pragma once\nnamespace asim {{ enum class Word : long long {{ {listed} }};\n"
        f"constexpr bool is_register(Word word) {{ return {registers}; }}\n"
        f"constexpr bool is_cube_word(Word word) {{ return {cube}; }}\n"
        f"constexpr bool is_vector_word(Word word) {{ return {vector}; }}\n"
        f"constexpr bool converts(long long source, long long target) {{ return {listed_casts}; }} }}\n"
    )


def is_word(record: Sequence[int] | NDArray[Any]) -> bool:
    """Return True if numbers are a recorded shape: the number of a word, and one for each of its fields."""
    return len(record) > 0 and 0 <= record[0] < len(NAMES) and len(record) == 1 + len(WORDS[NAMES[record[0]]].fields)


def word_of(record: tuple[int, ...]) -> Word:
    """Return the Word of a recorded shape: a number followed by the field values."""
    name = NAMES[record[0]]
    return Word(name, dict(zip(WORDS[name].fields, record[1:], strict=True)))

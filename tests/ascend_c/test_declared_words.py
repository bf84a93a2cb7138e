"""Operands of the words are those that configs/instructions declares: order and bits against facts, limits, and calls in C++.

word_bits.json has the widths of the fields of dav-2201's words in the order of the compiler's calls, read from the bitcode of a
public device library (ascendnpu-ir 1.2.0). test_words.py holds the order and the values of operands against recorded words.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import ascend_sim as asim
from ascend_sim.ascend_c.errors import CompileError
from ascend_sim.ascend_c.translate import steps_of
from ascend_sim.ascend_c.words import FORMATS, NAMES, WORDS, Word, check_fields, check_widths, header, parts_of
from ascend_sim.chip import load_chip
from ascend_sim.errors import ConfigError, SimError
from ascend_sim.isa.forms import calls as calls_module
from ascend_sim.isa.forms.calls import ADDRESSES, calls, registers
from tests.support.ascend_c.kernels import made, needs_compiler, recorded

CHIP = load_chip("ascend910b3")
BITS = json.loads(Path(__file__).with_name("word_bits.json").read_text())
FULL = ("repeat", "dst_repeat_stride")
PLACES = {
    "MOV.OUT.TO.L1.v220": ("copy_gm_to_cbuf", ("n_burst", "len_burst", "src_gap", "dst_gap")),
    "MOV.UB.TO.UB.v220": ("copy_ubuf_to_ubuf", ("n_burst", "len_burst", "src_gap", "dst_gap")),
    "MOV.L1.TO.BT": ("copy_cbuf_to_bt", ("conv_control", "len_burst")),
    "MOV.OUT.TO.UB.ALIGN.b16.V220": (
        "copy_gm_to_ubuf_align_b16",
        ("n_burst", "len_burst", "left_pad", "right_pad", "gm_gap", "local_gap"),
    ),
    "MOV.UB.TO.OUT.ALIGN.b8.V220": ("copy_ubuf_to_gm_align_b8", ("n_burst", "len_burst", "local_gap", "gm_gap")),
    "LOAD.L1.TO.L0A.2D.V220.f16.addr": ("load_cbuf_to_ca", ("repeat", "src_stride", "dst_gap")),
    "S.VNCHWCONV.b8": ("scatter_vnchwconv_b8", ("repeat", "dst_repeat_stride", "src0_repeat_stride")),
    "VCOPY.u16": ("vcopy", FULL),
    "MOVEV.s32": ("vector_dup", FULL),
    "VCADD.f16.order": ("vcadd", ("repeat", "dst_repeat_stride", "src0_block_stride", "src0_repeat_stride")),
    "VCMAX.f16.order.v220": ("vcmax", ("repeat", "dst_repeat_stride", "src0_block_stride", "src0_repeat_stride")),
    "VCMIN.f32.order.v220": ("vcmin", ("repeat", "dst_repeat_stride", "src0_block_stride", "src0_repeat_stride")),
    "VSHR.s32": ("vshr", ("repeat", "dst_block_stride", "src0_block_stride", "dst_repeat_stride", "src0_repeat_stride")),
}
"""Word of the bitcode -> its name here and the operands whose bits it shows; of all operands where it is left out."""
OTHER_NAMES = {
    "FIX.L0C.TO.OUT.f32": "copy_matrix_cc_to_gm", "MAD.f162f32": "mad", "VBRCB.b16": "vbrcb",
    "MOV.OUT.TO.L1.MULTI.ND2NZ.f16": "copy_gm_to_cbuf_multi_nd2nz_b16",
    "LOAD.L1.TO.L0B.2D.TRANSPOSE.s8": "load_cbuf_to_cb_transpose", "LOAD.L1.TO.L0A.3DV2.f16": "img2colv2_cbuf_to_ca",
    "S.VNCHWCONV.b16": "scatter_vnchwconv_b16", "S.VNCHWCONV.b32": "scatter_vnchwconv_b32",
}  # fmt: skip
NARROWER = {
    "n_value": "the page allows 16,384 rows", "dst_nz_c0_stride": "the page allows 16,384 blocks",
    "dst_nz_n_stride": "the page allows 16,384 blocks", "m_start": "the page has 15 bits",
    "left_pad": "8 bits in the call, the page allows 32", "right_pad": "8 bits in the call, the page allows 32",
    "filter_w": "with the upper bit, which is an operand of its own", "filter_h": "with the upper bit",
}  # fmt: skip
"""Operands whose declared bits are not the word's, with the reason."""


def placed(name: str) -> tuple[str, tuple[str, ...]]:
    if name in PLACES:
        return PLACES[name]
    word = OTHER_NAMES.get(name, name.partition(".")[0].lower())
    return word, tuple(one for one in WORDS[word].operands if one not in (*ADDRESSES, "value"))


@pytest.mark.parametrize("name", BITS)
def test_operands_have_the_bits_of_the_device_librarys_words(name: str) -> None:
    word, operands = placed(name)
    fields = [WORDS[word].fields[one] for one in operands]
    wrong = [one.name for one, bits in zip(fields, BITS[name], strict=True) if one.bits != bits]
    assert {*wrong} <= {*NARROWER}
    assert all(one.high < 1 << bits or "filter" in one.name for one, bits in zip(fields, BITS[name], strict=True))


def test_every_operand_has_a_width_a_source_and_a_name() -> None:
    """Numbers of any bits are declared as such; each of a word's registers has a value where a kernel begins."""
    free = {
        one
        for call in calls("dav-2201").values()
        for one in call.operands
        if one not in ADDRESSES and one not in call.fields and not call.parts(one)
    }
    assert free - {*registers()} == {"value", "offset", "address", *(f"address{n}" for n in range(8))}
    assert all(one.source for call in WORDS.values() for one in call.fields.values())
    assert {one for call in WORDS.values() for one in call.state} == {*registers()}


def test_spaces_are_those_of_the_route() -> None:
    told = {name: WORDS[name].spaces for name in ("mad", "copy_ubuf_to_gm", "vadd", "vcmp", "create_cb_matrix", "vabs")}
    assert told == {
        "mad": ("L0C", "L0A", "L0B"), "copy_ubuf_to_gm": ("GM", "UB", ""), "vadd": ("UB", "UB", "UB"),
        "vcmp": ("", "UB", "UB"), "create_cb_matrix": ("L0B", "", ""), "vabs": ("UB", "UB", ""),
    }  # fmt: skip


CUT = "img2col"
"""Beginning of the words whose call cuts their operands; forms check what is left (test_cube_calls.py)."""
CHECKED = [
    (name, one) for name in NAMES for one in WORDS[name].operands if one in WORDS[name].fields and not name.startswith(CUT)
]


@pytest.mark.parametrize(("name", "operand"), CHECKED)
def test_an_operand_is_taken_at_its_limit_and_refused_above_and_below_0(name: str, operand: str) -> None:
    field = WORDS[name].fields[operand]
    zeros = dict.fromkeys(WORDS[name].recorded, 0)
    check_widths(Word(name, zeros | {operand: field.high}))
    for value in (field.high + 1, -1):
        with pytest.raises(SimError) as caught:
            check_widths(Word(name, zeros | {operand: value}))
        limit = f"0 to {field.high:,} {field.unit} are possible ({field.source})"
        assert str(caught.value) == f"{name}: {operand} = {value:,}; {limit}"


@pytest.mark.parametrize(("name", "operand", "part"), [
    (name, packed, part)
    for name in NAMES for packed in WORDS[name].operands for part in WORDS[name].parts(packed)
])  # fmt: skip
def test_a_part_of_a_packed_operand_is_refused_above_its_limit(name: str, operand: str, part: Any) -> None:
    zeros = dict.fromkeys(WORDS[name].recorded, 0)
    packed = part.high << part.first
    assert parts_of(name, operand, packed)[part.name] == part.high
    check_widths(Word(name, zeros | {operand: packed}))
    above = Word(name, zeros | {operand: part.high + 1 << part.first})
    if part.first + part.bits < 64 and part.name not in ("mode",):  # the next field's bits begin where those of `mode` end
        with pytest.raises(SimError, match=f"{part.name} = {part.high + 1:,}; 0 to {part.high:,}"):
            check_widths(above)


def test_a_register_is_split_into_its_declared_parts() -> None:
    """Public page of SetFmatrix: width, height, and the padding on four sides."""
    fmatrix = 30 | 20 << 16 | 1 << 32 | 2 << 40 | 3 << 48 | 4 << 56
    sides = ("l1_w", "l1_h", "pad_left", "pad_right", "pad_top", "pad_bottom")
    found = parts_of("img2colv2_cbuf_to_ca", "fmatrix", fmatrix)
    assert found == dict(zip((f"fmatrix.{one}" for one in sides), (30, 20, 1, 2, 3, 4), strict=True))
    assert [*parts_of("copy_matrix_cc_to_gm", "nd_para", 2 | 5 << 16 | 7 << 32).values()] == [2, 5, 7]


def test_the_form_of_a_word_that_allows_the_most_decides() -> None:
    """Public page of Fixpipe: at most 8,192 rows in rows, 65,535 in fractals."""
    check_fields("copy_matrix_cc_to_gm", {"m_size": 65_535})
    single = FORMATS.index("float32")
    fields = {"format": single, "source": single, "m_size": 16, "n_size": 16, "dst_stride": 16, "src_stride": 16, "nz2nd_en": 1}
    zeros = dict.fromkeys(WORDS["copy_matrix_cc_to_gm"].recorded, 0)
    for step, taken in ((512, True), (513, False)):
        word = Word("copy_matrix_cc_to_gm", zeros | fields | {"nd_para": 2 | step << 16 | 16 << 32})
        if taken:
            assert len(steps_of(word, CHIP)) == 2
        else:
            with pytest.raises(SimError, match="src_nd_stride = 513; 0 to 512 fractals are possible"):
                steps_of(word, CHIP)
    assert len(steps_of(Word("copy_matrix_cc_to_gm", zeros | fields | {"nd_para": 1 | 513 << 16}), CHIP)) == 1


def test_an_entry_that_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = {"name": "one", "routes": ["->L1"], "architectures": ["x"], "source": "API"}
    for call, said in (
        ({"operands": ["dst", "sid"]}, "one: call: no width of sid"),
        ({"operands": ["dst"], "state": ["other"]}, "one: call: no width of a register of state"),
        ({"operands": ["dst"], "orders": []}, "one: call has no orders; it has beside, fields"),
    ):
        one = [entry | {"call": call}]
        monkeypatch.setattr(calls_module, "entries_of", lambda group, *_, one=one: one if group == "copies" else [])
        with pytest.raises(ConfigError, match=said):
            calls_module.calls.__wrapped__("x")


def test_the_header_has_the_declared_operands_in_their_order() -> None:
    found = re.search(r"struct copy_gm_to_ubuf_align_b8_operands \{\n    Operand ([^;]+);", header())
    assert found is not None
    assert found[1] == "dst, src0, sid, n_burst, len_burst, left_pad, right_pad, gm_gap, local_gap"


GOOD = ".dst = 0, .src0 = 0, .sid = 0, .n_burst = 1, .len_burst = 1, .src_gap = 0, .dst_gap = 0"
CALLS = {
    GOOD: "",
    GOOD.replace(".sid = 0, ", ""): "cannot convert initializer list argument to 'const copy_gm_to_ubuf_operands'",
    GOOD.replace("src_gap", "src_stride"): "cannot convert initializer list argument to 'const copy_gm_to_ubuf_operands'",
    GOOD.replace(".len_burst = 1", ".len_burst = 1.0f"): "an operand is a number of bits",
}


@needs_compiler
@pytest.mark.parametrize("operands", CALLS)
def test_a_call_in_c_names_every_operand_and_no_other(operands: str, tmp_path: Path) -> None:
    call = f"asim::Word::copy_gm_to_ubuf(asim::Site::here(), {{{operands}}});"
    text = f'extern "C" __global__ __aicore__ void one(GM_ADDR x) {{ {call} }}\n'
    if not CALLS[operands]:
        assert [len(shape) for shape in recorded(made(tmp_path, text), 1 << 40).shapes] == [6]
        return
    with pytest.raises(CompileError, match=CALLS[operands]):
        made(tmp_path, text)


LIMITS = {
    "LoadData2DParams p(0, 1, 1, {}, 0, false, 0); LoadData(a2, l1, p);": ("sid", 15, "AIC"),
    "WholeReduceSum(d, a, (int32_t)8, 1, {}, 1, 8);": ("dst_repeat_stride", 65_535, "AIV"),
    "WholeReduceMax(d, a, (int32_t)8, 1, 1, {}, 8);": ("src0_block_stride", 65_535, "AIV"),
    "BlockReduceSum(d, a, 1, (int32_t)8, 1, 1, {});": ("src0_repeat_stride", 65_535, "AIV"),
}
TENSORS = (
    'LocalTensor<half> a(TPosition::VECCALC, 0x8000, 256), d(TPosition::VECCALC, 0, 256), '
    'l1(TPosition::A1, 0, 4096), a2(TPosition::A2, 0, 4096); LocalTensor<float> co(TPosition::CO1, 0, 4096); '
    'GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float *)x);'
)  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("code", LIMITS)
@pytest.mark.parametrize("more", (0, 1))
def test_an_operand_that_is_too_wide_is_refused_at_its_line(code: str, more: int, tmp_path: Path) -> None:
    """The public structures have wider types: what their members hold reaches the word."""
    operand, limit, core = LIMITS[code]
    named = "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);" if core == "AIC" else ""
    begin = f'extern "C" __global__ __aicore__ void one(GM_ADDR x) {{ {named} {TENSORS}\n'
    kernel = made(tmp_path, f"{begin}{code.format(limit + more)}\n}}\n")
    if not more:
        asim.launch(kernel, 1, asim.empty((64,), "float32"), mode="timing")
        return
    with pytest.raises(SimError) as caught:
        asim.launch(kernel, 1, asim.empty((64,), "float32"), mode="timing")
    assert re.search(rf"kernel\.cpp:4: .*: {operand} = {limit + 1:,}; 0 to {limit:,} .* are possible \(", str(caught.value))

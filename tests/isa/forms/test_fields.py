"""Every field of an instruction's word that a public method reaches: its limit is taken, one more is refused in one line.

The facts stand in facts.tsv, apart from what is declared, and in fields.yaml; a field that no method reaches is listed with the
reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.forms import GROUPS, Form, declared
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from tests.support.isa.asking import ASKERS, Asker
from tests.support.isa.facts import CHIPS, instruction_facts

pytestmark = pytest.mark.fast

GM_BYTES = 1 << 43

UNREACHABLE = {
    "sid": "a stream, which is always 0",
    "pad_mode": "no copy to L1 pads",
    "left_pad of others": "the padded copy has it",
    "right_pad of others": "the padded copy has it",
    "is_pad": "a copy pads, or does not",
    "cache_mode": "l2_bypass chooses one, no limit is reached",
    "small_c0": "channels of four are not packed",
    "src_nd_matrix_stride": "one matrix at a time",
    "base_idx": "an address says where it begins",
    "addr_cal_mode": "addresses only grow",
    "index_id": "an address says where it begins",
    "addr_mode": "addresses only grow",
    "m_start of steps": "an address says where it begins",
    "k_start of steps": "an address says where it begins",
    "m_step": "1, or 2 for squares of 1-byte items: the builder counts along K",
    "unit_flag": "UnitFlagTiles chooses between two modes of it",
    "k_direction_align": "not simulated",
    "disable_gemv": "follows from m",
    "quant_pre": "follows from the formats and the scales",
    "relu_pre": "relu= chooses between two modes of it",
    "nz2nd_en": "follows from the method",
    "nd_num of drains": "one matrix at a time",
    "src_nd_stride": "one matrix at a time",
    "dst_nd_stride": "one matrix at a time",
    "dn_num": "one matrix at a time",
    "src_nz_c0_stride": "the rows of L0C follow each other",
    "nd_num of nd2nz": "one matrix at a time",
    "loop4_src_stride of nd2nz": "one matrix at a time",
    "dst_nz_n_stride of nd2nz": "rows of L1 follow each other",
    "dst_nz_matrix_stride of nd2nz": "one matrix at a time",
    "repeat of fills": "one run of blocks",
    "repeat of vector": "more rows are more instructions",
    "dst_repeat_stride": "rows farther apart are an instruction each",
    "src0_repeat_stride": "rows farther apart are an instruction each",
    "src1_repeat_stride": "rows farther apart are an instruction each",
    "block_stride of vcopy": "blocks of a copy adjoin",
    "repeat_stride of vcopy": "a copy takes as many instructions as its rows need",
    "dst_gap of fills": "one run of blocks",
    "channel_split of to_l1": "float32 alone is split, and does not go to L1",
    "dst_gap of l0c_to_ub": "what leaves L0C lies without gaps in UB",
    "local_stride of compact": "the length of a row",
    **dict.fromkeys(
        (
            "c1_index", "fetch_filter_w", "fetch_filter_h", "left_top_w", "left_top_h", "jump_stride", "repeat_mode",
            "repeat_time", "c_size",
        ),
        "one load_data_3d stands for as many of these instructions as its fractals need",
    ),
}  # fmt: skip
"""Fields that no public method sets, by name; where only some instructions' are meant, with the instructions'."""

OTHER_FORM = {
    ("copy_gm_to_ubuf", "dav-2201", "src_gap"): "copy_gm_to_ubuf_align counts bytes of the gap in GM",
    ("copy_gm_to_ubuf", "dav-2201", "dst_gap"): "copy_gm_to_ubuf_align has 32 bits for the gap in UB",
    ("copy_ubuf_to_gm", "dav-2201", "dst_gap"): "copy_ubuf_to_gm_align counts bytes of the gap in GM",
    ("copy_ubuf_to_gm", "dav-2201", "src_gap"): "copy_ubuf_to_gm_align has 32 bits for the gap in UB",
    **{
        ("copy_ubuf_to_ubuf", arch, field): "vcopy, as many as the copy needs"
        for arch in ("dav-2201", "dav-3510")
        for field in ("n_burst", "len_burst", "src_gap", "dst_gap")
    },
}
"""Where one more than a field holds is said by another instruction of the chip."""


class FieldFact(NamedTuple):
    """One field on one architecture."""

    instruction: str
    arch: str
    field: str
    low: int
    high: int
    unit: str
    piece: bool


def facts() -> Iterator[FieldFact]:
    for fact in instruction_facts():
        if fact.what.startswith("field "):
            piece = fact.instruction.endswith("(nz2nd)") and len(fact.architectures) == 2
            limits = fact.value["low"], fact.value["high"], fact.unit
            for arch in fact.architectures:
                yield FieldFact(fact.instruction, arch, fact.what.removeprefix("field "), *limits, piece)
    for entry in yaml.safe_load((Path(__file__).parent / "fields.yaml").read_text(encoding="utf-8")):
        for arch in entry["architectures"]:
            for field, (low, high, unit) in entry["fields"].items():
                yield FieldFact(entry["instruction"], arch, field, low, high, unit, False)


FACTS = list(facts())


def family(fact: FieldFact) -> str:
    name = fact.instruction
    for word, meant in (
        ("nd2nz", "nd2nz"),
        ("create_", "fills"),
        ("cc_to_ubuf", "l0c_to_ub"),
        ("cc_to_gm", "drains"),
        ("cc_to_cbuf", "to_l1"),
        ("(v2)", "steps"),
        ("compact", "compact"),
        ("padded", "padded"),
        ("vector", "vector"),
        ("vcopy", "vcopy"),
    ):
        if word in name:
            return meant
    return "others"


def unreachable(fact: FieldFact) -> bool:
    by_blocks = fact.instruction == "create_cbuf_matrix" and fact.arch in ("dav-2201", "dav-3510")
    if fact.field == "repeat" and family(fact) == "fills":
        return by_blocks
    return fact.field in UNREACHABLE or f"{fact.field} of {family(fact)}" in UNREACHABLE


def asker(fact: FieldFact) -> tuple[Asker, dict[str, int]]:
    for key in ((fact.instruction, "piece" if fact.piece else fact.arch), (fact.instruction, "")):
        if key in ASKERS:
            return ASKERS[key]
    raise KeyError(fact)


def told(fact: FieldFact, value: int, *, finish: bool = False) -> str:
    """Return the refusal of an instruction whose field has this value, "" where it is taken."""
    ask, least = asker(fact)
    chip, said = load_chip(CHIPS[fact.arch]), []
    for kind in chip.cores.kinds:
        k = KernelBuilder(InstructionTable(chip, kind), 0, kind, [GM_BYTES])
        try:
            ask(k, least | {fact.field: value, "": frozenset({fact.field})})  # type: ignore[dict-item]
            if finish:
                k.finish()
            return ""
        except SimError as error:
            said.append(str(error))
    return said[0] if not finish else max(said, key=lambda text: "covers bytes" in text)


def reached(instruction: str = "") -> list[FieldFact]:
    """Return the facts that a public method reaches: of one instruction, or all."""
    return [one for one in FACTS if instruction in ("", one.instruction) and not unreachable(one)]


def step_of(fact: FieldFact) -> int:
    """Return the unit of the field."""
    if fact.instruction.endswith(("(nz)", "cc_to_cbuf")) and fact.field == "n_size":
        return 16
    if "dn2nz" in fact.instruction and fact.field == "loop1_src_stride":
        return 2
    return {"channel_size": 16, "k_start": 16}.get(fact.field, 1)


def last(fact: FieldFact) -> int:
    """The largest value of the field that its multiples allow."""
    step = step_of(fact)
    return fact.high // step * step


INSTRUCTIONS = sorted({fact.instruction for fact in reached()})


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_the_limit_is_taken_and_one_more_is_not(instruction: str) -> None:
    for fact in reached(instruction):
        if fact.unit == "a switch":
            continue
        most = last(fact)
        assert told(fact, most) == "", fact
        beyond = told(fact, most + step_of(fact))
        if (fact.instruction, fact.arch, fact.field) in OTHER_FORM:
            assert beyond == "", fact
            continue
        assert f"{fact.field} = " in beyond and f"{fact.low:,} to {fact.high:,} " in beyond, (fact, beyond)
        assert CHIPS[fact.arch] in beyond and fact.instruction.split(" (")[0] in beyond and "\n" not in beyond, fact


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_the_largest_that_the_buffers_hold_is_taken_whole(instruction: str) -> None:
    """With every address checked: the search for it ends at the limit or at the end of a buffer."""
    for fact in reached(instruction):
        _, least = asker(fact)
        low, high, step = least[fact.field], last(fact), step_of(fact)
        if (said := told(fact, low, finish=True)) and "covers bytes" not in said:
            assert "has MTE1" in said or "an AI" in said, (fact, said)  # no core of the chip has both buffers
            continue
        assert said == "", (fact, said)
        if told(fact, high, finish=True) == "":
            continue
        while high - low > step:
            middle = low + (high - low) // 2 // step * step
            low, high = (middle, high) if told(fact, middle, finish=True) == "" else (low, middle)
        assert "covers bytes" in told(fact, high, finish=True), fact


def test_one_less_than_the_least_is_refused() -> None:
    for fact in reached():
        if fact.low > 0:
            said = told(fact, fact.low - 1)
            whole = fact.field == "dst_block_stride" and "over each other" in said
            assert f"{fact.low:,} to " in said or whole, (fact, said)


def test_every_fact_is_declared_and_nothing_else_is() -> None:
    """Lowest and highest values, and the bytes of a unit; forms that the facts do not name are listed."""
    forms: list[Form] = [form for group in GROUPS for form in declared(group)]
    for fact in FACTS:
        same = [form for form in forms if form.name == fact.instruction and fact.arch in form.architectures]
        fields = [one for form in same for one in (*form.fields, *form.fixed) if one.name == fact.field]
        assert (fact.low, fact.high) in [(one.low, one.high) for one in fields], fact
    named = {(fact.instruction, fact.arch, fact.field) for fact in FACTS}
    more: set[tuple[str, str, str]] = set()
    for form in forms:
        for arch in form.architectures:
            more |= {(form.name, arch, one.name) for one in (*form.fields, *form.fixed)} - named
    assert {name for name, _, _ in more} == {
        "copy_cbuf_to_bt",
        "copy_cbuf_to_bt (numbers)",
        "copy_cbuf_to_fbuf",
        "copy_matrix_cc_to_gm (nz2dn, matrices)",
        "img2colv2_cbuf_to_cb (runs of columns)",
    }


def test_the_lists_name_what_there_is() -> None:
    names = {fact.field for fact in FACTS}
    assert {name.split(" of ")[0] for name in UNREACHABLE} <= names
    assert all(any(unreachable(fact) for fact in FACTS if fact.field == name.split(" of ")[0]) for name in UNREACHABLE)
    assert {(arch, field) for _, arch, field in OTHER_FORM} <= {(fact.arch, fact.field) for fact in FACTS}

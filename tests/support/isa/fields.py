"""Facts about single fields of instructions, and which of them no public method sets.

They stand in tests/isa/forms: facts.tsv and fields.yaml.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import yaml

from tests.support.isa.asking import ASKERS, Asker
from tests.support.isa.facts import FILE, instruction_facts

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
    "dst_block_stride of vcopy": "blocks of a copy adjoin",
    "src0_block_stride of vcopy": "blocks of a copy adjoin",
    "dst_gap of fills": "one run of blocks",
    "channel_split of to_l1": "float32 alone is split, and does not go to L1",
    "dst_gap of l0c_to_ub": "what leaves L0C lies without gaps in UB",
    "local_stride of compact": "the length of a row",
    **dict.fromkeys(
        (
            "c1_index", "fetch_filter_w", "fetch_filter_h", "left_top_w", "left_top_h", "jump_stride", "repeat_mode",
            "repeat_time of v1", "c_size",
        ),
        "one load_data_3d stands for as many of these instructions as its fractals need",
    ),
}  # fmt: skip
"""Fields that no public method sets, by name; where only some instructions' are meant, with the instructions'."""


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
    for entry in yaml.safe_load(FILE.with_name("fields.yaml").read_text(encoding="utf-8")):
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
        ("(v1)", "v1"),
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

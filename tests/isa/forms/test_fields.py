"""Every field of an instruction's word that a public method reaches: its limit is taken, one more is refused in one line.

The facts stand in facts.tsv, apart from what is declared, and in fields.yaml.
"""

from __future__ import annotations

import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.forms import GROUPS, Form, declared
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable
from tests.support.isa.facts import CHIPS
from tests.support.isa.fields import FACTS, UNREACHABLE, FieldFact, asker, reached, step_of, unreachable

pytestmark = pytest.mark.fast

GM_BYTES = 1 << 43

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

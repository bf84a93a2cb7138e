"""Facts about instructions, each bound to what this project declares and compared with it, or listed as not declared.

facts.tsv has the facts; facts_told.yaml those without a declaration of their own, with the test that holds them or the reason
why none does, and those that differ, with the reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.errors import SimError
from ascend_sim.isa.cube import Mmad
from ascend_sim.isa.forms import GROUPS, Form, atomics, conversions, declared
from ascend_sim.isa.not_simulated import not_simulated
from tests.support.isa.facts import CHIPS, InstructionFact, instruction_facts

pytestmark = pytest.mark.fast

FACTS = instruction_facts()
HERE = Path(__file__).parent
TOLD = yaml.safe_load((HERE / "facts_told.yaml").read_text(encoding="utf-8"))
FORMS: tuple[Form, ...] = tuple(form for group in GROUPS for form in declared(group))
UNITS = {"fractals of 512 bytes": "512-byte fractals", "fractals of 1,024 bytes": "1024-byte fractals"}
"""Words of the facts for a unit -> those of the forms."""
OF_VECTORS = {"float16", "bfloat16", "float32", "int16", "uint16", "int32", "uint32"}
"""Number formats of this project's vector arithmetic."""
Differences = Iterable[str]


def forms_of(fact: InstructionFact, arch: str) -> list[Form]:
    return [form for form in FORMS if form.name == fact.instruction and arch in form.architectures]


def field(fact: InstructionFact, arch: str) -> Differences:
    """Bits, least, largest and unit of a field, in every form that has it."""
    name, value = fact.what.removeprefix("field "), fact.value
    found = [one for form in forms_of(fact, arch) for one in (*form.fields, *form.fixed) if one.name == name]
    if not found:
        yield f"no form of {fact.instruction} has {name}"
    wanted = value["bits"], value["low"], value["high"], UNITS.get(fact.unit, fact.unit)
    if wanted not in [(one.bits, one.low, one.high, one.unit) for one in found]:
        yield f"{name} is {[(one.bits, one.low, one.high, one.unit) for one in found]}, in the facts {wanted}"


def alignment(fact: InstructionFact, arch: str) -> Differences:
    """Bytes of whose multiples an operand's address is one."""
    operand = fact.what.split()[2]
    for form in forms_of(fact, arch) or [None]:
        if form is None or form.aligned.get(operand) != fact.value:
            yield f"{operand} at multiples of {form and form.aligned.get(operand)}, in the facts {fact.value}"


def architectures(fact: InstructionFact, arch: str) -> Differences:
    """Architectures of an instruction: those of the facts and no others."""
    there = {one for form in FORMS if form.name == fact.instruction for one in form.architectures}
    stated = {one for other in FACTS if other.name == fact.name for one in other.value}
    if there != stated:
        yield f"on {sorted(there)}, in the facts on {sorted(stated)}"


def rule(fact: InstructionFact, arch: str) -> Differences:
    """A rule across fields; "formats" is the list of a form's formats."""
    forms = forms_of(fact, arch)
    if fact.value == "formats":
        if not all(form.dtypes for form in forms if form.way.kind.__name__ != "FixpipeDn" or form.dtypes):
            yield f"{fact.instruction} has no formats"
    elif fact.value not in {words for form in forms for one in form.rules for words in one.words.split("; ")}:
        yield f"no rule {fact.value!r}"


def cast(fact: InstructionFact, arch: str) -> Differences:
    """Rounding modes of a conversion in the vector unit."""
    has = load_chip(CHIPS[arch]).vector.casts.get(fact.instruction.removeprefix("Cast "), ())
    if {*has} != {*fact.value}:
        yield f"modes {sorted(has)}, in the facts {sorted(fact.value)}"


def vector(fact: InstructionFact, arch: str) -> Differences:
    """Formats of an operation of the vector unit, of those that this project has; or that the operation is there."""
    operation = load_chip(CHIPS[arch]).vector.ops.get(fact.instruction.removeprefix("vector "))  # type: ignore[call-overload]
    if fact.what == "exists":
        if bool(operation) != fact.value:
            yield f"there: {bool(operation)}, in the facts {fact.value}"
        return
    has = {*operation.cycles_per_repeat} if operation else set()
    if has & OF_VECTORS != {*fact.value} & OF_VECTORS:
        yield f"formats {sorted(has)}, in the facts {sorted({*fact.value} & OF_VECTORS)}"


def product(fact: InstructionFact, arch: str) -> Differences:
    """Formats of a product, of those that are simulated; others are declared as not simulated."""
    left, right, result = fact.value
    chip = load_chip(CHIPS[arch])
    if left == right and result == ("int32" if left == "int8" else "float32"):
        try:
            found = Mmad(16, 64, 16, left, False).result
        except SimError as error:
            found = str(error)
        Mmad(16, 64, 16, left, False).pipe(chip)
        if found != result:
            yield f"{left} gives {found}, in the facts {result}"
        return
    words = " ".join(one.words for one in not_simulated() if arch in one.architectures)
    named = {"float16": "float16", "int4": "int4"}.get(left, "FLOAT8" if "float8" in left else "uint8")
    if named not in words:
        yield f"{fact.value} is neither simulated nor declared as left out"


def added(fact: InstructionFact, arch: str) -> Differences:
    """Formats of atomic additions to GM, and the buffers that they come from."""
    (one,) = (one for one in atomics() if arch in one.architectures)
    extreme = "Max" in fact.instruction
    if fact.what == "exist":
        found: Any = "max" in one.operations
    else:
        found = {*(one.dtypes if fact.what == "formats" else one.origins)} if not extreme or "max" in one.operations else {}
    if found != (fact.value if fact.what == "exist" else {*fact.value}):
        yield f"{found}, in the facts {fact.value}"


def flags(fact: InstructionFact, arch: str) -> Differences:
    """Pairs of pipes that have flags; those of an AIC's scalar unit are in the vendor's enumeration alone."""
    core = fact.instruction.split()[-1]
    pairs = load_chip(CHIPS[arch]).sync.flag_pairs
    has = {*pairs[core].get(fact.what.removesuffix(" to"), ())}
    missing = {*fact.value} - has
    unused = {"FIX", "MTE2", "MTE3"}
    more = has - {*fact.value} - {"S"} - (unused if core == "AIC" else set())
    if missing or more:
        yield f"to {sorted(has)}, in the facts to {sorted(fact.value)}"


def crossed(fact: InstructionFact, arch: str) -> Differences:
    """Numbers of the flags between cores."""
    sync = load_chip(CHIPS[arch]).sync
    found: dict[str, Any] = {
        "CrossCore modes": [0, 1, 2, *([4] if sync.cross_one_vector_ids else [])],
        "CrossCore ids, modes 0 to 2": sync.cross_flag_ids,
        "CrossCore counter": sync.cross_flag_max,
        "CrossCore flags": bool(sync.cross_flag_ids),
    }
    if found[fact.instruction] != fact.value:
        yield f"{found[fact.instruction]}, in the facts {fact.value}"


def quantised(fact: InstructionFact, arch: str) -> Differences:
    """Formats that the Fixpipe makes of those in L0C."""
    source, targets = fact.value.split("->")
    (one,) = (one for one in conversions() if arch in one.architectures)
    known = {*one.plain.get(source, ()), *one.scaled.get(source, ())}
    if not {*targets.split(", ")} <= known:
        yield f"{source} to {sorted(known)}, in the facts to {targets}"


def is_there(has: Callable[[ChipSpec], bool]) -> Callable[[InstructionFact, str], Differences]:
    def asked(fact: InstructionFact, arch: str) -> Differences:
        if has(load_chip(CHIPS[arch])) != bool(fact.value):
            yield f"there: {not bool(fact.value)}, in the facts {fact.value}"

    return asked


def numbered(of: Callable[[ChipSpec], object]) -> Callable[[InstructionFact, str], Differences]:
    def asked(fact: InstructionFact, arch: str) -> Differences:
        if of(load_chip(CHIPS[arch])) != fact.value:
            yield f"{of(load_chip(CHIPS[arch]))}, in the facts {fact.value}"

    return asked


EXACT: dict[tuple[str, str], Callable[[InstructionFact, str], Differences]] = {
    ("DataCopyPad", "exists"): is_there(lambda chip: named("copy_gm_to_ubuf_align", chip)),
    ("DataCopyPad GM->UB, UB->GM", "exists without a mode"): is_there(lambda chip: named("copy_gm_to_ubuf_align", chip)),
    ("DataCopyPad GM->UB, UB->GM", "exists with modes Normal and Compact"): is_there(lambda chip: named("(compact)", chip)),
    ("SetLoopModePara", "exists"): is_there(lambda chip: named("(loops)", chip)),
    ("DataCopy DN2NZ GM->L1", "exists"): is_there(lambda chip: named("multi_dn2nz", chip)),
    ("DataCopy ND2NZ GM->L1", "exists"): is_there(lambda chip: named("multi_nd2nz", chip)),
    ("DataCopy L1->GM", "exists"): is_there(lambda chip: named("copy_cbuf_to_gm", chip)),
    ("DataCopy L1->GM", "exists, blocks only"): is_there(lambda chip: named("copy_cbuf_to_gm", chip)),
    ("DataCopy L1->BT", "exists"): is_there(lambda chip: named("copy_cbuf_to_bt", chip)),
    ("BiasTable", "size"): numbered(lambda chip: chip.buffers["BT"]),
    ("LoadDataWithTranspose", "exists"): is_there(lambda chip: named("ca_transpose", chip)),
    ("LoadData3D v1", "exists"): is_there(lambda chip: named("(v1)", chip)),
    ("LoadData3D v2, v2Pro", "exists"): is_there(lambda chip: named("img2colv2", chip)),
    ("Mmad hf32", "exists"): is_there(lambda chip: "hf32" in chip.cube.rates),
    ("Mmad with bias", "exists"): is_there(lambda chip: "L1->BT" in chip.paths),
    ("unit flag", "exists"): is_there(lambda chip: chip.has_unit_flag),
    ("Fixpipe", "exists"): is_there(lambda chip: chip.fixpipe is not None),
    ("Fixpipe NZ2DN", "exists"): is_there(lambda chip: named("(nz2dn)", chip)),
    ("Fixpipe source in L0C", "alignment"): numbered(lambda chip: drained("src0", chip)),
    ("Compares", "exists"): is_there(lambda chip: "compares" in chip.vector.ops),
    ("Gather", "exists"): is_there(lambda chip: "gather" in chip.vector.ops),
    ("Scatter", "exists"): is_there(lambda chip: "scatter" in chip.vector.ops),
    ("Brcb", "exists"): is_there(lambda chip: "broadcast" in chip.vector.ops),
    ("MulAddDst", "exists"): is_there(lambda chip: "mul_add" in chip.vector.ops),
    ("vector, all", "bytes of a repeat"): numbered(lambda chip: chip.vector.repeat_bytes),
}  # fmt: skip


def named(part: str, chip: ChipSpec) -> bool:
    return any(part in form.name for form in FORMS if chip.identity.arch in form.architectures)


def drained(operand: str, chip: ChipSpec) -> int:
    (unit,) = {form.aligned[operand] for form in FORMS if chip.identity.arch in form.architectures and "cc_to_gm" in form.name}
    return unit


def binding(fact: InstructionFact) -> Callable[[InstructionFact, str], Differences] | None:
    """Return the comparison of a fact with what is declared, or None for a fact in words."""
    if fact.name in EXACT:
        return EXACT[fact.name]
    kind = fact.instruction.split(" ")[0]
    by_kind = {"Cast": cast, "SetAtomicAdd": added, "SetAtomicMax,": added}
    if fact.what.startswith("field "):
        return field
    if fact.what.startswith("alignment of ") and " in " in fact.what:
        return alignment
    if fact.what in ("on architectures", "rule"):
        return architectures if fact.what == "on architectures" else rule
    if kind == "vector" and fact.what in ("exists", "formats") and "," not in fact.instruction:
        return vector
    if fact.instruction == "Mmad" and fact.what.startswith("formats"):
        return product
    if fact.instruction.startswith("flag pairs of") and fact.what.endswith(" to"):
        return flags
    if fact.instruction.startswith("Fixpipe quantisation"):
        return quantised
    if fact.instruction in ("CrossCore modes", "CrossCore ids, modes 0 to 2", "CrossCore counter", "CrossCore flags"):
        return crossed
    return by_kind.get(kind) if not isinstance(fact.value, str) else None


def told(section: str) -> Counter[tuple[str, ...]]:
    """Return the facts that a section of facts_told.yaml lists: (instruction, what), or (instruction, what, architecture)."""
    return Counter(tuple(one) for entry in TOLD[section] for one in entry["facts"])


def test_every_fact_is_bound_or_listed_once() -> None:
    listed = told("in words")
    assert not [name for name, count in (listed + told("otherwise")).items() if count > 1]
    unbound = {fact.name for fact in FACTS if binding(fact) is None}
    assert unbound - {*listed} == set() and {*listed} - unbound == set()
    assert len(FACTS) == 1117


def test_declarations_are_what_the_facts_say_but_for_what_is_listed() -> None:
    """A difference that no list explains, or an explained one that is gone, is an error."""
    explained = {*told("otherwise")}
    found: dict[tuple[str, ...], str] = {}
    for fact in FACTS:
        asked = binding(fact)
        if asked is not None:
            for arch in fact.architectures:
                words = "; ".join(asked(fact, arch))
                what = f"{fact.what} {fact.value}" if fact.what == "rule" else fact.what
                found |= {(fact.instruction, what, arch): words} if words else {}
    assert {key: words for key, words in found.items() if key not in explained} == {}
    assert explained - {*found} == set()


def test_reasons_name_tests_that_are_there() -> None:
    for section in ("in words", "otherwise"):
        for entry in TOLD[section]:
            assert entry["why"]
            if entry.get("test"):
                file, _, test = entry["test"].partition("::")
                assert f"def {test}" in (HERE.parents[1] / file).read_text(encoding="utf-8"), entry["test"]

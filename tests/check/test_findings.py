"""Where in a tensor a finding says that something is missing or outside, to the byte."""

from __future__ import annotations

from typing import Any

import pytest

import ascend_sim as asim
from ascend_sim.check.findings import CheckFinding
from ascend_sim.chip import load_chip
from ascend_sim.memory.gm import OFFSET_MASK
from tests.support.check.bugs import suite
from tests.support.check.bugs.planted import PAIRS, SPLIT, VECTOR, order, out, x

assert suite.FILES
pytestmark = pytest.mark.fast


def told(report: Any) -> dict[str, CheckFinding]:
    return {one.kind: one for one in [*report.findings, *report.unused]}


def test_the_first_byte_that_nobody_writes_or_reads() -> None:
    """Whole tiles of 64 of 104 float32: 40 of them are left, from byte 256 on."""
    pair = next(pair for pair in PAIRS if pair.name == "tail_left_out")
    found = told(pair.check(SPLIT[0], bug=True))
    for kind, name in (("unwritten output", "b"), ("unused memory", "a")):
        assert found[kind].size == 160
        assert f"{name}+0x100" in found[kind].details[0]


@asim.kernel_function(core=VECTOR)
def across_the_end(k: Any, a: Any, b: Any, *, at: int, first: int = 0, behind: int = 0) -> None:
    held = k.local_tensor(16, "float32", "held")
    k.data_copy("GM", "UB", held.address + behind, a.address + first, 64)
    order(k, "MTE2", "MTE3")
    k.data_copy("UB", "GM", b.address + at, held.address, 64)


@pytest.mark.parametrize(("at", "size"), [(0, 0), (1, 1), (63, 63), (64, 64), (96, 64), (OFFSET_MASK - 31, 64)])
def test_only_what_lies_outside_counts(at: int, size: int) -> None:
    """An access of 64 bytes begins so many bytes behind the start of a tensor of 64; the last cross the address space."""
    found = told(asim.check_kernel(across_the_end, 1, x(16), out(16), chip=SPLIT[0], at=at))
    assert (found["illegal write"].size if "illegal write" in found else 0) == size


@pytest.mark.parametrize(
    ("fields", "kind", "words"),
    [
        ({"at": 1}, "illegal write", "b+0x1 of 0x40 bytes"),
        ({"at": 96}, "illegal write", "b+0x60 of 0x40 bytes"),
        ({"at": 0, "first": 32}, "illegal read", "a+0x20 of 0x40 bytes"),
    ],
)
def test_an_illegal_access_of_gm_has_an_address_of_gm(fields: dict[str, int], kind: str, words: str) -> None:
    """It counts from the start of GM, as that of all other findings; the second tensor does not begin there."""
    report = asim.check_kernel(across_the_end, 1, x(16), out(16), chip=SPLIT[0], **fields)
    (place,) = (found := told(report)[kind]).places
    least = 64 if words[0] == "b" else 0
    assert place.address is not None and place.address >= least + int(words[2:].partition(" ")[0], 16)
    assert f"at {place.address:#x} on GM in across_the_end, {words}" in found.details[0]


def test_an_illegal_access_of_a_buffer_has_its_address() -> None:
    size = load_chip(SPLIT[0]).buffers["UB"]
    report = asim.check_kernel(across_the_end, 1, x(16), out(16), chip=SPLIT[0], at=0, behind=size)
    found = told(report)["illegal write"]
    assert [place.address for place in found.places] == [size]
    assert found.details == (f"at {size:#x} on UB in across_the_end",)


@asim.kernel_function(core="AIV", all_cores=True)
def barrier_of_the_first_core(k: Any, a: Any, b: Any) -> None:
    if k.block == 0:
        k.cross_core_set(0, 0, "MTE3")
        k.cross_core_wait(0, 0, "MTE2")


@pytest.mark.parametrize(("blocks", "more"), [(5, ""), (6, " and 1 more")])
def test_at_most_four_cores_are_named_that_do_not_come(blocks: int, more: str) -> None:
    report = asim.check_kernel(barrier_of_the_first_core, blocks, x(16), out(16), chip=SPLIT[0])
    missed = {one.details[0].partition("not set by ")[2] for one in report.findings if one.kind == "barrier not reached"}
    assert missed == {"block 1 AIV0, block 2 AIV0, block 3 AIV0, block 4 AIV0" + more}


@asim.kernel_function(core="AIV", all_cores=True)
def first_core_alone_waits(k: Any, a: Any, b: Any) -> None:
    k.cross_core_set(0, 0, "MTE3")
    if k.block == 0:
        k.cross_core_wait(0, 0, "MTE2")


@asim.kernel_function(core="MIX")
def flag_to_one_vector_core(k: Any, a: Any, b: Any, *, waits: bool) -> None:
    if waits and not k.is_cube and k.sub_block == 0:
        k.cross_core_wait(0, 4, "MTE2")
    if not waits and k.is_cube:
        k.cross_core_set(0, 4, "FIX")


@asim.kernel_function(core="MIX")
def one_of_two_vector_cores_sets(k: Any, a: Any, b: Any) -> None:
    if k.is_cube:
        k.cross_core_wait(0, 2, "FIX")
    elif k.sub_block == 0:
        k.cross_core_set(0, 2, "MTE3")


@pytest.mark.parametrize(
    ("kernel", "blocks", "arguments", "expected"),
    [
        (first_core_alone_waits, 2, {}, {("ERROR", "barrier not reached", "not waited for by block 1 AIV0")}),
        (
            flag_to_one_vector_core, 1, {"waits": False},
            {("WARNING", "unpaired cross_core_set_flag", "not waited for by block 0 AIV0")},
        ),
        (
            flag_to_one_vector_core, 1, {"waits": True},
            {("ERROR", "unpaired cross_core_wait_flag", "not set by block 0 AIC")},
        ),
        (
            one_of_two_vector_cores_sets, 1, {},
            {
                ("WARNING", "unpaired cross_core_set_flag", "not set by block 0 AIV1"),
                ("ERROR", "unpaired cross_core_wait_flag", "not set by block 0 AIV1"),
            },
        ),
    ],
)  # fmt: skip
def test_a_finding_says_whether_a_core_does_not_set_or_does_not_wait(
    kernel: Any, blocks: int, arguments: dict[str, Any], expected: set[tuple[str, str, str]]
) -> None:
    """Only modes 0 and 1 join cores as a barrier does: a flag to one core or to the other kind has a set and a wait."""
    report = asim.check_kernel(kernel, blocks, x(16), out(16), chip=SPLIT[1], **arguments)
    assert {(one.level, one.kind, one.details[0].partition("; ")[2]) for one in report.findings} == expected


@asim.kernel_function(core=VECTOR)
def written_twice(k: Any, a: Any, b: Any) -> None:
    k.local_tensor(16, "float32", "first")
    held = k.local_tensor(16, "float32", "second")
    k.data_copy("GM", "UB", held.address, a.address, 64)
    k.data_copy("UB", "GM", b.address, held.address, 64)


def test_a_race_names_the_calls_and_what_they_touch() -> None:
    """The piece of the buffer is the one that holds the bytes, not the first."""
    race = told(asim.check_kernel(written_twice, 1, x(16), out(16), chip=SPLIT[0]))["RAW"]
    assert race.tensor == race.to_dict()["tensor"] == "second"
    assert [place.call for place in race.places] == [
        'k.data_copy("GM", "UB", held.address, a.address, 64)',
        'k.data_copy("UB", "GM", b.address, held.address, 64)',
    ]
    assert race.brief().startswith("RAW: ") and race.brief().endswith(f" writes it, in no order; {race.advice}")
    assert race.places[0].where().endswith(f": {race.places[0].call}")

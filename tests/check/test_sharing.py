"""Who shares bytes, against sets of bytes; and what is asked of halves of the bytes, against what is asked of pairs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ascend_sim.check import questions, sharing
from ascend_sim.check.accesses import Accesses, Shapes
from ascend_sim.check.findings import CheckReport
from ascend_sim.check.halves import halves
from ascend_sim.check.run import check_programs
from ascend_sim.check.sharing import pairs_among, sharing_pairs
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH
from ascend_sim.engine.task import Task
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import Allocation, gm_operand
from ascend_sim.memory.regions import Region, row_starts
from tests.support.check.naive_order import unordered
from tests.support.check.random_programs import CHIP, random_program, subject_of
from tests.support.sampling import part_of_cases


@pytest.fixture
def by_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked of pairs, and little at a time."""
    monkeypatch.setattr(sharing, "MOST_PAIRS", 0)
    monkeypatch.setattr(sharing, "_FEW", -1)
    monkeypatch.setattr(sharing, "_CHUNK", 20)
    monkeypatch.setattr(questions, "_CHUNK", 20)


def random_accesses(seed: int, count: int = 40) -> tuple[Accesses, Shapes, list[set[int]]]:
    """One access of each footprint of several programs, and its bytes."""
    rng, shapes = np.random.default_rng(seed), Shapes(CHIP)
    rows = [Region("dst", "GM", int(rng.integers(1, 9)), 12, int(rng.integers(1, 4)), 40, 1 + i % 2) for i in range(6)]
    form = np.asarray([shapes.number(region) for region in rows], np.int32)[rng.integers(6, size=count)]
    owner = rng.integers(3, size=count) * WIDTH + 1 + rng.integers(3, size=count)
    start, writes = rng.integers(0, 90, size=count), rng.random(count) < 0.6
    atomic = np.where(writes, rng.integers(0, 3, size=count), 0)
    order = np.lexsort((start, form, atomic, writes, owner))
    owner, form, start, writes, atomic = (one[order] for one in (owner, form, start, writes, atomic))
    number = np.arange(count, dtype=np.int32)
    a = Accesses("GM", number, number, number, owner, form, start, writes, atomic, np.arange(count + 1))
    held = [
        {int(start[i]) + at + byte for at in row_starts(one).tolist() for byte in range(one.row_bytes)}
        for i, one in enumerate(shapes.forms[number] for number in form.tolist())
    ]
    return a, shapes, held


def sharing_by_bytes(a: Accesses, held: list[set[int]]) -> set[tuple[int, int]]:
    return {
        (f, g)
        for f in range(len(held))
        for g in range(f, len(held))
        if held[f] & held[g] and (a.writes[f] or a.writes[g]) and not (a.atomic[f] and a.atomic[f] == a.atomic[g])
    }


def told(f: Any, g: Any) -> list[tuple[int, int]]:
    return [(min(pair), max(pair)) for pair in zip(f.tolist(), g.tolist(), strict=True)]


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_pairs_share_a_byte_and_are_told_once_in_one_order(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    a, shapes, held = random_accesses(seed)
    pairs = sharing_pairs(a, shapes)
    assert pairs is not None
    wanted = sharing_by_bytes(a, held)
    assert len(pairs[0]) == len(wanted) and set(told(*pairs)) == wanted
    monkeypatch.setattr(sharing, "_CHUNK", 7)
    parts = list(pairs_among(a, shapes, np.arange(len(a.start))))
    assert len(parts) > 3
    for side, several in zip(pairs, zip(*parts, strict=True), strict=True):
        assert side.tolist() == np.concatenate(several).tolist()


@pytest.mark.fast
def test_a_write_comes_before_a_read_that_begins_with_it() -> None:
    """Writes with writes, then writes with reads that begin in them, then reads with writes that begin behind them."""
    shapes, number = Shapes(CHIP), np.arange(4, dtype=np.int32)
    form = np.full(4, shapes.number(Region("dst", "GM", 8)), np.int32)
    start, writes = np.asarray([0, 4, 4, 8]), np.asarray([True, False, True, True])
    a = Accesses("GM", number, number, number, number, form, start, writes, np.zeros(4, np.int32), np.arange(5))
    pairs = sharing_pairs(a, shapes)
    assert pairs is not None
    assert list(zip(*(side.tolist() for side in pairs), strict=True)) == [
        (0, 0), (0, 2), (2, 2), (2, 3), (3, 3), (0, 1), (2, 1), (1, 3),
    ]  # fmt: skip


@pytest.mark.fast
def test_many_pairs_are_not_made() -> None:
    shapes, number = Shapes(CHIP), np.arange(600, dtype=np.int32)
    form = np.full(600, shapes.number(Region("dst", "GM", 8)), np.int32)
    zero = np.zeros(600, np.int32)
    a = Accesses("GM", number, number, number, number, form, zero, zero == 0, zero, np.arange(601))
    assert sharing_pairs(a, shapes) is None
    a.atomic = zero + 1
    pairs = sharing_pairs(a, shapes)
    assert pairs is not None and not len(pairs[0])


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_halves_bring_together_who_shares_a_byte(seed: int) -> None:
    """Programs that hear of each other are compared as pairs, others by name."""
    a, shapes, held = random_accesses(seed)
    wanted = sharing_by_bytes(a, held)
    for group in (np.zeros(3, np.int64), np.arange(3), np.asarray([0, 1, 0])):
        found, apart = set[tuple[int, int]](), set[int]()
        for some in halves(a, shapes, group):
            members = [
                [int(a.footprint[some.of[access]]) for access in range(*some.accesses.first[i : i + 2].tolist())]
                for i in range(len(some.accesses.start))
            ]
            for f, g in zip(*(side.tolist() for side in some.pairs), strict=True):
                found |= {(min(x, y), max(x, y)) for x in members[f] for y in members[g]}
            apart |= set(some.apart.tolist())
        hears = group[a.owner // WIDTH]
        near = {(f, g) for f, g in wanted if hears[f] == hears[g]}
        assert {pair for pair in found if pair[0] != pair[1]} == {pair for pair in near if pair[0] != pair[1]}
        assert {f for f, g in near if f == g} <= {f for f, g in found if f == g}
        assert apart == {one for pair in wanted - near for one in pair}


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(25))
def test_of_halves_is_asked_what_a_search_of_the_graph_finds(seed: int, by_halves: None) -> None:
    program = random_program(seed, 12 + seed % 24)
    subject = subject_of(program)
    wanted = unordered(program)
    for space, a in subject.accesses.items():
        assert subject.pairs[space] is None or not len(a.row)
        racing = {(row, space) for row in a.row[np.isin(a.footprint, subject.disorder[space].footprints)].tolist()}
        assert {(row, space) for b, x, where in wanted if where == space for row in (b, x)} <= racing
    assert {space for *_, space in wanted} == {s for s, one in subject.disorder.items() if len(one.footprints)}


def reported(programs: list[Program]) -> CheckReport:
    tensors = [Allocation((1 << 40) + i * (1 << 20), 1 << 16, name, None) for i, name in enumerate(("a", "b"))]
    task = Task("random", "Random", "AIV", len(programs), tensors, lambda block: [programs[block]])
    return check_programs(CHIP, [task], [programs], roles={"b": "output"})


@part_of_cases(4)
@pytest.mark.parametrize("seed", range(60))
def test_halves_and_pairs_find_the_same(seed: int, request: pytest.FixtureRequest) -> None:
    programs = [random_program(seed, 10 + seed % 30), random_program(seed + 1000 * (seed % 3), 10 + seed % 30)]
    plain = reported(programs).to_dict()
    request.getfixturevalue("by_halves")
    assert reported(programs).to_dict() == plain


def pieces_over_each_other(order: bool) -> Program:
    """Stores of ever longer pieces, one behind the other or not."""
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [1 << 16, 1 << 16])
    for i in range(120):
        k.data_copy("UB", "GM", gm_operand(1, 0), 0, 32 * (i + 1))
        if order:
            k.pipe_barrier("MTE3")
    return k.finish()


@pytest.mark.parametrize("order", [True, False])
def test_many_pieces_over_each_other_are_asked_about_by_halves(order: bool) -> None:
    program = pieces_over_each_other(order)
    tensors = [Allocation((1 << 40) + i * (1 << 20), 1 << 16, name, None) for i, name in enumerate(("a", "b"))]
    subject = Subject(CHIP, Task("pieces", "Pieces", "AIV", 1, tensors, lambda _: [program]), [program], Shapes(CHIP))
    assert subject.pairs["GM"] is None and subject.pairs["UB"] is not None
    found = subject.disorder["GM"]
    assert len(found.footprints) == (0 if order else 120)
    assert len(found.first) == (0 if order else 120 * 119 // 2)

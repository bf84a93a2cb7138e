"""Order against a graph that is searched pair by pair, on random programs; and against hazards that runs show."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import find_hazards
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, LOCAL, TRANSFER, WAIT
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand
from tests.support.check.naive_order import pairs_of, retired_before, unordered

CHIP = load_chip("ascend910b3")
SIZE = 4096


def random_program(seed: int, length: int = 40) -> Program:
    """Loads, sums and stores in a corner of UB and of GM, with flags and barriers thrown in between."""
    rng = np.random.default_rng(seed)
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [SIZE, SIZE])
    pipes = ("MTE2", "V", "MTE3")
    raised: list[object] = []

    def place(count: int) -> int:
        return int(rng.integers(0, 6 - count)) * 64

    for _ in range(length):
        what = rng.integers(0, 10)
        if what < 2:
            rows = int(rng.integers(1, 3))
            k.data_copy("GM", "UB", place(rows), gm_operand(int(rng.integers(2)), place(rows)), 32, rows, 64, 64)
        elif what < 4:
            k.vector_binary("add", place(1), place(2), place(1), "float32", int(rng.integers(8, 17)))
        elif what < 6:
            atomic = "float32" if rng.random() < 0.3 else ""
            k.data_copy("UB", "GM", gm_operand(int(rng.integers(2)), place(2)), place(2), 64, 2, 64, 64, atomic)
        elif what < 8:
            source, destination = rng.permutation(pipes)[:2]
            flag = k.flag(str(source), str(destination), f"{source}->{destination}")
            k.set_flag(flag)
            raised.append(flag)
        elif what == 8 and raised:
            k.wait_flag(raised.pop(int(rng.integers(len(raised)))))  # type: ignore[arg-type]
        elif rng.random() < 0.7:
            k.pipe_barrier(str(rng.choice(pipes)))
        elif rng.random() < 0.5:
            k.pipe_barrier("ALL")
        else:
            k.scalar_wait(str(rng.choice(pipes)))
    for flag in raised:
        k.wait_flag(flag)  # type: ignore[arg-type]
    return k.finish()


def subject_of(program: Program) -> Subject:
    device = Device(CHIP, with_values=False)
    tensors = [device.allocate(SIZE, name) for name in ("a", "b")]
    task = Task("random", "Random", "AIV", 1, tensors, lambda block: [program])
    return Subject(CHIP, task, [program])


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(30))
def test_what_is_unordered_is_what_a_search_of_the_graph_finds(seed: int) -> None:
    """A check names for each access the first that is unordered: none that the search does not find, and one where it does."""
    program = random_program(seed)
    subject = subject_of(program)
    told = pairs_of(subject.unordered, {space: a.row for space, a in subject.accesses.items()})
    wanted = unordered(program)
    assert told <= wanted
    places = {(row, space) for a, b, space in wanted for row in (a, b)}
    named = {(row, space) for a, b, space in told for row in (a, b)}
    assert bool(told) == bool(wanted) and named <= places
    nearest = set()
    for space, asked in subject.questions.items():
        first, second = subject.unordered[space]
        if len(first):
            rows = subject.accesses[space].row
            pairs = asked.nearest(first, second, subject.order.clocks)
            nearest |= {(min(x), max(x)) for x in zip(rows[pairs[0]].tolist(), rows[pairs[1]].tolist(), strict=True)}
    assert nearest <= {(a, b) for a, b, _ in wanted}


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_without_some_waits_is_known_what_a_search_without_them_reaches(seed: int) -> None:
    """The first rows alone know as much; those behind them know no less than in the whole program."""
    program = random_program(100 + seed)
    subject = subject_of(program)
    waits = [row for row, kind, *_ in subject.synced[0].items if kind in (WAIT, BARRIER, BARRIER_ALL)]
    rng = np.random.default_rng(seed)
    pipes = program.per_row("pipe")
    works = np.flatnonzero(np.isin(program.per_row("kind"), (LOCAL, TRANSFER)))
    of, others = (side.ravel() for side in np.meshgrid(works, works))
    place = subject.synced[0].place[others]
    for count in (1, 4):
        left_out = frozenset(rng.permutation(waits)[:count].tolist())
        reached = retired_before(program, left_out)
        wanted = [other in reached[row] for row, other in zip(of.tolist(), others.tolist(), strict=True)]
        order, part = subject.order, subject.order.part({0: left_out}, 20)
        clocks = (order.without({0: left_out}).clocks_in("UB"), part.clocks_in("UB"))
        whole, early = (one.known(np.zeros_like(of), of, pipes[others]) > place for one in clocks)
        assert whole.tolist() == wanted
        assert (early[of < 20] == whole[of < 20]).all() and (early >= whole).all()


@pytest.mark.parametrize("seed", range(60))
def test_an_ordered_program_shows_no_hazard_when_it_runs(seed: int) -> None:
    """Whatever the costs are: what a run finds lies within what is unordered."""
    program = random_program(seed, 4 + seed % 12)
    subject = subject_of(program)
    timeline = Engine(Device(CHIP, with_values=False)).run([subject.task])
    hazards = find_hazards([subject.task], timeline.programs)
    found = any(len(first) for first, _ in subject.unordered.values())
    assert found or not hazards


def test_some_random_programs_are_in_order_and_some_are_not() -> None:
    """Else the two tests above would prove little."""
    unordered_ones = [
        any(len(first) for first, _ in subject_of(random_program(seed, 4 + seed % 12)).unordered.values())
        for seed in range(60)
    ]
    assert 5 < sum(unordered_ones) < 55

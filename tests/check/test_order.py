"""Order against a graph that is searched pair by pair, on random programs; and against hazards that runs show."""

from __future__ import annotations

import numpy as np
import pytest
from naive_order import pairs_of, retired_before, unordered

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.questions import nearest
from ascend_sim.check.subject import Subject
from ascend_sim.chip import load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.engine.watch import find_hazards
from ascend_sim.isa.base import BARRIER, BARRIER_ALL, LOCAL, PIPES, TRANSFER, WAIT
from ascend_sim.isa.transfer import DataCopy
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from ascend_sim.memory.gm import gm_operand

CHIP = load_chip("ascend910b3")
SIZE = 4096


def test_regions_of_the_same_bytes_are_of_one_form() -> None:
    """However far the next row would be that there is not, and whether rows that touch are told as rows."""
    table, shapes = InstructionTable(CHIP), Shapes()
    for rows, row_bytes, stride in ((1, 128, 128), (1, 128, 4096), (2, 64, 64), (2, 64, 96)):
        table.add((DataCopy, "GM", "UB", row_bytes, rows, stride, 128))
    _, forms, _ = shapes.of(table, "GM")
    assert forms.tolist() == [0, 0, 0, 1]


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
    found = {space: (one.first, one.second) for space, one in subject.disorder.items()}
    told = pairs_of(found, {space: a.row for space, a in subject.accesses.items()})
    wanted = unordered(program)
    assert told <= wanted
    places = {(row, space) for a, b, space in wanted for row in (a, b)}
    named = {(row, space) for a, b, space in told for row in (a, b)}
    assert bool(told) == bool(wanted) and named <= places
    neighbours = set()
    for space, (first, second) in found.items():
        a = subject.accesses[space]
        pairs = nearest(a, first, second, subject.order.clocks)
        neighbours |= {(min(x), max(x)) for x in zip(a.row[pairs[0]].tolist(), a.row[pairs[1]].tolist(), strict=True)}
    assert neighbours <= {(a, b) for a, b, _ in wanted}


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_without_some_waits_is_known_what_a_search_without_them_reaches(seed: int) -> None:
    """The first events alone know as much; those behind them know no less than in the whole program."""
    program = random_program(100 + seed)
    subject = subject_of(program)
    items = subject.order.matches.items
    waits = items.row[np.isin(items.kind, (WAIT, BARRIER, BARRIER_ALL))]
    rng = np.random.default_rng(seed)
    pipes = program.per_row("pipe")
    works = np.flatnonzero(np.isin(program.per_row("kind"), (LOCAL, TRANSFER)))
    of, others = (side.ravel() for side in np.meshgrid(works, works))
    place = subject.synced[0].place[others]
    for count in (1, 4):
        left_out = rng.permutation(waits)[:count].tolist()
        reached = retired_before(program, left_out)
        wanted = [other in reached[row] for row, other in zip(of.tolist(), others.tolist(), strict=True)]
        order, out = subject.order, np.isin(items.row, left_out)
        part = order.part(np.flatnonzero(items.row[order.events.item] < 20), out)
        clocks = order.without({0: left_out}).clocks_in("UB"), part
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
    found = any(len(one.first) for one in subject.disorder.values())
    assert found or not hazards


def test_some_random_programs_are_in_order_and_some_are_not() -> None:
    """Else the two tests above would prove little."""
    unordered_ones = [
        any(len(one.first) for one in subject_of(random_program(seed, 4 + seed % 12)).disorder.values())
        for seed in range(60)
    ]
    assert 5 < sum(unordered_ones) < 55


@pytest.mark.fast
def test_a_clock_learns_through_a_third_pipe() -> None:
    """MTE2 -> V -> MTE3: what MTE2 did before comes before what MTE3 does after, though no flag joins the two."""
    k = KernelBuilder(InstructionTable(CHIP), 0, "AIV", [SIZE, SIZE])
    k.data_copy("GM", "UB", 0, 0, 64)
    for source, destination in (("MTE2", "V"), ("V", "MTE3")):
        flag = k.flag(source, destination, source)
        k.set_flag(flag)
        k.wait_flag(flag)
    k.data_copy("UB", "GM", 0, 0, 64)
    subject = subject_of(k.finish())
    clocks = subject.order.clocks
    last = np.asarray([5])
    assert clocks.known(np.zeros(1, np.int64), last, np.asarray([PIPES.index("MTE2")])).tolist() == [1]
    assert clocks.known(np.zeros(1, np.int64), last, np.asarray([PIPES.index("V")])).tolist() == [1]
    assert clocks.event.tolist() == [0, 0, 2, 2, 1, 1] and len(clocks.retired) == 3

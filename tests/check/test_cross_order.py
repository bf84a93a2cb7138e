"""The order that flags between cores make, against a graph of all programs that is searched; and who stands for ever."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np
import pytest

from ascend_sim.check.accesses import Shapes
from ascend_sim.check.matches import Matches
from ascend_sim.check.order import TaskOrder
from ascend_sim.check.subject import Subject
from ascend_sim.check.sync_rows import WIDTH, SyncRows
from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.task import Task
from ascend_sim.isa.base import LOCAL, TRANSFER
from ascend_sim.isa.sync import CrossCoreSetFlag, CrossCoreWaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.program import InstructionTable, Program
from tests.support.check.naive_order import edges
from tests.support.engine.machine import changed
from tests.support.sampling import part_of_cases

STOPS = load_chip("ascend910b3")
"""A chip on which a wait between cores holds all that is issued later."""
ON_ITS_PIPE = changed(STOPS, sync={"cross_wait_stops_issue": False})
PIPES = {"AIC": ("MTE2", "FIX"), "AIV": ("MTE2", "V", "MTE3")}
Core = tuple[int, str, int]
TASKS: dict[str, tuple[list[Core], tuple[int, ...]]] = {
    "blocks": ([(block, *core) for block in range(2) for core in (("AIC", 0), ("AIV", 0), ("AIV", 1))], (1, 2)),
    "together": ([(block, "AIV", 0) for block in range(3)], (0,)),
    "both": ([(block, *core) for block in range(2) for core in (("AIC", 0), ("AIV", 0), ("AIV", 1))], (0, 1, 2)),
}


def builders(cores: Sequence[Core], chip: ChipSpec = ON_ITS_PIPE) -> list[KernelBuilder]:
    tables = {kind: InstructionTable(chip, kind) for _, kind, _ in cores}
    return [KernelBuilder(tables[kind], block, kind, [1 << 16], sub_block=sub) for block, kind, sub in cores]


def work(k: KernelBuilder, pipe: str) -> None:
    """A row that is no flag."""
    if pipe == "V":
        k.vector_duplicate(0, "float32", 8)
    elif pipe == "FIX":
        k.fixpipe_nd(0, 0, 16, 16, 16, "float32", 64)
    else:
        source, destination = ("GM", "L1" if k.core_kind == "AIC" else "UB") if pipe == "MTE2" else ("UB", "GM")
        k.data_copy(source, destination, 0, 0, 32)


def members(cores: Sequence[Core], mode: int, kind: str, block: int) -> list[int]:
    return [i for i, core in enumerate(cores) if core[1] == kind and (mode == 0 or core[0] == block)]


def random_task(name: str, seed: int, chip: ChipSpec = ON_ITS_PIPE, steps: int = 30) -> list[Program]:
    """Rows in an order in which nobody stands: every wait is written when all have raised its flag."""
    cores, modes = TASKS[name]
    rng = np.random.default_rng(seed)
    made = builders(cores, chip)
    pipe_of: dict[tuple[object, ...], str] = {}

    def pipe(*key: object) -> str:
        """The pipe on which a core meets others with a flag, which stays the same."""
        choice = PIPES[made[int(str(key[0]))].core_kind]
        return pipe_of.setdefault(key, str(rng.choice(choice)))

    raised: list[tuple[int, int, str]] = []
    for _ in range(steps):
        what = rng.random()
        if what < 0.25:
            mode, kind = int(rng.choice(modes)), str(rng.choice(sorted({core[1] for core in cores})))
            if mode == 1:
                kind = "AIV"
            block, flag = int(rng.integers(2)) if mode else 0, int(rng.integers(2))
            for i in members(cores, mode, kind, block):
                made[i].cross_core_set(flag, mode, pipe(i, "set", flag, mode))
            waits = {"AIC": "AIV", "AIV": "AIC"}[kind] if mode == 2 else kind
            for i in members(cores, mode, waits, block):
                raised.append((i, flag, str(mode)))
        elif what < 0.5 and raised:
            i, flag, mode_ = raised.pop(0)
            made[i].cross_core_wait(flag, int(mode_), pipe(i, "wait", flag, mode_))
        else:
            k = made[int(rng.integers(len(made)))]
            pipes = PIPES[k.core_kind]
            if what < 0.7:
                work(k, str(rng.choice(pipes)))
            elif what < 0.9:
                source, destination = rng.permutation(pipes)[:2].tolist()
                k.set_flag(inner := k.flag(source, destination, f"{source} {destination}"))
                k.wait_flag(inner)
            elif what < 0.95:
                k.pipe_barrier(str(rng.choice(pipes)))
            else:
                k.pipe_barrier("ALL")
    for i, flag, mode_ in raised:
        made[i].cross_core_wait(flag, int(mode_), pipe(i, "wait", flag, mode_))
    for k in made:
        for one in PIPES[k.core_kind]:
            work(k, one)
    return [k.finish() for k in made]


def subject_of(programs: Sequence[Program]) -> Subject:
    chip = programs[0].table.chip
    task = Task("random", "Random", "MIX", 2, [], lambda _: list(programs))
    return Subject(chip, task, list(programs), Shapes(chip))


def order_of(programs: Sequence[Program]) -> TaskOrder:
    return subject_of(programs).order


def retired_before(programs: Sequence[Program]) -> dict[tuple[int, int], set[tuple[int, int]]]:
    """For every (program, row) those that have retired when it starts."""
    cores = [(one.block, one.core_kind, one.sub_block) for one in programs]
    after: dict[tuple[str, int, int], list[tuple[str, int, int]]] = {}
    raised: dict[tuple[object, ...], list[int]] = {}
    waits: dict[tuple[object, ...], list[int]] = {}
    for i, program in enumerate(programs):
        for (kind, row), (other, later) in edges(program):
            after.setdefault((kind, i, row), []).append((other, i, later))
        for row, view in enumerate(program):
            one = view.instruction
            if isinstance(one, CrossCoreSetFlag):
                raised.setdefault((one.flag, one.mode, i), []).append(row)
            if isinstance(one, CrossCoreWaitFlag):
                waits.setdefault((one.flag, one.mode, i), []).append(row)
    for (flag, mode, i), rows in waits.items():
        block, kind, _ = cores[int(str(i))]
        setter = {"AIC": "AIV", "AIV": "AIC"}[kind] if mode == 2 else kind
        for turn, row in enumerate(rows):
            for j in members(cores, int(str(mode)), setter, block):
                after.setdefault(("retire", j, raised[flag, mode, j][turn]), []).append(("retire", int(str(i)), row))
    found: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for i, program in enumerate(programs):
        for row in range(len(program)):
            seen, ends = {("retire", i, row)}, deque([("retire", i, row)])
            while ends:
                for node in after.get(ends.popleft(), ()):
                    if node not in seen:
                        seen.add(node)
                        ends.append(node)
                        if node[0] == "start":
                            found.setdefault(node[1:], set()).add((i, row))
    return found


def compared(programs: Sequence[Program]) -> int:
    """Compare what every row knows of every other with a search; how often a core knew of another."""
    order, reached = order_of(programs), retired_before(programs)
    assert not order.faults.stuck and not order.faults.waits
    works = [
        (i, row)
        for i, program in enumerate(programs)
        for row in np.flatnonzero(np.isin(program.per_row("kind"), (LOCAL, TRANSFER))).tolist()
    ]
    across = 0
    for i, row in works:
        for j, other in works:
            synced = order.synced[j]
            owner = np.asarray([j * WIDTH + int(synced.pipe[other])])
            known = order.clocks.known(np.asarray([i]), np.asarray([row]), owner)[0] > synced.place[other]
            assert known == ((j, other) in reached.get((i, row), ())), (i, row, j, other)
            across += i != j and bool(known)
    return across


@part_of_cases(3)
@pytest.mark.parametrize("chip", [ON_ITS_PIPE, STOPS], ids=["on its pipe", "stops issue"])
@pytest.mark.parametrize("name", TASKS)
def test_what_cores_know_of_each_other_is_what_a_search_reaches(name: str, chip: ChipSpec) -> None:
    assert sum(compared(random_task(name, seed, chip)) for seed in range(14)) > 50


@pytest.mark.parametrize("name", TASKS)
@pytest.mark.parametrize("seed", range(14))
def test_walked_pipe_by_pipe_the_same_sets_end_the_same_waits(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = [SyncRows(program) for program in random_task(name, seed)]
    plain = Matches(synced)
    monkeypatch.setattr(Matches, "_cross_in_rows", lambda self: False)
    walked = Matches(synced)
    assert walked.faults == plain.faults
    for one, other in zip(plain.partner.tolist(), walked.partner.tolist(), strict=True):
        assert (one < 0) == (other < 0)
    ends = [[sorted(each.cross.released[p]) for p in each.partner[each.items.kind == 7]] for each in (plain, walked)]
    assert ends[0] == ends[1]
    inner = plain.items.kind != 7
    assert (plain.partner[inner] == walked.partner[inner]).all()


def pair() -> tuple[KernelBuilder, KernelBuilder, KernelBuilder]:
    """A cube core and its vector cores."""
    cube, one, other = builders([(0, "AIC", 0), (0, "AIV", 0), (0, "AIV", 1)])
    return cube, one, other


@pytest.mark.fast
def test_a_pipe_that_waits_does_not_hold_the_others() -> None:
    """Row by row the cube core would stand at its first row: another pipe raises what the vector cores wait for."""
    cube, *vectors = pair()
    cube.cross_core_wait(1, 2, "FIX")
    cube.cross_core_set(0, 2, "MTE2")
    for k in vectors:
        k.cross_core_wait(0, 2, "MTE2")
        k.cross_core_set(1, 2, "MTE2")
    order = order_of([k.finish() for k in (cube, *vectors)])
    assert not order.faults.stuck and len(order.matches.cross.released) == 2
    assert order.matches.partner.tolist() == [1, -1, 0, -1, 0, -1]


@pytest.mark.fast
@pytest.mark.parametrize("stop", ["", "MTE2", "FIX", "ALL"])
def test_what_stands_behind_a_wait_waits_and_the_scalar_unit_too(stop: str) -> None:
    """The set behind a wait on its pipe comes never; nor one behind a barrier that waits for that pipe."""
    cube, *vectors = pair()
    cube.cross_core_wait(1, 2, "FIX")
    if stop == "ALL":
        cube.pipe_barrier("ALL")
    elif stop:
        cube.scalar_wait(stop)
    cube.cross_core_set(0, 2, "MTE2" if stop else "FIX")
    for k in vectors:
        k.cross_core_wait(0, 2, "MTE2")
        k.cross_core_set(1, 2, "MTE2")
    faults = order_of([k.finish() for k in (cube, *vectors)]).faults
    assert bool(faults.stuck) == (stop != "MTE2")
    if faults.stuck:
        assert faults.stuck == [(0, 0), (1, 0), (2, 0)]


@pytest.mark.fast
@pytest.mark.parametrize("comes", [True, False])
def test_a_disarmed_wait_holds_nothing(comes: bool) -> None:
    """Armed, all would wait in a circle, or for a set that never comes. The engine comes to the end too."""
    cube, *vectors = pair()
    cube = KernelBuilder(cube.table, 0, "AIC", [1 << 16], disarm=("cross-core 1",))
    cube.cross_core_wait(1, 2, "FIX")
    cube.cross_core_set(0, 2, "FIX")
    for k in vectors:
        k.cross_core_wait(0, 2, "MTE2")
        if comes:
            k.cross_core_set(1, 2, "MTE2")
    programs = [k.finish() for k in (cube, *vectors)]
    order = order_of(programs)
    assert not order.faults.stuck and not order.faults.waits and order.matches.partner[0] == -1
    assert len(order.matches.cross.released) == 1 + comes
    Engine(Device(ON_ITS_PIPE, with_values=False)).run([Task("m", "T", "MIX", 1, (), lambda block: programs)])


@pytest.mark.fast
def test_a_flag_that_two_pipes_raise_counts_as_they_come_to_it() -> None:
    """The first set in the text stands behind a wait; the second one, on another pipe, is the first turn."""
    cube, *vectors = pair()
    cube.cross_core_wait(1, 2, "FIX")
    cube.cross_core_set(0, 2, "FIX")
    cube.cross_core_set(0, 2, "MTE2")
    for k in vectors:
        k.cross_core_wait(0, 2, "MTE2")
        k.cross_core_set(1, 2, "MTE2")
        k.cross_core_wait(0, 2, "MTE2")
    order = order_of([k.finish() for k in (cube, *vectors)])
    assert not order.faults.stuck
    assert order.matches.cross.released == [[2], [4, 7], [1]]


@pytest.mark.fast
def test_a_core_hears_of_itself_through_others() -> None:
    """FIX raises a flag, the vector cores answer, MTE2 hears it: what FIX did before has retired."""
    cube, *vectors = pair()
    work(cube, "FIX")
    cube.cross_core_set(0, 2, "FIX")
    cube.cross_core_wait(1, 2, "MTE2")
    work(cube, "MTE2")
    for k in vectors:
        k.cross_core_wait(0, 2, "V")
        k.cross_core_set(1, 2, "V")
    order = order_of([k.finish() for k in (cube, *vectors)])
    owner = int(order.synced[0].pipe[0])
    assert order.clocks.known(np.zeros(1, np.int64), np.asarray([3]), np.asarray([owner])).tolist() == [1]


@pytest.mark.fast
def test_blocks_that_share_no_flag_know_nothing_of_each_other() -> None:
    made = builders([(block, *core) for block in range(2) for core in (("AIC", 0), ("AIV", 0), ("AIV", 1))])
    for k in made:
        if k.core_kind == "AIC":
            work(k, "FIX")
            k.cross_core_set(0, 2, "FIX")
        else:
            k.cross_core_wait(0, 2, "MTE2")
            work(k, "MTE2")
    order = order_of([k.finish() for k in made])
    fix = int(order.synced[0].pipe[0])
    row = np.asarray([1, 1])
    for cube, expected in ((0, [1, 0]), (3, [0, 1])):
        owner = np.full(2, cube * WIDTH + fix)
        assert order.clocks.known(np.asarray([1, 4]), row, owner).tolist() == expected

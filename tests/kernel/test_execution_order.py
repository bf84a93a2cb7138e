"""Waits that are issued before their sets: an order that flags allow, deadlocks, and values in both modes on both engines."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.chip import load_chip
from ascend_sim.errors import DeadlockError
from ascend_sim.isa.base import BARRIER_ALL
from ascend_sim.isa.sync import SetFlag, WaitFlag
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.execution_order import Queues, rows_in_order
from ascend_sim.kernel.program import InstructionTable, Program

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
PIPES = ("MTE2", "V", "MTE3")


def random_program(seed: int, depth: int = 32) -> Program:
    """Flags that are waited for before or behind their sets, barriers, and nothing else."""
    random = Random(seed)
    depths = dict.fromkeys(CHIP.sync.queue_depth, depth)
    chip = CHIP.model_copy(update={"sync": CHIP.sync.model_copy(update={"queue_depth": depths})})
    k = KernelBuilder(InstructionTable(chip), 0, "AIV", [])
    owed: list[Any] = []
    for _ in range(random.randint(1, 12)):
        source, destination = random.sample(PIPES, 2)
        flag = k.flag(source, destination, f"{source}->{destination}")
        halves = [lambda flag=flag: k.set_flag(flag), lambda flag=flag: k.wait_flag(flag)]
        random.shuffle(halves)
        halves[0]()
        owed.append(halves[1])
        if random.random() < 0.1:
            k.pipe_barrier("ALL")
        if random.random() < 0.1:
            k.scalar_wait(random.choice(PIPES))
        while owed and random.random() < 0.6:
            owed.pop(random.randrange(len(owed)))()
    for half in owed:
        half()
    return k.finish()


def needs(program: Program) -> list[set[int]]:
    """Return the rows that must be worked off before each row is, straight from the law."""
    pipes, kinds = program.per_row("pipe").tolist(), program.per_row("kind").tolist()
    found: list[set[int]] = [set() for _ in pipes]
    depth = program.table.chip.sync.queue_depth["V"]
    sets: dict[tuple[str, str], list[int]] = {}
    for row, view in enumerate(program):
        if isinstance(view.instruction, SetFlag):
            sets.setdefault((view.instruction.source, view.instruction.destination), []).append(row)
    waits: dict[tuple[str, str], int] = {}
    for row, view in enumerate(program):
        one = view.instruction
        before = [other for other in range(row) if pipes[other] == pipes[row]]
        found[row].update(before)
        if isinstance(one, WaitFlag):
            key = (one.source, one.destination)
            found[row].add(sets[key][waits.get(key, 0)])
            waits[key] = waits.get(key, 0) + 1
        if kinds[row] == BARRIER_ALL:
            on = getattr(one, "on", "ALL")
            found[row].update(other for other in range(row) if program[other].pipe == on or on == "ALL")
        # The scalar unit issues in order: it stands at a barrier, and at a row whose queue is full.
        for other in range(row):
            if kinds[other] == BARRIER_ALL:
                found[row].add(other)
        for other in range(row + 1):
            queue = [one for one in range(other) if pipes[one] == pipes[other] and pipes[other]]
            if len(queue) >= depth:
                found[row].add(queue[-depth])
    return found


@pytest.mark.parametrize("first", range(0, 400, 100))
def test_rows_come_behind_what_they_wait_for(first: int) -> None:
    seen = {"as issued": 0, "other": 0, "stuck": 0}
    for seed in range(first, first + 100):
        program = random_program(seed, depth=Random(seed).choice([1, 2, 4, 32]))
        needed = needs(program)
        reached: set[int] = set()
        while more := [row for row in range(len(program)) if row not in reached and needed[row] <= reached]:
            reached.update(more)
        found = rows_in_order(program)
        if found is None:
            assert len(reached) == len(program)
            seen["as issued"] += 1
            continue
        order, stuck = found
        assert sorted(order.tolist()) == list(range(len(program)))
        assert set(order[: len(reached)].tolist()) == reached, seed
        assert bool(stuck) == (len(reached) < len(program)) and not reached & set(stuck)
        place = {row: i for i, row in enumerate(order.tolist())}
        for row in reached:
            assert all(place[other] < place[row] for other in needed[row])
        seen["stuck" if stuck else "other"] += 1
    assert min(seen.values()) > 5, seen


def test_queues_go_on_behind_rows_that_were_executed() -> None:
    for seed in range(100):
        program = random_program(seed, depth=Random(seed).choice([1, 2, 4, 32]))
        order = Queues(program).go_on()
        cut = Random(seed).randint(0, len(order))
        queues = Queues(program, np.asarray(order[:cut], np.int64))
        assert sorted(queues.go_on()) == sorted(order[cut:])
        assert queues.ended == (len(order) == len(program))


@asim.kernel_function(core="AIV")
def early_wait(k, x, y, *, rows=1, both=False):  # type: ignore[no-untyped-def]
    """The store waits for the load, which is issued behind it; with `both` the load waits for the store as well."""
    row, full, free = (k.local_tensor(64, "float32", "row"), k.flag("MTE2", "MTE3", "full"), k.flag("MTE3", "MTE2", "free"))
    k.wait_flag(full)
    for i in range(rows):
        k.ub_to_gm(y[i], row)
    k.set_flag(free)
    if both:
        k.wait_flag(free)
    k.gm_to_ub(row, x)
    k.set_flag(full)
    if not both:
        k.wait_flag(free)


@pytest.mark.parametrize("mode", ["full", "functional"])
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_the_store_sends_what_was_loaded(engine: str, mode: str) -> None:
    x = np.arange(64, dtype=np.float32)
    given = asim.launch(early_wait, 1, x, asim.empty((1, 64), "float32"), mode=mode, engine=engine)
    assert given.findings == []
    assert np.array_equal(given.outputs["y"], x[None])


MOST = CHIP.sync.queue_depth["MTE3"] - 2
"""Rows with which the queue of MTE3 holds the wait and the set as well."""


@pytest.mark.parametrize("fields", [{"both": True}, {"rows": MOST + 1}], ids=["circle", "full queue"])
@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_what_never_ends_is_a_deadlock_for_all(engine: str, fields: dict[str, Any]) -> None:
    """With one row less the queue holds all of them, and a check says the same."""
    tensors = np.zeros(64, np.float32), asim.empty((MOST + 1, 64), "float32")
    for mode in ("full", "functional", "timing"):
        with pytest.raises(DeadlockError, match=r"deadlock: [^$]*MTE3: at .*, 0 MTE3 wait_flag"):
            asim.launch(early_wait, 1, *tensors, mode=mode, engine=engine, **fields)
    assert "deadlock" in {one.kind for one in asim.check_kernel(early_wait, 1, *tensors, **fields).findings}
    less = np.zeros(64, np.float32), asim.empty((MOST, 64), "float32")
    assert asim.launch(early_wait, 1, *less, mode="timing", engine=engine, rows=MOST).findings == []
    assert not any(one.level == "ERROR" for one in asim.check_kernel(early_wait, 1, *less, rows=MOST).findings)

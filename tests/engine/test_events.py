"""The order of values against that of the law, written out one event after the other."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import numpy as np
import pytest

import ascend_sim.engine.replay
from ascend_sim.engine.compiled import library
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.events import ValueEvents
from ascend_sim.engine.replay import replay
from ascend_sim.engine.task import Task
from ascend_sim.engine.timeline import ProgramRun
from ascend_sim.errors import SimError
from ascend_sim.kernel.builder import KernelBuilder
from ascend_sim.kernel.unit_flag import UnitFlagTiles
from ascend_sim.memory.gm import gm_operand
from tests.support.engine.machine import CHIP, KIB, changed, program, quiet, random_bytes, task_of
from tests.support.engine.random_programs import tile
from tests.support.engine.random_runs import SIZE, RandomRun

ENGINES = ("simpy", "compiled") if library.load() is not None else ("simpy",)


class InTime(ValueEvents):
    """At one instant first the retirements, then the starts, each by (program, pipe, row)."""

    @classmethod
    def of(cls, tasks: Sequence[Task], programs: Sequence[ProgramRun]) -> ValueEvents:
        found, pair = [], 0
        for owner, run in enumerate(programs):
            pipes, read_at = run.program.per_row("pipe").tolist(), run.read_at().tolist()
            for row, retire in enumerate(run.retire.tolist()):
                if run.program[row].instruction.has_values:
                    found.append((read_at[row], 1, owner, pipes[row], row, pair))
                    found.append((retire, 2 if retire == read_at[row] else 0, owner, pipes[row], row, pair))
                    pair += 1
        columns = np.array(sorted(found), np.int64).reshape(-1, 6).T
        return ValueEvents(*(np.ascontiguousarray(columns[i]) for i in (2, 4, 5)), (columns[1] == 1).astype(np.int8))


def outcome(seed: int, engine: str, order: type[ValueEvents]) -> Any:
    """Return the tensors after a random run, of which tasks share some, and its findings; None for a broken run."""
    run, random = RandomRun(seed), Random(seed)
    device = Device(run.chip)
    tensors = [random_bytes(device, SIZE, f"t{i}", i) for i in range(3)]
    for task in run.tasks:
        task.tensors = random.choices(tensors, k=2)
    run.options["max_cycles"] = None
    try:
        timeline = Engine(device, **run.options).run(run.tasks)
    except SimError:
        return None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ascend_sim.engine.replay, "ValueEvents", order)
        findings = replay(device, run.tasks, timeline.programs, engine=engine)
    return [tensor.data.tobytes() for tensor in tensors], sorted(one.text for one in findings)


@pytest.mark.parametrize("seed", range(24))
def test_random_runs_leave_the_bytes_of_the_order_of_time(seed: int) -> None:
    """Programs of several tasks race for the same bytes, in GM and in their buffers."""
    expected = outcome(seed, "simpy", InTime)
    assert [outcome(seed, engine, ValueEvents) for engine in ENGINES] == [expected] * len(ENGINES)


def turns(places: Sequence[tuple[int, int]], tasks: int = 1) -> list[int]:
    """The programs in the order of their turns, where block i of each task reads and writes at `places[i]`, twice."""
    device = Device(quiet(CHIP))
    tensors = [random_bytes(device, 64 * KIB, f"t{i}") for i in range(2)]

    def write(k: KernelBuilder, source: int, target: int) -> None:
        for step in (0, 256):
            flag = k.flag("MTE2", "MTE3", f"loaded {step}")
            k.data_copy("GM", "UB", step, gm_operand(0, source + step), 256)
            k.set_flag(flag)
            k.wait_flag(flag)
            k.data_copy("UB", "GM", gm_operand(1, target + step), step, 256)

    sizes = [64 * KIB] * 2
    made = [[program(device.chip, "AIV", lambda k, at=at: write(k, *at), sizes, block=b)] for b, at in enumerate(places)]
    chosen = [task_of(made, tensors if i % 2 == 0 else tensors[::-1], name=f"task{i}") for i in range(tasks)]
    timeline = Engine(device).run(chosen)
    owner = ValueEvents.of(chosen, timeline.programs).owner
    return owner[np.flatnonzero(np.diff(owner, prepend=-1))].tolist()


def test_programs_that_share_no_bytes_go_one_after_the_other() -> None:
    assert turns([(0, 0), (0, 512), (0, 1024)]) == [0, 1, 2]


def test_programs_that_write_the_same_bytes_take_turns() -> None:
    assert turns([(0, 0), (0, 256)]) != [0, 1]


def test_what_an_earlier_task_wrote_is_nobodys_any_more() -> None:
    """Task 1 reads what all of task 0 wrote, and writes what all of task 0 read."""
    assert turns([(0, 0), (512, 512)], tasks=2) == [0, 1, 2, 3]


def test_an_instruction_that_retires_when_it_has_read_reads_first() -> None:
    """A drain with the unit flag reads until the end of its occupancy, and a chip may let it retire there."""
    chip = changed(quiet(CHIP), paths={"latency": 0})
    assert chip.fixpipe is not None
    chip = chip.model_copy(update={"fixpipe": chip.fixpipe.model_copy(update={"latency": 0})})

    def write(k: KernelBuilder) -> None:
        tiles = UnitFlagTiles(k, "unit", (0,))
        tile(k, tiles, 0, 1, gm_operand(1, 0))
        tiles.close()

    device, sizes = Device(chip), [64 * KIB] * 2
    task = task_of([[program(chip, "AIC", write, sizes)]], [random_bytes(device, size, "t") for size in sizes])
    runs = Engine(device).run([task]).programs
    rows = runs[0].program.per_row("has_values") > 0
    assert (runs[0].read_at() == runs[0].retire)[rows].any()
    events = ValueEvents.of([task], runs)
    for pair in np.unique(events.pair).tolist():
        assert events.starts[events.pair == pair].tolist() == [1, 0]

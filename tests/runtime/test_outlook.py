"""Predicted time of a run before it begins: instructions counted, and a block of each kernel tried."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from ascend_sim.calls.checks import tasks_of_call
from ascend_sim.chip import load_chip
from ascend_sim.engine.engine import Engine
from ascend_sim.errors import SimError
from ascend_sim.ops.case import load_case
from ascend_sim.runtime import Device, Task
from ascend_sim.runtime.outlook import FEWEST_BLOCKS, look_ahead

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")


@pytest.fixture
def tasks() -> list[Task]:
    return tasks_of_call(load_case("strided"), CHIP)[1]


def test_instructions_are_those_of_the_run(tasks: list[Task]) -> None:
    """Blocks of a kernel differ a little at the edges of the work."""
    timeline = Engine(Device(CHIP, with_values=False)).run(tasks)
    there = sum(len(run.program) for run in timeline.programs)
    for mode in ("timing", "functional", "full"):
        outlook = look_ahead(CHIP, tasks, mode)
        assert outlook.instructions == pytest.approx(there, rel=0.05)
        assert outlook.seconds is not None and outlook.seconds > 0
    assert all(tensor.data is None for task in tasks for tensor in task.tensors)


def test_seconds_are_those_of_one_block_times_blocks(tasks: list[Task], monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that a trial moves: kernels with few blocks, or a barrier of all cores, have the pace of the longest."""
    clock, tried = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: clock[0])
    rows = {task.name: sum(len(program) for program in task.build(0)) for task in tasks}

    def trial(task: Task) -> None:
        assert task.block_dim == 1
        tried.append(task.name)
        clock[0] += 2.0 * rows[task.name]

    made = [replace(task, all_cores=task.name == "grad_weight") for task in tasks]
    outlook = look_ahead(CHIP, made, trial)
    assert tried == [one.name for one in tasks if one.block_dim >= FEWEST_BLOCKS and one.name != "grad_weight"]
    assert 0 < len(tried) < len(tasks) - 1
    assert outlook.seconds == 2.0 * outlook.instructions


def test_what_cannot_be_tried_is_not_told(tasks: list[Task]) -> None:
    def trial(task: Task) -> None:
        raise SimError(f"{task.name} waits for the other blocks")

    assert look_ahead(CHIP, tasks, trial).seconds is None
    assert look_ahead(CHIP, [replace(task, block_dim=1) for task in tasks], "timing").seconds is None
    nothing = look_ahead(CHIP, [], "full")
    assert (nothing.instructions, nothing.seconds) == (0, None)


def test_trials_leave_values_alone(tasks: list[Task]) -> None:
    """A trial with values has tensors of its own."""
    held = [
        replace(task, tensors=[replace(one, memory=np.full(one.room, 7, np.uint8)) for one in task.tensors]) for task in tasks
    ]
    assert look_ahead(CHIP, held, "functional").seconds is not None
    assert all((one.data == 7).all() for task in held for one in task.tensors if one.data is not None)

"""Estimate of the time that tasks take to simulate: one block of each task with enough blocks is tried before all of them run.

outlook = look_ahead(chip, tasks, "timing")
outlook.instructions, outlook.seconds
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ascend_sim.chip import ChipSpec
from ascend_sim.engine.device import Device
from ascend_sim.engine.engine import Engine
from ascend_sim.engine.functional import FunctionalEngine
from ascend_sim.engine.task import Task
from ascend_sim.errors import SimError
from ascend_sim.frozen import frozen

Trial = Callable[[Task], object]
"""Function that does for a task of one block what is later done for all tasks."""

FEWEST_BLOCKS = 8
"""Fewest blocks of a kernel that is tried, so that its trial costs at most an eighth of it.

Other kernels are assumed to take as long per instruction as the tried kernel with the largest block.
"""


@frozen
class Outlook:
    """Expected work of tasks: `instructions` of all blocks, taking each block to be as long as its task's first, and `seconds`
    to simulate them on this machine.

    `seconds` is None if no kernel could be tried: each has too few blocks, a barrier of all cores, or a block that fails alone.
    """

    instructions: int
    seconds: float | None


def look_ahead(chip: ChipSpec, tasks: Sequence[Task], trial: Trial | str) -> Outlook:
    """Return the expected work of `tasks`: count the instructions of each task's first block, time one block, and multiply both
    by the number of blocks.

    `trial` is a mode of running, or a function to call with each timed task (cut to one block). Not timed are tasks with fewer
    than `FEWEST_BLOCKS` blocks or a barrier of all cores, and blocks that raise SimError alone; `FEWEST_BLOCKS` says how long
    these are assumed to take. The estimate is rough: a block alone costs a little less than among others, but has a start of
    its own.
    """
    attempt = _run(chip, trial) if isinstance(trial, str) else trial
    rows = [sum(len(program) for program in task.build(0)) if task.block_dim else 0 for task in tasks]
    blocks = [task.block_dim for task in tasks]
    tried: dict[int, float] = {}
    for index, task in enumerate(tasks):
        if task.block_dim < FEWEST_BLOCKS or task.all_cores:
            continue
        begin = time.perf_counter()
        try:
            attempt(replace(task, block_dim=1))
        except SimError:  # a block that waits for others; what is wrong with the whole the run itself says
            continue
        tried[index] = time.perf_counter() - begin
    total = sum(one * count for one, count in zip(rows, blocks, strict=True))
    if not tried:
        return Outlook(total, None)
    last = max(tried, key=rows.__getitem__)  # what the short ones take is mostly their start
    pace = tried[last] / max(rows[last], 1)
    each = (tried.get(index, rows[index] * pace) * blocks[index] for index in range(len(tasks)))
    return Outlook(total, sum(each))


def _run(chip: ChipSpec, mode: str) -> Trial:
    """Return a trial that runs one block in `mode` on a device of its own; the caller's tensors stay unchanged."""

    def trial(task: Task) -> None:
        if mode != "functional":
            Engine(Device(chip, with_values=False)).run([task])
        if mode != "timing":
            empty = [replace(one, memory=np.zeros(one.room, np.uint8)) for one in task.tensors]
            FunctionalEngine(Device(chip, with_values=False)).run([replace(task, tensors=empty)])

    return trial

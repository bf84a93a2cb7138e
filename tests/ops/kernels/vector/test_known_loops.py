"""Vector kernels of one shape share their stamps, and their programs are those that a task without them would have."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.kernel.program import Program
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.cast import cast_work
from ascend_sim.ops.kernels.vector.common import KernelWork, Loop, TaskWords, known_loop, work_task
from ascend_sim.ops.kernels.vector.mem_set import mem_set_work
from ascend_sim.ops.kernels.vector.trans_data import BlockLayout
from ascend_sim.ops.kernels.vector.trans_data_feature import FeatureShape, feature_work
from ascend_sim.ops.kernels.vector.trans_data_filter import FilterShape, filter_work
from ascend_sim.runtime import Task

pytestmark = pytest.mark.fast

CHIP = load_chip("ascend910b3")
LAYOUT = BlockLayout.of(2, 16)
TENSORS = Allocation(0, 1 << 20, "source", None), Allocation(1 << 20, 1 << 20, "target", None)
MAP = FeatureShape(3, 40, 1, 300)


def launch(chip: ChipSpec, work: Loop | KernelWork, *disarm: str) -> Task:
    tensors = TENSORS if isinstance(work, Loop) else TENSORS[-len(work.tensors) :]
    return work_task(chip, TaskWords("Own", "own", disarm), work, tensors)


KERNELS: dict[str, Callable[[ChipSpec], Task]] = {
    "features": lambda chip: launch(chip, feature_work(chip, MAP, LAYOUT, True)),
    "features back": lambda chip: launch(chip, feature_work(chip, MAP, LAYOUT, False)),
    "more features": lambda chip: launch(chip, feature_work(chip, MAP._replace(d=2), LAYOUT, True)),
    "filters": lambda chip: launch(chip, filter_work(chip, FilterShape(48, 20, 1, 9, 1), LAYOUT, False)),
    "cast": lambda chip: launch(chip, cast_work(chip, 100_000, "float16", "float32", "Cast")),
    "another cast": lambda chip: launch(chip, cast_work(chip, 100_000, "float32", "float16", "Cast")),
    "zeros": lambda chip: launch(chip, mem_set_work(chip, 70_000, "MemSet")),
    "ones": lambda chip: launch(chip, mem_set_work(chip, 70_000, "MemSet", value=1.0)),
    "zeros too early": lambda chip: launch(chip, mem_set_work(chip, 70_000, "MemSet"), "zeros ready"),
}


def written(make: Callable[[ChipSpec], Task], chip: ChipSpec) -> list[tuple[object, ...]]:
    """Return the instructions and the rows with their addresses of every block."""
    task = make(chip)
    programs = [program for block in range(task.block_dim) for program in task.build(block)]
    return [([str(row) for row in program], program.rows[:, 1:].tolist(), program.tiles) for program in programs]


def test_launches_of_one_shape_have_one_table_in_a_thread() -> None:
    def first_block() -> Program:
        return KERNELS["features"](CHIP).build(0)[0]

    first, second = first_block(), first_block()
    assert first.table is second.table
    np.testing.assert_array_equal(first.rows, second.rows)
    with ThreadPoolExecutor(1) as elsewhere:
        assert elsewhere.submit(first_block).result().table is not first.table


def test_loops_asked_for_long_ago_are_given_up() -> None:
    made: list[int] = []

    @known_loop
    def loop(number: int) -> Loop:
        made.append(number)
        return Loop(1, lambda block: [], lambda k, pieces: None)

    for number in [*range(100), 99, 0]:
        loop(number)
    assert made == [*range(100), 0]


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend310p3", "ascend910a"])
def test_programs_are_those_of_a_thread_that_has_seen_none(chip: str) -> None:
    """Kernels that differ in one thing each, one after the other and again, beside each alone in a thread of its own."""
    on = load_chip(chip)
    for _ in range(2):
        for make in KERNELS.values():
            with ThreadPoolExecutor(1) as alone:
                assert written(make, on) == alone.submit(written, make, on).result()

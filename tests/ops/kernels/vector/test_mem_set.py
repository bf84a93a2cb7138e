"""MemSet: what it clears, on which cores."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.mem_set import mem_set_work
from ascend_sim.runtime import Task
from tests.support.ops.vector_runs import both_modes, useless_waits


def mem_set(nbytes: int):  # type: ignore[no-untyped-def]
    def launch(on: ChipSpec, source: Allocation, target: Allocation, disarm: Collection[str]) -> Task:
        return work_task(on, TaskWords("MemSet", "MemSet", disarm), mem_set_work(on, nbytes, "MemSet"), [target])

    return launch


@pytest.mark.parametrize("nbytes", [1, 31, 512, 513, 40 * 512, 100_000, 40 * 49152 * 2 + 5])
def test_mem_set_clears_that_much(nbytes: int) -> None:
    before = np.full(nbytes + 40, 7, np.uint8)
    got = both_modes(mem_set(nbytes), np.zeros(1, np.uint8), before)
    assert not got[:nbytes].any()
    np.testing.assert_array_equal(got[nbytes:], before[nbytes:])


def test_every_wait_of_mem_set_matters() -> None:
    nbytes = 100_000
    assert useless_waits(mem_set(nbytes), np.zeros(1, np.uint8), nbytes, np.zeros(nbytes, np.uint8)) == []


@pytest.mark.parametrize(("nbytes", "blocks"), [(250_000, 48), (3_500_000, 48), (100, 1)])
def test_mem_set_takes_every_core(nbytes: int, blocks: int) -> None:
    assert mem_set_work(load_chip("ascend910b2"), nbytes, "MemSet").blocks == blocks

"""Strided tensors as runs."""

from __future__ import annotations

import pytest

from ascend_sim.memory.gm import Allocation
from ascend_sim.ops.kernels.vector.common import TaskWords, work_task
from ascend_sim.ops.kernels.vector.strided import StridedCopy
from ascend_sim.ops.kernels.vector.view_copy import view_copy_work
from tests.support.ops.vector_runs import chip


@pytest.mark.fast
def test_neighbouring_dimensions_are_one_run() -> None:
    space = Allocation(0, 10**6, "x", None)
    work = view_copy_work(chip(), StridedCopy([4, 5, 1, 6], [30, 6, 77, 1], [30, 6, 1, 1], 4), "ViewCopy")
    task = work_task(chip(), TaskWords("ViewCopy", "ViewCopy"), work, [space, space])
    copies = [str(row) for row in task.build(0)[0] if row.instruction.name == "data_copy"]
    assert len(copies) == 2 and all("row_bytes=480, rows=1," in text for text in copies)

"""The lines that programs touch: C against numpy."""

from __future__ import annotations

import numpy as np
import pytest
from random_runs import Run

from ascend_sim.engine.compiled import library
from ascend_sim.engine.lines import mark_by_c, mark_by_numpy
from ascend_sim.errors import SimError

needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


@needs_c
@pytest.mark.parametrize("first", [0, 40])
def test_c_marks_the_lines_that_numpy_marks(first: int) -> None:
    marked = 0
    for seed in range(first, first + 40):
        run = Run(seed)
        line = run.chip.memory.l2_line_bytes
        bases = np.array([line // 2 * (3 + seed), line * 500])
        for task in run.tasks:
            for program in [program for block in range(task.block_dim) for program in task.build(block)]:
                by_c, by_numpy = np.zeros((2, 4096), np.bool_), np.zeros((2, 4096), np.bool_)
                mark_by_c(program, bases, line, *by_c)
                mark_by_numpy(program, bases, line, *by_numpy)
                assert np.array_equal(by_c, by_numpy), f"Run({seed})"
                marked += int(by_c.sum())
    assert marked > 1000


@needs_c
def test_c_refuses_lines_that_are_not_there() -> None:
    program = next(
        program
        for task in Run(0).tasks
        for program in task.build(0)
        if (program.table.touches.columns["space"] == 0).any()
    )
    with pytest.raises(SimError, match="points outside"):
        mark_by_c(program, np.zeros(2, np.int64), 512, np.zeros(0, np.bool_), np.zeros(0, np.bool_))

"""The lines that programs touch: C against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.engine.compiled import library
from ascend_sim.engine.lines import LinesOf
from ascend_sim.errors import SimError
from tests.support.engine.random_runs import RandomRun

needs_c = pytest.mark.skipif(library.load() is None, reason="the compiled engine was not built")


@needs_c
@pytest.mark.parametrize("first", [0, 40])
def test_c_marks_the_lines_that_numpy_marks(first: int) -> None:
    marked = 0
    for seed in range(first, first + 40):
        run = RandomRun(seed)
        line = run.chip.memory.l2_line_bytes
        bases = [line // 2 * (3 + seed), line * 500]
        for task in run.tasks:
            for program in [program for block in range(task.block_dim) for program in task.build(block)]:
                by_c, by_numpy = LinesOf(bases, 4096 * line, line), LinesOf(bases, 4096 * line, line)
                by_c.add_by_c(program)
                by_numpy.add_by_numpy(program)
                for one, other in ((by_c.read, by_numpy.read), (by_c.written, by_numpy.written)):
                    assert np.array_equal(one, other), f"Run({seed})"
                    marked += int(one.sum())
    assert marked > 1000


@needs_c
def test_c_refuses_lines_that_are_not_there() -> None:
    program = next(
        program
        for task in RandomRun(0).tasks
        for program in task.build(0)
        if (program.table.touches.columns["space"] == 0).any()
    )
    with pytest.raises(SimError, match="points outside"):
        LinesOf([0, 0], 0, 512).add_by_c(program)

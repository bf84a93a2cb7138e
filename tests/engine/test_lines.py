"""The lines that programs touch: C against numpy."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.engine.compiled import library
from ascend_sim.engine.lines import LinesOf
from ascend_sim.errors import SimError
from ascend_sim.isa.quantisation import Quantisation
from tests.support.engine.machine import program
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
            for made in [made for block in range(task.block_dim) for made in task.build(block)]:
                by_c, by_numpy = LinesOf(bases, 4096 * line, line), LinesOf(bases, 4096 * line, line)
                by_c.add_by_c(made)
                by_numpy.add_by_numpy(made)
                for one, other in ((by_c.read, by_numpy.read), (by_c.written, by_numpy.written)):
                    assert np.array_equal(one, other), f"Run({seed})"
                    marked += int(one.sum())
    assert marked > 1000


@pytest.mark.parametrize("c", [pytest.param(True, marks=needs_c), False])
def test_lines_of_a_drain_whose_last_fractal_stands_alone(c: bool) -> None:
    """A block of 32 bytes, and 16 bytes 2048 bytes on: nothing half-way between them."""
    chip = load_chip("ascend910b3")
    pre, line = Quantisation("int32", 0.5), chip.memory.l2_line_bytes
    made = program(chip, "AIC", lambda k: k.fixpipe(0, 0, 1, 48, 16, "int8", 32, 2048, pre=pre), [4096])
    lines = LinesOf([line], 64 * line, line)
    (lines.add_by_c if c else lines.add_by_numpy)(made)
    assert np.flatnonzero(lines.written).tolist() == [1, 1 + 2048 // line] and not lines.read.any()


@needs_c
def test_c_refuses_lines_that_are_not_there() -> None:
    made = next(
        made for task in RandomRun(0).tasks for made in task.build(0) if (made.table.touches.columns["space"] == 0).any()
    )
    with pytest.raises(SimError, match="points outside"):
        LinesOf([0, 0], 0, 512).add_by_c(made)

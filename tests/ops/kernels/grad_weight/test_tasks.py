"""Tasks of a weight gradient."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim.ops.kernels.grad_weight.capacity import check_grad_weight
from ascend_sim.ops.kernels.grad_weight.ladder import GradWeightQuestion
from ascend_sim.ops.kernels.grad_weight.parts import sections
from ascend_sim.ops.kernels.grad_weight.tasks import grad_weight_tasks
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import inputs
from tests.support.sampling import sampled


@given(inputs(), st.data())
@sampled(25, 100)
def test_tasks_have_every_pixel_once(inp: TilingInput, data: st.DataObject) -> None:
    p = inp.problem
    width = data.draw(st.integers(1, p.w_out))
    tiling = GradWeightQuestion(inp, {"splitWo": width}).tiling()
    check_grad_weight(tiling, inp)
    assert (tiling.split_wo, tiling.source) == (width, "manual")
    seen: dict[tuple[int, ...], np.ndarray] = {}
    for core in range(tiling.block_dim):
        for task in grad_weight_tasks(tiling, inp, core):
            tile = (task.group, task.plane or 0, task.m_start, task.n_start)
            count = seen.setdefault(tile, np.zeros((inp.images, p.h_out, p.w_out), int))
            for strip, row, rows in sections(p, width, task.row_start, task.rows):
                columns = slice(strip.column, strip.column + strip.problem.w_out)
                count[task.image_start : task.image_start + task.images, row : row + rows, columns] += 1
    assert seen and all((count == 1).all() for count in seen.values())

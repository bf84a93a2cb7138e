"""Test that the tasks of a tiling cover a gradient once."""

from __future__ import annotations

import numpy as np

from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.tasks import grad_input_tasks
from ascend_sim.ops.kernels.grad_weight.capacity import b1_rows, n_slice
from ascend_sim.ops.kernels.grad_weight.fields import SPLIT_STREAM_K, GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.parts import walked_input
from ascend_sim.ops.kernels.grad_weight.tasks import grad_weight_tasks
from ascend_sim.ops.problem.tiling_input import TilingInput
from ascend_sim.ops.problem.window import dilated_rows, needed_rows


def covers_grad_input_once(tiling: GradInputTiling, inp: TilingInput) -> None:
    p = inp.problem
    seen = np.zeros((inp.real_groups, p.n, p.d_in, p.h_in * p.w_in, inp.cin1), int)
    for core in range(tiling.block_dim):
        for t in grad_input_tasks(tiling, inp, core):
            channels = slice(t.n_start // inp.c0, (t.n_start + t.n_count) // inp.c0)
            seen[t.group, t.batch, t.depth, t.m_start : t.m_start + t.m_count, channels] += 1
            whole_rows = tiling.single_core_m % p.w_in == 0
            assert inp.family.coupled or whole_rows
            held = tiling.step_m * tiling.base_m
            for start in range(0, t.m_count, held):
                window = needed_rows(p, t.m_start + start, min(held, t.m_count - start))
                assert window.rows <= dilated_rows(inp.problem, held, whole_rows)
    assert (seen == 1).all()


def covers_grad_weight_once(tiling: GradWeightTiling, inp: TilingInput) -> None:
    inp = walked_input(inp, tiling)  # tasks count the rows of all strips
    p = inp.problem
    planes = p.k_d
    seen = np.zeros((inp.real_groups, planes * inp.cin1, inp.cout_padded // 16, inp.images, p.h_out), int)
    for core in range(tiling.block_dim):
        for t in grad_weight_tasks(tiling, inp, core):
            first = t.n_start // n_slice(inp) + (t.plane or 0) * inp.cin1
            columns = slice(first, first + t.n_count // n_slice(inp))
            outputs = slice(t.m_start // 16, (t.m_start + t.m_count) // 16)
            images, rows = slice(t.image_start, t.image_start + t.images), slice(t.row_start, t.row_start + t.rows)
            seen[t.group, columns, outputs, images, rows] += 1
            if tiling.template == SPLIT_STREAM_K and t.slot is None:  # it stores dW, it does not add
                assert (t.images, t.rows) == (inp.images, p.h_out)
            assert t.n_start % n_slice(inp) == 0
            step = tiling.step_kb * tiling.base_k
            for start in range(0, t.rows * p.w_out, step):
                last = min(start + step, t.rows * p.w_out) - 1
                out_rows = last // p.w_out - start // p.w_out
                assert out_rows * p.stride_h + (p.k_h - 1) * p.dilation_h + 1 <= b1_rows(inp, step)
    assert (seen == 1).all()

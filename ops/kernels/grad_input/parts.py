"""What a tiling of grad_input makes of a problem: strips, parts of a split kernel, pieces of a cut one."""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.ops.kernels.cube.strips import strip_count
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling
from ascend_sim.ops.kernels.grad_input.pieces import cut_problem
from ascend_sim.ops.kernels.grad_input.split import SPLIT_H, Part, split_input, split_parts
from ascend_sim.ops.problem.tiling_input import TilingInput


def tiling_parts(tiling: GradInputTiling, inp: TilingInput) -> tuple[Part, ...]:
    """The parts of dx that a tiling makes; without strips or a split the whole problem."""
    return split_parts(inp.problem, tiling.kernel_split, tiling.split_wi)


def tiling_input(tiling: GradInputTiling, inp: TilingInput) -> TilingInput:
    """The part of a problem, or the piece of a kernel, that a tiling is made for."""
    return part_input(inp, tiling.kernel_split, tiling.split_wi, tiling.load_b1)


def part_input(inp: TilingInput, split: int, strip: int, cut: int) -> TilingInput:
    """The same for a split, strips and a cut of the kernel alone."""
    if cut:
        inp = replace(inp, problem=cut_problem(inp.problem, cut))
    return split_input(inp, split, strip)


def task_parts(tiling: GradInputTiling, inp: TilingInput) -> int:
    """How many parts have tasks of their own; those of a split of both axes share theirs."""
    rows = min(inp.problem.stride_h, inp.problem.h_in) if tiling.kernel_split == SPLIT_H else 1
    return rows * strip_count(inp.problem.w_in, tiling.split_wi)

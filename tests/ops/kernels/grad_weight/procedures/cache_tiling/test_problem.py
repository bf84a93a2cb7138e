"""The problem as the search sees it."""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import FilterProblem
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.ops.tiling_problems import BUFFERS, LOAD3D, conv2d


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 24, hf32: bool = False, deep: bool = False) -> FilterProblem:
    return FilterProblem(problem, itemsize, cores, BUFFERS["L1"], BUFFERS["L0A"], BUFFERS["L0C"], LOAD3D, hf32, deep)


def patches(size: int, c_out: int = 768, images: int = 32) -> ConvProblem:
    return conv2d(images, 3, c_out, 224, size, size)


def test_the_linear_embedding_may_have_a_block_for_every_image() -> None:
    assert on_910b(patches(32, images=64)).most_blocks == 64
    assert on_910b(patches(32, images=8)).most_blocks == 24
    assert on_910b(patches(16, images=64), 4).most_blocks == 24
    assert replace(on_910b(patches(32, images=64)), blocks_given=True).most_blocks == 24


def test_rows_that_a_flat_kernel_steps_over_are_not_read() -> None:
    p = on_910b(conv2d(4, 32, 32, 56, 1, 2))
    assert (p.skips_rows, p.h_in, p.stride_h) == (True, 28, 1)
    assert not on_910b(conv2d(4, 32, 32, 56, 1, 2, pad=1)).skips_rows
    assert not on_910b(conv2d(4, 32, 32, 56, 1, 2), deep=True).skips_rows

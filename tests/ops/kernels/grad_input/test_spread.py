"""dX of a closed library with fewer tiles than cores: the grid against a search of all grids, and what any of them must do."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from ascend_sim.chip import load_chip
from ascend_sim.ops.kernels.grad_input.capacity import check_grad_input
from ascend_sim.ops.kernels.grad_input.ladder import GradInputQuestion
from ascend_sim.ops.kernels.grad_input.procedures.dav_2201 import task_count, vendor_grad_input
from ascend_sim.ops.kernels.grad_input.procedures.stand_in import core_grid, sound_grad_input, spread
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.tiling_problems import BUFFERS, L2_BYTES, LOAD3D, conv2d

OP_TYPE = "Conv2DBackpropInput"  # of a closed library
CHIP = load_chip("ascend910b3")


def on_910b(problem: ConvProblem, itemsize: int = 2, cores: int = 20) -> TilingInput:
    return TilingInput(problem, itemsize, cores, BUFFERS, L2_BYTES, load3d=LOAD3D)


def searched(inp: TilingInput) -> tuple[int, int]:
    """(cores, load) of the best of all shares: rows and blocks of 16 channels; counted block by block."""
    p, best = inp.problem, (0, 0)
    channels = -(-inp.cin1 * inp.c0 // 16)
    for rows, blocks in product(range(1, p.h_in + 1), range(1, channels + 1)):
        starts = len(range(0, p.h_in, rows)), len(range(0, channels, blocks))
        cores = p.n * inp.real_groups * starts[0] * starts[1]
        if cores > inp.cores or starts[0] > -(-p.h_in * p.w_in // 16):
            continue
        one_group = inp.cout_padded * inp.taps * inp.cin1 * inp.c0
        read = starts[0] * p.n * inp.real_groups * one_group
        read += starts[1] * p.n * inp.real_groups * inp.cout_padded * p.h_out * p.w_out
        best = max(best, (cores, -read))
    return best[0], -best[1]


@settings(max_examples=150)
@given(
    st.integers(1, 6),
    st.integers(1, 400),
    st.integers(1, 300),
    st.integers(3, 30),
    st.sampled_from([1, 3]),
    st.sampled_from([2, 4]),
)
def test_the_grid_is_the_best_of_all(n: int, c_in: int, c_out: int, size: int, kernel: int, itemsize: int) -> None:
    inp = on_910b(conv2d(n, c_in, c_out, size, kernel, pad=kernel // 2), itemsize)
    grid = core_grid(inp, inp.cin1 * inp.c0 + 16, size)
    assert (grid.cores, grid.load) == searched(inp) if grid else searched(inp)[0] == 0


@settings(max_examples=100)
@given(
    st.integers(1, 24),
    st.integers(1, 500),
    st.integers(1, 300),
    st.integers(1, 60),
    st.sampled_from([1, 2]),
    st.sampled_from([2, 4]),
)
def test_no_core_is_lost_and_all_of_it_fits(n: int, c_in: int, c_out: int, size: int, stride: int, itemsize: int) -> None:
    kernel = 3 if size > 2 else 1
    inp = on_910b(conv2d(n, c_in, c_out, size, kernel, stride, kernel // 2), itemsize)
    before = sound_grad_input(inp)
    after = spread(before, inp)
    check_grad_input(after, inp)
    assert task_count(after, inp) >= task_count(before, inp)
    grid = core_grid(inp, before.single_core_cin, -(-before.single_core_m // size))
    assert after == before if grid is None or grid.cores <= task_count(before, inp) else after.block_dim == grid.cores
    assert task_count(after, inp) == task_count(before, inp) or task_count(after, inp) == after.block_dim <= inp.cores
    assert spread(after, inp).block_dim == after.block_dim


def test_a_worked_example() -> None:
    """Dx of 144 channels, 14 x 14: 9 blocks of 16 channels, 14 rows, 20 cores.

    A share of 1 block: 9 parts leave 2 of pixels, 18 cores. 2 blocks: 5 parts leave 4, which are 4 rows each: 20. 3 blocks: 3
    parts leave 6, so 3 rows and 5 parts: 15. 5 blocks: 2 parts of 2 rows: 14. All 9 blocks: 13 parts would do, one row each is
    14, 2 rows are 7.
    """
    inp = on_910b(conv2d(1, 144, 288, 14, 3, pad=1))
    tiling = GradInputQuestion(inp, op_type=OP_TYPE, chip=CHIP).tiling()
    assert (tiling.single_core_cin, tiling.single_core_m, tiling.block_dim) == (32, 4 * 14, 20)
    assert tiling.source == "stand-in"


def test_a_number_of_blocks_deals_out_the_same_tiles() -> None:
    inp = on_910b(conv2d(1, 144, 288, 14, 3, pad=1))
    own = GradInputQuestion(inp, op_type=OP_TYPE, chip=CHIP).tiling()
    assert all(GradInputQuestion(inp, op_type=OP_TYPE, chip=CHIP, blocks=blocks).tiling() == own for blocks in (1, 6, 64))


def test_the_open_kernel_keeps_its_own_tiling() -> None:
    inp = on_910b(conv2d(1, 144, 288, 14, 3, pad=1))
    assert GradInputQuestion(inp, chip=CHIP).tiling() == vendor_grad_input(inp)
    assert vendor_grad_input(inp).block_dim == 1


def test_enough_tiles_stay_as_they_are() -> None:
    inp = on_910b(conv2d(32, 256, 256, 13, 3, pad=1))
    assert GradInputQuestion(inp, op_type=OP_TYPE, chip=CHIP).tiling() == vendor_grad_input(inp).but(source="stand-in")

"""The cube kernels under any tiling and launch size: the same values, nothing found, and no more work than is needed.

Operands are small whole numbers: fp32 sums of them are exact in any order, so every tiling has one right answer.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from ascend_sim import convolution_backward
from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError, TilingError
from ascend_sim.ops.layouts.blocked import FractalZ
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput
from tests.support.ops.conv_problems import Array, CallAttributes, problems, same_bits, torch_gradients
from tests.support.ops.cube_runs import FIELDS, ONLY, SETTINGS, kernel_of, whole_numbers
from tests.support.sampling import part_of_cases

KERNELS = list(ONLY)
LAYER = CallAttributes(2, 32, 48, (12, 10))


@cache
def known(problem: CallAttributes, kernel: str, dtype: str = "float16") -> Array:
    result = problem.run(whole_numbers(problem, dtype), ONLY[kernel], mode="functional")
    assert result.report.passed
    return result.outputs[kernel]


@st.composite
def tilings(draw: st.DrawFn, kernel: str) -> dict[str, int]:
    """Some fields of a kernel's tiling; many of them fit."""
    fields = draw(st.lists(st.sampled_from(sorted(FIELDS[kernel])), max_size=6, unique=True))
    return {field: draw(FIELDS[kernel][field], field) for field in fields}


def check_tiling(kernel: str, data: st.DataObject, problem: CallAttributes, deterministic: bool, fp32: bool) -> None:
    assume(problem.n * problem.c_in * problem.c_out < 10_000 and not problem.is_product)
    dtype = "float32" if fp32 else "float16"
    fields = data.draw(tilings(kernel))
    own = whole_numbers(problem, dtype)
    try:
        result = problem.run(own, ONLY[kernel], tiling={kernel: fields}, deterministic=deterministic)
    except TilingError as refused:
        event("refused")
        assert any(char.isdigit() for char in str(refused)), "the message has no numbers"
        return
    event("runs")
    row = kernel_of(result, kernel)
    if fields:
        assert row["tiling_source"] == "manual"
        assert {name: row["tiling"][name] for name in fields} == fields
    assert result.report.findings == ()
    assert same_bits(result.outputs[kernel], known(problem, kernel, dtype))


CALLS: dict[str, Any] = {
    "data": st.data(), "problem": st.one_of(st.just(LAYER), problems()), "deterministic": st.booleans(), "fp32": st.booleans(),
}  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS)
@settings(SETTINGS, max_examples=10)
@given(**CALLS)
def test_any_tiling_gives_the_same_values_or_is_refused(
    kernel: str, data: st.DataObject, problem: CallAttributes, deterministic: bool, fp32: bool
) -> None:
    check_tiling(kernel, data, problem, deterministic, fp32)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
@settings(SETTINGS, max_examples=300)
@given(**CALLS)
def test_many_tilings(kernel: str, data: st.DataObject, problem: CallAttributes, deterministic: bool, fp32: bool) -> None:
    check_tiling(kernel, data, problem, deterministic, fp32)


@part_of_cases(3)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("blocks", [1, 3, 20, 21, 47])
def test_any_number_of_blocks_gives_the_same_values(kernel: str, blocks: int) -> None:
    """More blocks than cores run in waves; blocks without work end at once."""
    result = LAYER.run(whole_numbers(LAYER), ONLY[kernel], block_dim={kernel: blocks}, deterministic=False)
    assert result.report.passed
    row = kernel_of(result, kernel)
    assert row["block_dim"] == len(row["cube_work_cycles"]) == blocks
    assert same_bits(result.outputs[kernel], known(LAYER, kernel))
    assert result.timeline is not None
    runs = [run for run in result.timeline.programs if result.tasks[run.task].name == kernel]
    assert sorted({run.core for run in runs}) == list(range(min(blocks, 20)))
    assert {run.core for run in runs[20:]} <= set(range(20))
    for core in range(20):
        spans = sorted((run.launch, run.finish) for run in runs if run.core == core)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_a_bare_number_of_blocks_means_both_kernels() -> None:
    result = LAYER.timing(block_dim=7)
    assert {kernel: kernel_of(result, kernel)["block_dim"] for kernel in KERNELS} == dict.fromkeys(KERNELS, 7)


def test_fewer_blocks_take_longer() -> None:
    problem = CallAttributes(32, 64, 64, (28, 28))
    one, four, twenty = (
        kernel_of(problem.timing(ONLY["grad_input"], block_dim=blocks), "grad_input")["task_us"] for blocks in (1, 4, 20)
    )
    assert one > 2.5 * four > 2.5 * 2.5 * twenty


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize(
    "problem",
    [LAYER, CallAttributes(1, 16, 16, (9, 9), (5, 5), (2, 2), (2, 2, 2, 2)), CallAttributes(2, 64, 64, (7, 7), groups=4)],
    ids=str,
)
def test_the_cube_does_every_product(problem: CallAttributes, dtype: str) -> None:
    """No kernel does fewer multiplications than the gradient has, those with padding left out."""
    pytest.importorskip("torch")
    values = {name: np.ones(shape) for name, shape in problem.shapes.items()}
    products = torch_gradients(problem, values, ONLY["grad_weight"])["grad_weight"].sum()
    per_cycle = 4096 if dtype == "float16" else 1024
    result = problem.timing((True, True, False), dtype)
    for kernel in KERNELS:
        assert sum(kernel_of(result, kernel)["cube_work_cycles"]) * per_cycle >= products


@pytest.mark.parametrize("deterministic", [False, True])
def test_what_no_product_reaches_is_zero(deterministic: bool) -> None:
    """Stride 4 with a 1x1 kernel leaves most of gradInput untouched; dilation 3 puts taps of the weight into padding."""
    sparse = CallAttributes(1, 16, 16, (9, 9), (1, 1), (4, 4), (0, 0, 0, 0))
    result = sparse.run(whole_numbers(sparse), deterministic=deterministic)
    reached = np.zeros((9, 9), bool)
    reached[::4, ::4] = True
    assert result.report.passed and result.grad_input is not None
    assert not result.grad_input[:, :, ~reached].any() and result.grad_input[:, :, reached].any()
    outside = CallAttributes(1, 16, 16, (2, 2), (3, 3), (1, 1), (3, 3, 3, 3), (3, 3))
    result = outside.run(whole_numbers(outside), deterministic=deterministic)
    assert result.report.passed and result.grad_weight is not None
    seen = np.zeros((3, 3), bool)
    seen[1, 1] = True
    assert not result.grad_weight[:, :, ~seen].any() and result.grad_weight[:, :, seen].any()


@pytest.mark.parametrize(
    ("chip", "deterministic", "rows"),
    [
        ("ascend910b3", False, 3),
        ("ascend910b3", True, 12),
        ("ascend910a", False, 3),
        ("ascend910a", True, 12),
        ("ascend950pr_9589", False, 12),  # its kernel is always deterministic
    ],
)
def test_only_tasks_that_are_added_to_dw_may_be_parts_of_k(chip: str, deterministic: bool, rows: int) -> None:
    tiling = {"grad_weight": {"singleCoreK": 10 * rows}}
    options = {"chip": chip, "deterministic": deterministic, "tiling": tiling}
    result = LAYER.run(whole_numbers(LAYER), ONLY["grad_weight"], **options)
    assert same_bits(result.outputs["grad_weight"], known(LAYER, "grad_weight"))


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend910a", "ascend950pr_9589"])
@pytest.mark.parametrize("more", [{}, {"usedCoreNum": 1}, {"splitWo": 5}], ids=str)
def test_a_deterministic_task_takes_all_of_k(chip: str, more: dict[str, int]) -> None:
    """Else tasks with the same part of dW would store over each other."""
    tiling = {"grad_weight": {"singleCoreK": 30, **more}}
    with pytest.raises(TilingError, match=r"singleCoreK = 30; allowed from .* = 120: deterministic tasks take all of K"):
        LAYER.timing(ONLY["grad_weight"], chip=chip, deterministic=True, tiling=tiling)


def test_stream_k_refuses_more_blocks_than_cores() -> None:
    with pytest.raises(SimError, match="usedCoreNum = 40 > 20 cores"):
        CallAttributes(1, 32, 16, (24, 24)).timing(
            ONLY["grad_weight"], deterministic=True, tiling={"grad_weight": {"usedCoreNum": 40}}
        )


def test_stream_k_refuses_another_number_of_blocks_than_its_parts_were_cut_for() -> None:
    problem = CallAttributes(1, 32, 16, (24, 24))
    with pytest.raises(SimError, match=r"block_dim of grad_weight: 3 given; .* usedCoreNum = 16 cores"):
        problem.timing(ONLY["grad_weight"], deterministic=True, block_dim=3)
    tiling = {"grad_weight": {"usedCoreNum": 4, "coreStreamK": 2}}
    result = problem.run(whole_numbers(problem), ONLY["grad_weight"], deterministic=True, tiling=tiling)
    assert kernel_of(result, "grad_weight")["block_dim"] == 4
    assert same_bits(result.outputs["grad_weight"], known(problem, "grad_weight"))


# -- the layout of the weights -----------------------------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40), st.integers(1, 3), st.sampled_from([2, 4]))
def test_fractal_z_places_are_distinct_and_dense(groups: int, k_d: int, cin: int, cout: int, taps: int, itemsize: int) -> None:
    problem = ConvProblem(1, cin * groups, cout * groups, k_d, 1, taps, 1, 1, 1, k_d, 1, taps, groups=groups)
    buffers = {"L1": 524288, "L0A": 65536, "L0B": 65536, "L0C": 131072}
    inp = TilingInput(problem, itemsize, 20, buffers, 1 << 27, load3d=load_chip("ascend910b3").load3d.limits)
    layout = FractalZ.of(inp, itemsize)
    offsets = [
        layout.offset(g, d, i, t, o)
        for g in range(inp.real_groups)
        for d in range(k_d)
        for i in range(layout.cin1)
        for t in range(taps)
        for o in range(layout.cout1)
    ]
    assert offsets == list(range(0, layout.total_bytes(inp.real_groups), 16 * layout.c0 * itemsize))


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
def test_a_dilated_depth(chip: str) -> None:
    """Both gradients of a kernel whose planes lie two apart, against the reference in whole numbers."""
    rng = np.random.default_rng(0)
    shapes = ((1, 16, 5, 4, 4), (1, 16, 7, 4, 4), (16, 16, 3, 3, 3))
    tensors = [rng.integers(-3, 4, shape).astype(np.float16) for shape in shapes]
    result = convolution_backward(
        *tensors, None, (1, 1, 1), (1, 1, 1), (2, 1, 1), False, (0, 0, 0), 1, (True, True, False),
        chip=chip, mode="functional", deterministic=True,
    )  # fmt: skip
    assert result.report.passed

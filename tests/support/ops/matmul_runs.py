"""One MatMul launch on whole numbers so small that fp32 sums are exact in any order, and numpy's product to compare with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascend_sim.chip import ChipSpec, load_chip
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.runtime import Device, Outcome, run_tasks

Array = NDArray[Any]


def operands(problem: MatMulProblem, seed: int = 0) -> tuple[Array, Array]:
    """op(A) and op(B), whole numbers in float64: [batch, M, K] and [batch or 1, K, N]."""
    rng = np.random.default_rng(seed)
    b_batch = problem.batch if problem.b_batched else 1
    a = rng.integers(-3, 4, (problem.batch, problem.m, problem.k))
    b = rng.integers(-3, 4, (b_batch, problem.k, problem.n))
    return a.astype(np.float64), b.astype(np.float64)


def run(
    problem: MatMulProblem,
    chip: ChipSpec | str = "ascend910b3",
    mode: str = "full",
    tiling: dict[str, int] | None = None,
    disarm: Sequence[str] = (),
) -> tuple[Array, Array, Outcome]:
    """(C of the kernel, C of numpy, what the run left)."""
    chip = load_chip(chip) if isinstance(chip, str) else chip
    device = Device(chip, with_values=True)
    tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
    a, b = operands(problem)
    stored = (a.transpose(0, 2, 1) if problem.transpose_a else a, b.transpose(0, 2, 1) if problem.transpose_b else b)
    for tensor, values in zip(tensors, stored, strict=False):
        assert tensor.data is not None
        tensor.data[:] = np.ascontiguousarray(values).astype(numpy_dtype(problem.storage)).view(np.uint8).ravel()
    task = matmul_task(chip, problem, choose_matmul(problem, chip, tiling), tensors, disarm=disarm)
    outcome = run_tasks(device, [task], {"mode": mode})
    assert tensors[2].data is not None
    c = tensors[2].data.view(numpy_dtype(problem.out_dtype)).reshape(problem.batch, problem.m, problem.n)
    return c, (a @ b).astype(numpy_dtype(problem.out_dtype)), outcome

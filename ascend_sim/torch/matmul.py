"""A matrix product by the MatMul kernel, as a Linear layer needs it. No operator stands around it, so no Cast and no copies."""

from __future__ import annotations

from collections.abc import Sequence

from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.errors import SimError
from ascend_sim.numerics import canonical
from ascend_sim.ops.kernels.matmul.program import matmul_task
from ascend_sim.ops.kernels.matmul.tiling import MatMulProblem, choose_matmul
from ascend_sim.report.report import Report
from ascend_sim.runtime import Device, KernelMoves, run_tasks
from ascend_sim.torch.calls import turned


def matmul_problem(a: TensorSpec, b: TensorSpec, cube_math_type: int, chip: ChipSpec) -> MatMulProblem:
    """Return the MatMul kernel's problem for [M, K] x [K, N], or for batches of them. Raises SimError for an empty product.

    cubeMathType 1 and 3 use HF32 for float32 where the chip has it; 2 (float16) would need Casts around the kernel and changes
    nothing.
    """
    if 0 in a.shape or 0 in b.shape:
        raise SimError("an empty matrix product: no kernel runs")
    dtype = canonical(a.dtype)
    hf32 = dtype == "float32" and cube_math_type in (1, 3) and "hf32" in chip.cube.rates
    batch = a.shape[0] if len(a.shape) == 3 else 1
    return MatMulProblem(
        a.shape[-2],
        b.shape[-1],
        a.shape[-1],
        "hf32" if hf32 else dtype,
        dtype,
        batch,
        turned(a),
        turned(b),
        b_batched=len(b.shape) == 3,
    )


def time_matmul(
    problem: MatMulProblem,
    chip: ChipSpec,
    *,
    l2: str = "cold",
    engine: str | None = None,
    before: Sequence[KernelMoves] = (),
) -> Report:
    """Run the MatMul kernel alone in timing mode and return its report; `before` are the kernels of the step before it.

    `before` names this product's operands a and b; `l2` "warm" has both in the L2. Raises SimError if the chip lacks the kernel
    or no tiling fits.
    """
    tiling = choose_matmul(problem, chip)
    device = Device(chip, with_values=False)
    tensors = [device.allocate(size, name) for size, name in zip(problem.sizes, "abc", strict=True)]
    for operand in tensors[:2] if l2 == "warm" else ():
        device.warm(operand)
    device.replay(before, dict(zip("abc", tensors, strict=True)))
    task = matmul_task(chip, problem, tiling, tensors)
    outcome = run_tasks(device, [task], {"mode": "timing", "engine": engine})
    assert outcome.timeline is not None
    return Report.build(chip, outcome.timeline, [task], findings=outcome.findings, l2=l2)

"""A plan takes kernel functions with their pieces: right values, names of the launch, and one line where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascend_sim.chip import load_chip
from ascend_sim.errors import SimError
from ascend_sim.kernel.function import KernelError, KernelFunction, kernel_function
from ascend_sim.kernel.kernel import Kernel
from ascend_sim.kernel.tensor import Tensor
from ascend_sim.ops.execute import execute
from ascend_sim.ops.kernels.vector.common import KernelWork, contiguous
from ascend_sim.ops.plan import Plan

pytestmark = pytest.mark.fast

ROWS, COLUMNS = 37, 64


@kernel_function(core=("AI_CORE", "AIV"))
def scaled(k: Kernel, x: Tensor, y: Tensor, pieces: Sequence[int], *, factor: float) -> None:
    """y = factor * x, row by row."""
    incoming = k.ub_queue("x", x.shape[1], x.dtype, "MTE2", "V")
    outgoing = k.ub_queue("y", y.shape[1], y.dtype, "V", "MTE3")
    for row in k.each(pieces):
        k.next_tile()
        k.gm_to_ub(incoming, x[row])
        with incoming.read() as values, outgoing.write() as result:
            k.muls(result, values, factor)
        k.ub_to_gm(y[row], outgoing)


@kernel_function(core="AIC")
def cube_alone(k: Kernel, x: Tensor, y: Tensor, pieces: Sequence[int]) -> None:
    """A kernel without a vector unit."""


def planned(work: KernelWork, names: Sequence[str] = ("x", "y"), **options: Any) -> Plan:
    plan = Plan()
    for name, role in zip(("x", "y"), ("input", "output"), strict=True):
        plan.tensor(name, "float32", "ND", 4 * ROWS * COLUMNS, role)
    plan.add("Scaled", "scaled_y", names[:1], names[1:], work, **options)
    plan.place()
    return plan


def work_of(kernel: Any = scaled, blocks: int = 5, **fields: Any) -> KernelWork:
    sides = contiguous(([ROWS, COLUMNS], "float32"), ([ROWS, COLUMNS], "float32"))
    return KernelWork(kernel, sides, blocks, lambda block: list(range(block, ROWS, blocks)), fields)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend310p3", "ascend910b3", "ascend950pr_9589"])
def test_a_kernel_function_in_a_plan(chip: str) -> None:
    x = np.arange(ROWS * COLUMNS, dtype=np.float32)
    work = work_of(factor=0.5)
    for _ in range(2):  # the second launch finds the stamps of the first
        done = execute(planned(work), load_chip(chip), {"x": x}, {"mode": "full"})
        data = done.outputs["y"].data
        assert data is not None
        np.testing.assert_array_equal(data.view(np.float32), x / 2)
        (task,) = done.tasks
        assert (task.name, task.op_type, task.block_dim) == ("scaled_y", "Scaled", 5)
        assert task.info["shapes"] == {"x": [ROWS, COLUMNS], "y": [ROWS, COLUMNS]}
        assert task.info["dtypes"] == {"x": "float32", "y": "float32"} and task.info["formats"] == {"x": "ND", "y": "ND"}
        assert done.outcome.timeline is not None and sum(one.program.tiles for one in done.outcome.timeline.programs) == ROWS


def test_flags_of_a_kernel_function_are_disarmed_by_name() -> None:
    plan = planned(work_of(factor=2.0), disarm=("x[0] full",))
    done = execute(plan, load_chip("ascend910b3"), {"x": np.ones(ROWS * COLUMNS, np.float32)}, {"mode": "full"})
    assert done.outcome.findings


def test_a_kernel_function_that_does_not_fit_is_refused() -> None:
    with pytest.raises(SimError, match="scaled_y has tensors x; its kernel takes 2"):
        planned(work_of(factor=1.0), names=("x",))
    with pytest.raises(SimError, match="kernel cube_alone runs on AIC; its pieces go to AIV cores"):
        execute(planned(work_of(cube_alone)), load_chip("ascend910b3"), {"x": None}, {"mode": "timing"})


@kernel_function(core="AIV")
def misspelled(k: Kernel, x: Tensor, y: Tensor, pieces: Sequence[int]) -> None:
    k.gm_to_ubb(x, y)  # type: ignore[attr-defined]


@kernel_function(core="AIV")
def unset(k: Kernel, x: Tensor, y: Tensor, pieces: Sequence[int]) -> None:
    row = k.local_tensor(COLUMNS, x.dtype, "row")
    full = k.flag("MTE2", "V", "full")
    k.wait_flag(full)
    for piece in k.each(pieces):
        k.gm_to_ub(row, x[piece])


@pytest.mark.parametrize(
    ("kernel", "line", "text"),
    [(misspelled, 1, "k.gm_to_ubb does not exist; near: k.gm_to_ub"), (unset, 3, "waits without a set: 1")],
    ids=["call", "row"],
)
def test_an_error_names_file_and_line_of_the_kernel(kernel: KernelFunction, line: int, text: str) -> None:
    """The oracle counts lines from the function's decorator; a row's error is found when the program is complete."""
    with pytest.raises(KernelError) as caught:
        execute(planned(work_of(kernel)), load_chip("ascend910b3"), {"x": None}, {"mode": "timing"})
    file, first = kernel.first_line
    assert f"{Path(file).name}:{first + 1 + line}: kernel {kernel.name}: " in str(caught.value)
    assert text in str(caught.value)

"""The 950's grad_input of many groups: merged where the library merges them, and what its cores wait for."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ascend_sim
from ascend_sim import Result, TensorSpec
from ascend_sim.chip import ChipSpec, load_chip

torch = pytest.importorskip("torch")
CHIP = "ascend950pr_9579"
TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
Shapes = tuple[tuple[int, ...], tuple[int, ...], int]
DEPTHWISE: Shapes = (1, 35, 7, 6), (35, 1, 3, 3), 35
LARGE: Shapes = (1, 32, 12, 12), (32, 1, 5, 5), 32  # fp32: a step of K is a half of a block of 16 filters
UNEVEN: Shapes = (1, 36, 3, 6, 7), (24, 3, 2, 3, 2), 12


def attributes(shapes: Shapes) -> tuple[Any, ...]:
    ones = [1] * (len(shapes[0]) - 2)
    return None, ones, ones, ones, False, [0] * len(ones), shapes[2], (True, False, False)


def operands(shapes: Shapes, dtype: str) -> list[Any]:
    """gradOutput, input and weight: whole numbers, whose sums are exact in any order."""
    x, weight, groups = shapes
    ones = [1] * (len(x) - 2)
    made = torch.ops.aten.convolution(torch.zeros(x), torch.zeros(weight), None, ones, ones, ones, False, ones, groups)
    rng = np.random.default_rng(1)
    return [rng.integers(-3, 4, shape).astype(TYPES[dtype]) for shape in (tuple(made.shape), x, weight)]


def run(shapes: Shapes, dtype: str, chip: str | ChipSpec = CHIP, mode: str = "full", **options: Any) -> Result:
    given = operands(shapes, dtype)
    if mode == "timing":
        given = [TensorSpec(array.shape, dtype) for array in given]
    return ascend_sim.convolution_backward(
        *given, *attributes(shapes), chip=chip, mode=mode, conformance="library", cube_math_type=0, **options
    )


def is_right(result: Result, shapes: Shapes, dtype: str) -> bool:
    """Return True if the values are torch's."""
    wide = [torch.from_numpy(array.astype(np.float64)) for array in operands(shapes, dtype)]
    known = torch.ops.aten.convolution_backward(*wide, *attributes(shapes))[0].numpy()
    return np.array_equal(result.grad_input.astype(np.float64), known.astype(TYPES[dtype]).astype(np.float64))


def kernel_of(result: Result) -> dict[str, Any]:
    (kernel,) = (k for k in result.report.kernels if k["name"] == "grad_input")
    return dict(kernel)


@pytest.mark.parametrize(
    ("shapes", "dtype"),
    [(DEPTHWISE, "float16"), (DEPTHWISE, "bfloat16"), (LARGE, "float32"), (UNEVEN, "float32")],
    ids=["depthwise", "depthwise bf16", "fp32", "uneven"],
)
def test_values_of_merged_groups(shapes: Shapes, dtype: str) -> None:
    result = run(shapes, dtype)
    assert is_right(result, shapes, dtype) and result.report.findings == ()
    kernel = kernel_of(result)
    assert (kernel["core_type"], kernel["tiling_source"]) == ("MIX", "vendor procedure")


@pytest.mark.parametrize(("kernel", "core"), [(15, "MIX"), (16, "AIC")])
def test_groups_are_merged_where_the_weights_fit_ub_twice(kernel: int, core: str) -> None:
    """fp16: two times 16 x 16 x kernel^2 x 2 bytes of the 253,952 less 256 of UB: 230,400 and 262,144."""
    shapes = (1, 6, 16, 16), (6, 1, kernel, kernel), 6
    assert kernel_of(run(shapes, "float16", mode="timing"))["core_type"] == core


@pytest.mark.parametrize("flag", [0, 1])
def test_cubes_wait_for_the_weights_and_vector_cores_for_each_other(flag: int) -> None:
    """With slow stores a cube reads what nobody has written: of 20 vector cores the last four have none of 16 filters."""
    chip = load_chip(CHIP)
    path = chip.paths["UB->GM"]
    slow = chip.model_copy(update={"paths": chip.paths | {"UB->GM": path.model_copy(update={"head": 50_000})}})
    shapes = (10, 16, 4, 4), (16, 1, 3, 3), 16
    assert is_right(run(shapes, "float16", slow), shapes, "float16")
    spoiled = run(shapes, "float16", slow, disarm={"grad_input": [f"cross-core {flag}"]})
    assert not is_right(spoiled, shapes, "float16") or spoiled.report.findings

"""The verdict on sums that leave the range of a format on their way, before a bias is added."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascend_sim import convolution
from ascend_sim.calls import run as calls

Array = NDArray[Any]
COUPLED = ("ascend910a",)


@pytest.mark.parametrize("chip", ["ascend910a", "ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("size", [6e4, 300.0])
def test_a_sum_that_overflows_before_its_bias(chip: str, size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """float32 by float16: the sum leaves the cube as 65504 or infinity, and that is what the bias is added to."""
    x, weight = (np.full((1, 1, 2, 2), size, np.float32), np.array([size, -size, 1.0, 0.0], np.float32).reshape(4, 1, 1, 1))
    bias = np.array([1e5, 2.0, np.inf, -3.0], np.float32)
    attributes = ((1, 1), (0, 0), (1, 1), False, (0, 0), 1)

    def run() -> Any:
        return convolution(x, weight, bias, *attributes, cube_math_type=2, chip=chip, mode="functional", probe=False)

    result = run()
    with np.errstate(over="ignore"):
        sums = np.array([size * size, -size * size, size, 0.0]).astype(np.float16).astype(np.float64)
    if chip in COUPLED:
        sums = np.clip(sums, -65504, 65504)
        bias = np.nan_to_num(bias, posinf=np.finfo(np.float32).max)
    np.testing.assert_allclose(result.outputs["output"][0, :, 0, 0], np.minimum(sums + bias, np.inf), rtol=1e-3)
    assert result.report.passed
    original = calls.output_of

    def wrong(call: Any, allocation: Any, name: str) -> Array:
        array: Array = original(call, allocation, name)
        array[0, 1] = size * -size + 2 if chip in COUPLED else 65504
        return array

    monkeypatch.setattr(calls, "output_of", wrong)
    assert run().report.outputs["output"]["wrong"] == 4

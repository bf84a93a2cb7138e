"""Where the bias of a forward convolution is added, and how often the result is rounded."""

from __future__ import annotations

import numpy as np
import pytest

from ascend_sim import convolution
from ascend_sim.chip import load_chip
from ascend_sim.ops.operators.convolution.operator import OPERATOR
from ascend_sim.ops.operators.convolution.plans import OUTPUT
from ascend_sim.ops.verdicts.sums import sums_of
from ascend_sim.runtime import ValueModel
from tests.support.ops.forward_calls import SPLIT, TYPES, Forward

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("chip", ["ascend910b3", "ascend950pr_9589"])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tiles_of_one_product_each_have_their_own_bias(dtype: str, chip: str) -> None:
    """A block has several tiles of one product each; their biases stay apart in the bias table."""
    Forward(30, 8, 300, (9, 9), (1, 1), (1, 1), (0, 0), (1, 1)).check(dtype, chip, mode="full")


def test_a_kernel_that_lies_in_padding_leaves_the_bias_alone() -> None:
    Forward(1, 4, 20, (1, 1), (1, 1), (3, 3), (2, 2), (1, 1)).check("float16", "ascend910b3", mode="full")


@pytest.mark.parametrize("chip", SPLIT)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_a_bias_that_cancels_the_sum_is_rounded_with_it_once(dtype: str, chip: str) -> None:
    """Sums that the result's format does not hold: those that are rounded before the bias comes lose what is left of them."""
    rng = np.random.default_rng(3)
    x, weight = rng.integers(-40, 41, (2, 20, 7, 6)), rng.integers(-40, 41, (24, 20, 3, 3))
    exact = torch.nn.functional.conv2d(*(torch.from_numpy(a.astype(np.float64)) for a in (x, weight)), padding=1).numpy()
    operands = [array.astype(TYPES[dtype]) for array in (x, weight, -exact[0, :, 3, 3])]
    result = convolution(*operands, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, chip=chip, mode="functional")
    bias = operands[2].astype(np.float64).reshape(1, -1, 1, 1)
    once = (exact + bias).astype(TYPES[dtype]).astype(np.float64)
    twice = (exact.astype(TYPES[dtype]).astype(np.float64) + bias).astype(TYPES[dtype]).astype(np.float64)
    np.testing.assert_array_equal(result.outputs["output"].astype(np.float64), once)
    assert (once != twice).any() and result.report.passed


def test_the_verdict_finds_a_sum_that_was_rounded_before_its_bias() -> None:
    rng = np.random.default_rng(0)
    x, weight = (rng.standard_normal((2, 16, 8, 8)).astype(np.float16), rng.standard_normal((16, 16, 3, 3)).astype(np.float16))
    bias = np.full(16, -10, np.float16)
    result = convolution(x, weight, bias, (1, 1), (1, 1), (1, 1), False, (0, 0), 1, mode="functional")
    wide = [torch.from_numpy(a.astype(np.float64)) for a in (x, weight)]
    sums = torch.nn.functional.conv2d(*wide, padding=1).numpy()
    twice = (sums.astype(np.float16) + np.float16(-10)).astype(np.float16)
    call, inputs = result.call, {"input": x, "weight": weight, "bias": bias}
    assert call is not None
    found = sums_of(OPERATOR, call, OUTPUT, inputs, inputs)
    right, wrong = (
        OPERATOR.verdict(call, OUTPUT, value, found, ValueModel.of(load_chip("ascend910b3")), inputs=inputs)  # type: ignore[arg-type]
        for value in (result.outputs[OUTPUT], twice)
    )
    assert right.correct and not wrong.correct and wrong.wrong > twice.size // 8

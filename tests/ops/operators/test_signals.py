"""Signals (one row): the kernels load the columns that a tile reads, so that times grow with the length and no faster."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_sim import TensorSpec, convolution_backward
from ascend_sim.ops.problem.conv_problem import ConvProblem
from tests.support.sampling import part_of_cases, sample, sampled

torch = pytest.importorskip("torch")

LENGTHS = (1023, 4095, 15999, 17001, 40001)
"""Whole rows of 512 channels in blocks of 16 fit L1 up to some 16,000 samples, and of 1 MiB up to some 32,000."""
KERNELS = {"grad_input": (True, False, False), "grad_weight": (False, True, False)}
CHIPS = ("ascend910b3", "ascend910a", "ascend310p3")


def time_of(chip: str, made: str, length: int, stride: int, transposed: bool) -> float:
    """Return the time of the cube kernel."""
    channels, taps = 512, 3
    out = (length - 1) * stride + taps if transposed else (length - taps) // stride + 1
    tensors = [TensorSpec(shape, "float16") for shape in ((2, channels, out), (2, channels, length), (512, 512, taps))]
    result = convolution_backward(
        *tensors, None, [stride], [0], [1], transposed, [0], 1, KERNELS[made], chip=chip, mode="timing", timeline=False
    )
    (kernel,) = [row for row in result.report.kernels if "Conv" in row["op_type"]]
    return kernel["core_us_max"]


@part_of_cases(0, "grad_input-1-True-ascend910b3", "grad_weight-1-False-ascend910b3")
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(
    ("made", "stride", "transposed"),
    [("grad_input", 1, False), ("grad_input", 2, False), ("grad_input", 1, True), ("grad_weight", 1, False)],
)
def test_a_longer_signal_takes_no_less_and_not_much_more(chip: str, made: str, stride: int, transposed: bool) -> None:
    """An awkward length of dW by fewest loads has an awkward cut: the bound is that no tile reads whole rows."""
    lengths = LENGTHS[: sample(4, 5)]
    taken = {length: time_of(chip, made, length, stride, transposed) for length in lengths}
    for shorter, longer in pairwise(lengths):
        grown = taken[longer] / taken[shorter]
        assert 0.8 < grown < (2.5 if made == "grad_weight" else 1.6) * longer / shorter, taken


def test_whole_rows_can_be_asked_for() -> None:
    shapes = (2, 64, 3998), (2, 64, 4000), (64, 64, 3)
    tensors = [TensorSpec(shape, "float16") for shape in shapes]
    found: list[Any] = []
    for tiling in (None, {"grad_input": {"splitWi": 0}}):
        result = convolution_backward(
            *tensors, None, [1], [0], [1], False, [0], 1, (True, False, False), chip="ascend910b3", mode="timing",
            tiling=tiling,
        )  # fmt: skip
        found += [row for row in result.report.kernels if row["op_type"] == "Conv2DBackpropInput"]
    columns, rows = found
    assert columns["tiling"]["splitWi"] > 0 and "splitWi" not in rows["tiling"]
    assert rows["counts"]["bytes"]["GM->L1:A"] > 3 * columns["counts"]["bytes"]["GM->L1:A"]


def test_two_rows_are_no_signal() -> None:
    signal = ConvProblem(1, 1, 1, 1, 1, 9, 1, 1, 7, 1, 1, 3)
    assert signal.one_row
    changes = {
        "h_in": 2,
        "h_out": 2,
        "d_in": 2,
        "d_out": 2,
        "k_h": 2,
        "k_d": 2,
        "pad_up": 1,
        "pad_down": 1,
        "pad_front": 1,
        "pad_back": 1,
    }
    for name, value in changes.items():
        assert not ConvProblem(**{**vars_of(signal), name: value}).one_row, name


def vars_of(problem: ConvProblem) -> dict[str, int]:
    return {name: getattr(problem, name) for name in problem.__dataclass_fields__}


@sampled(12, 120)
@given(
    st.sampled_from(CHIPS), st.integers(257, 900), st.integers(1, 9), st.integers(1, 3), st.integers(1, 2), st.booleans(),
    st.integers(0, 4), st.sampled_from((1, 2)), st.data(),
)  # fmt: skip
def test_values_of_signals(
    chip: str, length: int, taps: int, stride: int, dilation: int, transposed: bool, pad: int, groups: int, data: st.DataObject
) -> None:
    """Whole numbers, whose sums have no rounding, against torch."""
    pad = min(pad, (taps - 1) * dilation // 2) if transposed else min(pad, taps - 1)
    channels = [groups * data.draw(st.integers(1, 20)) for _ in range(2)]
    x = torch.randint(-2, 3, (2, channels[0], length)).double()
    first, second = (channels[0], channels[1]) if transposed else (channels[1], channels[0])
    weight = torch.randint(-2, 3, (first, second // groups, taps)).double()
    attributes = [stride], [pad], [dilation], transposed, [0], groups
    y = torch.ops.aten.convolution(x, weight, None, *attributes)
    grad = torch.randint(-1, 2, y.shape).double()
    wanted = torch.ops.aten.convolution_backward(grad, x, weight, None, *attributes, (True, True, False))
    own = [array.numpy().astype(np.float16) for array in (grad, x, weight)]
    result = convolution_backward(*own, None, *attributes, (True, True, False), chip=chip, mode="functional")
    assert np.array_equal(result.grad_input.astype(np.float64), wanted[0].numpy())
    np.testing.assert_array_equal(
        result.grad_weight.astype(np.float64), wanted[1].numpy().astype(np.float16).astype(np.float64)
    )

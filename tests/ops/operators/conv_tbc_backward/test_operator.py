"""TBC on the 950: the tensors as they are, an image [1, 1, T, B, C] in NDHWC and weights [1, K, 1, C_in, C_out] in DHWCN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascend_sim import Result, conv_tbc_backward
from ascend_sim.ops.operators.conv_tbc_backward.case import ConvTbcBackwardCase
from ascend_sim.studies.explain.run import explain
from tests.support.sampling import part_of_cases, sampled

Array = NDArray[Any]
Sizes = tuple[int, int, int, int, int, int]
"""T, B, C_in, C_out, K, pad."""
CHIP = "ascend950pr_9589"
SHARED = (40, 4, 70, 36, 5, 2)
"""Whose few tasks the cores share (StreamK) in deterministic mode."""


def operands(sizes: Sizes, dtype: str, seed: int = 0) -> list[Array]:
    """self, input, weight and bias of small whole numbers: every sum is exact in float32 and in any order."""
    steps, batch, c_in, c_out, taps, pad = sizes
    rng = np.random.default_rng(seed)
    shapes = ((steps + 2 * pad - taps + 1, batch, c_out), (steps, batch, c_in), (taps, c_in, c_out), (c_out,))
    return [rng.integers(-2, 3, shape).astype(dtype) for shape in shapes]


def run(tensors: list[Array], pad: int, mode: str = "functional", **options: Any) -> Result:
    return conv_tbc_backward(*tensors, pad, chip=CHIP, mode=mode, **options)


def wanted(tensors: list[Array], pad: int) -> dict[str, Array]:
    torch = pytest.importorskip("torch")
    gradient, *others = (torch.from_numpy(array.astype(np.float64)) for array in tensors)
    leaves = [tensor.requires_grad_() for tensor in others]
    torch.conv_tbc(*leaves, pad).backward(gradient)
    names = ("grad_input", "grad_weight", "grad_bias")
    return {name: leaf.grad.numpy() for name, leaf in zip(names, leaves, strict=True)}  # type: ignore[union-attr]


def check(result: Result, tensors: list[Array], pad: int) -> None:
    for name, expected in wanted(tensors, pad).items():
        found = getattr(result, name)
        np.testing.assert_array_equal(found, expected.astype(found.dtype), err_msg=name)
    assert result.report.passed


@st.composite
def problems(draw: st.DrawFn) -> Sizes:
    taps, pad = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    channels = st.sampled_from([1, 3, 8, 16, 17, 40, 70])
    steps = draw(st.integers(max(taps - 2 * pad, 1), 12))
    return steps, draw(st.integers(1, 7)), draw(channels), draw(channels), taps, pad


@sampled(5, 25)
@given(problems(), st.sampled_from(["float16", "float32"]), st.booleans())
def test_values(sizes: Sizes, dtype: str, deterministic: bool) -> None:
    tensors = operands(sizes, dtype)
    check(run(tensors, sizes[-1], deterministic=deterministic), tensors, sizes[-1])


@part_of_cases(2)
@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_full_equals_functional(dtype: str, deterministic: bool) -> None:
    tensors = operands(SHARED, dtype)
    full = run(tensors, SHARED[-1], "full", deterministic=deterministic)
    check(full, tensors, SHARED[-1])
    functional = run(tensors, SHARED[-1], deterministic=deterministic)
    assert all(full.outputs[name].tobytes() == array.tobytes() for name, array in functional.outputs.items())
    (kernel,) = [row for row in full.report.kernels if row["name"] == "grad_weight"]
    assert kernel["tiling"]["streamKType"] > 0  # the 950's kernel always is
    assert kernel["formats"] == {"grad_output": "NDHWC", "input": "NDHWC", "grad_weight": "DHWCN"}


def test_nothing_is_turned() -> None:
    tensors = operands((6, 3, 20, 36, 3, 1), "float16")
    kinds = [row["op_type"] for row in run(tensors, 1).report.plan]
    assert kinds == ["ReduceSum", "Conv3DBackpropInputV2", "Conv3DBackpropFilterV2", "Cast"]


def test_strided_tensors_are_copied_first() -> None:
    tensors = operands((6, 3, 20, 36, 3, 1), "float16")
    views = [np.asfortranarray(array) for array in tensors]
    result = run(views, 1)
    check(result, tensors, 1)
    assert [row["op_type"] for row in result.report.plan][:3] == ["ViewCopy"] * 3


@pytest.mark.parametrize("wanted", [{"element": (3, 2, 5)}, {"weight": (2, 7, 11)}])
def test_an_element_can_be_followed(wanted: dict[str, tuple[int, ...]]) -> None:
    entries = {"operator": "conv_tbc_backward", "chip": CHIP, "pad": 2}
    entries |= {"input": {"shape": (9, 7, 40), "dtype": "float16"}, "weight": {"shape": (4, 40, 17)}}
    assert explain(ConvTbcBackwardCase.model_validate(entries), **wanted).agrees

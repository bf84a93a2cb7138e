"""The operators with PyTorch's tensors, and with the usual values of their attributes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ascend_sim as asim
from ascend_sim.errors import SimError

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.fast


def tensors(dtype: Any, **how: Any) -> tuple[Any, Any, Any]:
    torch.manual_seed(1)
    shapes = (2, 8, 4, 4), (2, 3, 6, 6), (8, 3, 3, 3)
    return tuple(torch.randn(shape, **how).to(dtype) for shape in shapes)  # type: ignore[return-value]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_are_taken_as_their_arrays(dtype: str) -> None:
    given = tensors(getattr(torch, dtype))
    found = asim.convolution_backward(*given)
    exact = torch.ops.aten.convolution_backward(
        *(one.double() for one in given), [8], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, True, True]
    )
    for name, truth in zip(("grad_input", "grad_weight", "grad_bias"), exact, strict=True):
        assert np.allclose(found.outputs[name].astype(float), truth.numpy(), rtol=0.02, atol=0.05), name
    assert found.report.passed and found.report.problem["tensors"]["weight"]["dtype"] == dtype


def test_what_is_left_out_is_usual() -> None:
    """Defaults give the bits of a call with everything said; one axis and three axes too."""
    given = [one.numpy() for one in tensors(torch.float32)]
    said = asim.convolution_backward(*given, None, (1, 1), (0, 0), (1, 1), False, (0, 0), 1, (True, True, True))
    usual = asim.convolution_backward(*given)
    for name, array in said.outputs.items():
        assert np.array_equal(array, usual.outputs[name])
    for axes in (1, 3):
        specs = [asim.TensorSpec((2, channels, *[size] * axes), "float16") for channels, size in ((4, 5), (3, 7), (4, 3))]
        specs[2] = asim.TensorSpec((4, 3, *[3] * axes), "float16")
        assert asim.convolution_backward(*specs, mode="timing").report.problem["stride"] == [1] * axes
    output = asim.convolution(given[1], given[2])
    assert output.outputs["output"].shape == (2, 8, 4, 4)
    assert asim.convolution(given[1], given[2], None, padding=1).outputs["output"].shape == (2, 8, 6, 6)


def test_meta_tensors_have_times_and_no_values() -> None:
    meta = tensors(torch.float16, device="meta")
    timed = asim.convolution_backward(*meta, mode="timing").report.total_us
    assert timed == asim.convolution_backward(*tensors(torch.float16), mode="timing").report.total_us
    with pytest.raises(SimError, match="needs values, but grad_output, input, weight is a TensorSpec"):
        asim.convolution_backward(*meta)


def test_tensors_that_want_gradients_and_views_are_taken() -> None:
    gradient, image, weight = tensors(torch.float32)
    weight.requires_grad_()
    turned = image.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert not turned.is_contiguous()
    first, second = (asim.convolution_backward(gradient, one, weight).grad_weight for one in (image, turned))
    assert np.allclose(first, second, atol=1e-4)

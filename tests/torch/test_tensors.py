"""Tensors on their way to the chip and back."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from ascend_sim.torch import simulate  # noqa: E402

nn = torch.nn


def gradients(model: Any) -> list[Any]:
    found = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    return found


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_and_channels_last_come_back_as_they_went(dtype: str) -> None:
    torch.manual_seed(0)
    kind = getattr(torch, dtype)
    conv = nn.Conv2d(8, 8, 3).to(kind).to(memory_format=torch.channels_last)
    data = torch.randn(2, 8, 6, 6).to(kind).to(memory_format=torch.channels_last).requires_grad_()
    conv(data).pow(2).sum().backward()
    own = [data.grad.clone(), *gradients(conv)]
    strides = [tensor.stride() for tensor in own]
    data.grad = None
    with simulate(mode="functional", values="chip", strict=True):
        conv(data).pow(2).sum().backward()
    ours = [data.grad, *gradients(conv)]
    assert [tensor.stride() for tensor in ours] == strides and all(tensor.dtype is kind for tensor in ours)
    for tensor, expected in zip(ours, own, strict=True):
        torch.testing.assert_close(tensor, expected, rtol=0.02, atol=0.02 * float(expected.abs().max()))

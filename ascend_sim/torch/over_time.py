"""`torch.conv_tbc` with a backward that is one call; autograd's own splits it into unrelated matrix products.

Two operators, which a dispatch mode sees below autograd and `torch.func`, and their derivatives, which are the same two again.
Values are PyTorch's own.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

aten = torch.ops.aten


@torch.library.custom_op("ascend_sim::conv_tbc", mutates_args=())
def _conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    return aten.conv_tbc.default(input, weight, bias, pad)


@torch.library.custom_op("ascend_sim::conv_tbc_backward", mutates_args=())
def _conv_tbc_backward(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    return aten.conv_tbc_backward.default(grad_output, input, weight, bias, pad)


@_conv_tbc.register_fake
def _output_like(input: Tensor, weight: Tensor, bias: Tensor, pad: int) -> Tensor:
    return input.new_empty(input.shape[0] + 2 * pad - weight.shape[0] + 1, input.shape[1], weight.shape[2])


@_conv_tbc_backward.register_fake
def _gradients_like(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias: Tensor, pad: int
) -> tuple[Tensor, Tensor, Tensor]:
    return input.new_empty(input.shape), weight.new_empty(weight.shape), bias.new_empty(bias.shape)


def _one_by_one(operator: Any, info: Any, axes: tuple[int | None, ...], *args: Any) -> Any:
    """Run an operator under `vmap`: once for each example. Return the stacked results and their batch axes, all 0."""
    results = [
        operator(*(one if axis is None else one.select(axis, number) for one, axis in zip(args, axes, strict=True)))
        for number in range(info.batch_size)
    ]
    if isinstance(results[0], tuple):
        return tuple(torch.stack(parts) for parts in zip(*results, strict=True)), (0,) * len(results[0])
    return torch.stack(results), 0


_conv_tbc.register_vmap(lambda info, axes, *args: _one_by_one(_conv_tbc, info, axes, *args))
_conv_tbc_backward.register_vmap(lambda info, axes, *args: _one_by_one(_conv_tbc_backward, info, axes, *args))

OUTPUT = torch.ops.ascend_sim.conv_tbc.default
GRADIENTS = torch.ops.ascend_sim.conv_tbc_backward.default
"""The operator that computes all three gradients, as a dispatch mode sees it."""


class _ConvTbc(torch.autograd.Function):
    """Autograd function of conv_tbc whose backward is one call of `_conv_tbc_backward`."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return _conv_tbc(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.pad = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        return *_ConvTbcGrad.apply(grad_output, *ctx.saved_tensors, ctx.pad), None


class _ConvTbcGrad(torch.autograd.Function):
    """Autograd function of conv_tbc's backward.

    It is linear in each argument, so its gradients are calls of the same two operators.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(*args: Any) -> Any:
        return _conv_tbc_backward(*args)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        *tensors, ctx.pad = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, of_input: Any, of_weight: Any, of_bias: Any) -> Any:
        grad_output, data, weight, bias = ctx.saved_tensors
        of_grad_output = _ConvTbc.apply(of_input, weight, torch.zeros_like(bias), ctx.pad)
        of_grad_output = of_grad_output + _ConvTbc.apply(data, of_weight, of_bias, ctx.pad)
        to_input = _ConvTbcGrad.apply(grad_output, data, of_weight, bias, ctx.pad)[0]
        to_weight = _ConvTbcGrad.apply(grad_output, of_input, weight, bias, ctx.pad)[1]
        return of_grad_output, to_input, to_weight, None, None


def conv_tbc(data: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Return `torch.conv_tbc(data, weight, bias, pad)`, under autocast in its dtype, with a backward that is one operator.

    Forward-mode derivatives and traces use PyTorch's own conv_tbc.
    """
    if forward_ad._current_level >= 0 or torch.jit.is_tracing():
        return aten.conv_tbc.default(data, weight, bias, pad)
    kind = data.device.type
    if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind):
        dtype = torch.get_autocast_dtype(kind)
        data, weight, bias = (
            one.to(dtype) if one.is_floating_point() and one.dtype is not torch.float64 else one for one in (data, weight, bias)
        )
    return _ConvTbc.apply(data, weight, bias, pad)

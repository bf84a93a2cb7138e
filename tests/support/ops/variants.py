"""Random variants of calls: a field or two made to differ, or all tensors changed alike, as vendors' test rows differ."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall

Call = ConvBackwardCall | ConvTbcCall

DTYPES = ("float32", "float16", "bfloat16", "hifloat8", "float8_e4m3fn", "int8")
FORMATS = ("ND", "NCL", "NCHW", "NCDHW", "NHWC")
MAPS = ("grad_output", "self", "input", "weight", "grad_input", "grad_weight")
TENSORS = (*MAPS, "bias", "grad_bias")


class Variants:
    """A stream of variants of given calls."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def __call__(self, call: Call) -> Call:
        """The call with up to three changes."""
        for _ in range(self.random.choice((0, 1, 1, 2, 3))):
            call = (self.together if self.random.random() < 0.5 else self.field)(call)
        return fitted(call) if self.random.random() < 0.3 else call

    def near(self, value: int) -> int:
        """A neighbour, or a limit of the documents."""
        return self.random.choice((value - 1, value + 1, 0, 1, 2, 2 * value, value, 255, 256, 64, -1, value + 16))

    def replaced(self, values: tuple[int, ...]) -> tuple[int, ...]:
        """One value changed, one more or one less, or twice as many."""
        kind = self.random.randrange(5)
        if kind == 0:
            return (*values, self.random.choice((0, 1)))
        if kind == 1:
            return values[:-1]
        if kind == 2 or not values:
            return values + values
        position = self.random.randrange(len(values))
        return (*values[:position], self.near(values[position]), *values[position + 1 :])

    def field(self, call: Call) -> Call:
        """One field made to differ."""
        choose = self.random.choice
        name = choose(fields(call)).name
        value: Any = getattr(call, name)
        if name in TENSORS:
            value = self.tensor(value)
        elif name == "output_mask":
            value = choose((None, (True,), (True,) * 4, *((choose((True, False)),) * 2 + (v,) for v in (True, False))))
        elif name == "transposed":
            value = not value
        elif name == "groups":
            value = choose((0, -1, 1, 2, 3, 4, 8, 65535, 65536))
        elif name == "cube_math_type":
            value = choose((-1, 0, 1, 2, 3, 4))
        elif name == "pad":
            value = self.near(value)
        else:
            value = (1, 1) if value is None else None if self.random.random() < 0.2 else self.replaced(value)
        return replace(call, **{name: value})

    def tensor(self, tensor: TensorArg | None) -> TensorArg | None:
        """A null pointer, another dtype, label, shape or strides."""
        choose = self.random.choice
        if tensor is None:
            return choose((None, TensorArg((2, 2, 2, 2), "float16", "NCHW")))
        kind = self.random.randrange(6)
        if kind == 0:
            return None
        if kind == 1:
            return replace(tensor, dtype=choose(DTYPES))
        if kind == 2:
            return replace(tensor, format=choose(FORMATS))
        if kind == 3:
            return replace(tensor, strides=tuple(choose((1, 2, 100)) for _ in tensor.shape))
        return replace(tensor, shape=self.replaced(tensor.shape))

    def together(self, call: Call) -> Call:
        """A change that concerns several tensors."""
        choose = self.random.choice
        kind = self.random.randrange(10)
        if kind == 0:
            dtype = choose(DTYPES)
            return changed(call, TENSORS, lambda tensor: replace(tensor, dtype=dtype))
        if kind == 1:
            label = choose(FORMATS)
            return changed(call, MAPS, lambda tensor: replace(tensor, format=label))
        if kind == 2 and isinstance(call, ConvTbcCall):
            return replace(call, pad=choose((-1, 0, 255, 256)))
        if kind == 3:  # the kernel's last axis (TBC: its first)
            axis, size = 0 if isinstance(call, ConvTbcCall) else -1, choose((1, 2, 255, 256))
            return changed(call, ("weight", "grad_weight"), lambda t: resized(t, axis, lambda _: size))
        if isinstance(call, ConvTbcCall):
            names = choose((("self", "input", "grad_input"), ("input", "grad_input"), ("bias", "grad_bias")))
            size = choose((0, 1, 3))
            axis = {"self": 1, "input": 2, "bias": 0}[names[0]]  # the batch, or the channels of one side alone
            return changed(call, names, lambda t: resized(t, axis, lambda _: size))
        grad_output, x, groups = call.grad_output, call.input, choose((2, 3, 4))
        if kind == 2:  # 8-bit inputs for one gradient
            return self.eight_bit(call)
        if kind == 4 and grad_output and x and not call.transposed:  # the transposed twin
            call = replace(call, transposed=True, grad_output=x, input=grad_output, grad_input=grad_output)
            return self.bias(call)
        if kind == 5:
            return changed(call, ("grad_output", "input", "grad_input"), lambda t: resized(t, 0, lambda _: 0))
        if kind == 6:
            call = changed(call, ("input", "grad_input"), lambda t: resized(t, 1, lambda _: 0))
            axis = 0 if call.transposed else 1
            return changed(call, ("weight", "grad_weight"), lambda t: resized(t, axis, lambda _: 0))
        if kind == 7:
            names = ("grad_output",) if call.transposed else ("input", "grad_input")
            call = changed(call, names, lambda t: resized(t, 1, lambda size: size * groups))
            return self.bias(replace(call, groups=call.groups * groups))
        return self.bias(call)

    def eight_bit(self, call: ConvBackwardCall) -> ConvBackwardCall:
        """All tensors in 8 bits and only one of the two large gradients wanted."""
        dtype, first = self.random.choice(DTYPES[3:5]), self.random.random() < 0.5
        call = changed(call, TENSORS, lambda tensor: replace(tensor, dtype=dtype))
        if first:
            return replace(call, output_mask=(True, False, False), grad_weight=None, grad_bias=None)
        call = changed(call, ("grad_weight",), lambda tensor: replace(tensor, dtype="float32"))
        return replace(call, output_mask=(False, True, False), grad_input=None, grad_bias=None)

    def bias(self, call: ConvBackwardCall) -> ConvBackwardCall:
        """biasSizes and gradBias as they should be."""
        if call.grad_output is None:
            return call
        channels = call.grad_output.shape[1:2]
        call = replace(call, bias_sizes=channels)
        return changed(call, ("grad_bias",), lambda tensor: replace(tensor, shape=channels))


def changed(call: Any, names: Iterable[str], change: Callable[[TensorArg], TensorArg]) -> Any:
    """The call with a change to those of the named tensors that it has."""
    tensors = {name: getattr(call, name, None) for name in names}
    return replace(call, **{name: change(tensor) for name, tensor in tensors.items() if tensor is not None})


def resized(tensor: TensorArg, axis: int, size: Callable[[int], int]) -> TensorArg:
    """The tensor with another size on one axis, where it has that axis."""
    where = axis % max(tensor.rank, 1)
    shape = tuple(size(value) if position == where else value for position, value in enumerate(tensor.shape))
    return replace(tensor, shape=shape)


def fitted(call: Call) -> Call:
    """The call with the sizes of its output gradient that follow from the rest, where anything follows."""
    if isinstance(call, ConvTbcCall):
        x, weight = call.input, call.weight
        if call.self is None or x is None or weight is None or x.rank != 3 or weight.rank != 3:
            return call
        shape = (x.shape[0] + 2 * call.pad - weight.shape[0] + 1, x.shape[1], weight.shape[2])
        return replace(call, self=replace(call.self, shape=shape))
    x, weight, lists = call.input, call.weight, (call.stride, call.padding, call.dilation)
    axes = 0 if x is None else x.rank - 2
    if call.grad_output is None or x is None or weight is None or None in lists or call.output_padding is None:
        return call
    if axes < 1 or weight.rank != x.rank or any(len(values or ()) != axes for values in (*lists, call.output_padding)):
        return call
    sizes = []
    columns = zip(x.shape[2:], weight.shape[2:], *(values or () for values in lists), call.output_padding, strict=True)
    for size, kernel, stride, pad, dilation, extra in columns:
        reach = dilation * (kernel - 1) + 1
        grown = (size - 1) * stride - 2 * pad + reach + extra
        sizes.append(grown if call.transposed else (size + 2 * pad - reach) // max(stride, 1) + 1)
    return replace(call, grad_output=replace(call.grad_output, shape=(*call.grad_output.shape[:2], *sizes)))

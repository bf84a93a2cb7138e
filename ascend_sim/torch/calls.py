"""PyTorch's calls as calls of the simulated operators: tensors by name, attributes by name, no values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.calls.torch_tensors import dtype_of, size_of, spec_of
from ascend_sim.frozen import frozen
from ascend_sim.ops.layer import OVER_TIME
from ascend_sim.ops.network import layer_text
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import KernelMoves

CONV = "conv"
MATMUL = "matmul"
"""The name of a matrix product C = A x B, which is not an operator but only a kernel."""
PARTS = ("output", "grad_input", "grad_weight", "grad_bias")
"""Parts of a layer's time by output; layout conversions are a further part."""


@frozen
class Call:
    """One call of an operator with its tensors' shapes; equal calls take equal time.

    `part` is the layer part that a matrix product computes, else "". `before` are the step's kernels before the call, if the L2
    starts as they leave it.
    """

    operator: str
    tensors: tuple[tuple[str, TensorSpec | None], ...]
    attributes: tuple[tuple[str, Any], ...]
    part: str = ""
    before: tuple[KernelMoves, ...] | None = None

    @property
    def given(self) -> dict[str, TensorSpec | None]:
        """Return the tensors by name; None for one that is not given."""
        return dict(self.tensors)

    @property
    def named(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return dict(self.attributes)

    @property
    def forward(self) -> bool:
        """Return True for a call of the forward pass: of a forward operator, or a matrix product that computes "output"."""
        if self.operator == MATMUL:
            return self.part == "output"
        return OPERATORS[self.operator].layer_direction == "forward"


@frozen
class CalledLayer:
    """One layer that was called in either pass: a convolution or a matrix product; one line of the report's table."""

    name: str
    kind: str
    tensors: tuple[tuple[str, TensorSpec], ...]
    attributes: tuple[tuple[str, Any], ...]

    @property
    def text(self) -> str:
        """Return the layer's shapes and its unusual attributes as a short text, such as "8x64 @ 64x10" for a product."""
        shapes = dict(self.tensors)
        attributes = dict(self.attributes)
        if self.kind == MATMUL:
            (_, left), (_, right) = self.tensors
            return f"{_sizes(left.shape)} @ {_sizes(right.shape)}"
        return layer_text({name: spec.shape for name, spec in shapes.items()}, attributes)

    def called(self, name: str) -> CalledLayer:
        """Return a copy of the layer with another name."""
        return replace(self, name=name)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def bound(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return {argument name of the aten operator's schema: value} of a call; arguments left out are missing."""
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def geometry(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return (name, value) of stride, padding, dilation, transposed, output_padding and groups; lists have one value for each
    spatial axis.
    """
    axes = given["weight"].dim() - 2
    lists = {
        name: tuple(map(size_of, given[name])) * (axes if len(given[name]) == 1 else 1)
        for name in ("stride", "padding", "dilation", "output_padding")
    }
    return (
        ("stride", lists["stride"]),
        ("padding", lists["padding"]),
        ("dilation", lists["dilation"]),
        ("transposed", bool(given["transposed"])),
        ("output_padding", lists["output_padding"]),
        ("groups", size_of(given["groups"])),
    )


def convolution_layer(name: str, given: Mapping[str, Any]) -> CalledLayer:
    """Return the layer called `name` with the input, weight and attributes of a convolution or of its backward."""
    tensors = tuple((key, spec_of(given[key])) for key in ("input", "weight"))
    return CalledLayer(name, CONV, tensors, geometry(given))


def convolution_call(given: Mapping[str, Any]) -> Call:
    """Return a call of aten.convolution, with arguments `given`, as a Call of the simulated operator."""
    bias = given.get("bias")
    tensors = (
        ("input", spec_of(given["input"])),
        ("weight", spec_of(given["weight"])),
        ("bias", None if bias is None else spec_of(bias)),
    )
    return Call("convolution", tensors, geometry(given))


def convolution_backward_call(given: Mapping[str, Any]) -> Call:
    """Return a call of aten.convolution_backward as a Call of the simulated operator.

    bias_sizes is None: PyTorch passes [0] for no bias, the operator then takes the number of channels.
    """
    tensors = tuple((key, spec_of(given[key])) for key in ("grad_output", "input", "weight"))
    mask = tuple(map(bool, given["output_mask"]))
    return Call("convolution_backward", tensors, (("bias_sizes", None), *geometry(given), ("output_mask", mask)))


def conv_tbc_backward_call(given: Mapping[str, torch.Tensor], pad: int) -> Call:
    """Return the backward of aten.conv_tbc as a Call of the simulated operator."""
    tensors = tuple((key, spec_of(given[key])) for key in ("self", "input", "weight", "bias"))
    return Call("conv_tbc_backward", tensors, (("pad", size_of(pad)), ("grad_weight_dtype", None)))


def conv_tbc_layer(name: str, given: Mapping[str, Any]) -> CalledLayer:
    """Return the layer of a convolution over time (conv_tbc) with its input, weight and pad."""
    tensors = tuple((key, spec_of(given[key])) for key in ("input", "weight"))
    return CalledLayer(name, OVER_TIME, tensors, (("pad", size_of(given["pad"])),))


def matmul_layer(name: str, left: torch.Tensor, right: torch.Tensor) -> CalledLayer:
    """Return the layer of a matrix product `left` x `right`."""
    return CalledLayer(name, MATMUL, (("a", _matrix(left)), ("b", _matrix(right))), ())


def unseen_product(name: str, node: Any, left: torch.Tensor, right: torch.Tensor) -> CalledLayer:
    """Return the layer C = A x B of a product whose forward call was not seen, from one product `left` x `right` of its
    backward.

    That product is dB = A^T x dC if `left` has the transposed shape of the A that the autograd node keeps, else dA = dC x B^T.
    """
    kept = next((one for name in _FIRST if (one := getattr(node, name, None)) is not None), None)
    shape = tuple(kept.shape) if isinstance(kept, torch.Tensor) else kept
    *outer, rows, inner = map(size_of, left.shape)
    columns, dtype = size_of(right.shape[-1]), dtype_of(left)
    if shape is not None and [size_of(size) for size in shape[-2:]] == [inner, rows]:
        sizes = (*outer, inner, rows), (*outer, rows, columns)
    else:
        sizes = (*outer, rows, columns), (*outer, columns, inner)
    return CalledLayer(name, MATMUL, tuple((key, TensorSpec(size, dtype)) for key, size in zip("ab", sizes, strict=True)), ())


_FIRST = ("_saved_mat1_sym_sizes", "_saved_self_sym_sizes", "_saved_self", "_saved_batch1")
"""Attributes under which autograd nodes of products keep A or its shape."""


def matmul_call(left: torch.Tensor, right: torch.Tensor, part: str) -> Call:
    """Return the Call of C = A x B for matrices [M, K] and [K, N], or batches of them; `part` is the layer part it computes."""
    return Call(MATMUL, (("a", _matrix(left)), ("b", _matrix(right))), (), part)


def _matrix(tensor: torch.Tensor) -> TensorSpec:
    """Return a matrix as a TensorSpec, row-major or transposed as it is stored; a matrix in any other layout counts as
    row-major.
    """
    spec = spec_of(tensor)
    return spec if spec.strides is None or turned(spec) else TensorSpec(spec.shape, spec.dtype)


def turned(spec: TensorSpec) -> bool:
    """Return True if a matrix, or each of a dense batch, is stored as the transpose of a row-major one."""
    if spec.strides is None:
        return False
    *outer, rows, columns = spec.shape
    *steps, down, across = spec.strides
    dense = not outer or steps[0] == rows * columns
    return down == 1 and across == rows and dense


def product_part(layer: CalledLayer, left: torch.Tensor, right: torch.Tensor, seen: set[str]) -> str:
    """Return the gradient of C[M, N] = A[M, K] x B[K, N] that a product of its backward computes: "grad_input" or
    "grad_weight".

    dA = dC x B^T sums over N, dB = A^T x dC over M. If both fit, it is the first not in `seen`, dA before dB as autograd does;
    if both are in it, and if neither fits, "grad_input".
    """
    shapes = dict(layer.tensors)
    (m, _), (_, n) = shapes["a"].shape[-2:], shapes["b"].shape[-2:]
    sums = size_of(left.shape[-1])
    fits = [part for part, size in (("grad_input", n), ("grad_weight", m)) if size == sums]
    return next((part for part in fits if part not in seen), fits[0] if fits else "grad_input")

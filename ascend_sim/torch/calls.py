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
"""The one "operator" that is a kernel alone: C = A x B."""
PARTS = ("output", "grad_input", "grad_weight", "grad_bias")
"""Parts of a layer's time, beside layout conversions."""


@frozen
class Call:
    """One call of an operator; equal calls take equal time. `part` is the part of a layer that a matrix product
    computes, else "".

    `before` are the kernels of the step before it, if the L2 is to be as they leave it.
    """

    operator: str
    tensors: tuple[tuple[str, TensorSpec | None], ...]
    attributes: tuple[tuple[str, Any], ...]
    part: str = ""
    before: tuple[KernelMoves, ...] | None = None

    @property
    def given(self) -> dict[str, TensorSpec | None]:
        """Return the tensors by name."""
        return dict(self.tensors)

    @property
    def named(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return dict(self.attributes)

    @property
    def forward(self) -> bool:
        """Return True for a call of the forward pass."""
        if self.operator == MATMUL:
            return self.part == "output"
        return OPERATORS[self.operator].layer_direction == "forward"


@frozen
class CalledLayer:
    """A layer that is convolved or multiplied, in either pass: one line of a table."""

    name: str
    kind: str
    tensors: tuple[tuple[str, TensorSpec], ...]
    attributes: tuple[tuple[str, Any], ...]

    @property
    def text(self) -> str:
        """Return the shapes and unusual attributes as a short text."""
        shapes = dict(self.tensors)
        attributes = dict(self.attributes)
        if self.kind == MATMUL:
            (_, left), (_, right) = self.tensors
            return f"{_sizes(left.shape)} @ {_sizes(right.shape)}"
        return layer_text({name: spec.shape for name, spec in shapes.items()}, attributes)

    def called(self, name: str) -> CalledLayer:
        """Return a copy of the layer under another name."""
        return replace(self, name=name)


def _sizes(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))


def bound(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of an aten operator by the names of its schema, without those left out."""
    names = [argument.name for argument in func._schema.arguments]
    return dict(zip(names, args, strict=False)) | dict(kwargs)


def geometry(given: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """Return the attributes that both passes of a convolution have, each with one value for each axis."""
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
    """Return the layer of a convolution or of its backward."""
    tensors = tuple((key, spec_of(given[key])) for key in ("input", "weight"))
    return CalledLayer(name, CONV, tensors, geometry(given))


def convolution_call(given: Mapping[str, Any]) -> Call:
    """Return a call of aten.convolution as a call of the simulated operator."""
    bias = given.get("bias")
    tensors = (
        ("input", spec_of(given["input"])),
        ("weight", spec_of(given["weight"])),
        ("bias", None if bias is None else spec_of(bias)),
    )
    return Call("convolution", tensors, geometry(given))


def convolution_backward_call(given: Mapping[str, Any]) -> Call:
    """Return a call of aten.convolution_backward as a call of the simulated operator.

    Where PyTorch passes bias_sizes [0] for no bias, the operator gets the number of channels.
    """
    tensors = tuple((key, spec_of(given[key])) for key in ("grad_output", "input", "weight"))
    mask = tuple(map(bool, given["output_mask"]))
    return Call("convolution_backward", tensors, (("bias_sizes", None), *geometry(given), ("output_mask", mask)))


def conv_tbc_backward_call(given: Mapping[str, torch.Tensor], pad: int) -> Call:
    """Return a call of the backward of aten.conv_tbc as a call of the simulated operator."""
    tensors = tuple((key, spec_of(given[key])) for key in ("self", "input", "weight", "bias"))
    return Call("conv_tbc_backward", tensors, (("pad", size_of(pad)), ("grad_weight_dtype", None)))


def conv_tbc_layer(name: str, given: Mapping[str, Any]) -> CalledLayer:
    """Return the layer of a convolution over time."""
    tensors = tuple((key, spec_of(given[key])) for key in ("input", "weight"))
    return CalledLayer(name, OVER_TIME, tensors, (("pad", size_of(given["pad"])),))


def matmul_layer(name: str, left: torch.Tensor, right: torch.Tensor) -> CalledLayer:
    """Return the layer of a matrix product."""
    return CalledLayer(name, MATMUL, (("a", _matrix(left)), ("b", _matrix(right))), ())


def unseen_product(name: str, node: Any, left: torch.Tensor, right: torch.Tensor) -> CalledLayer:
    """Return the layer of a matrix product of which only its autograd node and one product of its backward are known.

    dA = dC x B^T is told from dB = A^T x dC by the operand that the node keeps: A's transposed shape is that of dB's
    left one.
    """
    kept = next((one for name in _FIRST if (one := getattr(node, name, None)) is not None), None)
    shape = tuple(kept.shape) if isinstance(kept, torch.Tensor) else kept
    *outer, rows, inner = map(size_of, left.shape)
    columns, dtype = size_of(right.shape[-1]), dtype_of(left)
    if shape is not None and [size_of(size) for size in shape[-2:]] == [inner, rows]:
        sizes = (*outer, inner, rows), (*outer, rows, columns)
    else:
        sizes = (*outer, rows, columns), (*outer, columns, inner)
    return CalledLayer(
        name, MATMUL, tuple((key, TensorSpec(size, dtype)) for key, size in zip("ab", sizes, strict=True)), ()
    )


_FIRST = ("_saved_mat1_sym_sizes", "_saved_self_sym_sizes", "_saved_self", "_saved_batch1")
"""Under which names nodes of products keep what they know of A."""


def matmul_call(left: torch.Tensor, right: torch.Tensor, part: str) -> Call:
    """Return the call C = A x B of matrices [M, K] and [K, N], or of batches of them."""
    return Call(MATMUL, (("a", _matrix(left)), ("b", _matrix(right))), (), part)


def _matrix(tensor: torch.Tensor) -> TensorSpec:
    """Return a matrix as a TensorSpec: row-major or transposed as it is stored; any other layout counts as copied to
    row-major.
    """
    spec = spec_of(tensor)
    return spec if spec.strides is None or turned(spec) else TensorSpec(spec.shape, spec.dtype)


def turned(spec: TensorSpec) -> bool:
    """Return True if the matrix is stored as the transpose of a row-major one."""
    if spec.strides is None:
        return False
    *outer, rows, columns = spec.shape
    *steps, down, across = spec.strides
    dense = not outer or steps[0] == rows * columns
    return down == 1 and across == rows and dense


def product_part(layer: CalledLayer, left: torch.Tensor, right: torch.Tensor, seen: set[str]) -> str:
    """Return which gradient of C[M, N] = A[M, K] x B[K, N] a product of its backward computes, "grad_input" or
    "grad_weight".

    dA = dC x B^T sums over N, dB = A^T x dC over M; if both fit, the one not in `seen`, dA first as autograd makes it.
    """
    shapes = dict(layer.tensors)
    (m, _), (_, n) = shapes["a"].shape[-2:], shapes["b"].shape[-2:]
    sums = size_of(left.shape[-1])
    fits = [part for part, size in (("grad_input", n), ("grad_weight", m)) if size == sums]
    return next((part for part in fits if part not in seen), fits[0] if fits else "grad_input")

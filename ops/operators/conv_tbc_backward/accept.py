"""An accepted call of TBC convolution backward as a 1-D convolution on views of the caller's tensors.

[T, B, C] is read as [B, C, T] and [K, C_in, C_out] as [C_out, C_in, K]; the plan makes contiguous copies of such views and
writes results back through them, which is what the library's Permutes do. On dav-3510 nothing is copied: the tensors are an
image [1, 1, T, B, C] in NDHWC and weights [1, K, 1, C_in, C_out] in DHWCN (ops-nn op_api of conv_tbc: stated).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ascend_sim.numerics.cube_math import promote
from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.operator import Settings
from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
from ascend_sim.ops.problem.family import Family
from ascend_sim.ops.problem.normal import Axis, Normalised, assemble, check_size, given, misfit


def normalise_tbc(call: ConvTbcCall, *, batch_on_width: bool = False) -> Normalised:
    """Return the 3-D problem of a checked call on [T, B, C], with stride, dilation and groups 1.

    B is the batch and T stands on W; with `batch_on_width` (the layout of TBC on dav-3510 in ops-nn e5c3fa93) T stands
    on H and B on W, with a kernel of 1. AclnnError 561103 where shapes do not fit each other, 161001 for a null tensor.
    """
    grad_output, input, weight = (
        given(name, tensor) for name, tensor in (("self", call.self), ("input", call.input), ("weight", call.weight))
    )
    if {grad_output.rank, input.rank, weight.rank} != {3}:
        raise misfit(f"ranks {grad_output.rank}, {input.rank}, {weight.rank}")
    (t_out, b_out, c_out), (t_in, b_in, c_in), (kernel, w_in, w_out) = grad_output.shape, input.shape, weight.shape
    if (b_out, c_out, c_in) != (b_in, w_out, w_in):
        raise misfit(f"self {grad_output.shape}, input {input.shape}, weight {weight.shape}")
    time = Axis(t_in, t_out, kernel, low=call.pad, high=call.pad)
    check_size(time)
    if batch_on_width:
        return assemble(1, c_in, c_out, {"H": time, "W": Axis(b_in, b_in)}, 1, False, 3, ("H",))
    return assemble(b_in, c_in, c_out, {"W": time}, 1, False, 3)


FEATURE_AXES = (1, 2, 0)
IMAGE_AXES = (2, 0, 1)
WEIGHT_AXES = (2, 1, 0)


def accepted(
    operator: str, call: ConvTbcCall, family: Family, warnings: tuple[str, ...], settings: Settings
) -> ConvolutionCall:
    """Return a checked TBC call as a convolution call for a chip of `family`. AclnnError where the product computes in no dtype
    for the inputs' dtypes and cubeMathType.

    Its tensors are views with their axes in the order of Conv1d, [N, C, L] and [C_out, C_in, K], and the bias is left out; on
    dav-3510 they stay as the caller gave them and count as an image with T on H and B on W.
    """
    product = settings.product
    assert call.self is not None and call.input is not None and call.weight is not None and call.bias is not None
    assert call.grad_input is not None and call.grad_weight is not None and call.grad_bias is not None
    promoted = promote(call.self.dtype, call.input.dtype, call.weight.dtype)
    compute_dtype = settings.compute_dtype(promoted, call.cube_math_type)
    steps, batch, _ = call.self.shape
    empty = 0 in (*call.self.shape, *call.input.shape, *call.weight.shape, *call.bias.shape)
    inputs = {"grad_output": call.self, "input": call.input, "weight": call.weight}
    gradients = {"grad_input": call.grad_input, "grad_weight": call.grad_weight, "grad_bias": call.grad_bias}
    as_image = family.layout.plain
    return ConvolutionCall(
        operator=operator,
        problem=normalise_tbc(call, batch_on_width=as_image).problem,
        forward=False,
        rank=3,
        family=family,
        inputs=inputs if as_image else _permuted_all(inputs),
        outputs=gradients if as_image else _permuted_all(gradients),
        compute_dtype=compute_dtype,
        warnings=warnings,
        routes=frozenset(product.routes),
        kernel_limits=tuple(product.profile(settings.conformance).kernel_limits),
        cube_math_type=call.cube_math_type,
        padded=call.pad > 0,
        axes=IMAGE_AXES if as_image else FEATURE_AXES,
        returned={"grad_input": call.grad_input, "grad_weight": call.grad_weight},
        # The Permutes read the caller's tensors again (op_api of conv_tbc: stated); the bias, which nobody reads, is left out.
        unread={} if as_image else {n: t for n, t in inputs.items() if t.offset or not t.is_contiguous},
        # The released library adds ones instead of self when there is nothing to convolve (op_api of conv_tbc: stated).
        bias_when_empty=float(steps * batch) if empty else 0.0,
        **settings.fields,
    )


def _permuted_all(tensors: Mapping[str, TensorArg]) -> dict[str, TensorArg]:
    """Return name -> tensor as a view: maps as [N, C, L], weights and dW as [C_out, C_in, K]; a bias stays."""
    axes = {"grad_output": FEATURE_AXES, "input": FEATURE_AXES, "grad_input": FEATURE_AXES}
    axes |= {"weight": WEIGHT_AXES, "grad_weight": WEIGHT_AXES}
    return {name: permuted(tensor, axes[name]) if name in axes else tensor for name, tensor in tensors.items()}


def permuted(tensor: TensorArg, axes: tuple[int, ...]) -> TensorArg:
    """Return the tensor as a view of the same memory with its axes in the order `axes`, labelled NCL, always with strides and a
    storage shape.
    """
    strides = tensor.strides
    if strides is None:
        steps = [1]
        for size in reversed(tensor.shape[1:]):
            steps.append(steps[-1] * size)
        strides = tuple(reversed(steps))
    storage = tensor.shape if tensor.storage_shape is None else tensor.storage_shape
    shape = tuple(tensor.shape[axis] for axis in axes)
    return replace(tensor, shape=shape, strides=tuple(strides[axis] for axis in axes), storage_shape=storage, format="NCL")

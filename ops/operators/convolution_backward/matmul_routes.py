"""MatMul routes of convolution backward: gradients that the library computes as matrix products.

All of them are for convolutions with groups 1, dilation 1 and no padding that are not transposed (ops-nn op_api: stated):

    whole_map  the kernel covers the map, one output pixel      dx = dY[N, Co] x W[Co, R]         dW = dY^T x X[N, R]
    patches    stride = kernel, which divides the map           dx = dY[n]^T [P, Co] x W[Co, R], each n, then a transpose
    pixels     1x1 kernel, stride 1, one image                  dx = W^T x dY[Co, P]              dW = dY x X[Ci, P]^T

R = Ci*kD*kH*kW, P = pixels of gradOutput. Which of them a product has is in `configs/operators` (routes).
"""

from __future__ import annotations

import math

from ascend_sim.frozen import frozen
from ascend_sim.numerics import numpy_dtype
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.operator import MatrixProduct

PIXELS_LIMIT = 128 << 20
"""Most bytes of both operands and the result with which `pixels` is taken (ops-nn says 128 MB; of what: assumed)."""

WHOLE_MAP, PATCHES, PIXELS = "whole_map", "patches", "pixels"


@frozen
class MatMulRoute:
    """Route of a gradient that is a plain matrix product, by `kind` (`WHOLE_MAP`, `PATCHES` or `PIXELS`, explained above): the
    `dtype` in which the cube multiplies ("hf32" too) and `out_dtype` of the result.
    """

    kind: str
    dtype: str
    out_dtype: str


def matmul_routes(call: ConvolutionCall) -> dict[str, MatMulRoute]:
    """Return gradient -> route of wanted gradients that are matrix products, grad_input before grad_weight; {} for 8-bit
    inputs, and for calls that are not `is_plain`.
    """
    found: dict[str, MatMulRoute] = {}
    if not is_plain(call) or _eight_bit(call):
        return found
    for gradient in ("grad_input", "grad_weight"):
        kind = _kind(call, gradient) if gradient in call.outputs else None
        if kind is not None:
            dtype = _multiplied_in(call, gradient)
            storage = "float32" if dtype == "hf32" else dtype
            found[gradient] = MatMulRoute(kind, dtype, storage if gradient == "grad_input" else _weight_out(call, dtype))
    return found


def is_plain(call: ConvolutionCall) -> bool:
    """Return True if a call may have a MatMul route: no padding but 0, dilation 1, groups 1, not transposed, not empty. Shape
    and product decide then.
    """
    p = call.problem
    undilated = max(p.dilation_d, p.dilation_h, p.dilation_w) == 1
    return p.groups == 1 and undilated and not (call.padded or call.forward or call.empty)


def covers_map(call: ConvolutionCall) -> bool:
    """Return True if the call `is_plain`, its kernel is as large as the map, and the product has the route `matmul_whole_map`;
    such a call takes the library's 3-D path, of whatever rank and dtype it is.
    """
    p = call.problem
    kernel, size, out = (p.k_d, p.k_h, p.k_w), (p.d_in, p.h_in, p.w_in), (p.d_out, p.h_out, p.w_out)
    return is_plain(call) and "matmul_whole_map" in call.routes and kernel == size and out == (1, 1, 1)


def product_of(call: ConvolutionCall, gradient: str) -> MatrixProduct | None:
    """Return M, K and N of a gradient with a MatMul route, with the reason for the route; None for other gradients."""
    route = matmul_routes(call).get(gradient)
    if route is None:
        return None
    p = call.problem
    row, pixels = p.c_in * p.k_d * p.k_h * p.k_w, p.d_out * p.h_out * p.w_out
    images, outputs = ("images", p.n), ("channels of grad_output", p.c_out)
    inputs, places = ("channels of input", p.c_in), ("pixels of grad_output", pixels)
    weights = ("weights of an output channel", row)
    data = gradient == "grad_input"
    if route.kind == PIXELS:
        why, sides = "a 1x1 kernel on one image", (inputs, outputs, places) if data else (outputs, places, inputs)
    elif route.kind == PATCHES:
        why, sides = "windows that do not overlap, image by image", (places, outputs, weights)
    else:
        why = "a kernel that covers the map"
        sides = (images, outputs, weights) if data else (outputs, images, weights)
    return MatrixProduct(tuple((letter, size, what) for letter, (what, size) in zip("MKN", sides, strict=True)), why)


def _kind(call: ConvolutionCall, gradient: str) -> str | None:
    p, routes = call.problem, call.routes
    kernel, size, out = (p.k_d, p.k_h, p.k_w), (p.d_in, p.h_in, p.w_in), (p.d_out, p.h_out, p.w_out)
    stride = (p.stride_d, p.stride_h, p.stride_w)
    if "matmul_whole_map" in routes and kernel == size and out == (1, 1, 1):
        return WHOLE_MAP
    divided = all(s == k * o for s, k, o in zip(size, kernel, out, strict=True))
    if gradient == "grad_input" and stride == kernel and divided:
        # A 2-D call goes this way only where nothing else is wanted of the cube; a 3-D call does its dW the usual way.
        alone = call.rank == 5 or "grad_weight" not in call.outputs
        if "matmul_patches" in routes and max(stride) > 1 and alone:
            return PATCHES
        if "matmul_long_patches" in routes and (p.stride_h != p.stride_w or p.stride_h > 2):
            return PATCHES
    if "matmul_pixels" in routes and kernel == stride == (1, 1, 1) and p.n == 1 and size == out:
        pixels = math.prod(size)
        moved = p.c_in * p.c_out + pixels * (p.c_in + p.c_out)
        if moved * int(numpy_dtype(call.storage_dtype).itemsize) <= PIXELS_LIMIT:
            return PIXELS
    return None


def _multiplied_in(call: ConvolutionCall, gradient: str) -> str:
    """Return the dtype in which a MatMul route multiplies for a gradient.

    In the documented profile it is the call's, promoted from all three inputs. The library promotes only the two that
    it multiplies (stated); cubeMathType 2 makes them float16 unless one is bfloat16, 1 and 3 make two float32 hf32.
    """
    if call.conformance == "documented":
        return call.compute_dtype
    other = "weight" if gradient == "grad_input" else "input"
    left, right = call.inputs["grad_output"].dtype, call.inputs[other].dtype
    if call.cube_math_type == 2 and "bfloat16" not in (left, right):
        return "float16"
    if left != right:
        return "float32"
    return "hf32" if left == "float32" and call.cube_math_type in (1, 3) else left


def _weight_out(call: ConvolutionCall, dtype: str) -> str:
    """Return the dtype of a MatMul's dW; `dtype` is that of its operands.

    It is float32, as from filter kernels (inferred), but float16 in the library's profile if cubeMathType is 2 and the
    operands are float16 (USE_FP16: stated).
    """
    narrow = call.conformance == "library" and call.cube_math_type == 2 and dtype == "float16"
    return "float16" if narrow else "float32"


def _eight_bit(call: ConvolutionCall) -> bool:
    return any(numpy_dtype(tensor.dtype).itemsize == 1 for tensor in call.inputs.values())

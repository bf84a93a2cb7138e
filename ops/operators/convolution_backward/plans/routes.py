"""Routes of convolution backward: operator of each gradient, its Dilation kernels, and its limits (ops-nn: stated)."""

from __future__ import annotations

import math
from dataclasses import replace

from ascend_sim.errors import TilingError
from ascend_sim.ops.convolution.call import ConvolutionCall
from ascend_sim.ops.kernels.grad_weight.procedures.cache_tiling.problem import filter_problem
from ascend_sim.ops.kernels.vector.dilation import Spread
from ascend_sim.ops.operators.convolution_backward.matmul_routes import is_plain
from ascend_sim.ops.problem.conv_problem import ConvProblem
from ascend_sim.ops.problem.tiling_input import TilingInput

V2_ROW_LIMIT, V2_PIXELS, V2_DEPTH = 4096, 5500, 85
"""Elements of the rows of a tile, pixels of dx and depth that decide between the two 3-D data kernels (ops-nn: stated)."""

LARGE_KERNEL = 8
"""Least height and width of a kernel equal to its stride whose dW the 950 makes as that of a 1x1 kernel (ops-nn: stated)."""


def is_3d(call: ConvolutionCall, inp: TilingInput) -> bool:
    """Return True if the library's 3-D path computes the gradients.

    It does for 3-D calls. It also does for deterministic calls of lower rank that want dW but not dx, where the product has
    that route, pads are less than the dilated kernel, and L1 holds the whole rows that the filter kernel reads.
    """
    alone = "grad_weight" in call.outputs and "grad_input" not in call.outputs
    return call.rank == 5 or (alone and _deterministic_filter_3d(call, inp))


def _deterministic_filter_3d(call: ConvolutionCall, inp: TilingInput) -> bool:
    """Return True if the 3-D filter kernel computes dW of a deterministic call of lower rank: the product has the
    route, pads are less than the dilated kernel, and L1 fits.

    That L1 must fit is stated. That it must hold the whole rows that the older 3-D operator needs is inferred.
    """
    p = call.problem
    reach_h, reach_w = (p.k_h - 1) * p.dilation_h + 1, (p.k_w - 1) * p.dilation_w + 1
    small = max(p.pad_up, p.pad_down) < reach_h and max(p.pad_left, p.pad_right) < reach_w
    asked = "deterministic_filter_3d" in call.routes and call.deterministic
    return asked and small and filter_problem(inp, call.compute_dtype).takes_whole_rows


def data_op_type(call: ConvolutionCall) -> str:
    """Return the name of the library's operator for the data kernel, by shape and dtype (ops-nn routing: stated; its
    lists of single shapes are left out).

    A forward convolution is Conv3D in 3-D, else Conv2D. grad_input is Conv2DBackpropInput below 3-D; in 3-D it is
    Conv3DBackpropInputV2 for fp32 and grouped calls and for some sizes, else Conv3DBackpropInput.
    """
    p = call.problem
    if call.forward:
        return "Conv3D" if call.rank == 5 else "Conv2D"
    if call.rank != 5:
        return "Conv2DBackpropInput"
    sizes_fit = (
        p.stride_d <= p.k_d
        and max(p.pad_front, p.pad_up, p.pad_left) < max(p.k_d, p.k_h, p.k_w)
        and min((p.h_out - 1) * p.stride_h + 1, 2 + (p.k_h - 1) * p.dilation_h) * p.w_out * p.stride_w <= V2_ROW_LIMIT
    )
    dilated = max(p.dilation_d, p.dilation_h, p.dilation_w) > 1
    worth_it = (
        max(p.stride_d, p.stride_h, p.stride_w) <= 2
        and max(p.pad_front, p.pad_up, p.pad_left) <= 2
        and max(p.k_d, p.k_h, p.k_w) <= 4
        and p.h_in * p.w_in >= V2_PIXELS
        and p.d_in <= V2_DEPTH
    )
    second = p.groups > 1 or call.storage_dtype == "float32" or (sizes_fit and (dilated or worth_it))
    return "Conv3DBackpropInputV2" if second else "Conv3DBackpropInput"


def filter_op_type(call: ConvolutionCall, inp: TilingInput) -> str:
    """Return the name of the library's operator for grad_weight (ops-nn routing: stated; its lists of single shapes are left
    out).

    On the library's 3-D path (`is_3d`) it is Conv3DBackpropFilterV2 for float32, dilated, grouped and deterministic calls and
    for some kernel sizes, else Conv3DBackpropFilter. Off that path it is Conv2DBackpropFilter, or Conv3DBackpropFilter for
    deterministic calls that would take the path if they did not want dx too.
    """
    p = call.problem
    if not is_3d(call, inp):
        return "Conv3DBackpropFilter" if _deterministic_filter_3d(call, inp) else "Conv2DBackpropFilter"
    taps = p.k_h * p.k_w
    channels = inp.cout_padded >= 128 and p.k_d * taps * inp.cin1 * inp.c0 >= 128
    basic = inp.itemsize == 2 and (taps == 1 or (taps in (4, 9, 16) and channels))
    dilated = max(p.dilation_d, p.dilation_h, p.dilation_w) > 1
    second = call.storage_dtype == "float32" or dilated or p.groups > 1 or call.deterministic or basic
    return "Conv3DBackpropFilterV2" if second else "Conv3DBackpropFilter"


def check_limits(call: ConvolutionCall, op_type: str) -> None:
    """Raise TilingError, with field, value and limit, for a problem beyond the limits of the library's operator
    `op_type`; the dilation of an axis with one tap counts as 1.
    """
    p = call.problem
    for limit in call.kernel_limits:
        if limit.op_type != op_type:
            continue
        most: int = getattr(p, limit.at_most) if limit.at_most else limit.max
        for name in limit.fields:
            unused = name.startswith("dilation") and getattr(p, name.replace("dilation", "k")) == 1
            value = 1 if unused else math.prod(getattr(p, factor) for factor in name.split(" * "))
            if not limit.min <= value <= most:
                allowed = f"[{limit.min}, {limit.at_most or limit.max}]"
                raise TilingError(f"{op_type} takes {name} in {allowed}, not {value} ({limit.source})")


def dilations(call: ConvolutionCall) -> tuple[Spread | None, Spread | None]:
    """Return (Dilation before the data kernel, Dilation after it), None for one that the call lacks; both None for 3-D,
    bfloat16 and `forward` calls, and for products without that route.

    One comes before for a stride above 2 of a kernel with several taps, one after for a 1x1 kernel with any stride above 1.
    """
    p = call.problem
    if "dilation_kernel" not in call.routes or call.forward or call.rank == 5 or call.storage_dtype == "bfloat16":
        return None, None
    stride = max(p.stride_h, p.stride_w)
    if p.k_h * p.k_w == 1 and stride > 1:
        # Without padding the small result has gradOutput's size; padding crops where its pixels would go.
        return None, Spread(p.h_out, p.w_out, p.h_in, p.w_in, p.stride_h, p.stride_w, -p.pad_up, -p.pad_left)
    if p.k_h * p.k_w > 1 and stride > 2:
        height, width = (p.h_out - 1) * p.stride_h + 1, (p.w_out - 1) * p.stride_w + 1
        return Spread(p.h_out, p.w_out, height, width, p.stride_h, p.stride_w), None
    return None, None


def without_stride(p: ConvProblem, before: Spread | None, after: Spread | None) -> ConvProblem:
    """Return the data kernel's problem without strides of H and W if a Dilation `before` or `after` it inserts the zeros; `p`
    itself with neither.

    With one before, gradOutput is the dilated map; with one after, dx has gradOutput's size and no padding.
    """
    if before is not None:
        return replace(p, h_out=before.target_height, w_out=before.target_width, stride_h=1, stride_w=1)
    if after is not None:
        flat = {"pad_up": 0, "pad_down": 0, "pad_left": 0, "pad_right": 0, "stride_h": 1, "stride_w": 1}
        return replace(p, h_in=p.h_out, w_in=p.w_out, **flat)
    return p


def filter_as_1x1(call: ConvolutionCall) -> bool:
    """Return True if dW is computed as that of a 1x1 kernel: the product has the route, the stride is as large as the
    kernel, kernels side by side cover the map, and the kernel is at least 8x8 (stated).

    That padding, dilation and groups exclude it is inferred.
    """
    p = call.problem
    rows = ((p.d_in, p.d_out, p.k_d, p.stride_d), (p.h_in, p.h_out, p.k_h, p.stride_h), (p.w_in, p.w_out, p.k_w, p.stride_w))
    tiled = all(stride == kernel and size == out * kernel for size, out, kernel, stride in rows)
    return "filter_as_1x1" in call.routes and is_plain(call) and tiled and min(p.k_h, p.k_w) >= LARGE_KERNEL


def on_windows(p: ConvProblem) -> ConvProblem:
    """Return the 1x1x1 problem on gradOutput's map with c_in * k_d * k_h * k_w input channels: the pixels of each window.

    It is right where `filter_as_1x1` holds: the stride is the kernel; no padding, dilation or groups, which it would keep.
    """
    ones = dict.fromkeys(("k_d", "k_h", "k_w", "stride_d", "stride_h", "stride_w"), 1)
    return replace(p, c_in=p.c_in * p.k_d * p.k_h * p.k_w, d_in=p.d_out, h_in=p.h_out, w_in=p.w_out, **ones)

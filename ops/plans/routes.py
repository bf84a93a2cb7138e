"""Which of the library's operators computes a gradient, and what its Dilation kernels take off them (ops-nn: stated)."""

from __future__ import annotations

from dataclasses import replace

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.kernels.dilation import Spread
from ascend_sim.ops.params import ConvProblem
from ascend_sim.ops.tiling.fields import TilingInput

V2_ROW_LIMIT, V2_PIXELS, V2_DEPTH = 4096, 5500, 85
"""Elements of the rows of a tile, pixels of dx and depth that decide between the two 3-D data kernels (ops-nn: stated)."""


def data_op_type(call: AcceptedCall) -> str:
    """Which operator the library takes for grad_input (ops-nn routing: stated; its shape lists are not included)."""
    p = call.problem
    if call.transposed:
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


def filter_op_type(call: AcceptedCall, inp: TilingInput, chip: ChipSpec) -> str:
    """Which operator the library takes for grad_weight (ops-nn routing: stated; its shape lists are not included)."""
    p = call.problem
    if call.rank != 5:
        # A 2-D call never goes to a 3-D kernel on coupled chips, which have none.
        deterministic_3d = call.deterministic and not chip.cores.coupled
        return "Conv3DBackpropFilter" if deterministic_3d else "Conv2DBackpropFilter"
    taps = p.k_h * p.k_w
    channels = inp.cout_padded >= 128 and p.k_d * taps * inp.cin1 * inp.c0 >= 128
    basic = inp.itemsize == 2 and (taps == 1 or (taps in (4, 9, 16) and channels))
    dilated = max(p.dilation_d, p.dilation_h, p.dilation_w) > 1
    second = call.storage_dtype == "float32" or dilated or p.groups > 1 or call.deterministic or basic
    return "Conv3DBackpropFilterV2" if second else "Conv3DBackpropFilter"


def dilations(call: AcceptedCall) -> tuple[Spread | None, Spread | None]:
    """What the library's Dilation kernels do before and after the data kernel: strides above 2, and 1x1 kernels."""
    p = call.problem
    if "dilation_kernel" not in call.routes or call.transposed or call.rank == 5 or call.storage_dtype == "bfloat16":
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
    """The problem that is left to the data kernel beside the Dilations."""
    if before is not None:
        return replace(p, h_out=before.target_height, w_out=before.target_width, stride_h=1, stride_w=1)
    if after is not None:
        flat = {"pad_up": 0, "pad_down": 0, "pad_left": 0, "pad_right": 0, "stride_h": 1, "stride_w": 1}
        return replace(p, h_in=p.h_out, w_in=p.w_out, **flat)
    return p

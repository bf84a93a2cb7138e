"""Normalisation of convolution backward: from the arguments of a checked call to one `ConvProblem`.

1-D and 2-D become 3-D with D = 1. Every call is one convolution x -> y with its weight. Not transposed, x is input and
y gradOutput; transposed, the roles are exchanged: gradInput is that convolution forwards, gradWeight keeps its form.

    not transposed   gradInput[i]  = sum over k of gradOutput[(i + pad_low - k dilation) / stride] weight[k]
    transposed       gradInput[o]  = sum over k of x[o stride - pad_low + k dilation] weight[k]
    both             gradWeight[k] = sum over o of x[o stride - pad_low + k dilation] y[o]

Source: derived from the definition of the convolution; the documents' formulas leave out stride, padding and dilation.
"""

from __future__ import annotations

from ascend_sim.ops.operators.convolution_backward.arguments import ConvBackwardCall
from ascend_sim.ops.problem.normal import Axis, Normalised, assemble, check_size, given, misfit, paired_padding

# The library lays a grouped 1-D convolution out with L on H, except for one tuned dilation (ops-nn e5c3fa93).
_DILATION_WITH_L_ON_W = 45


def normalise(call: ConvBackwardCall) -> Normalised:
    """Return the 3-D problem of a call that passed its checks. AclnnError 561103 where shapes do not fit, 161001 for a null
    tensor.

    Sizes are not checked for an empty call, or one for the bias gradient alone, as the library accepts some that do not fit;
    the batch of an empty problem is 0. The axis L of 1-D becomes W; with groups it becomes H, unless the call is transposed or
    its dilation is 45.
    """
    grad_output, input, weight = (
        given(name, tensor)
        for name, tensor in (("gradOutput", call.grad_output), ("input", call.input), ("weight", call.weight))
    )
    x, y = (grad_output, input) if call.transposed else (input, grad_output)
    spatial_rank = weight.rank - 2
    stride, dilation = call.stride or (), call.dilation or ()
    pads = paired_padding(call.padding or (), spatial_rank)
    empty = any(tensor.is_empty for tensor in (x, y, weight))
    convolves = not empty and any((call.output_mask or ())[:2])
    lengths = {x.rank - 2, y.rank - 2, spatial_rank, len(stride), len(dilation), len(pads)}
    if not empty and (len(lengths) != 1 or spatial_rank not in (1, 2, 3)):
        raise misfit(
            f"ranks {x.rank}, {y.rank}, {weight.rank} and attribute lengths {len(stride)}, {len(dilation)}, {len(pads)}"
        )
    if x.shape[0] != y.shape[0] and convolves:
        raise misfit(f"gradOutput has batch {grad_output.shape[0]}, input {input.shape[0]}")
    if not empty and (y.shape[1] != weight.shape[0] or x.shape[1] != weight.shape[1] * call.groups):
        tensors = f"gradOutput {grad_output.shape}, input {input.shape}, weight {weight.shape}"
        raise misfit(f"channels of {tensors}, groups {call.groups}")
    columns = zip(x.shape[2:], y.shape[2:], weight.shape[2:], stride, dilation, pads, strict=not empty)
    axes = [Axis(xs, ys, ks, s, d, low, high) for xs, ys, ks, s, d, (low, high) in columns]
    for axis in axes if convolves else ():
        check_size(axis)
    names = ("D", "H", "W")[3 - spatial_rank :]
    if spatial_rank == 1 and not (call.transposed or call.groups == 1 or dilation[0] == _DILATION_WITH_L_ON_W):
        names = ("H",)
    by_name = dict(zip(names, axes, strict=not empty))
    batch = 0 if empty else grad_output.shape[0]
    return assemble(batch, x.shape[1], y.shape[1], by_name, call.groups, call.transposed, weight.rank)

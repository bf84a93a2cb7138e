"""Normalisation of a TBC convolution: from its [T, B, C] tensors to one 3-D problem."""

from __future__ import annotations

from ascend_sim.ops.operators.conv_tbc_backward.arguments import ConvTbcCall
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

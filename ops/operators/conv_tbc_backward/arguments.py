"""The arguments of aclnnConvTbcBackward as plain data, null pointers included."""

from __future__ import annotations

from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import TensorArg


@frozen
class ConvTbcCall:
    """Arguments of aclnnConvTbcBackwardGetWorkspaceSize in their order; None is a null pointer.

    `self` is the gradient of the output [T_out, B, C_out]; `input` [T_in, B, C_in], `weight` [K, C_in, C_out], `bias` [C_out].
    """

    self: TensorArg | None
    input: TensorArg | None
    weight: TensorArg | None
    bias: TensorArg | None
    pad: int
    cube_math_type: int
    grad_input: TensorArg | None
    grad_weight: TensorArg | None
    grad_bias: TensorArg | None

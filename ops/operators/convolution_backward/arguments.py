"""The arguments of aclnnConvolutionBackward as plain data, null pointers included."""

from __future__ import annotations

from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import IntArray, TensorArg, freeze_integers

INPUTS = ("grad_output", "input", "weight")
GRADIENTS = ("grad_input", "grad_weight", "grad_bias")


@frozen
class ConvBackwardCall:
    """Arguments of aclnnConvolutionBackwardGetWorkspaceSize in their order; None is a null pointer. Lists become tuples, the
    mask's items bools.

    Formats of TensorArgs are labels; `output_mask` is (gradInput, gradWeight, gradBias).
    """

    grad_output: TensorArg | None
    input: TensorArg | None
    weight: TensorArg | None
    bias_sizes: IntArray | None
    stride: IntArray | None
    padding: IntArray | None
    dilation: IntArray | None
    transposed: bool
    output_padding: IntArray | None
    groups: int
    output_mask: tuple[bool, ...] | None
    cube_math_type: int
    grad_input: TensorArg | None
    grad_weight: TensorArg | None
    grad_bias: TensorArg | None

    def __post_init__(self) -> None:
        for name in ("bias_sizes", "stride", "padding", "dilation", "output_padding"):
            freeze_integers(self, name)
        if self.output_mask is not None:
            object.__setattr__(self, "output_mask", tuple(bool(value) for value in self.output_mask))

"""A layer of a network as an operator sees it: one 2-D convolution at a batch."""

from __future__ import annotations

from dataclasses import dataclass

from ascend_sim.ops.arguments import TensorArg


@dataclass(frozen=True)
class LayerCall:
    """`input` [N, C_in, H, W], `weight` [C_out, C_in / groups, kH, kW], `output` [N, C_out, H_out, W_out]; the attributes of
    the convolution, whether a bias goes with it, and cubeMathType. `outputs` are those wanted; None: all that the layer has."""

    input: TensorArg
    weight: TensorArg
    output: TensorArg
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    bias: bool
    cube_math_type: int
    outputs: tuple[str, ...] | None = None

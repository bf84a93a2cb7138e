"""The operators in Python: arrays in, outputs and a report out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

from ascend_sim.calls.result import Result
from ascend_sim.calls.run import call_operator
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import with_options
from ascend_sim.options.run_options import RunOptions

__all__ = ["Result", "TensorSpec", "conv_tbc_backward", "convolution", "convolution_backward"]


@with_options(RunOptions)
def convolution_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
    **options: Unpack[RunOptions],
) -> Result:
    """Run convolution backward on a simulated chip; arguments in the order of torch's `convolution_backward`.

    `grad_output` [N, C_out, H_out, W_out], `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w] are numpy
    arrays (fp16, fp32, ml_dtypes bfloat16 and float8_e4m3fn; strided views allowed) or, in timing mode, `TensorSpec`s.
    uint8 arrays are codes, whose format `dtypes` names: "hifloat8" or "float8_e4m3fn" for all of them, or by tensor. 8-bit
    results are uint8 codes too, named in `Result.dtypes`; gradWeight of 8-bit tensors is float32. `bias_sizes` None means
    [C_out].

    Raises AclnnError (with `.status`) where the operator refuses the call, TilingError for a tiling that does not fit, and
    other SimErrors for arguments that the simulator itself cannot take.
    """
    return call_operator(
        OPERATORS["convolution_backward"],
        {"grad_output": grad_output, "input": input, "weight": weight},
        {
            "bias_sizes": bias_sizes,
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "transposed": transposed,
            "output_padding": output_padding,
            "groups": groups,
            "output_mask": output_mask,
        },
        RunOptions(**options),
    )


@with_options(RunOptions)
def conv_tbc_backward(
    self: Any,
    input: Any,
    weight: Any,
    bias: Any,
    pad: int,
    *,
    grad_weight_dtype: str | None = None,
    **options: Unpack[RunOptions],
) -> Result:
    """Run the backward of a convolution over time on a simulated chip.

    `self` is the gradient of the output [T_out, B, C_out], `input` [T_in, B, C_in], `weight` [K, C_in, C_out], `bias`
    [C_out] (only its shape and dtype matter). `grad_weight_dtype` may name another dtype for gradWeight where the product
    allows it; 8-bit results are uint8 codes, named in `dtypes`. The rest is as in `convolution_backward`.
    """
    return call_operator(
        OPERATORS["conv_tbc_backward"],
        {"self": self, "input": input, "weight": weight, "bias": bias},
        {"pad": pad, "grad_weight_dtype": grad_weight_dtype},
        RunOptions(**options),
    )


@with_options(RunOptions)
def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a forward convolution on a simulated chip; arguments in the order of torch's `convolution`.

    `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w], transposed [C_in, C_out / groups, k_h, k_w], `bias`
    [C_out] or None; 1-D and 3-D likewise. The result is `outputs["output"]`. Which kernels run, and that the bias is added
    behind them, is assumed (configs/operators/convolution.yaml). The rest is as in `convolution_backward`; a convolution that
    is not transposed takes no `tiling` and no `block_dim`.
    """
    return call_operator(
        OPERATORS["convolution"],
        {"input": input, "weight": weight, "bias": bias},
        {
            "stride": stride,
            "padding": padding,
            "dilation": dilation,
            "transposed": transposed,
            "output_padding": output_padding,
            "groups": groups,
        },
        RunOptions(**options),
    )

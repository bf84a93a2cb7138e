"""The operators in Python: arrays in, outputs and a report out."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from ascend_sim.calls.result import Result
from ascend_sim.calls.run import call_operator
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.options.description import with_options
from ascend_sim.options.run_options import RunOptions


@with_options(RunOptions)
def convolution_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    bias_sizes: Sequence[int] | None = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    transposed: bool = False,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    output_mask: Sequence[bool] = (True, True, True),
    **options: Unpack[RunOptions],
) -> Result:
    """Run convolution backward on a simulated chip; arguments in the order of torch's `convolution_backward`.

    `grad_output` [N, C_out, H_out, W_out], `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w] (transposed
    [C_in, C_out / groups, k_h, k_w]; 1-D and 3-D likewise) are numpy arrays (fp16, fp32, ml_dtypes bfloat16 and float8_e4m3fn;
    strided views allowed), PyTorch tensors or, in timing mode, `TensorSpec`s. A single number of `stride`, `padding`,
    `dilation` and `output_padding` is that of every axis. uint8 arrays are codes, whose format `dtypes` names: "hifloat8" or
    "float8_e4m3fn" for all of them, or by tensor. 8-bit results are uint8 codes too, named in `Result.dtypes`; gradWeight of
    8-bit tensors is float32. `bias_sizes` None means [C_out]. `output_mask` chooses among gradInput, gradWeight and gradBias;
    the result has None for one left out.

    Raises AclnnError (with `.status`) where the operator refuses the call, TilingError for a tiling that does not fit, and
    other SimErrors for arguments that the simulator itself cannot take.
    """
    return call_operator(
        OPERATORS["convolution_backward"],
        _arrays({"grad_output": grad_output, "input": input, "weight": weight}),
        {
            "bias_sizes": bias_sizes,
            **_geometry(weight, stride, padding, dilation, output_padding),
            "transposed": transposed,
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
        _arrays({"self": self, "input": input, "weight": weight, "bias": bias}),
        {"pad": pad, "grad_weight_dtype": grad_weight_dtype},
        RunOptions(**options),
    )


@with_options(RunOptions)
def convolution(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Sequence[int] | int = 1,
    padding: Sequence[int] | int = 0,
    dilation: Sequence[int] | int = 1,
    transposed: bool = False,
    output_padding: Sequence[int] | int = 0,
    groups: int = 1,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a forward convolution on a simulated chip; arguments in the order of torch's `convolution`.

    `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w], transposed [C_in, C_out / groups, k_h, k_w], `bias`
    [C_out] or None; 1-D and 3-D likewise. The result is `outputs["output"]`. Which kernels run beside the cube's is assumed
    (configs/operators/convolution.yaml). The rest is as in `convolution_backward`; a convolution that
    is not transposed takes no `tiling` and no `block_dim`.
    """
    return call_operator(
        OPERATORS["convolution"],
        _arrays({"input": input, "weight": weight, "bias": bias}),
        {**_geometry(weight, stride, padding, dilation, output_padding), "transposed": transposed, "groups": groups},
        RunOptions(**options),
    )


def _arrays(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tensors by name, with PyTorch's converted: to arrays if they have values, else to TensorSpecs."""
    torch = sys.modules.get("torch")
    if torch is None or not any(isinstance(value, torch.Tensor) for value in given.values()):
        return dict(given)
    from ascend_sim.calls.torch_tensors import array_of, has_values, spec_of

    def taken(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        return array_of(value) if has_values(value) else spec_of(value)

    return {name: taken(value) for name, value in given.items()}


_OF_EACH_AXIS = ("stride", "padding", "dilation", "output_padding")


def _geometry(weight: Any, *lists: Sequence[int] | int) -> dict[str, Any]:
    """Return {attribute: value} of stride, padding, dilation and output_padding; an int becomes a list with one entry for each
    axis of `weight` behind its first two.
    """
    axes = max(len(getattr(weight, "shape", ())) - 2, 0)
    given = zip(_OF_EACH_AXIS, lists, strict=True)
    return {name: [value] * axes if type(value) is int else value for name, value in given}

"""The operators in Python: arrays in, outputs and a report out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ascend_sim.calls.options import CallOptions
from ascend_sim.calls.result import Result
from ascend_sim.calls.run import call_operator
from ascend_sim.calls.tensors import TensorSpec
from ascend_sim.chip import ChipSpec
from ascend_sim.ops.operators import OPERATORS
from ascend_sim.runtime import Observer, Progress

__all__ = ["Result", "TensorSpec", "conv_tbc_backward", "convolution", "convolution_backward"]


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
    *,
    cube_math_type: int = 0,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    deterministic: bool | None = None,
    conformance: str = "documented",
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    block_dim: int | Mapping[str, int] | None = None,
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    disarm: Mapping[str, Sequence[str]] | None = None,
    library: str | None = None,
    dtypes: str | Mapping[str, str] | None = None,
    check: bool = False,
    timeline: bool | int = True,
    probe: bool | None = None,
) -> Result:
    """Run convolution backward on a simulated chip; arguments in the order of torch's `convolution_backward`.

    `grad_output` [N, C_out, H_out, W_out], `input` [N, C_in, H, W], `weight` [C_out, C_in / groups, k_h, k_w] are numpy
    arrays (fp16, fp32, ml_dtypes bfloat16 and float8_e4m3fn; strided views allowed) or, in timing mode, `TensorSpec`s.
    uint8 arrays are codes, whose format `dtypes` names: "hifloat8" or "float8_e4m3fn" for all of them, or by tensor. 8-bit
    results are uint8 codes too, named in `Result.dtypes`; gradWeight of 8-bit tensors is float32. `bias_sizes` None means
    [C_out]. `tiling` and `block_dim` say which kernel they mean ({"grad_input": {"baseM": 336}}); a bare number of
    blocks means both. `accumulate` names a model of the cube's additions ("blas", "chunk", "exact_group"), `overflow` is
    "inf_nan" or "saturate" (None: the chip's default). `disarm` names flags whose waits hold nothing, per kernel (an
    experiment), `library` a version of the vendor's kernels (None: the newest of configs/libraries.yaml). `observer` looks at
    memory while `full` mode computes values. `engine` is "auto" (None), "simpy" or "compiled":
    the same results at another speed. `check` adds what `ascend-sim check` finds to the findings. Without `timeline` a
    `timing` run keeps no instruction once it is over: there is no waterfall, no critical path, no what-if and no page; every
    other figure is the same. A number keeps the timeline of a run of at most so many instructions. It lies packed in a
    temporary file, some 20 bytes an instruction.
    `probe` runs the programs again on data on which each product counts, when the report's outputs are looked at; None:
    where that is soon done (2^28 products), and beyond where the caller's data may lose one.

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
        CallOptions(
            cube_math_type=cube_math_type,
            chip=chip,
            mode=mode,
            deterministic=deterministic,
            conformance=conformance,
            tiling=tiling,
            block_dim=block_dim,
            l2=l2,
            accumulate=accumulate,
            overflow=overflow,
            progress=progress,
            max_cycles=max_cycles,
            engine=engine,
            observer=observer,
            disarm=disarm,
            library=library,
            dtypes=dtypes,
            check=check,
            timeline=timeline,
            probe=probe,
        ),
    )


def conv_tbc_backward(
    self: Any,
    input: Any,
    weight: Any,
    bias: Any,
    pad: int,
    *,
    grad_weight_dtype: str | None = None,
    cube_math_type: int = 0,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    deterministic: bool | None = None,
    conformance: str = "documented",
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    block_dim: int | Mapping[str, int] | None = None,
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    disarm: Mapping[str, Sequence[str]] | None = None,
    library: str | None = None,
    dtypes: str | Mapping[str, str] | None = None,
    check: bool = False,
    timeline: bool | int = True,
    probe: bool | None = None,
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
        CallOptions(
            cube_math_type=cube_math_type,
            chip=chip,
            mode=mode,
            deterministic=deterministic,
            conformance=conformance,
            tiling=tiling,
            block_dim=block_dim,
            l2=l2,
            accumulate=accumulate,
            overflow=overflow,
            progress=progress,
            max_cycles=max_cycles,
            engine=engine,
            observer=observer,
            disarm=disarm,
            library=library,
            dtypes=dtypes,
            check=check,
            timeline=timeline,
            probe=probe,
        ),
    )


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
    *,
    cube_math_type: int = 0,
    chip: str | Path | ChipSpec = "ascend910b3",
    mode: str = "full",
    deterministic: bool | None = None,
    conformance: str = "documented",
    tiling: Mapping[str, Mapping[str, Any]] | None = None,
    block_dim: int | Mapping[str, int] | None = None,
    l2: str = "cold",
    accumulate: str = "blas",
    overflow: str | None = None,
    progress: Progress | None = None,
    max_cycles: int | None = None,
    engine: str | None = None,
    observer: Observer | None = None,
    disarm: Mapping[str, Sequence[str]] | None = None,
    library: str | None = None,
    dtypes: str | Mapping[str, str] | None = None,
    check: bool = False,
    timeline: bool | int = True,
    probe: bool | None = None,
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
        CallOptions(
            cube_math_type=cube_math_type,
            chip=chip,
            mode=mode,
            deterministic=deterministic,
            conformance=conformance,
            tiling=tiling,
            block_dim=block_dim,
            l2=l2,
            accumulate=accumulate,
            overflow=overflow,
            progress=progress,
            max_cycles=max_cycles,
            engine=engine,
            observer=observer,
            disarm=disarm,
            library=library,
            dtypes=dtypes,
            check=check,
            timeline=timeline,
            probe=probe,
        ),
    )

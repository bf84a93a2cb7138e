"""One accepted call of convolution backward, with everything the plan needs to know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.checks.product import KernelLimit
from ascend_sim.ops.problem.conv_problem import ConvProblem

INPUTS = ("grad_output", "input", "weight")
GRADIENTS = ("grad_input", "grad_weight", "grad_bias")


@dataclass(frozen=True)
class AcceptedCall:
    """A call that passed its checks.

    `problem` is the convolution x -> y with the call's weight: x is input and y gradOutput, or with `transposed` x is
    gradOutput and y input; `rank` is that of the caller's tensors. `inputs` and `outputs` (masked ones only) are the
    caller's tensors; `compute_dtype` what the cube multiplies in; `tiling` the user's fields per cube kernel in the
    vendor's spelling; `block_dim` a launch size per cube kernel; `disarm` flags whose waits hold nothing, per kernel (an
    experiment). `routes` names the product's detours in the plan; what they depend on are `cube_math_type` as it was given
    and whether any padding was (`padded`). `kernel_limits` is what single kernels of the library refuse.

    `axes` is the order in which the caller's axes of feature maps stand in N, C, ... (TBC: (1, 2, 0), T on W; on dav-3510
    (2, 0, 1), T on H and B on W). `inputs` and `outputs` are seen in that order, on dav-3510 as the caller has them;
    `returned` is how the caller sees the outputs where that differs, `unread` the strided inputs that the library makes
    contiguous and then never looks at. `bias_when_empty` is the bias gradient of an empty
    problem.
    """

    problem: ConvProblem
    transposed: bool
    rank: int
    inputs: Mapping[str, TensorArg]
    outputs: Mapping[str, TensorArg]
    compute_dtype: str
    deterministic: bool
    conformance: str
    warnings: tuple[str, ...] = ()
    tiling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    block_dim: Mapping[str, int] = field(default_factory=dict)
    disarm: Mapping[str, Collection[str]] = field(default_factory=dict)
    operator: str = "convolution_backward"
    routes: frozenset[str] = frozenset()
    kernel_limits: tuple[KernelLimit, ...] = ()
    cube_math_type: int = 0
    padded: bool = False
    axes: tuple[int, ...] | None = None
    returned: Mapping[str, TensorArg] = field(default_factory=dict)
    unread: Mapping[str, TensorArg] = field(default_factory=dict)
    bias_when_empty: float = 0.0

    @property
    def channels_last(self) -> bool:
        """Whether the cube kernels read and write the caller's TBC tensors as NDHWC (dav-3510)."""
        return self.axes is not None and "ncdhw_direct" in self.routes

    @property
    def x(self) -> str:
        """The caller's tensor that the convolution reads."""
        return "grad_output" if self.transposed else "input"

    @property
    def y(self) -> str:
        """The caller's tensor that has the shape of the convolution's result."""
        return "input" if self.transposed else "grad_output"

    def volume(self, name: str) -> tuple[int, int, int, int, int]:
        """(N, C, D, H, W) of "grad_output" or "input" in the 3-D problem."""
        p = self.problem
        # Where only the bias gradient is wanted, the library takes two batches that differ.
        n = p.n if self.channels_last else self.inputs[name].shape[0]
        if name == self.x:
            return n, p.c_in, p.d_in, p.h_in, p.w_in
        return n, p.c_out, p.d_out, p.h_out, p.w_out

    @property
    def empty(self) -> bool:
        """Whether there is nothing to convolve."""
        return any(tensor.is_empty for tensor in self.inputs.values())

    def held_dtype(self, output: str) -> str:
        """What a contiguous result is held in before it goes to the caller's tensor.

        TBC of the released library keeps dInput and dWeight in the dtypes of input and weight, whatever the caller's
        tensors have (ops-nn op_api of conv_tbc: stated).
        """
        if self.axes is None or self.conformance != "library" or output == "grad_bias":
            return self.outputs[output].dtype
        return self.inputs[output.removeprefix("grad_")].dtype

    @property
    def storage_dtype(self) -> str:
        """How values of the compute dtype lie in memory (hf32 is fp32 there)."""
        return "float32" if self.compute_dtype == "hf32" else self.compute_dtype

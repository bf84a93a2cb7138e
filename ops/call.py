"""One accepted call of convolution backward, with everything the plan needs to know."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from ascend_sim.ops.arguments import TensorArg
from ascend_sim.ops.params import ConvProblem

INPUTS = ("grad_output", "input", "weight")
GRADIENTS = ("grad_input", "grad_weight", "grad_bias")


@dataclass(frozen=True)
class AcceptedCall:
    """A call that passed its checks.

    `inputs` and `outputs` (masked ones only) are the caller's tensors; `compute_dtype` what the cube multiplies in;
    `tiling` the user's fields per cube kernel in the vendor's spelling; `block_dim` a launch size per cube kernel;
    `disarm` flags whose waits hold nothing, per kernel (an experiment).
    """

    problem: ConvProblem
    inputs: Mapping[str, TensorArg]
    outputs: Mapping[str, TensorArg]
    compute_dtype: str
    deterministic: bool
    conformance: str
    warnings: tuple[str, ...] = ()
    tiling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    block_dim: Mapping[str, int] = field(default_factory=dict)
    disarm: Mapping[str, Collection[str]] = field(default_factory=dict)

    @property
    def storage_dtype(self) -> str:
        """How values of the compute dtype lie in memory (hf32 is fp32 there)."""
        return "float32" if self.compute_dtype == "hf32" else self.compute_dtype

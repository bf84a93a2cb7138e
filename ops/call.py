"""One call of an operator that passed its checks."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any

from ascend_sim.frozen import frozen
from ascend_sim.ops.arguments import TensorArg


@frozen(kw_only=True)
class AcceptedCall:
    """Accepted call of an operator, with everything that planning, running, judging and reporting need.

    `inputs` and `outputs` (wanted ones only) are the tensors by their names in the plan. `returned` has an output as the caller
    gave it, where `outputs` holds another view of the same memory (TBC); empty elsewhere. `compute_dtype` is the dtype that the
    cube multiplies; `conformance` the profile whose rules accepted the call; `tiling` the user's fields per cube kernel in the
    vendor's spelling; `block_dim` the number of blocks per cube kernel; `disarm` flags whose waits are ignored, per kernel;
    `library` the version of the vendor's kernels ("" for the newest).
    """

    operator: str
    inputs: Mapping[str, TensorArg]
    outputs: Mapping[str, TensorArg]
    compute_dtype: str
    conformance: str
    deterministic: bool = False
    cube_math_type: int = 0
    warnings: tuple[str, ...] = ()
    tiling: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    block_dim: Mapping[str, int] = field(default_factory=dict)
    disarm: Mapping[str, Collection[str]] = field(default_factory=dict)
    returned: Mapping[str, TensorArg] = field(default_factory=dict)
    library: str = ""

    def __repr__(self) -> str:
        made = ", ".join(f"{name} {list(tensor.shape)} {tensor.dtype}" for name, tensor in self.outputs.items())
        return f"<{type(self).__name__} of {self.operator}, computed in {self.compute_dtype}: {made}>"

    @property
    def storage_dtype(self) -> str:
        """Return the dtype in memory of the operands of the cube: float32 for hf32, else the compute dtype."""
        return stored_as(self.compute_dtype)


def stored_as(compute_dtype: str) -> str:
    """Return the dtype in memory of numbers that the cube multiplies as `compute_dtype`: float32 for hf32, else the same."""
    return "float32" if compute_dtype == "hf32" else compute_dtype

"""What a call takes beside tensors and attributes: the keywords of the public functions, as one object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.call import AcceptedCall
from ascend_sim.ops.operator import Operator
from ascend_sim.runtime import Observer, Progress

__all__ = ["CallOptions"]


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """The keywords of `convolution_backward`, described there."""

    cube_math_type: int = 0
    chip: str | Path | ChipSpec = "ascend910b3"
    mode: str = "full"
    deterministic: bool | None = None
    conformance: str = "documented"
    tiling: Mapping[str, Mapping[str, object]] | None = None
    block_dim: int | Mapping[str, int] | None = None
    l2: str = "cold"
    accumulate: str = "blas"
    overflow: str | None = None
    progress: Progress | None = None
    max_cycles: int | None = None
    engine: str | None = None
    observer: Observer | None = None
    disarm: Mapping[str, Sequence[str]] | None = None
    library: str | None = None
    dtypes: str | Mapping[str, str] | None = None
    check: bool = False
    timeline: bool | int = True
    probe: bool | None = None

    def accept(self, operator: Operator[Any, Any], arguments: Any, spec: ChipSpec) -> AcceptedCall:
        """Phase one of a call with these keywords on `spec`; errors are those of `Operator.accept`."""
        accepted: AcceptedCall = operator.accept(
            arguments,
            spec,
            conformance=self.conformance,
            deterministic=self.deterministic,
            tiling=self.tiling,
            block_dim=self.block_dim,
            disarm=self.disarm,
            library=self.library,
        )
        return accepted

"""Description of one launch of a cube kernel: problem, compute dtype, options, and its facts for the report."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Any, Protocol

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.tiling_input import TilingInput


class ReportedTiling(Protocol):
    """Interface of a tiling that a report can print."""

    def to_vendor(self) -> dict[str, Any]:
        """Return the fields under the vendor's names, `source` under its own."""


@frozen
class CubeCall:
    """One launch of a cube kernel: the problem as its tiling sees it and the compute dtype ("float16", "bfloat16", "float32",
    "hf32", or one of 8 bits).

    `disarm` names flags whose waits do not hold (an experiment, see `WaitFlag`). `macs` are the useful multiplications where
    the problem of the kernel has more (a gradOutput with zeros in it); None: those of the problem. `library` is the version of
    the vendor's kernels ("" for the newest, `cube.libraries`). `bias` is the dtype of the bias that sums begin with, "" without
    one.
    """

    chip: ChipSpec
    inp: TilingInput
    dtype: str
    disarm: Collection[str] = field(default=(), hash=False)
    macs: int | None = None
    library: str = ""
    bias: str = ""

    @property
    def core_kind(self) -> str:
        """Return the kind of core with a cube: "AIC", or "AI_CORE" where cube and vector unit share a core."""
        return self.inp.family.core_kind

    @property
    def hf32_bits(self) -> int:
        """Return the mantissa bits that the cube keeps of fp32 in HF32 mode; 0 in other modes, and on chips without HF32."""
        return self.chip.cube.hf32_mantissa_bits or 0 if self.dtype == "hf32" else 0

    def info(
        self,
        tiling: ReportedTiling,
        dtypes: dict[str, str],
        formats: Mapping[str, str] | None = None,
        needed_macs: int | None = None,
    ) -> dict[str, Any]:
        """Return the launch's `Task.info`: dtypes, formats, "tiling" under the vendor's names, "tiling_source", "macs",
        "needed_macs", stride (H, W), groups and "compute_dtype". `formats` replaces the call's layouts for the tensors that it
        names.

        `needed_macs` are the products of the kernel's method if it multiplies zeros that it inserts itself; None: those of the
        problem, without kernel planes in padding (`met_macs`).
        """
        fields = tiling.to_vendor()
        source = fields.pop("source")
        layout = self.inp.layout
        own = {name: layout.weights if name.endswith("weight") else layout.maps for name in dtypes}
        own |= {"bias": "ND"} if "bias" in dtypes else {}
        return {
            "dtypes": dtypes,
            "formats": own | dict(formats or {}),
            "tiling": fields,
            "tiling_source": source,
            "macs": self.inp.problem.macs if self.macs is None else self.macs,
            "needed_macs": self.inp.problem.met_macs if needed_macs is None else needed_macs,
            "stride": (self.inp.problem.stride_h, self.inp.problem.stride_w),
            "groups": self.inp.problem.groups,
            "compute_dtype": self.dtype,
        }

    def group_channels(self, group: int, total: int, per_group: int) -> int:
        """Return how many of `total` channels belong to real group `group`: `per_group`, or fewer for the last group."""
        return min(per_group, total - group * per_group)

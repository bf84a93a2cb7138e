"""Grid of tilings that a search tries for a kernel: some values of each settable field, without tilings that do not fit.

The formulas of `capacity` decide what fits; they also refuse a user's own fields. The grid leaves out tilings that
equal another one; every axis can be replaced by one value of the user's (`fixed`), which need not lie on the grid. The
axes of each kernel are in its `space`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ascend_sim.chip import ChipSpec
from ascend_sim.ops.kernels.grad_input.fields import GradInputTiling, variant_of
from ascend_sim.ops.kernels.grad_input.space import grad_input_tilings
from ascend_sim.ops.kernels.grad_weight.fields import GradWeightTiling
from ascend_sim.ops.kernels.grad_weight.space import grad_weight_tilings
from ascend_sim.ops.problem.tiling_input import TilingInput

TILINGS: Mapping[str, type[GradInputTiling] | type[GradWeightTiling]] = {
    "grad_input": GradInputTiling,
    "grad_weight": GradWeightTiling,
}


def tilings_that_fit(
    kernel: str, inp: TilingInput, fixed: Mapping[str, Any] | None = None, chip: ChipSpec | None = None
) -> Iterator[GradInputTiling | GradWeightTiling]:
    """Yield every tiling of the grid of `kernel` ("grad_input", "grad_weight") that fits, each once; perhaps none.

    `fixed` are the user's fields by the vendor's names, each in place of an axis; `chip` None: a 910B. Raises TilingError, at
    the first tiling that is asked for, for a field that cannot be set, or where the kernel's ladder has no tiling with them.
    """
    given = TILINGS[kernel].given(fixed or {})
    found = grad_input_tilings(inp, given, chip) if kernel == "grad_input" else grad_weight_tilings(inp, given, chip)
    seen = set()
    for tiling in found:
        if tiling not in seen:
            seen.add(tiling)
            yield tiling


def settable(tiling: GradInputTiling | GradWeightTiling, inp: TilingInput | None = None) -> dict[str, int]:
    """Return the fields, by the vendor's names, with which a user gets the same tiling of `inp` again: those of
    `to_vendor` that do not follow from others.

    With `inp` of dav-3510, grad_input has the fields of that kernel too, even at their defaults, and with `inp` of one row
    the width of strips is always given; coreStreamK is left out without StreamK.
    """
    fields = {name: value for name, value in tiling.to_vendor().items() if name not in _DERIVED}
    if inp is not None and inp.problem.one_row:  # a library cuts a long row into strips unless it is told not to
        cut = "split_wi" if isinstance(tiling, GradInputTiling) else "split_wo"
        fields[tiling.VENDOR[cut]] = getattr(tiling, cut)
    if isinstance(tiling, GradInputTiling) and inp is not None and variant_of(inp).kernel_parts:
        fields |= {tiling.VENDOR[name]: getattr(tiling, name) for name in tiling.DIRECT_ONLY}
    if fields.get("streamKType") == 0:  # without it no core shares a task: nothing to set
        del fields["coreStreamK"]
    return fields


_DERIVED = {
    "source", "singleCoreCout", "loadB2Condition", "initOutputFlag", "weightsResident", "templateId", "coreBindOrder",
    "bl1Bound", "splitKd",
}  # fmt: skip

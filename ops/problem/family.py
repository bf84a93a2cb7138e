"""Families of chips with different cube kernels; only this module of `ops` decides the family of a chip.

It is read from `TilingInput.family`, `ConvolutionCall.family` or, with nothing but a chip, `family_of`. What the
families' grad_input kernels can do is in `ops.kernels.grad_input.fields`; which of the vendor's procedures an architecture
has is data (`configs/tilings.yaml`).
"""

from __future__ import annotations

from ascend_sim.chip import ChipSpec
from ascend_sim.frozen import frozen
from ascend_sim.ops.problem.layout import BLOCKED, PLANAR, Layout


@frozen
class Family:
    """A group of chips whose cube kernels are alike, with the properties that matter to those kernels.

    `core_kind` is the kind of core that has the cube; `coupled`: it has the vector unit too, through which results
    leave L0C. `layout` is that of the kernels' tensors unless the call brings another one.
    """

    name: str
    core_kind: str
    layout: Layout
    coupled: bool = False


COUPLED = Family("coupled", "AI_CORE", BLOCKED, coupled=True)
"""dav-1001 and dav-2002."""
BLOCKED_SPLIT = Family("blocked split", "AIC", BLOCKED)
"""dav-2201."""
PLAIN_SPLIT = Family("plain split", "AIC", PLANAR)
"""dav-3510: no TransData, kernels read and write NCDHW, calls of lower rank become 3-D (library, op_api: stated)."""


def family_of(chip: ChipSpec) -> Family:
    """Return a chip's family: COUPLED cores, PLAIN_SPLIT if a path from GM to L1 transposes (dn2nz), else BLOCKED_SPLIT."""
    if chip.cores.coupled:
        return COUPLED
    return PLAIN_SPLIT if "GM->L1:dn2nz" in chip.paths else BLOCKED_SPLIT
